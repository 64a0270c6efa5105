"""Parts of a source, with their labels."""

import numpy
import pytest
from PIL import Image

from agrlearn.data.datasets import open_source
from agrlearn.errors import DataError
from tests.data.files import write_rows


def test_some_of_every_class_is_left_to_train_on(tmp_path):
    write_rows(tmp_path / "t.csv", ["x", "label"], [[1, "a"], [2, "a"], [3, "b"], [4, "b"], [5, "b"]])
    for fraction in (0.01, 0.5, 0.8, 0.99):
        for part in open_source(str(tmp_path / "t.csv")).split(fraction):
            assert part.labels.bincount(minlength=2).min() >= 1


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
