"""Folders of images."""

import numpy
import pytest
import torch
from PIL import Image

from agrlearn.data.datasets import open_source
from agrlearn.errors import DataError
from tests.data.files import write_images


def test_folders_called_train_and_test_are_the_parts(tmp_path):
    write_images(tmp_path / "train", count=4)
    write_images(tmp_path / "test", count=2)
    source = open_source(str(tmp_path), image_size=8)
    assert len(source.labelled(source.train)) == 8
    assert len(source.labelled(source.test)) == 4
    (tmp_path / "test" / "dog").rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").rename(tmp_path / "test" / "fox")
    with pytest.raises(DataError, match="no images of the class 'dog'"):
        open_source(str(tmp_path))


@pytest.mark.parametrize(("train", "test"), [("Train", "Test"), ("TRAIN", "val")])
def test_the_parts_are_found_however_they_are_written_and_what_stands_beside_them_is_told(tmp_path, train, test):
    write_images(tmp_path / train, count=4)
    write_images(tmp_path / test, count=2)
    write_images(tmp_path / "validation", count=1)
    source = open_source(str(tmp_path), image_size=8)
    assert (source.class_names, len(source.test.objects)) == (("cat", "dog"), 4)
    assert source.remarks == (f"only {train} and {test} are read, not validation",)


def test_half_of_train_and_test_is_no_class_but_a_class_may_be_called_train(tmp_path):
    write_images(tmp_path / "half" / "train", count=2)
    with pytest.raises(DataError, match=r"of train and test \(or val\) only this one; add the other, or give .*train"):
        open_source(str(tmp_path / "half"))
    write_images(tmp_path / "vehicles", classes=("train", "tram"), count=2)
    assert open_source(str(tmp_path / "vehicles")).class_names == ("train", "tram")


def test_grey_images_of_16_bits_keep_their_shades(tmp_path):
    for name in ("dark", "light"):
        (tmp_path / name).mkdir()
        ramp = numpy.arange(4096, dtype=numpy.uint16).reshape(64, 64) * 16
        Image.fromarray(ramp if name == "dark" else ramp[::-1].copy()).save(tmp_path / name / "ramp.png")
    objects = open_source(str(tmp_path), image_size=64).train.objects
    assert objects[0, 0].flatten().tolist() == [value * 16 // 256 for value in range(4096)]
    assert torch.equal(objects[1], objects[0].flip(1))


def test_a_picture_that_would_fill_the_memory_is_refused(tmp_path):
    write_images(tmp_path, count=2)
    Image.new("1", (20_000, 20_000)).save(tmp_path / "cat" / "huge.png")
    with pytest.raises(DataError, match=r"huge\.png cannot be read"):
        open_source(str(tmp_path))


def test_an_empty_class_and_an_empty_folder_get_a_sentence(tmp_path):
    write_images(tmp_path / "pets", count=2)
    (tmp_path / "pets" / "eel").mkdir()
    with pytest.raises(DataError, match="eel has no png, jpeg or webp images"):
        open_source(str(tmp_path / "pets"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="cannot be read; expected"):
        open_source(str(tmp_path / "empty"))


def test_photographs_are_read_as_the_camera_was_held(tmp_path):
    from agrlearn.data.images import read_image_folder

    upright = numpy.zeros((8, 8, 3), dtype=numpy.uint8)
    upright[:4] = 255  # bright above
    for number in range(2):
        (tmp_path / "pets" / f"class {number}").mkdir(parents=True)
    Image.fromarray(upright).save(tmp_path / "pets" / "class 0" / "upright.png")
    turned, orientation = Image.fromarray(numpy.rot90(upright)), Image.Exif()
    orientation[0x0112] = 6  # to be turned clockwise by whoever shows it
    turned.save(tmp_path / "pets" / "class 1" / "turned.png", exif=orientation)
    one, other = read_image_folder(tmp_path / "pets", size=8).train.objects
    assert torch.equal(one, other)


def test_images_of_other_kinds_are_left_out_aloud_and_what_a_system_adds_in_silence(tmp_path):
    write_images(tmp_path, count=2)
    (tmp_path / "__MACOSX" / "cat").mkdir(parents=True)
    for name in (".DS_Store", "._1.png", ".thumbnails/1.png", "notes.txt"):
        (tmp_path / "cat" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "cat" / name).write_bytes(b"no picture")
    Image.new("RGB", (8, 8)).save(tmp_path / "dog" / "more.BMP")
    Image.new("RGB", (8, 8)).save(tmp_path / "dog" / "more.gif")
    source = open_source(str(tmp_path), image_size=8)
    assert (source.class_names, len(source.train.objects)) == (("cat", "dog"), 4)
    assert source.remarks == ("2 of its files are left out (.bmp, .gif); save them as png, jpeg or webp",)
