"""Data sources: what they read, and what they say to what they cannot read."""

import re
import warnings

import numpy
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from agrlearn.data.arrays import objects_from_array
from agrlearn.data.datasets import DATASETS, open_source
from agrlearn.data.download import DownloadError
from agrlearn.data.labelled import LabelledSet, batches, fetch
from agrlearn.errors import AgrLearnError, DataError, UnknownNameError
from agrlearn.grouping import GroupBatchSampler


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
        assert name in ("digits", "fashion-mnist")
        check_source(source, name)


@pytest.mark.parametrize("name", DATASETS)
def test_every_published_data_set_holds_what_it_should(name, published_data):
    try:
        source = open_source(name, data_dir=published_data)
    except DownloadError:
        pytest.skip(f"{name} is not in AGRLEARN_DATA")
    check_source(source, name)


def check_source(source, name):
    train, test = source.labelled(source.train), source.labelled(source.test)
    assert source.name == name
    assert train.class_names == test.class_names
    assert train.objects.dtype == (torch.int64 if train.objects.ndim == 2 else torch.uint8)
    assert train.objects.shape[1:] == test.objects.shape[1:]
    for part in (train, test):
        counts = part.labels.bincount(minlength=part.num_classes)
        assert counts.min() > 0.8 * counts.max()


def test_digits_come_in_two_disjoint_parts_of_all_classes():
    source = DATASETS["digits"]()
    train, test = source.labelled(source.train), source.labelled(source.test)
    assert (len(train), len(test)) == (898, 899)
    assert train.objects.shape[1:] == (1, 8, 8)
    assert train.objects.dtype == torch.uint8
    assert train.labels.bincount().min() > 80
    assert train.class_names == test.class_names == tuple("0123456789")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((5, 7), (5, 7)), ((5, 8, 9), (5, 1, 8, 9)), ((5, 3, 8, 9), (5, 3, 8, 9)), ((5, 8, 9, 3), (5, 3, 8, 9))],
)
def test_arrays_become_vectors_or_images_with_channels_first(shape, expected):
    array = numpy.arange(numpy.prod(shape)).reshape(shape)
    objects = objects_from_array(array)
    assert objects.shape == expected
    assert objects.dtype == torch.float32
    assert objects_from_array(array.astype(numpy.uint8)).dtype == torch.uint8
    assert objects_from_array(array > 3).dtype == torch.uint8
    if expected[1] == 3 and shape[3] == 3:
        assert torch.equal(objects[0, :, 2, 4], torch.from_numpy(array[0, 2, 4]).float())


@pytest.mark.parametrize("start", [1.7e9, 1_700_000_000])
def test_a_feature_that_float32_makes_constant_is_warned_of(start, tmp_path):
    times = numpy.array([start, start + 60, start + 60])[:, None]
    message = "feature 1 ranges from 17.* to 17.*60.*, which float32 cannot distinguish"
    numpy.savez(tmp_path / "times.npz", x=numpy.hstack([times % 60, times, 0 * times]))
    with pytest.warns(UserWarning, match=message):
        open_source(str(tmp_path / "times.npz"))
    (tmp_path / "times.csv").write_text("a,b,label\n1,1700000000,x\n2,1700000060,y\n")
    with pytest.warns(UserWarning, match=message):
        open_source(str(tmp_path / "times.csv"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        objects_from_array(numpy.hstack([times - start, 0 * times + start]))


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["b", "a", "b"], ("a", "b")),
        ([7, -2, 7], ("-2", "7")),
        ([1.0, 0.0, 1.0], ("0", "1")),
        ([True, False, True], ("False", "True")),
        (numpy.array(["b", "a", "b"], dtype=object), ("a", "b")),
        (numpy.array([7, -2, 7], dtype=object), ("-2", "7")),
    ],
)
def test_labels_of_any_kind_become_class_numbers(labels, names):
    made = LabelledSet.of(torch.zeros(3, 2), labels)
    assert made.labels.tolist() == [1, 0, 1]
    assert made.class_names == names


@pytest.mark.parametrize("missing", [None, numpy.nan])
def test_a_missing_label_is_no_name(missing):
    with pytest.raises(DataError, match="whole numbers or names"):
        LabelledSet.of(torch.zeros(2, 2), numpy.array(["a", missing], dtype=object))


def test_labels_take_the_class_numbers_of_training():
    made = LabelledSet.of(torch.zeros(2, 2), ["c", "a"], class_names=("a", "b", "c"))
    assert made.labels.tolist() == [2, 0]
    with pytest.raises(DataError, match="'d' is none of the 3 classes"):
        LabelledSet.of(torch.zeros(2, 2), ["d", "a"], class_names=("a", "b", "c"))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": numpy.zeros((3, 2)), "y": numpy.zeros(2)}, "one label for each of 3 objects"),
        ({"x": numpy.zeros((3, 2)), "y": numpy.array([0.5, 1, 2])}, "whole numbers or names"),
        ({"x": numpy.zeros((0, 2)), "y": numpy.zeros(0)}, "empty"),
        ({"x": numpy.array([[0.0, 1], [numpy.nan, 2]]), "y": numpy.zeros(2)}, "object 1 has NaN"),
        ({"x": numpy.array([[0.0, 1], [2, 1e300]]), "y": numpy.zeros(2)}, "object 1 has NaN or infinite"),
        ({"x": numpy.zeros(5), "y": numpy.zeros(5)}, "expected x of shape"),
        ({"x": numpy.array(["a", "b"]), "y": numpy.zeros(2)}, "hold numbers"),
        ({"x": numpy.array([[1], [1, 2]], dtype=object), "y": numpy.zeros(2)}, "different shapes"),
        ({"y": numpy.zeros(5)}, "no array called x; it has: y"),
        ({"x": numpy.zeros((5, 2))}, "has no labels"),
    ],
)
def test_files_that_cannot_be_used_get_a_sentence_that_names_them(tmp_path, arrays, message):
    file = tmp_path / "mine.npz"
    numpy.savez(file, **arrays)
    with pytest.raises(DataError, match=message) as caught:
        source = open_source(str(file))
        source.labelled(source.train)
    assert "mine.npz" in str(caught.value)


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


@pytest.mark.parametrize(
    ("header", "label"),
    [("x,y,label", "label"), ("y,Target,x", "Target"), ("y,x,z", "y"), ("a,b,c", "c"), ("label,class,b", "label")],
)
def test_the_surest_name_of_a_label_is_guessed_and_else_the_last_column(header, label, tmp_path):
    (tmp_path / "t.csv").write_text(f"{header}\n1,2,3\n4,5,6\n")
    assert open_source(str(tmp_path / "t.csv")).preparation["label"] == label


def test_data_without_labels_are_told_how_their_kind_gets_them(tmp_path):
    (tmp_path / "t.csv").write_text("x,class\n1,a\n2,b\n")
    told = open_source(str(tmp_path / "t.csv")).preparation
    numpy.savez(tmp_path / "new.npz", x=numpy.ones((3, 2)))
    (tmp_path / "without.csv").write_text("x\n1\n")
    (tmp_path / "blank.csv").write_text("x,class\n1,\n")
    (tmp_path / "images").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "images" / "one.png")
    for name, advice in {
        "new.npz": "add an array y with one label for each object",
        "without.csv": "fill a column called 'class', with a label in every row",
        "blank.csv": "fill a column called 'class', with a label in every row",
        "images": "put the images of each class into a folder with the name of the class",
    }.items():
        source = open_source(str(tmp_path / name), preparation=told)
        with pytest.raises(DataError, match=f"{name} has no labels; {advice}"):
            source.labelled(source.unseen)


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


@pytest.mark.parametrize("option", ["image_size", "text_column", "label_column"])
def test_options_that_the_data_have_no_use_for_are_refused(option, tmp_path):
    numpy.savez(tmp_path / "a.npz", x=numpy.zeros((3, 2)), y=numpy.arange(3))
    (tmp_path / "a.csv").write_text("x,label\n1,a\n2,b\n")
    (tmp_path / "images" / "cat").mkdir(parents=True)
    useless = ["digits", tmp_path / "a.npz", tmp_path / ("a.csv" if option == "image_size" else "images")]
    for data in useless:
        with pytest.raises(
            DataError, match=rf"--{option.replace('_', '-')} 8 has no effect on \S+, an? .*leave it out"
        ):
            open_source(str(data), **{option: 8 if option == "image_size" else "8"})


def test_a_pickle_in_an_npz_file_is_not_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    numpy.savez(tmp_path / "bomb.npz", x=numpy.array([Bomb()], dtype=object), y=numpy.zeros(1))
    with pytest.raises(AgrLearnError):
        open_source(str(tmp_path / "bomb.npz"))
    assert not (tmp_path / "exploded").exists()


def test_batches_of_any_dataset_are_those_of_the_set_in_memory(vectors):
    pairs = TensorDataset(vectors.objects, vectors.labels)
    sampler = GroupBatchSampler(len(vectors), 2, 16)
    for start in (0, 4):
        mine, theirs = (list(batches(data, sampler, start=start)) for data in (vectors, pairs))
        assert len(mine) == len(theirs) == len(sampler) - start
        for (objects, labels, _), (others, other_labels, _) in zip(mine, theirs, strict=True):
            assert torch.equal(objects, others)
            assert torch.equal(labels, other_labels)
    assert torch.equal(fetch(pairs, torch.tensor([3, 1]))[0], vectors.objects[[3, 1]])


def test_the_digest_tells_data_sets_apart(vectors):
    changed = LabelledSet(vectors.objects.clone(), vectors.labels, vectors.class_names)
    assert changed.digest() == vectors.digest()
    changed.objects[5, 2] += 1e-6 + changed.objects[5, 2].abs() * 1e-5
    assert changed.digest() != vectors.digest()
    assert vectors.subset(torch.arange(10)).digest() != vectors.digest()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.tensor([0, 1]), "one label for each"),
        (torch.tensor([0.0, 1, 1]), "int64"),
        (torch.tensor([0, 1, 2]), "from 0 to 1"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, message):
    with pytest.raises(DataError, match=message):
        LabelledSet(torch.zeros(3, 2), labels, ("a", "b"))
