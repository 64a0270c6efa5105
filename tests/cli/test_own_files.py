"""The user's own files through the command line: images, tables, text, and networks from outside."""

import csv
import json
import re
import shlex

import numpy
import pytest
from PIL import Image

from agrlearn.data.datasets import open_source
from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import DataError, RunError
from agrlearn.networks import catalogue
from agrlearn.networks.catalogue import build_network, load, save
from agrlearn.networks.outside import build_outside
from agrlearn.runs.run import Run
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from tests.cli.commands import OWN, call
from tests.data.files import BAD, GOOD, REVIEWS, write_images, write_rows
from tests.networks import foreign
from tests.runs.notes import read_note

FAST = ["--epochs", "2", "--batch-size", "8", "--learning-rate", "0.02"]


def test_a_folder_of_class_folders_from_training_to_named_predictions(tmp_path, capsys):
    write_images(tmp_path / "pets")
    run = tmp_path / "run"
    assert call("train", tmp_path / "pets", "--image-size", 16, "--run-dir", run, *FAST) == 0
    assert "14 objects of 2 classes" in capsys.readouterr().out
    assert call("predict", run, tmp_path / "pets") == 0
    rows = list(csv.DictReader((tmp_path / "predictions.csv").open()))
    assert len(rows) == 16
    assert {"cat", "dog"} <= set(rows[0])
    assert call("evaluate", run, tmp_path / "pets", "--protocols", "batched") == 0
    (tmp_path / "new").mkdir()
    Image.new("L", (40, 20)).save(tmp_path / "new" / "one.png")
    assert call("predict", run, tmp_path / "new") == 0
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 2


def test_broken_images_are_named_or_left_out_and_listed(tmp_path, capsys):
    write_images(tmp_path / "pets")
    broken = tmp_path / "pets" / "cat" / "broken.png"
    broken.write_bytes(b"no picture")
    command = ("train", tmp_path / "pets", "--run-dir", tmp_path / "run", *FAST)
    assert call(*command) == 2
    assert "broken.png cannot be read as an image" in capsys.readouterr().err
    assert call(*command, "--skip-bad") == 0
    assert "left out 1" in capsys.readouterr().out
    assert "broken.png" in (tmp_path / "run" / "left_out.tsv").read_text()


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_sentences_in_a_table_are_found_and_said_aloud(kind, tmp_path, capsys):
    file = tmp_path / f"reviews.{kind}"
    rows = [(number, text, label) for number, (text, label) in enumerate(REVIEWS)]
    if kind in ("csv", "tsv"):
        write_rows(file, ["id", "review", "label"], rows)
    elif kind == "jsonl":
        file.write_text("".join(json.dumps({"id": n, "review": t, "label": y}) + "\n" for n, t, y in rows))
    else:
        import pyarrow
        from pyarrow import parquet

        columns = dict(zip(["id", "review", "label"], map(list, zip(*rows, strict=True)), strict=True))
        parquet.write_table(pyarrow.table(columns), file)
    run = tmp_path / "run"
    command = ("train", file, "--fold", 2, "--run-dir", run, "--epochs", 3, "--batch-size", 8, "--optimizer", "adam")
    assert call(*command, "--learning-rate", 0.002, "--net.maps", 8, "--net.embedding", 16) == 0
    said = capsys.readouterr().out
    for fact in (
        "label   label       2 classes, because of its name",
        "id      identifier  left out",
        "review  text        read as sentences",
    ):
        assert fact in said
    write_rows(tmp_path / "new.csv", ["review"], [["a fine plot"], ["never seen words"]])
    assert call("predict", run, tmp_path / "new.csv") == 0
    found = list(csv.DictReader((tmp_path / "predictions.csv").open()))
    assert [row["prediction"] in ("pos", "neg") for row in found] == [True, True]
    assert call("evaluate", run, file) == 0
    assert call("predict", run, file, "--protocol", "batched") == 2
    told = capsys.readouterr().err
    assert "slot-blind" in told
    assert "allow_slot_blind" not in told  # the command line has no such option


def test_numbers_in_a_table_keep_their_columns(tmp_path, capsys):
    random = numpy.random.default_rng(0)
    numbers = random.normal(size=(40, 3))
    names = ["small" if row[0] < 0 else "large" for row in numbers]
    write_rows(
        tmp_path / "t.csv", ["a", "kind", "b", "c"], [[x, n, y, z] for (x, y, z), n in zip(numbers, names, strict=True)]
    )
    run = tmp_path / "run"
    assert call("train", tmp_path / "t.csv", "--label-column", "kind", "--run-dir", run, *FAST) == 0
    write_rows(tmp_path / "new.csv", ["c", "b", "a"], [[1, 2, 3]])
    assert call("predict", run, tmp_path / "new.csv") == 0
    write_rows(tmp_path / "less.csv", ["c", "b"], [[1, 2]])
    capsys.readouterr()
    assert call("predict", run, tmp_path / "less.csv") == 2
    assert "no column 'a', which the network was trained on" in capsys.readouterr().err


def test_labels_do_not_matter_to_prediction(tmp_path):
    write_rows(tmp_path / "t.csv", ["x", "label"], [[number, "ab"[number % 2]] for number in range(20)])
    run = tmp_path / "run"
    assert call("train", tmp_path / "t.csv", "--run-dir", run, "--net.join", "features", *FAST) == 0
    found = []
    for name, labels in {"whole": "aba", "missing": ["a", "", "b"], "unknown": "xyz", "empty": ["", "", ""]}.items():
        write_rows(tmp_path / f"{name}.csv", ["x", "label"], zip((3, 5, 7), labels, strict=True))
        for context in ((), ("--protocol", "contextual", "--context", tmp_path / f"{name}.csv")):
            assert call("predict", run, tmp_path / f"{name}.csv", *context) == 0
            assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 4
        assert call("predict", run, tmp_path / f"{name}.csv", "--skip-bad") == 0
        rows = list(csv.DictReader((tmp_path / "predictions.csv").open()))
        # Names that are no classes of the network, such as those of folders, are no labels.
        told = [row.pop("label", None) for row in rows]
        assert told == (list(labels) if name in ("whole", "missing") else [None] * 3)
        found.append(str(rows))
    assert len(set(found)) == 1


def test_unknown_columns_name_the_closest(tmp_path, capsys):
    write_rows(tmp_path / "t.csv", ["review", "label"], REVIEWS)
    assert call("train", tmp_path / "t.csv", "--text-column", "revew") == 2
    assert "did you mean 'review'" in capsys.readouterr().err


def test_predictions_name_the_rows_that_they_are_of(tmp_path, capsys):
    write_rows(tmp_path / "t.csv", ["x", "label"], [[number, "ab"[number % 2]] for number in range(20)])
    run = tmp_path / "run"
    assert call("train", tmp_path / "t.csv", "--run-dir", run, *FAST) == 0
    (tmp_path / "new.csv").write_text("x\n1\nhuh\n3\n\n4,4\n5\n")
    assert call("predict", run, tmp_path / "new.csv", "--skip-bad") == 0
    assert "left out 2 that cannot be read, listed in" in capsys.readouterr().out
    rows = list(csv.DictReader((tmp_path / "predictions.csv").open()))
    assert [row["row"] for row in rows] == ["2", "4", "7"]
    left_out = tmp_path / "predictions.left_out.tsv"
    assert [line.split("\t")[0] for line in left_out.read_text().splitlines()] == ["row 3", "row 6"]
    assert call("predict", run, tmp_path / "t.csv") == 0
    assert not left_out.exists()


def test_predictions_name_the_files_that_they_are_of(tmp_path):
    write_images(tmp_path / "pets", count=4)
    run = tmp_path / "run"
    assert call("train", tmp_path / "pets", "--image-size", 8, "--run-dir", run, *FAST) == 0
    broken = tmp_path / "pets" / "cat" / "1.jpg"
    broken.write_bytes(b"no picture")
    for folder in (tmp_path / "pets", tmp_path / "pets" / "cat"):
        assert call("predict", run, folder, "--skip-bad", "--output", tmp_path / "p.csv") == 0
        found = [row["file"] for row in csv.DictReader((tmp_path / "p.csv").open())]
        assert found == [str(file) for file in sorted(folder.rglob("*.*")) if file != broken]
        assert (tmp_path / "p.left_out.tsv").read_text().startswith(f"{broken}\t")


def test_sentences_are_not_given_to_a_network_of_vectors(tmp_path, capsys):
    write_rows(tmp_path / "t.csv", ["review", "label"], REVIEWS)
    assert call("train", tmp_path / "t.csv", "--network", "mlp", "--run-dir", tmp_path / "run") == 2
    assert "mlp does not take sentences" in capsys.readouterr().err


def test_sentences_and_numbers_of_the_same_shape_are_told_apart(tmp_path, capsys):
    write_rows(tmp_path / "t.csv", ["review", "label"], [("a b c", "pos"), ("a c b", "neg")] * 10)
    numpy.savez(tmp_path / "v.npz", x=numpy.zeros((4, 3)), y=["pos", "neg"] * 2)
    assert call("train", tmp_path / "t.csv", "--run-dir", tmp_path / "words", "--no-report", *FAST) == 0
    for command in ("predict", "evaluate"):
        assert call(command, tmp_path / "words", tmp_path / "v.npz") == 2
        assert "v.npz holds numbers, the network was trained on sentences" in capsys.readouterr().err
    assert call("train", tmp_path / "v.npz", "--run-dir", tmp_path / "numbers", "--no-report", *FAST) == 0
    run = Run.open(tmp_path / "numbers")
    run.check_objects(open_source(str(tmp_path / "v.npz")).train.objects, "v.npz")
    with pytest.raises(DataError, match=r"t\.csv holds sentences, the network was trained on numbers"):
        run.check_objects(open_source(str(tmp_path / "t.csv")).train.objects, "t.csv")


def test_a_run_that_does_not_tell_its_words_is_given_no_sentences(tmp_path, capsys):
    write_rows(tmp_path / "t.csv", ["review", "label"], REVIEWS)
    source = open_source(str(tmp_path / "t.csv"))
    size = len(source.preparation["words"]) + 2
    network = build_network("sentence-cnn", object_shape=(5,), num_classes=2, fold=2, vocabulary=size, maps=4)
    labelled = LabelledSet.of(source.train.objects, source.train.labels)
    fit(network, labelled, Recipe(epochs=1, batch_size=4), run_dir=tmp_path / "run")
    # The same words in another order would get other numbers.
    write_rows(tmp_path / "new.csv", ["review", "label"], [(BAD, "neg"), (GOOD, "pos")])
    for command in ("predict", "evaluate"):
        assert call(command, tmp_path / "run", tmp_path / "new.csv") == 2
        assert "does not tell its words" in capsys.readouterr().err
    assert call("export", tmp_path / "run", tmp_path / "model.onnx") == 0
    assert "on made-up objects" in capsys.readouterr().out


def test_a_class_with_one_object_cannot_be_held_out(tmp_path, capsys):
    write_rows(tmp_path / "t.csv", ["x", "label"], [[1, "a"], [2, "a"], [3, "b"]])
    assert call("train", tmp_path / "t.csv", "--run-dir", tmp_path / "run") == 2
    assert "a single object of the class 'b'" in capsys.readouterr().err


def test_a_timm_model_is_trained_reopened_and_exported(tmp_path, capsys):
    foreign.import_timm()
    write_images(tmp_path / "pets", count=6)
    run = tmp_path / "run"
    options = ("--network", "timm:test_byobnet", "--net.at", "stages.1", "--image-size", 32)
    assert call("train", tmp_path / "pets", "--run-dir", run, *options, *FAST) == 0
    assert "joined after stages.1" in capsys.readouterr().out
    assert call("evaluate", run, tmp_path / "pets") == 0
    assert call("export", run, tmp_path / "model.onnx") == 0
    assert (tmp_path / "model.onnx").stat().st_size > 1000
    assert call("train", tmp_path / "pets", "--run-dir", run, "--network", "timm:resnt18") == 2
    assert "timm has no model 'resnt18'" in capsys.readouterr().err


def test_a_timm_model_that_is_far_larger_than_its_file_is_not_built(tmp_path, monkeypatch):
    foreign.import_timm()
    network = build_outside("timm:test_byobnet", object_shape=(3, 32, 32), num_classes=2, fold=2)
    save(network, tmp_path / "network.safetensors")
    assert load(tmp_path / "network.safetensors").description == network.description
    network.description["network"] = "timm:resnet18"
    save(network, tmp_path / "network.safetensors")
    monkeypatch.setattr(catalogue, "rebuild_outside", lambda *_, **__: pytest.fail("it was built"))
    with pytest.raises(RunError, match="describes a far larger network than it holds"):
        load(tmp_path / "network.safetensors")


def test_the_users_own_file_is_run_only_when_named(tmp_path, capsys):
    write_images(tmp_path / "pets", count=6)
    (tmp_path / "own.py").write_text(OWN)
    named = ("--network", f"{tmp_path / 'own.py'}:make_model")
    run = tmp_path / "run"
    assert call("train", tmp_path / "pets", "--run-dir", run, *named, *FAST) == 0
    assert "this file was run" in capsys.readouterr().out
    assert call("predict", run, tmp_path / "pets") == 2
    told = capsys.readouterr()
    assert "run only when you name it" in told.err
    assert "this file was run" not in told.out
    assert call("predict", run, tmp_path / "pets", *named) == 0
    for function, message in (
        ("absent", "no function 'absent'"),
        ("no_model", "returned int"),
        ("broken", "KeyError: 'oops'"),
    ):
        assert call("train", tmp_path / "pets", "--network", f"{tmp_path / 'own.py'}:{function}") == 2
        assert message in capsys.readouterr().err


def test_a_run_of_a_network_whose_code_has_changed_is_another_run_but_comments_may_change(tmp_path, capsys):
    write_images(tmp_path / "pets", count=6)
    file = tmp_path / "own.py"
    file.write_text(OWN)
    command = ("train", tmp_path / "pets", "--run-dir", tmp_path / "run", "--network", f"{file}:make_model", *FAST)
    assert call(*command) == 0
    file.write_text(f"# a comment\n{OWN}")
    assert call(*command) == 0
    assert "finished already" in capsys.readouterr().out
    file.write_text(OWN.replace("nn.ReLU()", "nn.Tanh()"))
    assert call(*command) == 2
    assert "belongs to another run (its network code is" in capsys.readouterr().err


def test_data_by_name_are_not_taken_for_what_is_called_so_here(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "digits", count=6)
    fast = ("--epochs", 1, "--fold", 1, "--no-report")
    assert call("train", "digits", "--run-dir", "named", *fast) == 0
    out = capsys.readouterr().out
    assert "digits: this is the data set of that name, not the folder here; to use the folder, write ./digits" in out
    assert "10 classes" in out
    assert read_note(tmp_path / "named")["source"] == "digits"
    assert call("report", "named", "--no-dial") == 0
    assert "was not measured" not in capsys.readouterr().out
    assert call("export", "named", "model.onnx") == 0
    assert "made-up" not in capsys.readouterr().out

    assert call("train", "./digits", "--run-dir", "own", *fast) == 0
    out = capsys.readouterr().out
    assert "10 objects of 2 classes" in out
    assert "data set of that name" not in out
    assert read_note(tmp_path / "own")["source"] == str(tmp_path / "digits")
    assert call("evaluate", "own", "./digits") == 0
    assert "2 held-out objects of ./digits" in capsys.readouterr().out


def test_training_ends_with_a_command_that_works(vectors, tmp_path, capsys):
    table, own = tmp_path / "my table.csv", tmp_path / "own.py"
    rows = [*zip(*vectors.objects.T.tolist(), [vectors.class_names[label] for label in vectors.labels], strict=True)]
    write_rows(table, [*"abcdef", "label"], [*rows, (*rows[0][:-1], "")])
    own.write_text(
        "from torch import nn\n\ndef make():\n    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))\n"
    )
    options = ("--skip-bad", "--network", f"{own}:make", "--run-dir", tmp_path / "a run", "--no-report")
    assert call("train", table, *options, *FAST) == 0
    (command,) = re.findall(r"^Next: agrlearn (.*)$", capsys.readouterr().out, re.MULTILINE)
    assert call(*shlex.split(command)) == 0
    assert "15 held-out objects" in capsys.readouterr().out


def test_a_file_that_cannot_be_run_gets_a_sentence(tmp_path, capsys):
    (tmp_path / "own.py").write_text("def make_model(:")
    assert call("train", "digits", "--network", f"{tmp_path / 'own.py'}:make_model") == 2
    assert "own.py cannot be run (SyntaxError" in capsys.readouterr().err
