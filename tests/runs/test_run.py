"""Runs from Python and from the command line are opened, used and shown alike."""

import csv

import numpy
import pytest
import torch
from PIL import Image
from torch.utils.data import random_split

import agrlearn
from agrlearn.data.datasets import open_source
from agrlearn.data.text import Vocabulary
from agrlearn.errors import DataError, RunError
from agrlearn.networks.catalogue import build_network
from agrlearn.prediction.predict import predict
from agrlearn.runs.run import Run
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from tests.cli.commands import call
from tests.networks import foreign
from tests.networks.foreign import aggregate_within

RECIPE = Recipe(epochs=2, batch_size=8, learning_rate=0.05)
SMALL = ("--epochs", 2, "--batch-size", 8, "--learning-rate", 0.05, "--no-report")


def write_table(folder):
    rows = "".join(f"{number % 7},{number % 5},{'ab'[number % 2]}\n" for number in range(60))
    (folder / "data.csv").write_text("x,z,label\n" + rows)
    (folder / "new.csv").write_text("z,x\n" + "".join(f"{number % 5},{number % 7}\n" for number in range(9)))
    return "data.csv", "new.csv", {"width": 8}


def write_sentences(folder):
    words = ["fine", "dull", "new", "odd", "long", "bold"]
    rows = "".join(f"a {words[number % 6]} film {number % 4},{'pn'[number % 2]}\n" for number in range(60))
    (folder / "data.csv").write_text("review,label\n" + rows)
    (folder / "new.csv").write_text("review\na fine film\na dull and unknown one\n")
    return "data.csv", "new.csv", {"embedding": 4, "maps": 2}


def write_images(folder):
    random = numpy.random.default_rng(0)
    for place, count in (("data/cat", 12), ("data/dog", 12), ("new", 5)):
        (folder / place).mkdir(parents=True)
        for number in range(count):
            pixels = random.integers(0, 255, (9, 12, 3), dtype=numpy.uint8)
            Image.fromarray(pixels).save(folder / place / f"{number}.png")
    return "data", "new", {"width": 2}


KINDS = {"table": write_table, "sentences": write_sentences, "images": write_images}


@pytest.fixture(params=KINDS)
def made(request, tmp_path, monkeypatch):
    """A run from Python and the same one from the command line, with new raw data."""
    monkeypatch.chdir(tmp_path)
    data, new, options = KINDS[request.param](tmp_path)
    size = {"image_size": 8} if request.param == "images" else {}
    source = open_source(data, **size)
    train, held_out = source.split(0.2)
    words = source.preparation.get("words")
    extra = {"vocabulary": Vocabulary(tuple(words), source.preparation["length"]).size} if words else {}
    network = build_network(
        object_shape=tuple(train.objects.shape[1:]), num_classes=2, fold=2, objects=train.objects, **options, **extra
    )
    fit(network, train, RECIPE, held_out, "python")
    net = [word for name, value in options.items() for word in (f"--net.{name}", value)]
    sizes = ["--image-size", 8] if size else []
    line = [
        "train",
        data,
        "--recipe",
        "paper",
        "--run-dir",
        "commanded",
        "--validation-fraction",
        0.2,
        *SMALL,
        *net,
        *sizes,
    ]
    assert call(*line) == 0
    return network, held_out, data, new, tmp_path


def test_a_run_from_python_is_predicted_with_like_any_other(made):
    network, _, data, new, folder = made
    for run in ("python", "commanded"):
        assert call("predict", run, new, "--output", folder / f"{run}.csv") == 0
    assert (folder / "python.csv").read_text() == (folder / "commanded.csv").read_text()
    run = Run.open("python")
    found = run.predict(new)
    rows = list(csv.DictReader((folder / "python.csv").open()))
    assert len(rows) == len(found)
    for row, probabilities in zip(rows, found.tolist(), strict=True):
        assert [float(row[name]) for name in run.class_names] == pytest.approx(probabilities, rel=1e-5)
    assert torch.equal(run.predict(data), predict(network, run.read(data).unseen.objects))


def test_a_run_from_python_is_measured_on_what_it_held_out(made, capsys):
    network, held_out, data, _, _ = made
    run = Run.open("python")
    expected = agrlearn.evaluate(network, held_out)
    assert run.evaluate(data).error == pytest.approx(expected.error)
    assert run.evaluate(data).objects == len(held_out)
    for name in ("python", "commanded"):
        capsys.readouterr()
        assert call("evaluate", name, data) == 0
        assert f"{len(held_out)} held-out objects of" in " ".join(capsys.readouterr().out.split())


def test_a_run_from_python_is_exported_reported_and_shown(made, capsys):
    _, held_out, _, _, folder = made
    assert call("export", "python", folder / "model.onnx") == 0
    shown = agrlearn.report(["python", "commanded"], folder / "deep" / "page.html", dial=False)
    assert (folder / "deep" / "page.html").stat().st_size > 10_000
    # One setting twice: the same seed again is a repetition.
    assert [measured.origin for measured in shown.measured.values()] == [f"{len(held_out)} held-out objects of " + str(
        folder / made[2])] * 2  # fmt: skip
    assert "agrlearn train" in shown.cards[1].command
    assert not shown.cards[0].command
    capsys.readouterr()
    assert call("info", "python") == 0
    assert "finished, 2 of 2 epochs" in capsys.readouterr().out


def test_a_split_of_ones_own_is_known_again_in_any_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data, _, _ = write_table(tmp_path)
    source = open_source(data)
    train, held_out = random_split(source.labelled(source.train), [45, 15], torch.Generator().manual_seed(1))
    network = build_network(object_shape=(2,), num_classes=2, fold=2, width=8)
    fit(network, train, RECIPE, held_out, "run")
    run = Run.open("run")
    found = run.held_out(run.read(data))
    expected = torch.tensor(sorted(held_out.indices))
    assert torch.equal(found.origin.rows, expected)
    assert torch.equal(found.objects, source.train.objects[expected])
    assert len(run.trained_on(run.read(data))) == 45
    # Moved and renamed, it is still the same; changed, it is not.
    (tmp_path / "other.csv").write_text((tmp_path / data).read_text())
    assert len(run.held_out(run.read("other.csv"))) == 15
    (tmp_path / "other.csv").write_text((tmp_path / data).read_text().replace("0,0,a", "9,9,a"))
    assert run.held_out(run.read("other.csv")) is None


def test_what_chose_the_epoch_is_called_validation_and_what_did_not_held_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data, _, _ = write_table(tmp_path)
    train, held_out = open_source(data).split(0.25)
    patient = RECIPE.model_copy(update={"patience": 1})
    for name, recipe, kind in (("plain", RECIPE, "held-out"), ("patient", patient, "validation")):
        network = build_network(object_shape=(2,), num_classes=2, fold=2, width=8)
        fit(network, train, recipe, held_out, name)
        run = Run.open(name)
        assert f", {kind} error " in str(run)
        assert f"{len(held_out)} {kind} objects" in run.to_measure(run.read(data))[1]
    # The command line holds out one part for either purpose.
    assert call("train", data, "--patience", 1, "--run-dir", "commanded", *SMALL) == 0
    run = Run.open("commanded")
    assert ", validation error " in str(run)
    assert "6 held-out objects of" in run.to_measure(run.read(data))[1]


def test_a_network_that_was_built_in_python_is_opened_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images = foreign.images(24)
    numpy.savez("data.npz", x=images.numpy(), y=numpy.arange(24) % 5)
    source = open_source("data.npz")
    train, held_out = source.split(0.25)
    fit(network := aggregate_within(foreign.nested(), 2, images, verbose=False), train, RECIPE, held_out, "run")
    with pytest.raises(RunError, match="not in the catalogue"):
        Run.open("run").predict("data.npz")
    fresh = aggregate_within(foreign.nested(), 2, images, verbose=False)
    run = Run.open("run", model=fresh)
    assert torch.equal(run.predict("data.npz"), predict(network, source.train.objects))
    assert run.evaluate("data.npz").objects == len(held_out)


def test_what_a_run_does_not_know_is_told(tmp_path, monkeypatch, vectors, make_mlp):
    monkeypatch.chdir(tmp_path)
    fit(make_mlp(2), vectors, RECIPE, run_dir="run")
    run = Run.open("run")
    assert run.data is None
    with pytest.raises(RunError, match="does not tell its training data"):
        run.protocol("contextual")
    numpy.savez("data.npz", x=numpy.zeros((4, 5)))
    with pytest.raises(DataError, match=r"holds objects of shape \(5,\), the network was trained on shape \(6,\)"):
        run.predict("data.npz")
