"""Data sets by name, and what `open_source` accepts and refuses."""

import re

import numpy
import pytest
import torch
from PIL import Image

from agrlearn.data.datasets import DATASETS, open_source
from agrlearn.data.download import DownloadError
from agrlearn.errors import DataError, UnknownNameError


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_is_here_or_says_how_to_get_it(name, tmp_path):
    try:
        source = open_source(name, data_dir=tmp_path)
    except DownloadError as error:
        assert re.fullmatch(
            rf"https?://\S+ cannot be downloaded \(.*\); put \S+ into {tmp_path}\S* by hand, .*", str(error)
        )
        assert [file for file in tmp_path.rglob("*") if file.is_file()] == []
    else:
        assert name not in ("cifar-10", "cifar-100", "movie-review", "subjectivity")
        check_source(source, name)


@pytest.mark.parametrize("name", DATASETS)
def test_every_published_data_set_holds_what_it_should(name, published_data):
    try:
        source = open_source(name, data_dir=published_data)
    except DownloadError:
        pytest.skip(f"{name} is not in AGRLEARN_DATA")
    check_source(source, name)


def check_source(source, name):
    train, test = source.labelled(source.train), source.labelled(source.unseen)
    assert source.name == name
    assert train.class_names == test.class_names
    table = name in ("digits-as-vectors", "breast-cancer", "wine")
    kinds = {4: torch.uint8, 2: torch.float32 if table else torch.int64}
    assert train.objects.dtype == kinds[train.objects.ndim]
    assert train.objects.shape[1:] == test.objects.shape[1:]
    for part in (train, test):
        counts = part.labels.bincount(minlength=part.num_classes)
        assert counts.min() > (0.5 if table else 0.8) * counts.max()


def test_digits_come_in_two_disjoint_parts_of_all_classes():
    source = DATASETS["digits"]()
    train, test = source.labelled(source.train), source.labelled(source.test)
    assert (len(train), len(test)) == (898, 899)
    assert train.objects.shape[1:] == (1, 8, 8)
    assert train.objects.dtype == torch.uint8
    assert train.labels.bincount().min() > 80
    assert train.class_names == test.class_names == tuple("0123456789")


def test_files_that_are_missing_or_of_another_kind_get_a_sentence(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        open_source(str(tmp_path / "absent.npz"))
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 no zip")
    with pytest.raises(DataError, match="cannot be read"):
        open_source(str(tmp_path / "broken.npz"))
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DataError, match=r"cannot be read; expected \.npz"):
        open_source(str(tmp_path / "notes.txt"))
    with pytest.raises(UnknownNameError, match="did you mean 'digits'"):
        open_source("digit")


def test_endings_in_capitals_are_those_in_small_letters(tmp_path):
    (tmp_path / "T.CSV").write_text("x,label\n1,a\n2,b\n")
    assert open_source(str(tmp_path / "T.CSV")).train.objects.tolist() == [[1], [2]]
    numpy.savez(tmp_path / "a.npz", x=numpy.ones((3, 2)))
    (tmp_path / "a.npz").rename(tmp_path / "A.NPZ")
    assert open_source(str(tmp_path / "A.NPZ")).train.objects.shape == (3, 2)


def test_objects_are_read_without_labels_whatever_the_labels_are(tmp_path):
    numpy.savez(tmp_path / "a.npz", x=numpy.ones((3, 2)), y=numpy.array(["a", None], dtype=object))
    (tmp_path / "a.csv").write_text("x,label\n1,\n2,b\n3,?\n")
    for number, folder in enumerate(("train/cat", "train/dog", "test/cat")):
        (tmp_path / "images" / folder).mkdir(parents=True)
        Image.new("L", (4, 4), number).save(tmp_path / "images" / folder / "one.png")
    for name, count in {"a.npz": 3, "a.csv": 3, "images": 1}.items():
        with pytest.raises(DataError):
            open_source(str(tmp_path / name))
        assert len(open_source(str(tmp_path / name), labels=False).unseen.objects) == count


@pytest.mark.parametrize("option", ["image_size", "text_column", "label", "columns", "ignore"])
def test_options_that_the_data_have_no_use_for_are_refused(option, tmp_path):
    numpy.savez(tmp_path / "a.npz", x=numpy.zeros((3, 2)), y=numpy.arange(3))
    (tmp_path / "a.csv").write_text("x,label\n1,a\n2,b\n")
    (tmp_path / "images" / "cat").mkdir(parents=True)
    useless = ["digits", tmp_path / "a.npz", tmp_path / ("a.csv" if option == "image_size" else "images")]
    for data in useless:
        with pytest.raises(
            DataError, match=rf"--{option.replace('_', '-')} 8 has no effect on \S+, an? .*leave it out"
        ):
            value = {"image_size": 8, "columns": ["8"], "ignore": ["8"]}.get(option, "8")
            open_source(str(data), **{"label_column" if option == "label" else option: value})
