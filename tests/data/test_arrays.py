"""Arrays, in memory and in .npz files."""

import warnings

import numpy
import pytest
import torch

from agrlearn.data.arrays import objects_from_array
from agrlearn.data.datasets import open_source
from agrlearn.errors import AgrLearnError, DataError


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
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        centred = open_source(str(tmp_path / "times.csv")).train.objects[:, 1]
        assert centred[0] < centred[1]  # a table's preparation has taken the middle away
        objects_from_array(numpy.hstack([times - start, 0 * times + start]))


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


def test_a_pickle_in_an_npz_file_is_not_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    numpy.savez(tmp_path / "bomb.npz", x=numpy.array([Bomb()], dtype=object), y=numpy.zeros(1))
    with pytest.raises(AgrLearnError):
        open_source(str(tmp_path / "bomb.npz"))
    assert not (tmp_path / "exploded").exists()
