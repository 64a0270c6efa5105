"""The command line, as a user meets it."""

import csv
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
import onnxruntime
import pytest
import torch
from safetensors.torch import load_file
from torch import distributed

from agrlearn import cli
from agrlearn.cli import app, main
from agrlearn.data.datasets import DATASETS, open_source
from agrlearn.errors import AgrLearnWarning
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import NETWORKS, build_network
from agrlearn.networks.joins import JOINS
from agrlearn.prediction.protocols import PROTOCOLS
from agrlearn.runs.run import Run
from agrlearn.training import loop, progress
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from tests.cli.commands import RECIPE, append_row, call
from tests.runs.notes import change_note, read_note


def start(*arguments, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "agrlearn", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options
    )


def test_from_training_to_predictions_with_class_names(table, tmp_path, capsys):
    run = tmp_path / "run"
    assert call("train", table, "--fold", 2, "--net.join", "features", "--alpha", 0.1, "--run-dir", run, *RECIPE) == 0
    out = capsys.readouterr().out
    assert "135 objects of 3 classes" in out
    assert "held-out error" in out
    assert {"run.json", "metrics.jsonl", "timing.jsonl", "network.safetensors"} <= {path.name for path in run.iterdir()}
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 3

    for protocol in ("replicated", "batched", "contextual"):
        assert call("predict", run, table, "--protocol", protocol, "--draws", 2) == 0
        rows = list(csv.DictReader((tmp_path / "predictions.csv").open()))
        (tmp_path / "predictions.csv").unlink()
        assert len(rows) == 150
        assert [row["object"] for row in rows] == [str(number) for number in range(150)]
        assert {row["prediction"] for row in rows} <= {"a", "b", "c"}
        for row in rows:
            shares = {name: float(row[name]) for name in "abc"}
            assert sum(shares.values()) == pytest.approx(1, abs=1e-4)
            assert shares[row["prediction"]] == max(shares.values())
    assert (
        call("predict", run, table, "--protocol", "contextual", "--context", table, "--output", tmp_path / "p.csv") == 0
    )
    assert (tmp_path / "p.csv").exists()

    capsys.readouterr()
    assert call("evaluate", run, table) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("accuracy %", "error %", "macro F1 %", "NLL", "ECE"))
    assert [line.split()[:2] for line in out.splitlines()[-3:]] == [["a", "5"], ["b", "5"], ["c", "5"]]
    dial = ("replicated", "contextual", "batched", "heads", "objects/s")
    assert not any(name in out for name in dial)
    assert call("evaluate", run, table, "--protocols", "all") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in dial)
    assert max(map(len, out.splitlines()[2:])) <= 80
    assert call("info", run) == 0
    assert "finished, 3 of 3 epochs" in capsys.readouterr().out


def test_a_run_is_measured_on_what_it_held_out_of_its_own_data(tmp_path, capsys, monkeypatch):
    numbers = numpy.random.default_rng(0)
    file, other = tmp_path / "random.npz", tmp_path / "other.npz"
    numpy.savez(file, x=numbers.normal(size=(60, 20)).astype("float32"), y=numpy.arange(60) % 2)
    numpy.savez(other, x=numbers.normal(size=(10, 20)).astype("float32"), y=numpy.arange(10) % 2)
    monkeypatch.chdir(tmp_path)
    memorize = ("--epochs", 60, "--batch-size", 8, "--no-report")
    assert call("train", file, *memorize, "--run-dir", "some") == 0
    told = re.search(r"held-out error ([\d.]+)%", capsys.readouterr().out)[1]
    assert float(told) > 10
    assert call("evaluate", "some", file.name) == 0
    out = capsys.readouterr().out
    assert "6 held-out objects of random.npz" in out
    assert re.search(rf"^error % +{told}$", out, re.MULTILINE)

    assert call("evaluate", "some", other.name) == 0
    assert "10 objects of other.npz;" in capsys.readouterr().out

    assert call("train", file, *memorize, "--run-dir", "all", "--validation-fraction", 0) == 0
    assert call("evaluate", "all", file.name) == 0
    assert "all of which it was trained on" in capsys.readouterr().out


def test_of_many_classes_the_worst_are_shown_and_no_name_is_cut(tmp_path, capsys):
    names = [f"{'a very long name of a ' * 5}class {number}" for number in range(30)]
    file = tmp_path / "many.npz"
    x = numpy.repeat(numpy.eye(30, dtype="float32"), 4, axis=0)
    x[:16] = 0  # the first four classes cannot be told apart
    numpy.savez(file, x=x, y=numpy.repeat(names, 4))
    command = ("train", file, "--run-dir", "run", "--no-report", "--validation-fraction", 0, "--epochs", 30)
    assert call(*command, "--fold", 1, "--learning-rate", 0.03) == 0
    capsys.readouterr()
    assert call("evaluate", "run", file) == 0
    lines = capsys.readouterr().out.splitlines()
    start = lines.index("The 10 of 30 classes with the lowest F1:")
    assert max(map(len, lines[2:])) <= 80
    shown = "".join(line[:32].rstrip() for line in lines[start + 2 :]).replace(" ", "")
    assert shown.count("averylongname") == 50
    assert {f"class{number}a" in f"{shown}a" for number in range(4)} == {True}


def test_a_copy_of_the_training_data_is_known_by_what_it_holds(table, tmp_path, capsys):
    copy = tmp_path / "copy.npz"
    shutil.copy(table, copy)
    for run, fraction, origin in (
        ("some", 0.1, "15 held-out objects of"),
        ("all", 0, "copy.npz, all of which it was trained on"),
    ):
        folder = tmp_path / run
        assert call("train", table, "--run-dir", folder, "--no-report", "--validation-fraction", fraction, *RECIPE) == 0
        capsys.readouterr()
        assert call("evaluate", folder, copy) == 0
        assert origin in " ".join(capsys.readouterr().out.split())
    # An object that was held out is another one now, but the rest is what it was trained on.
    with numpy.load(copy) as arrays:
        x, y = arrays["x"], arrays["y"]
    held_out = Run.open(tmp_path / "some").held_out(open_source(str(copy)))
    place = int((torch.from_numpy(x) == held_out.objects[0]).all(dim=1).nonzero())
    x[place] += 1
    numpy.savez(copy, x=x, y=y)
    assert call("evaluate", tmp_path / "some", copy) == 0
    assert "135 of which it was trained on" in " ".join(capsys.readouterr().out.split())


def test_without_the_training_data_evaluate_leaves_contextual_out_and_names_the_way(table, vectors, tmp_path, capsys):
    run, other = tmp_path / "run", tmp_path / "other.npz"
    numpy.savez(other, x=vectors.objects[:40].numpy() + 0.5, y=numpy.array(vectors.class_names)[vectors.labels[:40]])
    assert call("train", table, "--net.join", "features", "--run-dir", run, "--no-report", *RECIPE) == 0
    for change, reason in (
        (
            lambda: numpy.savez(table, x=numpy.zeros((9, 4)), y=numpy.array(list("abc") * 3)),
            "holds objects of shape (4,)",
        ),
        (table.unlink, f"there is no file or folder {table}"),
    ):
        change()
        capsys.readouterr()
        assert call("evaluate", run, other, "--protocols", "all") == 0
        device, told, *rows = capsys.readouterr().out.splitlines()
        assert device == "Running on cpu"
        assert told.startswith("contextual is left out: the training data of")
        assert reason in told
        assert told.endswith("; name them with --context")
        assert all(any(name in row for row in rows) == (name != "contextual") for name in PROTOCOLS)
        assert call("evaluate", run, other, "--protocols", "contextual") == 2
        assert reason in capsys.readouterr().err
    assert call("evaluate", run, other, "--protocols", "all", "--context", other) == 0
    assert "contextual" in capsys.readouterr().out
    numpy.savez(tmp_path / "narrow.npz", x=numpy.zeros((9, 4)))
    assert call("evaluate", run, other, "--protocols", "all", "--context", tmp_path / "narrow.npz") == 2
    assert "narrow.npz holds objects of shape (4,)" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["bytes", "fractions"])
def test_without_the_training_data_export_makes_up_objects_of_their_type(kind, table, images, tmp_path, capsys):
    run, model = tmp_path / "run", tmp_path / "model.onnx"
    if kind == "bytes":
        numpy.savez(table, x=images.objects.numpy(), y=images.labels.numpy())
    assert call("train", table, "--run-dir", run, "--no-report", *RECIPE) == 0
    table.unlink()
    capsys.readouterr()
    assert call("export", run, model) == 0
    out = capsys.readouterr().out
    assert f"there is no file or folder {table}" in out
    assert "of PyTorch on made-up objects" in out
    (read,) = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).get_inputs()
    assert read.type == ("tensor(uint8)" if kind == "bytes" else "tensor(float)")

    change_note(run, dtype="complex64")  # of which nothing can be made up
    assert call("export", run, model) == 2
    assert "export_onnx(network, objects, file)" in capsys.readouterr().err


def test_the_note_about_the_data_is_there_before_training_and_is_that_of_the_run(table, tmp_path, capsys, monkeypatch):
    run, other = tmp_path / "run", tmp_path / "other.npz"
    notes = []

    def die(*_, **__):
        notes.append(read_note(run))
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(loop, "_train", die)
        assert call("train", table, "--run-dir", run, *RECIPE) == 130
    assert notes[0]["source"] == str(table)

    shutil.copy(table, other)
    append_row(other, numpy.zeros(6), "a")
    assert call("train", other, "--run-dir", run, *RECIPE) == 2
    assert "belongs to another run" in capsys.readouterr().err
    assert read_note(run) == notes[0]


def test_without_a_terminal_training_tells_now_and_then_how_far_it_is(table, tmp_path, capsys, monkeypatch, vectors):
    monkeypatch.setattr(loop, "_SECONDS_BETWEEN_LOOKS", -1)
    assert call("train", table, "--run-dir", tmp_path / "quick", "--no-report", *RECIPE) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Running on cpu\n") and said.err == ""
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", -1)
    assert call("train", table, "--run-dir", tmp_path / "run", "--no-report", *RECIPE) == 0
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"fold 2 · epoch 1/3 · loss [\d.]+ · error [\d.]+% · [\d,]+ objects/s", lines[0])
    assert re.fullmatch(r"fold 2 · epoch 3/3 · loss .* · held out [\d.]+% · [\d,]+ objects/s", lines[-1])
    assert call("train", table, "--patience", 3, "--run-dir", tmp_path / "patient", "--no-report", *RECIPE) == 0
    assert re.search(r" · validation [\d.]+% · [\d,]+ objects/s$", capsys.readouterr().err.splitlines()[-1])
    network = build_network("mlp", object_shape=(6,), num_classes=3, fold=2)
    fit(network, vectors, Recipe(epochs=1))
    assert capsys.readouterr().err == ""


def test_nothing_is_called_held_out_once_the_data_have_changed(table, vectors, tmp_path, capsys):
    run = tmp_path / "run"
    assert call("train", table, "--run-dir", run, "--no-report", *RECIPE) == 0
    append_row(table, vectors.objects[0].numpy(), "a")
    capsys.readouterr()
    assert call("evaluate", run, table) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "151 objects of" in out
    assert "has changed since: some may be what the run was trained on" in out
    assert "held-out" not in out


def test_the_classes_of_changed_data_are_those_of_the_run(tmp_path, capsys):
    numbers = numpy.random.default_rng(0)
    labels = numpy.array(list("abc"))[numpy.arange(90) % 3]
    x = (numbers.normal(size=(90, 4)) + 20 * numpy.eye(4)[numpy.arange(90) % 3]).astype("float32")
    file = tmp_path / "t.npz"
    numpy.savez(file, x=x, y=labels)
    run = tmp_path / "run"
    assert call("train", file, "--run-dir", run, "--no-report", "--fold", 1, "--epochs", 20, "--batch-size", 8) == 0
    numpy.savez(file, x=x[labels != "a"], y=labels[labels != "a"])
    capsys.readouterr()
    assert call("evaluate", run, file) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if line.startswith("error %")] == [["error", "%", "0.00"]]
    assert [line.split()[:2] for line in lines[-3:]] == [["a", "0"], ["b", "30"], ["c", "30"]]


def test_a_run_from_python_is_opened_or_refused_with_a_sentence(table, vectors, tmp_path, capsys):
    plain = torch.utils.data.TensorDataset(vectors.objects, vectors.labels)
    size = vectors.objects.shape[1]
    catalogued = build_network("mlp", object_shape=(size,), num_classes=3, fold=2)
    fit(catalogued, plain, Recipe(epochs=1), run_dir=tmp_path / "catalogued")
    assert call("predict", tmp_path / "catalogued", table, "--network", "mlp") == 0
    predicted = csv.DictReader((tmp_path / "predictions.csv").open())
    assert {row["prediction"] for row in predicted} <= {"0", "1", "2"}
    assert call("predict", tmp_path / "catalogued", table, "--network", "small-cnn") == 2
    assert "is mlp, not small-cnn" in capsys.readouterr().err
    assert call("export", tmp_path / "catalogued", tmp_path / "model.onnx") == 2
    assert "export_onnx" in capsys.readouterr().err

    own = AggregatedClassifier(torch.nn.Linear(2 * size, 5), features=5, fold=2, num_classes=3, join="features")
    fit(own, plain, Recipe(epochs=1), run_dir=tmp_path / "own")
    assert call("predict", tmp_path / "own", table, "--network", "own.py:make") == 2
    assert "built in Python" in capsys.readouterr().err


def test_the_same_command_says_that_it_is_done_and_fresh_starts_over(table, tmp_path, capsys):
    run = tmp_path / "run"
    command = ("train", table, "--run-dir", run, *RECIPE)
    assert call(*command) == 0
    first = load_file(run / "network.safetensors")
    capsys.readouterr()
    assert call(*command) == 0
    assert "finished already" in capsys.readouterr().out
    assert call(*command, "--seed", 5) == 2
    assert "its seed is 0, not 5" in capsys.readouterr().err
    assert call(*command, "--seed", 5, "--fresh") == 0
    assert not torch.equal(load_file(run / "network.safetensors")["head.weight"], first["head.weight"])


def test_more_epochs_go_on_with_a_run_and_a_default_does_not(table, tmp_path, capsys):
    command = ("train", table, "--run-dir", tmp_path / "run", "--no-report")
    assert call(*command, "--epochs", 2) == 0
    assert call(*command) == 2
    assert "is this run with 2 epochs, not 60" in capsys.readouterr().err
    with pytest.warns(AgrLearnWarning, match="goes on from epoch 2 to 4"):
        assert call(*command, "--epochs", 4) == 0
    assert [record.epoch for record in Run.open(tmp_path / "run").records] == [1, 2, 3, 4]
    assert call(*command, "--epochs", 3) == 2
    assert "can be raised but not lowered to 3" in capsys.readouterr().err
    assert call(*command, "--epochs", 4) == 0
    assert "finished already" in capsys.readouterr().out


def test_predicting_needs_no_labels(table, tmp_path, vectors):
    assert call("train", table, "--run-dir", tmp_path / "run", *RECIPE) == 0
    numpy.savez(tmp_path / "new.npz", x=vectors.objects[:5].numpy())
    assert call("predict", tmp_path / "run", tmp_path / "new.npz") == 0
    assert call("evaluate", tmp_path / "run", tmp_path / "new.npz") == 2


def test_network_options_reach_the_network(table, tmp_path):
    run = tmp_path / "run"
    assert call("train", table, "--run-dir", run, "--net.width", 24, "--net.noise", 1, *RECIPE) == 0
    about = json.loads((run / "run.json").read_text())["identity"]["network"]
    assert about["width"] == 24
    assert about["noise"] == 1.0
    assert call("predict", run, table, "--samples", 3) == 0


def test_evaluate_tells_the_speed_and_the_cost_of_the_samples_that_it_averages(table, tmp_path, capsys, monkeypatch):
    from agrlearn.evaluation import throughput

    timed = []
    predict = throughput.predict
    monkeypatch.setattr(
        throughput, "predict", lambda *given, samples, **options: timed.append(samples) or predict(*given, **options)
    )
    run = tmp_path / "run"
    assert call("train", table, "--run-dir", run, "--net.noise", 1, "--no-report", *RECIPE) == 0
    costs = []
    for samples in (0, 50):
        capsys.readouterr()
        timed.clear()
        assert call("evaluate", run, table, "--protocols", "all", "--samples", samples) == 0
        out = capsys.readouterr().out
        assert set(timed) == {samples}
        assert ("samples: 50" in out) == (samples == 50)
        (line,) = [line for line in out.splitlines() if line.startswith("multiply-adds")]
        costs.append(int(line.split()[-1].replace(",", "")))
    heads = load_file(run / "network.safetensors")["head.weight"].numel()
    assert costs[1] - costs[0] == 49 * heads


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "absent.npz"], "there is no file or folder absent.npz"),
        (["train", "digit"], "did you mean 'digits'"),
        (["train", "TABLE", "--fold", "0"], "greater than or equal to 1"),
        (["train", "TABLE", "--fold", "1.5"], "expected a whole number, got '1.5'"),
        (["train", "TABLE", "--fold", "two"], "expected a whole number"),
        (["train", "digits", "--net.join", "tandem"], "small-cnn can join by channels"),
        (["train", "TABLE", "--network", "foo"], "no network is called 'foo'; the choices are"),
        (["train", "TABLE", "--fold", "200"], "fold=200 is larger than the data set of 135 objects"),
        (["train", "TABLE", "--alpha=-1"], "alpha: input should be greater"),
        (["train", "TABLE", "--epochs", "x"], "epochs: input should be a valid integer"),
        (["train", "TABLE", "--network", "resnt"], "no network is called 'resnt'"),
        (["train", "TABLE", "--network", "small-cnn"], "mlp takes vectors"),
        (["train", "TABLE", "--net.widht", "3"], "did you mean 'width'"),
        (["train", "TABLE", "--net.width", "wide"], "--net.width takes a value like 128"),
        (["train", "TABLE", "--net.width", "0"], "width of mlp is a whole number from 1 up, got 0"),
        (["train", "TABLE", "--net.noise", "-1"], "noise of mlp is a standard deviation from 0 up, got -1"),
        (["train", "TABLE", "--validation-fraction", "1.5"], "at least 0 and below 1, got 1.5"),
        (["train", "TABLE", "--run-dir", "TABLE"], "is a file"),
        (["train", "TABLE", "--run-dir", "/proc/nowhere"], "/proc/nowhere"),
        (["train", "TABLE", "--foldd", "2"], "Did you mean --fold?"),
        (["train"], "requires an argument"),
        (["trian"], 'Did you mean "train"?'),
        (["predict", "absent", "TABLE"], "not a run directory"),
        (["evaluate", "absent", "TABLE"], "not a run directory"),
        (["info", "absent"], "not a run directory"),
        (["demo", "--seeds", "0"], "at least 1"),
    ],
)
def test_errors_are_one_sentence_and_exit_code_2(arguments, message, table, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(*[str(table) if argument == "TABLE" else argument for argument in arguments]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.startswith("agrlearn: ")
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": numpy.zeros((4, 7)), "y": numpy.array(list("abca"))}, "objects of shape (7,)"),
        ({"x": numpy.zeros((4, 6)), "y": numpy.array(list("abcd"))}, "'d' is none of the 3 classes"),
    ],
)
def test_data_that_do_not_fit_the_run_are_refused(arrays, message, table, tmp_path, capsys):
    assert call("train", table, "--run-dir", tmp_path / "run", *RECIPE) == 0
    numpy.savez(tmp_path / "other.npz", **arrays)
    capsys.readouterr()
    assert call("evaluate", tmp_path / "run", tmp_path / "other.npz") == 2
    assert message in capsys.readouterr().err


def test_a_full_disk_is_told_in_a_sentence_and_leaves_nothing_half_written(table, tmp_path):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); "
    quiet = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    code = f"{limit}{quiet}from agrlearn.cli import main; main()"
    command = [sys.executable, "-c", code, "train", str(table), "--run-dir", str(tmp_path / "run"), *RECIPE]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "File too large" in result.stderr
    assert "Traceback" not in result.stderr
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"run.json"}


def test_help_takes_less_than_a_second_of_the_processor():
    times = []
    for _ in range(3):
        # Time of the processor: a busy machine makes everything wait.
        before = sum(os.times()[2:4])
        subprocess.run([sys.executable, "-m", "agrlearn", "--help"], capture_output=True, check=True)
        times.append(sum(os.times()[2:4]) - before)
    # The aim is half a second; processes that share a core get some grace.
    assert min(times) < 0.8


def every_command() -> list[tuple[str, ...]]:
    """All commands, with those within a command."""
    names = [name for name in app if not name.startswith("-")]
    within = {name: [inner for inner in app[name] if not inner.startswith("-")] for name in names}
    return [(name, *inner) for name in names for inner in ([(i,) for i in within[name]] or [()])]


def test_help_names_every_command(capsys):
    assert call("--help") == 0
    out = capsys.readouterr().out
    commands = {command[0] for command in every_command()}
    assert commands == {file.stem for file in Path(cli.__file__).parent.glob("*.py")} - {
        "__init__",
        "engine",
        "finished",
        "many",
        "options",
    }
    for command in commands:
        assert re.search(rf"│ {command} +\w", out), command


@pytest.mark.parametrize("command", every_command(), ids=" ".join)
def test_every_option_is_explained(command):
    found = app
    for word in command:
        found = found[word]
    arguments = [
        argument
        for argument in found.assemble_argument_collection(parse_docstring=True)
        if argument.show and argument.parse
    ]
    assert arguments or command in {("info",)}
    for argument in arguments:
        assert argument.parameter.help, f"{' '.join(command)} {argument.name}"


def test_info_lists_what_there_is_to_choose_from(capsys):
    assert call("info") == 0
    out = capsys.readouterr().out
    for name in (*DATASETS, *NETWORKS, *JOINS, *PROTOCOLS, "join-after"):
        assert re.search(rf"(?<![\w-]){name}(?![\w-])", out), name
    assert "at (found)" in out
    assert "widen (False)" in out


LONG = ["--fold", "2", "--alpha", "0.1", "--epochs", "40", "--batch-size", "16", "--learning-rate", "0.05"]


def finish(process: subprocess.Popen) -> None:
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err


def assert_same_run(whole: Path, other: Path) -> None:
    """Both reached the same weights by the same records."""
    expected, found = (load_file(run / "network.safetensors") for run in (whole, other))
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert (whole / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()


def wait_for_epoch(run: Path, process: subprocess.Popen, epoch: int) -> None:
    file = run / "metrics.jsonl"
    while process.poll() is None and (not file.exists() or len(file.read_text().splitlines()) < epoch):
        time.sleep(0.005)


def test_a_run_killed_several_times_ends_with_the_same_weights_and_records(table, tmp_path):
    finish(start("train", table, "--run-dir", tmp_path / "whole", *LONG))
    moments = random.Random(0)
    for kill in range(3):
        process = start("train", table, "--run-dir", tmp_path / "cut", *LONG)
        wait_for_epoch(tmp_path / "cut", process, 4 + 8 * kill)
        time.sleep(moments.uniform(0, 0.1))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    finish(start("train", table, "--run-dir", tmp_path / "cut", *LONG))
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.parametrize("moments", [4, pytest.param(30, marks=pytest.mark.slow)])
def test_ctrl_c_at_any_moment_ends_with_exit_code_130(moments, table, tmp_path):
    for number in range(moments):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", ""], check=True)
        alone = time.perf_counter() - began  # until then there is Python alone, which has a traceback of its own
        process = start("train", table, "--run-dir", tmp_path / str(number), "--epochs", 10_000)
        time.sleep(2 * alone + 3.0 * number / moments)
        process.send_signal(signal.SIGINT)
        if number % 2:
            time.sleep(0.003 * number)
            process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert process.returncode == 130, told
        assert "Traceback" not in told


def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(table, tmp_path):
    command = ("train", table, "--run-dir", tmp_path / "run", *LONG)
    process = start(*command)
    wait_for_epoch(tmp_path / "run", process, 3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "The same command goes on" in out
    assert "Traceback" not in err
    seconds = (tmp_path / "run" / "timing.jsonl").read_text().splitlines()
    finish(start(*command))
    assert (tmp_path / "run" / "timing.jsonl").read_text().splitlines()[: len(seconds)] == seconds  # not trained again
    finish(start("train", table, "--run-dir", tmp_path / "whole", *LONG))
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_the_demo_writes_its_table_and_keeps_its_runs(tmp_path, capsys):
    assert call("demo", "--seeds", 1, "--epochs", 1, "--run-dir", tmp_path) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.partition("multiply-adds")[0].splitlines())) <= 120
    assert all(name in out for name in ("groups of 2 by the mean", "Batched, 1 draw", "errs least", "agrlearn compare"))
    rows = json.loads((tmp_path / "results.json").read_text())
    assert len(rows) == 9
    costs = {(row["setting"], row["protocol"]): row["multiply_adds"] for row in rows}
    assert costs["groups of 2 by the mean", "unwrapped"] == costs["ordinary network", "ordinary"]
    fast = costs["fold 4, slots apart", "Batched, 1 draw"]
    assert costs["ordinary, as cheap as fold 4", "ordinary"] <= fast < costs["ordinary network", "ordinary"] / 2
    seen = {row["setting"]: row["objects_seen"] for row in rows}
    assert seen["ordinary, objects as fold 2"] == seen["groups of 2 by the mean"]
    assert seen["ordinary, as cheap as fold 4"] == seen["fold 4, slots apart"]
    assert (tmp_path / "table.md").read_text().count("\n| ") == 11
    page = (tmp_path / "report.html").read_text()
    assert '"settings":["ordinary-network","ordinary-objects-as-fold-2","ordinary-mixup",' in page
    assert '<section id="dial"' in page
    assert "fold-4-slots-apart, contextual" in page
    least = min(row["scores"]["error"]["value"] for row in rows if "draw" not in row["protocol"])
    measured = re.search(r"<strong>([\d.]+) %</strong> error", page)[1]  # on the digits that each run held out
    assert measured == f"{100 * least:.2f}"
    seconds = {file: file.read_text() for file in tmp_path.rglob("timing.jsonl")}
    assert len(seconds) == 6
    assert call("demo", "--seeds", 1, "--epochs", 1, "--run-dir", tmp_path, "--no-report") == 0
    assert {file: file.read_text() for file in tmp_path.rglob("timing.jsonl")} == seconds  # not trained again
    again = json.loads((tmp_path / "results.json").read_text())
    assert [row["scores"] for row in again] == [row["scores"] for row in rows]


@pytest.mark.slow
def test_kills_at_any_moment_of_a_runs_life_change_nothing(table, tmp_path):
    begun = time.perf_counter()
    finish(start("train", table, "--run-dir", tmp_path / "whole", *LONG))
    lifetime = time.perf_counter() - begun
    moments = random.Random(1)
    for trial in range(10):
        run = tmp_path / f"cut{trial}"
        for _ in range(2):
            process = start("train", table, "--run-dir", run, *LONG)
            time.sleep(moments.uniform(0, lifetime))
            process.kill()
            process.communicate()
        finish(start("train", table, "--run-dir", run, *LONG))
        assert_same_run(tmp_path / "whole", run)


def test_information_between_two_files_is_estimated_or_refused_with_a_sentence(tmp_path, capsys):
    x = numpy.random.default_rng(0).standard_normal(300)
    numpy.save(tmp_path / "x.npy", x)
    (tmp_path / "y.csv").write_text("height,weight\n" + "".join(f"{value},{-(value**3)}\n" for value in x + 0.5))
    assert call("information", tmp_path / "x.npy", tmp_path / "y.csv") == 0
    assert " nats (" in capsys.readouterr().out
    (tmp_path / "words.tsv").write_text("a\nb\n")
    (tmp_path / "broken.npy").write_bytes(b"nonsense")
    for name, message in (
        ("words.tsv", "expected numbers in"),
        ("broken.npy", "expected numbers in"),
        ("x.txt", "expected an .npy"),
    ):
        assert call("information", tmp_path / "x.npy", tmp_path / name) == 2
        assert message in capsys.readouterr().err


def test_a_command_on_several_processes_ends_their_connections(tmp_path):
    """Those left open can abort Python while it shuts down, and a run that is done would look failed."""
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        main(["info"])
        assert not distributed.is_initialized()
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()
