"""Tables: which columns and rows are read, and the errors for those that cannot be."""

import json
import math

import pytest
import torch

from agrlearn.data.datasets import open_source
from agrlearn.errors import DataError
from tests.data.files import REVIEWS, write_rows


@pytest.mark.parametrize(
    ("name", "content", "message", "left_out"),
    [
        ("a.csv", b"x,label\n1,a\nhuh,b\n3,a\n4,b\n", r"row 3: the column 'x' holds 'huh'", 1),
        ("a.csv", b"x,label\n1,a\ninf,b\n3,a\n4,b\n", r"row 3: the column 'x' holds 'inf'", 1),
        ("a.csv", b"x,label\n1,a\n2\n3,b\n", r"row 3: 1 cells instead of 2", 1),
        ("a.csv", b"x,label\n1,a\n2,\n3,b\n", r"row 3: the column 'label' is empty", 1),
        ("a.csv", b"text,label\nso caf\xc3\xa9,a\nso b\xffd,b\nso fine,b\n", r"row 3: the text is not UTF-8", 1),
        ("a.csv", b"text,label\nso good,a\n,b\nso fine,b\n", r"row 3: the column 'text' has no text", 1),
        (
            "a.jsonl",
            b'{"x": 1, "y": 0}\n{"x": 2}\n{"x": 3, "y": 1}\n',
            r"row 2: expected a JSON object with the same names",
            1,
        ),
        (
            "a.tsv",
            b'text\tlabel\nso good\ta\n"So it goes\ta\nso bad\tb\nas "ever"\ta\n',
            r"row 3: it goes on to row 5; is a quot",
            1,
        ),
        ("a.csv", b"1,2\n3,4\n", r"has no header: its first row is 1, 2", None),
        ("a.csv", b"", r"is empty", None),
        ("a.csv", b"x,label\n", r"is empty", None),
        ("a.csv", b"label\na\nb\n", r"no column except the label", None),
        (
            "a.csv",
            b"x,target\n" + b"".join(b"%d,%d.5\n" % (row % 7, row) for row in range(40)),
            r"its label 'target' \(because of its name\) has 40 different numbers, .* make ranges of it",
            None,
        ),
        ("a.parquet", b"no table", r"cannot be read as a parquet file", None),
    ],
)
def test_bad_tables_get_a_sentence_with_file_and_row(name, content, message, left_out, tmp_path):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        open_source(str(file))
    assert name in str(caught.value)
    if left_out is not None:
        source = open_source(str(file), skip_bad=True)
        assert len(source.bad) == left_out
        assert len(source.labelled(source.train)) >= 1


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_row_numbers_are_no_feature(name, tmp_path):
    write_rows(tmp_path / "t.csv", [name, "a", "label"], [[0, 1.5, "x"], [1, 2.5, "y"]])
    source = open_source(str(tmp_path / "t.csv"))
    assert source.train.objects.tolist() == [[1.5], [2.5]]
    assert source.columns[1] == (name, "identifier", "left out: pandas writes row numbers under this name")


def test_a_table_to_predict_may_have_an_empty_label_column(tmp_path):
    write_rows(tmp_path / "t.csv", ["a", "label"], [[1.5, "x"], [2.5, "y"]])
    preparation = open_source(str(tmp_path / "t.csv")).preparation
    write_rows(tmp_path / "new.csv", ["a", "label"], [[3.5, ""], [4.5, " "]])
    assert open_source(str(tmp_path / "new.csv"), preparation=preparation).unseen.objects.tolist() == [[3.5], [4.5]]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_label_that_is_not_a_number_is_missing(kind, tmp_path):
    file = tmp_path / f"t.{kind}"
    labels = [1.0, 0.0, math.nan, None]
    if kind == "jsonl":
        file.write_text("".join(json.dumps({"x": x, "label": label}) + "\n" for x, label in enumerate(labels)))
    else:
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"x": [1, 2, 3, 4], "label": labels}), file)
    with pytest.raises(DataError, match="row 3: the column 'label' is empty"):
        open_source(str(file))
    source = open_source(str(file), skip_bad=True)
    assert source.labelled(source.train).class_names == ("0.0", "1.0")
    assert [bad.where for bad in source.bad] == ["row 3", "row 4"]


def test_a_long_text_is_read(tmp_path):
    write_rows(tmp_path / "t.csv", ["text", "label"], [["word " * 50_000, "x"], ["so short", "y"]])
    assert open_source(str(tmp_path / "t.csv")).train.objects.shape == (2, 50_000)


def test_objects_become_the_same_objects_when_they_are_read_again(tmp_path):
    write_rows(tmp_path / "t.csv", ["review", "label"], REVIEWS)
    first = open_source(str(tmp_path / "t.csv"))
    write_rows(tmp_path / "other.csv", ["review", "label"], [("plot and film", "neg"), *REVIEWS[:2]])
    again = open_source(str(tmp_path / "other.csv"), preparation=first.preparation)
    assert torch.equal(again.train.objects[1:], first.train.objects[:2])


@pytest.mark.parametrize(
    ("header", "label"),
    [("x,y,label", "label"), ("y,Target,x", "Target"), ("y,x,z", "y"), ("a,b,c", "c"), ("label,class,b", "label")],
)
def test_the_surest_name_of_a_label_is_guessed_and_else_the_last_column(header, label, tmp_path):
    (tmp_path / "t.csv").write_text(f"{header}\n1,2,3\n4,5,6\n")
    assert open_source(str(tmp_path / "t.csv")).preparation["label"] == label
