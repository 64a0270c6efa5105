"""Exported files stand on their own: with their class names and the preparation beside them, they answer raw rows."""

import csv
import json
import random

import numpy
import onnxruntime
import pandas
import pytest
import torch
from safetensors import safe_open
from sklearn.datasets import load_iris

from agrlearn import AgrLearnClassifier, export
from agrlearn.data.cleaning import split_words
from agrlearn.data.preparation import table_preparation
from agrlearn.errors import AgrLearnError
from tests.cli.commands import RECIPE, call


def open_model(file):
    """The model's function, and what its metadata say."""
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (read,) = session.get_inputs()
    return lambda objects: session.run(None, {read.name: objects})[0], session.get_modelmeta().custom_metadata_map


def mixed_rows(count=140):
    """Rows with gaps, a heavy tail, yes and no, dates, frequent and rare words, and texts."""
    draw = random.Random(0)
    for number in range(count):
        sick = draw.random() < 0.5
        yield {
            "age": "" if number % 9 == 0 else f"{draw.gauss(60 if sick else 40, 9):.1f}",
            "income": f"{draw.lognormvariate(3, 2 - sick):.2f}",
            "smokes": draw.choice(["yes", "no"]) if number % 11 else "?",
            "seen": "" if number % 13 == 0 else f"2024-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}",
            "town": draw.choice(["Ulm", "Köln"]) if number % 2 else f"village {draw.randint(0, 99)}",
            "note": " ".join(draw.choices(["pain", "Fever!", "isn't", "well", "☀", f"word{number}"], k=5)),
            "state": "sick" if sick else "healthy",
        }


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deploy")
    rows = list(mixed_rows())
    with (folder / "t.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    assert call("train", folder / "t.csv", "--label", "state", "--run-dir", folder / "run", "--no-report", *RECIPE) == 0
    return folder


def test_raw_rows_get_the_same_answers_from_the_files_as_from_predict(trained, capsys):
    assert call("export", trained / "run", trained / "model.onnx") == 0
    said = capsys.readouterr().out
    assert f"{trained / 'model.onnx'}: 2 classes, named in the file" in said
    assert f"{trained / 'model.preparation.json'}: how your data become its input" in said
    assert call("predict", trained / "run", trained / "t.csv", "--output", trained / "p.csv") == 0
    expected = list(csv.DictReader((trained / "p.csv").open()))

    answer, about = open_model(trained / "model.onnx")
    class_names = json.loads(about["class_names"])
    saved = json.loads((trained / "model.preparation.json").read_text())
    assert {column["kind"] for column in saved["columns"]} == {"number", "boolean", "date", "words"}
    rows = list(csv.DictReader((trained / "t.csv").open()))
    objects = table_preparation(saved).apply({name: [row[name] for row in rows] for name in rows[0]})
    found = answer(objects.astype("float32"))
    assert about["inputs"] == f"float32 of shape (objects, {objects.shape[1]}), made as model.preparation.json says"
    assert [class_names[number] for number in found.argmax(axis=1)] == [row["prediction"] for row in expected]
    wanted = numpy.array([[float(row[name]) for name in class_names] for row in expected])
    assert numpy.abs(found - wanted).max() < 1e-5


def test_a_fitted_estimator_on_a_frame_is_exported_with_its_preparation(tmp_path):
    frame = pandas.DataFrame(mixed_rows())
    labels = frame.pop("state")
    frame["age"] = pandas.to_numeric(frame["age"])
    classifier = AgrLearnClassifier(epochs=2, random_state=0).fit(frame, labels)
    made = export(classifier, tmp_path / "model.onnx")
    assert made.class_names == ("healthy", "sick") and made.difference < 1e-5
    answer, about = open_model(made.file)
    assert json.loads(about["class_names"]) == ["healthy", "sick"]
    cells = {name: frame[name].where(frame[name].notna(), None).tolist() for name in frame}
    objects = table_preparation(json.loads(made.preparation.read_text())).apply(cells).astype("float32")
    assert numpy.abs(answer(objects) - classifier.predict_proba(frame)).max() < 1e-5

    weights = export(classifier, str(tmp_path / "model.safetensors"))
    with safe_open(weights.file, "pt") as file:
        assert json.loads(file.metadata()["class_names"]) == ["healthy", "sick"]


def test_a_model_of_plain_arrays_has_no_preparation_and_removes_that_of_an_earlier_model(tmp_path):
    x, y = load_iris(return_X_y=True)
    (tmp_path / "model.preparation.json").write_text("{}")
    classifier = AgrLearnClassifier(epochs=2, fold=3, join="features", random_state=0).fit(x, y)
    made = export(classifier, tmp_path / "model.onnx")
    assert made.preparation is None and [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    answer, about = open_model(made.file)
    assert about["inputs"] == "float32 of shape (objects, 4)"
    assert numpy.abs(answer(x.astype("float32")) - classifier.predict_proba(x)).max() < 1e-5
    export(classifier, tmp_path / "groups.onnx", groups=True)
    answer, about = open_model(tmp_path / "groups.onnx")
    assert about["inputs"] == "float32 of shape (groups, 3, 4)"
    assert answer(numpy.zeros((5, 3, 4), "float32")).shape == (5, 3, 3)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_an_estimator_of_images_is_exported_for_the_type_that_it_was_fitted_on(dtype, tmp_path):
    images = numpy.random.default_rng(0).integers(0, 256, (40, 8, 8)).astype(dtype)
    classifier = AgrLearnClassifier(epochs=1, random_state=0).fit(images, numpy.arange(40) % 2)
    answer, about = open_model(export(classifier, tmp_path / "model.onnx").file)
    assert about["inputs"] == f"{dtype} of shape (objects, 1, 8, 8)"
    assert numpy.abs(answer(images[:, None]) - classifier.predict_proba(images)).max() < 1e-5


def test_an_estimator_of_sentences_is_exported_with_its_words(tmp_path):
    sentences = ["a good film", "a bad film", "good, and not bad", "bad"] * 5
    classifier = AgrLearnClassifier(epochs=1, random_state=0).fit(sentences, [1, 0, 1, 0] * 5)
    made = export(classifier, tmp_path / "model.onnx")
    saved = json.loads(made.preparation.read_text())
    numbers = {word: number for number, word in enumerate(saved["words"], start=2)}
    tokens = numpy.zeros((1, saved["length"]), "int64")
    words = split_words("a new film", saved["cleaning"])
    tokens[0, : len(words)] = [numbers.get(word, 1) for word in words]
    answer, _ = open_model(made.file)
    assert numpy.abs(answer(tokens) - classifier.predict_proba(["a new film"])).max() < 1e-5


def test_what_cannot_be_exported_gets_a_sentence(tmp_path, trained):
    with pytest.raises(AgrLearnError, match="fit it first"):
        export(AgrLearnClassifier(), tmp_path / "model.onnx")
    with pytest.raises(AgrLearnError, match="not a run directory"):
        export(tmp_path, tmp_path / "model.onnx")
    with pytest.raises(AgrLearnError, match="groups are for ONNX models"):
        export(trained / "run", tmp_path / "model.safetensors", groups=True)


def test_a_network_of_ones_own_in_an_estimator_is_exported(tmp_path):
    def make(shape, classes, fold):
        from agrlearn import AggregatedClassifier

        encoder = torch.nn.Sequential(torch.nn.Linear(fold * shape[0], 8), torch.nn.ReLU())
        return AggregatedClassifier(encoder, features=8, fold=fold, num_classes=classes, join="features")

    x, y = load_iris(return_X_y=True)
    classifier = AgrLearnClassifier(network=make, epochs=1, random_state=0, device="cpu").fit(x, y)
    answer, _ = open_model(export(classifier, tmp_path / "model.onnx").file)
    assert numpy.abs(answer(x.astype("float32")) - classifier.predict_proba(x)).max() < 1e-5
