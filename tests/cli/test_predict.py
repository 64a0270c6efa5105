"""What `agrlearn predict` writes and prints, and all that it can be given."""

import csv
import io
import sys
from pathlib import Path

import numpy
import pytest
from PIL import Image

from agrlearn.runs.run import Run
from tests.cli.commands import call
from tests.data.files import REVIEWS, write_images, write_rows

FAST = ["--epochs", "3", "--batch-size", "8", "--learning-rate", "0.02", "--no-report"]


def written(file="predictions.csv") -> list[dict[str, str]]:
    with Path(file).open(newline="") as rows:
        return list(csv.DictReader(rows))


def send(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.fixture
def table_run(tmp_path):
    rows = [[f"p{number}", number % 7, "ab"[number % 2]] for number in range(20)]
    write_rows(tmp_path / "t.csv", ["patient_id", "x", "label"], rows)
    assert call("train", "t.csv", "--run-dir", "run", *FAST) == 0
    return Run.open("run")


@pytest.fixture
def text_run(tmp_path):
    write_rows(tmp_path / "t.csv", ["review", "label"], REVIEWS)
    assert call("train", "t.csv", "--run-dir", "run", "--net.maps", 4, "--net.embedding", 8, *FAST) == 0
    return Run.open("run")


def test_predictions_carry_the_identifier_the_label_and_the_probability_of_their_class(table_run, capsys):
    capsys.readouterr()
    assert call("predict", "run", "t.csv") == 0
    assert capsys.readouterr().out.splitlines() == ["Running on cpu", "20 predictions in predictions.csv"]
    rows = written()
    assert list(rows[0]) == ["patient_id", "label", "prediction", "probability", "a", "b"]
    assert [(row["patient_id"], row["label"]) for row in rows] == [(f"p{n}", "ab"[n % 2]) for n in range(20)]
    assert all(row["probability"] == row[row["prediction"]] == max(row["a"], row["b"], key=float) for row in rows)


def test_an_identifier_with_gaps_is_none_and_a_column_that_is_used_neither(table_run, tmp_path):
    write_rows(tmp_path / "gaps.csv", ["patient_id", "x"], [["p1", 1], ["", 2]])
    write_rows(tmp_path / "plain.csv", ["x"], [[1], [2]])
    for name in ("gaps.csv", "plain.csv"):
        assert call("predict", "run", name) == 0
        assert [row["row"] for row in written()] == ["2", "3"]


def test_below_the_probability_to_abstain_no_class_is_named_and_their_number_is_told(table_run, capsys):
    assert call("predict", "run", "t.csv") == 0
    plain = written()
    limit = sorted(float(row["probability"]) for row in plain)[8] - 1e-5
    capsys.readouterr()
    assert call("predict", "run", "t.csv", "--abstain", limit) == 0
    rows = written()
    assert [row["prediction"] for row in rows] == [
        row["prediction"] if float(row["probability"]) >= limit else "" for row in plain
    ]
    count = sum(row["prediction"] == "" for row in rows)
    assert 0 < count <= 8
    assert f"20 predictions in predictions.csv; {count} without a class" in capsys.readouterr().out
    for wrong in (-0.1, 1.5, "nan"):
        assert call("predict", "run", "t.csv", "--abstain", wrong) == 2
        assert "a probability from 0 to 1" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
def test_rows_on_standard_input_are_predicted_like_those_of_a_file(form, table_run, tmp_path, monkeypatch):
    assert call("predict", "run", "t.csv", "--output", "file.csv") == 0
    content = (tmp_path / "t.csv").read_bytes()
    if form == "tsv":
        content = content.replace(b",", b"\t")
    elif form == "jsonl":
        rows = csv.DictReader(io.StringIO(content.decode()))
        content = "".join(f'{{"patient_id": "{r["patient_id"]}", "x": {r["x"]}, "label": "{r["label"]}"}}\n'
                          for r in rows).encode()  # fmt: skip
    send(monkeypatch, content)
    assert call("predict", "run", "-", "--output", "deep/er/input.csv") == 0
    assert written("deep/er/input.csv") == written("file.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "standard input is empty"),
        (b"patient_id\np1\n", "standard input has no column 'x'"),
        (b"x\n1\nhuh\n", "standard input, row 3: the column 'x' holds 'huh'"),
        (b"\0\1\2\3\0", "standard input is not a text file"),
    ],
)
def test_bad_rows_on_standard_input_get_a_sentence(content, message, table_run, monkeypatch, capsys):
    send(monkeypatch, content)
    assert call("predict", "run", "-") == 2
    assert message in capsys.readouterr().err


def test_a_sentence_is_answered_with_a_line_and_no_file(text_run, tmp_path, capsys):
    capsys.readouterr()
    assert call("predict", "run", "a fine plot") == 0
    shares = dict(zip(text_run.class_names, text_run.predict("a fine plot")[0].tolist(), strict=True))
    best, other = sorted(shares, key=shares.__getitem__, reverse=True)
    line = f"a fine plot: {best}, probability {shares[best]:.3f} ({other} {shares[other]:.3f})\n"
    assert capsys.readouterr().out == line
    assert call("predict", "run", "a fine plot", "--abstain", 1) == 0
    assert "no class is as probable as 1" in capsys.readouterr().out
    assert not (tmp_path / "predictions.csv").exists()
    write_rows(tmp_path / "one.csv", ["review"], [["a fine plot"]])
    assert text_run.predict("one.csv").tolist() == text_run.predict("a fine plot").tolist()
    assert call("predict", "run", "a fine plot", "--output", "one.csv") == 0
    assert [row["sentence"] for row in written("one.csv")] == ["a fine plot"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "an empty text"),
        ("zzz qqq", "no word that the network was trained on"),
        ("new.csv", "there is no file or folder new.csv"),
        ("my new reviews.csv", "there is no file or folder my new reviews.csv"),
        ("movie-reviw", "did you mean 'movie-review'"),
        ("x" * 5000, "File name too long"),
    ],
)
def test_what_is_no_sentence_and_no_file_gets_a_sentence(data, message, text_run, capsys):
    assert call("predict", "run", data) == 2
    assert message in capsys.readouterr().err


def test_a_long_sentence_is_no_name_of_a_file(text_run, capsys):
    assert call("predict", "run", "a fine plot " * 500) == 0


def test_a_single_image_is_answered_with_a_line(tmp_path, capsys):
    write_images(tmp_path / "pets", count=4)
    assert call("train", "pets", "--image-size", 8, "--run-dir", "run", *FAST) == 0
    Image.new("L", (40, 20)).save("photo.PNG")
    capsys.readouterr()
    assert call("predict", "run", "photo.PNG") == 0
    assert capsys.readouterr().out.startswith("photo.PNG: ")
    (tmp_path / "new").mkdir()
    Image.new("L", (40, 20)).save("new/photo.png")
    assert Run.open("run").predict("new").tolist() == Run.open("run").predict("photo.PNG").tolist()
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    for data, message in (
        ("broken.jpg", "broken.jpg cannot be read as an image"),
        ("absent.jpg", "there is no file or folder absent.jpg"),
        ("-", "not trained on a table"),
    ):
        assert call("predict", "run", data) == 2
        assert message in capsys.readouterr().err
    assert call("train", "photo.PNG") == 2
    assert "photo.PNG has no labels; put the images" in capsys.readouterr().err


def test_labels_of_arrays_are_told_as_the_classes_are_called_and_bad_ones_left_out(tmp_path):
    x = numpy.random.default_rng(0).normal(size=(20, 3))
    numpy.savez("t.npz", x=x, y=numpy.arange(20.0) % 2)
    assert call("train", "t.npz", "--run-dir", "run", *FAST) == 0
    for y, told in (
        (numpy.arange(20.0) % 2, ["0", "1"]),
        (numpy.arange(3), [None, None]),
        (numpy.array([{}] * 20), [None, None]),
    ):
        numpy.savez("new.npz", x=x, y=y)
        assert call("predict", "run", "new.npz") == 0
        assert [(row["object"], row.get("label")) for row in written()[:2]] == list(zip("01", told, strict=True))


def test_identifiers_that_no_file_can_hold_are_replaced_and_formulas_are_not_run(table_run, monkeypatch):
    send(monkeypatch, b'{"patient_id": "\\ud800x", "x": 1}\n{"patient_id": "=1+1", "x": 2}\n')
    assert call("predict", "run", "-") == 0
    assert [row["patient_id"] for row in written()] == ["?x", "'=1+1"]
