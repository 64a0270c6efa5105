"""A user's day, from a file to a report: one short command trains, the next ones measure, predict, export and show."""

import csv
import random
import re
import shlex

import numpy
import pandas
import pytest
import torch
from PIL import Image

from agrlearn.errors import DataError
from agrlearn.prediction.predict import predict
from agrlearn.runs.run import Run
from tests.cli.commands import call
from tests.data.files import write_images, write_rows


def write_table(folder):
    """Customers, with gaps, words, dates and a number for each."""
    chance = random.Random(0)
    header = ["id", "joined", "city", "income", "plan", "left"]
    rows = []
    for number in range(160):
        plan = chance.choice(["basic", "plus", ""])
        left = "yes" if chance.random() < (0.8 if plan == "basic" else 0.1) else "no"
        income = chance.choice(["", f"{chance.lognormvariate(10, 1):.0f}"])
        joined = f"2024-0{chance.randint(1, 9)}-11"
        rows.append([number + 1000, joined, chance.choice(["Rome", "Oslo", "Lima"]), income, plan, left])
    write_rows(folder / "customers.csv", header, rows)
    new = [
        ["2000", "2024-03-11", "Atlantis", "", "basic"],
        ["2001", "", "", "31000", ""],
        ["2002", "", "Oslo", "9", "x"],
    ]
    write_rows(folder / "new.csv", header[:-1], new)
    return ["customers.csv"], "new.csv", 3


def write_reviews(folder):
    chance = random.Random(0)
    words = {"good": ["fine", "moving", "bold", "warm"], "bad": ["dull", "empty", "flat", "cold"]}
    rows = []
    for number in range(80):
        label = ("good", "bad")[number % 2]
        rows.append([f"a {chance.choice(words[label])} film with a {chance.choice(words[label])} plot {number}", label])
    write_rows(folder / "reviews.csv", ["review", "verdict"], rows)
    write_rows(folder / "new.csv", ["review"], [["a warm film"], [""], ["antidisestablishmentarian"]])
    return ["reviews.csv"], "new.csv", 2


def write_questions(folder):
    chance = random.Random(0)
    kinds = {
        "place": "where is {} ?",
        "person": "who made {} ?",
        "time": "when was {} built ?",
        "count": "how many {} ?",
    }
    things = ["rome", "the wheel", "hamlet", "tea", "gold", "bread"]
    for name, count in (("train.csv", 120), ("test.csv", 30)):
        drawn = [chance.choice(list(kinds)) for _ in range(count)]
        write_rows(
            folder / name, ["question", "kind"], [[kinds[kind].format(chance.choice(things)), kind] for kind in drawn]
        )
    write_rows(folder / "new.csv", ["question"], [["where is gondwana ?"], [""], ["who ?"]])
    return ["train.csv", "--test", "test.csv"], "new.csv", 2


def write_photos(folder):
    write_images(folder / "pets", classes=("cat", "dog", "fox"), count=10)
    (folder / "new").mkdir()
    chance = numpy.random.default_rng(1)
    for name, shape in (("wide.png", (20, 60, 3)), ("grey.jpg", (30, 30))):
        Image.fromarray(chance.integers(0, 255, shape, dtype=numpy.uint8)).save(folder / "new" / name)
    return ["pets"], "new", 2


@pytest.mark.parametrize("write", [write_table, write_reviews, write_questions, write_photos])
def test_a_day_from_a_file_to_a_report_by_command_line_and_by_python(write, tmp_path, capsys):
    data, new, count = write(tmp_path)
    assert call("train", *data, "--epochs", 3) == 0
    (following,) = re.findall(r"^Next: agrlearn (.*)$", capsys.readouterr().out, re.MULTILINE)
    run, measured = shlex.split(following)[1:]

    assert call(*shlex.split(following)) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f" objects of {measured}" in said
    assert ("held-out objects" in said) == (measured == data[0])

    sentences = write in (write_reviews, write_questions)
    if sentences:  # nothing can be said about a sentence that is not there
        assert call("predict", run, new) == 2
        assert "new.csv, row 3: the column" in capsys.readouterr().err
        with pytest.raises(DataError, match="row 1: the column"):
            Run.open(run).predict(pandas.read_csv(new))
    assert call("predict", run, new, *(["--skip-bad"] if sentences else [])) == 0
    predicted = list(csv.DictReader((tmp_path / "predictions.csv").open()))
    opened = Run.open(run)
    part, _ = opened.unseen(new, skip_bad=sentences)
    expected = predict(opened.network, part.objects)
    assert len(predicted) == len(expected) == count
    for row, probabilities in zip(predicted, expected, strict=True):
        assert {f"{float(probabilities.max()):.6g}", opened.class_names[int(probabilities.argmax())]} <= {*row.values()}
    if write is not write_photos:
        frame = pandas.read_csv(new)
        frame = frame.dropna() if sentences else frame
        assert torch.equal(opened.predict(frame), expected)

    assert call("export", run, "model.onnx") == 0
    assert call("export", run, "model.safetensors") == 0
    assert min((tmp_path / f"model.{ending}").stat().st_size for ending in ("onnx", "safetensors")) > 1000

    assert call("report", run) == 0
    page = (tmp_path / "report.html").read_text()
    error = opened.evaluate(measured).error
    assert f'<div class="headline"><p><span><strong>{100 * error:.2f} %</strong> error' in page
    place = rf"{tmp_path}/pets/\w+/\d\.\w+" if write is write_photos else r"(row|id) \d+"
    assert re.search(rf'<p class="small">{place}</p>', page)


def test_a_day_ends_with_the_question_whether_groups_are_worth_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("agrlearn.studies.compare.default_epochs", lambda kind, objects: 2)
    write_table(tmp_path)
    assert call("compare", "customers.csv", "--seeds", 2, "--workers", 1) == 0
    said = capsys.readouterr().out
    assert said.index("left out: its name") < said.index("| ordinary network |") < said.index("| fold 2")
    table = (tmp_path / "runs" / "compare-customers" / "table.md").read_text()
    assert "| ordinary network |" in table
    assert said.splitlines()[-2] in table  # the verdict
