"""A user's own table, with gaps, words, dates and identifiers in it: from the file to predictions on new rows."""

import csv
import json
import random

import numpy
import pandas
import pytest
import torch

from agrlearn.errors import DataError
from agrlearn.runs.run import Run
from agrlearn.runs.spec import RunSpec
from agrlearn.runs.train import open_data
from agrlearn.training.recipe import Recipe
from tests.cli.commands import call
from tests.data.files import write_rows

FAST = ("--epochs", 3, "--batch-size", 16, "--optimizer", "adamw", "--learning-rate", 0.01, "--no-report")
HEADER = ["PassengerId", "Survived", "Pclass", "Name", "Sex", "Age", "Ticket", "Fare", "Cabin", "Member", "Boarded"]


def passengers(count, *, seed=0):
    """Rows like those of a well-known ship."""
    chance = random.Random(seed)
    for number in range(1, count + 1):
        sex = chance.choice(["male", "female"])
        survived = int(chance.random() < (0.8 if sex == "female" else 0.2))
        title = "Mr." if sex == "male" else "Mrs."
        yield [
            number, survived, chance.choice([1, 2, 3]), f"Smith{number}, {title} Alex", sex,
            chance.choice(["", f"{chance.gauss(30, 9):.1f}"]), chance.choice([str(number // 2 * 31), f"PC {number}"]),
            f"{chance.lognormvariate(2, 1.5):.2f}", chance.choice(["", "", f"C{number % 90}"]),
            chance.choice(["yes", "no"]), f"1912-04-{chance.randint(10, 14)}",
        ]  # fmt: skip


@pytest.fixture
def ship(tmp_path):
    write_rows(tmp_path / "ship.csv", HEADER, passengers(200))
    return tmp_path / "ship.csv"


def test_a_mixed_table_with_gaps_is_trained_on_and_predicted_alike_by_command_line_and_python(ship, tmp_path, capsys):
    assert call("train", ship, "--run-dir", "run", *FAST) == 0
    said = capsys.readouterr().out
    kinds = {line.split()[0]: line.split()[1] for line in said.splitlines() if line.startswith("  ")}
    assert kinds == {
        "Survived": "label", "PassengerId": "identifier", "Pclass": "number", "Name": "text", "Sex": "words",
        "Age": "number", "Ticket": "words", "Fare": "number", "Cabin": "words", "Member": "boolean", "Boarded": "date",
    }  # fmt: skip
    assert said.index("Survived") < said.index("objects of 2 classes")  # before training
    # New rows: no label, other columns beside, in another order, with gaps and words that training never saw.
    new = [row[2:] for row in passengers(20, seed=1)]
    for place, cell in ((0, ""), (1, ""), (2, "unknown"), (3, "?"), (5, ""), (6, "Z99"), (7, "perhaps"), (8, "")):
        new[place][place] = cell
    write_rows(tmp_path / "new.csv", [*HEADER[2:], "remark"][::-1], [[*row, "hello"][::-1] for row in new])
    assert call("predict", "run", "new.csv") == 0
    written = [list(row.values())[-2:] for row in csv.DictReader((tmp_path / "predictions.csv").open())]
    predicted = Run.open("run").predict("new.csv")
    assert written == [[f"{value:.6g}" for value in row] for row in predicted.tolist()]
    assert torch.equal(Run.open("run").predict(pandas.read_csv("new.csv")), predicted)
    assert call("evaluate", "run", ship, "--protocol", "replicated") == 0
    assert "20 held-out objects" in capsys.readouterr().out


def test_the_same_rows_become_the_same_objects_from_every_kind_of_file(ship, tmp_path):
    import pyarrow
    from pyarrow import parquet

    assert call("train", ship, "--run-dir", "run", *FAST) == 0
    rows = list(csv.DictReader(ship.open()))
    for row in rows:
        row["Age"] = float(row["Age"]) if row["Age"] else None
        row["Member"] = row["Member"] == "yes"
        row["Pclass"] = int(row["Pclass"])
    (tmp_path / "ship.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "ship.parquet")
    expected = Run.open("run").predict(str(ship))
    for name in ("ship.jsonl", "ship.parquet"):
        assert torch.equal(Run.open("run").predict(name), expected)


def test_what_a_preparation_learns_it_learns_from_the_training_rows_alone(ship):
    spec = RunSpec(data=str(ship), recipe=Recipe(patience=2))
    data = open_data(spec)
    parts = [set(part.origin.rows.tolist()) for part in (data.train, data.test, data.stopping)]
    assert sum(map(len, parts)) == 200 == len(set.union(*parts))
    rows = list(csv.reader(ship.open()))
    for place in parts[1] | parts[2]:
        rows[1 + place][HEADER.index("Fare")] = "1000000"
        rows[1 + place][HEADER.index("Sex")] = "never seen in training"
    write_rows(ship, rows[0], rows[1:])
    assert open_data(spec).source.preparation == data.source.preparation


def test_what_chose_the_epoch_is_never_what_is_reported(ship, capsys):
    assert call("train", ship, "--run-dir", "run", "--patience", 2, *FAST) == 0
    assert "162 objects of 2 classes" in capsys.readouterr().out
    run = Run.open("run")
    held_out = run.held_out(run.read(str(ship)))
    data = open_data(RunSpec.model_validate(run.about.spec))
    assert len(held_out) == 20
    assert set(held_out.origin.rows.tolist()) == set(data.test.origin.rows.tolist())
    assert not set(held_out.origin.rows.tolist()) & set(data.stopping.origin.rows.tolist())
    everything = ("--test", ship, "--validation-fraction", 0, "--patience", 2)
    assert call("train", ship, *everything, "--run-dir", "none", *FAST) == 2
    assert "patience needs a validation set to judge the epochs by" in capsys.readouterr().err


def test_a_test_file_is_what_is_measured_and_nothing_else_is_held_out(ship, tmp_path, capsys):
    write_rows(tmp_path / "test.csv", HEADER, passengers(50, seed=2))
    assert call("train", ship, "--test", "test.csv", "--run-dir", "run", *FAST) == 0
    said = capsys.readouterr().out
    assert "200 objects of 2 classes" in said
    assert "50 objects)" in said
    assert "Next: agrlearn evaluate run test.csv" in said
    assert call("evaluate", "run", "test.csv", "--protocol", "replicated") == 0
    assert "on 50 objects of test.csv" in capsys.readouterr().out.replace("\n", " ")
    assert call("report", "run", "--output", "page.html") == 0
    assert "50 objects of" in (tmp_path / "page.html").read_text()
    assert call("train", ship, "--test", "test.csv", "--patience", 2, "--run-dir", "patient", *FAST) == 0
    assert "180 objects of 2 classes" in capsys.readouterr().out
    assert Run.open("patient").data.test == str(tmp_path / "test.csv")
    write_rows(tmp_path / "odd.csv", HEADER, [[*row[:1], "perhaps", *row[2:]] for row in passengers(3)])
    assert call("train", ship, "--test", "odd.csv", "--run-dir", "odd", *FAST) == 2
    assert "the label 'perhaps' is none of the 2 classes" in capsys.readouterr().err


def test_the_columns_are_what_the_user_says(ship, capsys):
    chosen = ("--label", "Sex", "--columns", "Pclass=words", "Fare", "--ignore", "Age")
    assert call("train", ship, *chosen, "--run-dir", "run", *FAST) == 0
    said = capsys.readouterr().out
    assert "label    2 classes, as you chose" in said
    columns = Run.open("run").data.preparation["columns"]
    assert [(column["column"], column["kind"]) for column in columns] == [("Pclass", "words"), ("Fare", "number")]
    assert call("train", ship, "--columns", "Pclas", *FAST) == 2
    assert "did you mean 'Pclass'" in capsys.readouterr().err


def test_a_text_beside_numbers_is_said_and_can_be_chosen_alone(ship, capsys):
    assert call("train", ship, "--run-dir", "run", *FAST) == 0
    assert "--text-column Name reads its sentences instead" in capsys.readouterr().out
    assert call("train", ship, "--text-column", "Name", "--run-dir", "words", *FAST, "--net.maps", 4) == 0
    assert "left out: --text-column takes one column alone" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["red", n, "a"] for n in range(9)] + [["blue", 9, "b"]], "a single object of the class 'b'"),
        ([["red" if n % 2 else "blue", n, "a"] for n in range(9)], "has a single class, 'a'"),
        ([["red", "huh" if n == 3 else n, "ab"[n % 2]] for n in range(9)], "row 5: the column 'size'"),
        ([["red", 1, "ab"[n % 2]] for n in range(9)], "no column to learn from except the label 'port'"),
    ],
)  # fmt: skip
def test_the_columns_are_told_when_it_fails_too_with_the_label_that_was_guessed(rows, message, tmp_path, capsys):
    write_rows(tmp_path / "t.csv", ["colour", "size", "port"], rows)
    assert call("train", "t.csv", *FAST) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "because it is the last column; if it is not, name another with --label" in said
    assert said.index("colour") < said.index(message)


def test_a_table_without_a_column_that_could_be_the_label_is_told_its_columns(tmp_path, capsys):
    chance = numpy.random.default_rng(0)
    write_rows(tmp_path / "t.csv", ["width", "price"], chance.normal(size=(60, 2)).tolist())
    assert call("train", "t.csv", *FAST) == 2
    said = capsys.readouterr().err
    assert "width … price  number" in said
    assert "name the column of the labels with --label" in said


def test_bad_rows_of_a_table_with_words_are_left_out_one_by_one(tmp_path, capsys):
    rows = [["red" if n % 2 else "blue", n, "ab"[n % 2]] for n in range(40)]
    rows[3][1] = "huh"
    write_rows(tmp_path / "t.csv", ["colour", "size", "label"], rows)
    assert call("train", "t.csv", "--skip-bad", "--run-dir", "run", *FAST) == 0
    assert "left out 1 that cannot be read" in capsys.readouterr().out
    assert "row 5" in (tmp_path / "run" / "left_out.tsv").read_text()


def test_balanced_class_weights_find_more_of_a_rare_class(tmp_path):
    chance = numpy.random.default_rng(0)
    y = (chance.random(600) < 0.1).astype(int)
    x = chance.normal(size=(600, 2)) + y[:, None]
    write_rows(tmp_path / "t.csv", ["a", "b", "label"], [[*row, label] for row, label in zip(x, y, strict=True)])
    found = {}
    for name, options in {"plain": (), "weighted": ("--class-weight", "balanced")}.items():
        assert call("train", "t.csv", "--run-dir", name, *options, *FAST) == 0
        found[name] = int((Run.open(name).predict("t.csv").argmax(dim=1) == 1).sum())
    assert found["weighted"] > 2 * found["plain"]
    train = open_data(RunSpec(data="t.csv", class_weight="balanced")).train
    sums = [float(train.weights[train.labels == number].sum()) for number in (0, 1)]
    assert sums == pytest.approx([len(train) / 2] * 2)


@pytest.mark.parametrize("rate", [10, 300, 1e5])
def test_a_learning_rate_that_is_too_large_ends_with_figures_or_a_sentence(rate, tmp_path, capsys):
    chance = numpy.random.default_rng(0)
    rows = [[*chance.normal(size=2), "ab"[number % 2]] for number in range(60)]
    write_rows(tmp_path / "small.csv", ["a", "b", "label"], rows)
    assert call("train", "small.csv", "--learning-rate", rate, "--epochs", 20) in (0, 2)
    said = capsys.readouterr()
    assert "held-out error" in said.out or "no longer finite" in said.err


def test_a_frame_that_a_run_cannot_predict_is_told(ship, table):
    assert call("train", ship, "--run-dir", "run", *FAST) == 0
    rows = pandas.read_csv(ship)
    with pytest.raises(DataError, match="the table has no column 'Fare', which the network was trained on"):
        Run.open("run").predict(rows.drop(columns="Fare"))
    with pytest.raises(DataError, match="the table, row 0: the column 'Fare' holds 'cheap'"):
        Run.open("run").predict(rows.assign(Fare="cheap"))
    with pytest.raises(DataError, match="the table is empty"):
        Run.open("run").predict(rows[:0])
    assert call("train", table, "--run-dir", "arrays", *FAST) == 0
    with pytest.raises(DataError, match="was not trained on a table"):
        Run.open("arrays").predict(rows)
