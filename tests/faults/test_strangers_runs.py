"""A run directory that a stranger packed: it writes nothing outside of itself, makes nobody wait, fills no memory."""

import csv
import hashlib
import io
import json
import os
import shutil
from pathlib import Path

import numpy
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file

from agrlearn.files import spreadsheet_cell, write_atomically, write_output
from tests.faults.processes import GIBIBYTE, agrlearn, refused
from tests.faults.test_untrusted_files import good, good_run, retell, run, saved, signed  # noqa: F401
from tests.runs.notes import change_note

TRAIN = ("train", "t.csv", "--run-dir", "run", "--epochs", 2, "--net.width", 8)
WRITTEN = ("run.json", "metrics.jsonl", "timing.jsonl", "network.safetensors", "checkpoint.pt",
           "checkpoint.previous.pt", "report.html", "left_out.tsv")  # fmt: skip
OPENED = ("run.json", "metrics.jsonl", "timing.jsonl", "network.safetensors", "checkpoint.pt")
LINKS = {"symbolic": Path.symlink_to, "hard": Path.hardlink_to}


@pytest.fixture
def victim(tmp_path) -> Path:
    """A file of the user's own that a stranger would like to write."""
    file = tmp_path / "outside" / "bashrc"
    file.parent.mkdir()
    file.write_text("mine\n")
    return file


def plant(folder: Path, names, victim: Path, kind: str) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        for place in (folder / name, folder / f".{name}.draft"):
            place.unlink(missing_ok=True)
            LINKS[kind](place, victim)


# Links


@pytest.mark.parametrize("kind", LINKS)
def test_training_writes_through_no_link_in_its_directory(kind, run, victim):  # noqa: F811
    shutil.rmtree(run)
    plant(run, WRITTEN, victim, kind)
    for name in ("run.json", "checkpoint.pt", "checkpoint.previous.pt"):  # these are read first, and refused
        (run / name).unlink()
    assert agrlearn(*TRAIN, folder=run.parent).code == 0
    assert victim.read_text() == "mine\n"
    assert not any((run / name).is_symlink() for name in WRITTEN)
    assert agrlearn("predict", "run", "t.csv", folder=run.parent).code == 0


@pytest.mark.parametrize("kind", LINKS)
def test_a_run_that_goes_on_writes_through_no_link(kind, run, victim):  # noqa: F811
    plant(run, ["metrics.jsonl", "timing.jsonl", "network.safetensors", "report.html"], victim, kind)
    assert agrlearn(*TRAIN, folder=run.parent).code == 0
    assert agrlearn(*TRAIN, "--fresh", folder=run.parent).code == 0
    assert victim.read_text() == "mine\n"


@pytest.mark.parametrize("kind", LINKS)
def test_predictions_go_into_the_working_directory_and_through_no_link(kind, run, victim):  # noqa: F811
    names = ["predictions.csv", "predictions.left_out.tsv", "report.html"]
    for folder in (run, run.parent):
        plant(folder, names, victim, kind)
    before = {path.name: path.lstat().st_ino for path in run.iterdir()}
    (run.parent / "bad.csv").write_text("x,z,label\n1,2,a\nq,2,b\n")
    assert agrlearn("predict", "run", "bad.csv", "--skip-bad", folder=run.parent).code == 0
    assert agrlearn("report", "run", folder=run.parent).code == 0
    assert victim.read_text() == "mine\n"
    assert {path.name: path.lstat().st_ino for path in run.iterdir()} == before
    assert (run.parent / "predictions.csv").read_text().startswith("row,label,prediction")


@pytest.mark.parametrize("kind", LINKS)
def test_an_output_named_within_a_run_directory_goes_through_no_link(kind, run, victim):  # noqa: F811
    for name in ("p.csv", "r.html", "m.onnx"):
        LINKS[kind](run / name, victim)
    assert agrlearn("predict", "run", "t.csv", "--output", "run/p.csv", folder=run.parent).code == 0
    assert agrlearn("report", "run", "--output", "run/r.html", folder=run.parent).code == 0
    assert agrlearn("export", "run", "run/m.onnx", folder=run.parent, patience=120).code == 0
    assert victim.read_text() == "mine\n"


def test_many_runs_are_not_led_out_of_their_folder(run, victim):  # noqa: F811
    (run.parent / "sweep.toml").write_text('data = "t.csv"\nseeds = 1\n[recipe]\nepochs = 1\n')
    (run.parent / "many").mkdir()
    (run.parent / "many" / "base-seed0").symlink_to(victim.parent)
    outcome = agrlearn("sweep", "sweep.toml", "--run-dir", "many", folder=run.parent)
    assert outcome.code == 2
    assert "Expected a folder, got a link" in outcome.out
    assert [path.name for path in victim.parent.iterdir()] == ["bashrc"]


def test_a_file_is_replaced_and_its_other_names_stay(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    (tmp_path / "c").symlink_to(tmp_path / "a")
    write_atomically(tmp_path / "b", "new")
    write_atomically(tmp_path / "c", iter(["ne", "w"]))
    assert [(tmp_path / name).read_text() for name in "abc"] == ["old", "new", "new"]
    assert not (tmp_path / "c").is_symlink()


def test_an_output_that_the_user_names_may_be_a_link_of_theirs_or_in_a_new_folder(tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "deep" / "real.csv")
    write_output(tmp_path / "link.csv", "content")
    assert (tmp_path / "deep" / "real.csv").read_text() == "content"
    assert (tmp_path / "link.csv").is_symlink()


def test_spreadsheets_run_no_formula_from_a_class_or_a_file(tmp_path):
    for name in ("=1+1", "@x", "+cmd", "-x", "plain", "-1"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / "pets" / name / f"{number}.png")
    options = ("--image-size", 8, "--net.width", 2, "--epochs", 1, "--run-dir", "run", "--no-report")
    assert agrlearn("train", "pets", *options, folder=tmp_path).code == 0
    assert agrlearn("predict", "run", "pets", folder=tmp_path).code == 0
    rows = list(csv.reader((tmp_path / "predictions.csv").open()))
    assert {"'=1+1", "'@x", "'+cmd", "'-x", "plain", "-1"} <= set(rows[0])
    assert all(cell == "-1" or cell[:1] not in ("=", "+", "-", "@", "\t", "\r") for row in rows for cell in row)
    assert spreadsheet_cell("-1.5e-3") == "-1.5e-3"


# Pipes and devices


def pipe(file: Path) -> None:
    file.unlink(missing_ok=True)
    os.mkfifo(file)


def endless(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [pipe, endless])
@pytest.mark.parametrize("name", OPENED)
def test_a_pipe_or_a_device_in_a_run_directory_keeps_nobody_waiting(name, make, run):  # noqa: F811
    make(run / name)
    for command in (("predict", "run", "t.csv"), ("report", "run"), TRAIN):
        outcome = agrlearn(*command, folder=run.parent, patience=20)
        assert outcome.code in (0, 2), (command, outcome)
        assert "Traceback" not in outcome.err
        assert outcome.peak < GIBIBYTE


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.npz", "t.parquet"])
def test_a_pipe_or_a_device_as_data_is_refused(name, run):  # noqa: F811
    for make in (pipe, endless):
        make(run.parent / name)
        refused(agrlearn("predict", "run", name, folder=run.parent, patience=20), name)


# Memory


def test_objects_of_another_size_than_the_networks_are_refused_before_they_are_made(run):  # noqa: F811
    (run.parent / "pets").mkdir()
    for number in range(200):
        Image.new("RGB", (4, 4)).save(run.parent / "pets" / f"{number}.png")
    change_note(run, source="pets", preparation={"kind": "images", "size": 4096})
    refused(agrlearn("predict", "run", "pets", folder=run.parent), "shape (3, 4096, 4096)")
    assert agrlearn("report", "run", folder=run.parent).peak < GIBIBYTE


def test_tiny_images_are_not_blown_up_to_gigabytes(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(100):
            Image.new("RGB", (4, 4)).save(tmp_path / "pets" / name / f"{number}.png")
    refused(agrlearn("train", "pets", "--image-size", 4096, folder=tmp_path), "GB in memory", "smaller size")


def test_an_enormous_name_of_a_class_is_refused(run):  # noqa: F811
    retell(run / "network.safetensors", class_names=json.dumps(["a" * 20_000_000, "b"]))
    refused(agrlearn("predict", "run", "t.csv", folder=run.parent), "network.safetensors")


def test_an_expanded_tensor_in_a_checkpoint_is_refused(run):  # noqa: F811
    file = run / "checkpoint.pt"
    state = torch.load(io.BytesIO(file.read_bytes()[32:]), weights_only=True)
    state["optimizer"]["state"][0]["momentum_buffer"] = torch.zeros(1).expand(4 * 10**9)
    file.write_bytes(signed(saved(state)))
    (run / "checkpoint.previous.pt").unlink()
    refused(agrlearn(*TRAIN, folder=run.parent), "checkpoint", "--fresh")


def test_nested_cells_are_refused_row_by_row(tmp_path):
    line = '{"x": [' + ",".join(["{}"] * 100_000) + '], "label": 1}\n'
    (tmp_path / "t.jsonl").write_text(line * 200)
    refused(agrlearn("train", "t.jsonl", folder=tmp_path), "row 1", "instead of a text or a number")
    outcome = agrlearn("train", "t.jsonl", "--skip-bad", folder=tmp_path, patience=120)
    assert (outcome.code, outcome.peak < GIBIBYTE) == (2, True)


@pytest.mark.parametrize("place", ["network", "option", "column"])
def test_enormous_names_keep_nobody_waiting(place, run):  # noqa: F811
    long = "wx" * 5_000_000
    if place == "column":
        columns = [{"column": name, "kind": "number", "median": 0.0, "gaps": False} for name in (long, "z")]
        change_note(run, preparation={"kind": "table", "columns": columns, "label": "label"})
    else:
        told = {"network": "mlp", "object_shape": [2], "num_classes": 2, "fold": 2, "width": 8}
        told |= {"network": long} if place == "network" else {long: 3}
        retell(run / "network.safetensors", description=json.dumps(told))
    sentence = refused(agrlearn("predict", "run", "t.csv", folder=run.parent))
    assert len(sentence) < 1000


@pytest.mark.slow
def test_many_classes_are_predicted_in_little_memory(tmp_path):
    rows, classes = 20_000, 10_000
    numpy.savez(tmp_path / "t.npz", x=numpy.random.rand(rows, 2), y=numpy.arange(rows) % classes)
    options = ("--epochs", 1, "--net.width", 4, "--batch-size", 512, "--validation-fraction", 0, "--no-report")
    assert agrlearn("train", "t.npz", "--run-dir", "run", *options, folder=tmp_path, patience=300).code == 0
    outcome = agrlearn("predict", "run", "t.npz", folder=tmp_path, patience=900)
    assert outcome.code == 0
    assert outcome.peak < GIBIBYTE
    with (tmp_path / "predictions.csv").open() as file:
        assert sum(1 for _ in file) == rows + 1


def test_a_network_of_thousands_of_layers_is_refused_at_once(run):  # noqa: F811
    told = {"network": "wide-resnet", "object_shape": [3, 8, 8], "num_classes": 2, "fold": 2, "depth": 16384}
    retell(run / "network.safetensors", description=json.dumps(told))
    refused(agrlearn("predict", "run", "t.csv", folder=run.parent), "larger network", seconds=10)


# Numbers


@pytest.mark.parametrize("name", ["head.bias", "shared.0.mean"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_network_of_bad_numbers_is_refused(value, name, run):  # noqa: F811
    with safe_open(run / "network.safetensors", framework="pt") as file:
        header, weights = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    weights[name][-1] = value
    save_file(weights, run / "network.safetensors", header)
    for command in ("predict", "evaluate"):
        refused(agrlearn(command, "run", "t.csv", folder=run.parent), "NaN or infinite")
    assert not (run.parent / "predictions.csv").exists()
    outcome = agrlearn("report", "run", folder=run.parent)
    assert (outcome.code, "NaN or infinite" in outcome.out) == (0, True)


# One reader for each file


RUN_FILES = {
    "a list for alpha": lambda told: told["identity"]["recipe"].update(alpha=[]),
    "no name of the network": lambda told: told["identity"]["network"].pop("network"),
    "no network": lambda told: told["identity"].pop("network"),
    "a fold of 0": lambda told: told["identity"]["network"].update(fold=0),
    "objects for versions": lambda told: told.update(versions={"torch": {}}),
    "an endless name": lambda told: told["identity"]["network"].update(network="x" * 10**6),
}


@pytest.mark.parametrize("kind", RUN_FILES)
def test_a_run_file_of_wrong_types_is_refused_by_every_command(kind, run):  # noqa: F811
    told = good(run, "run.json")
    RUN_FILES[kind](told)
    (run / "run.json").write_text(json.dumps(told))
    for command in (("info", "run"), ("predict", "run", "t.csv"), ("report", "run")):
        refused(agrlearn(*command, folder=run.parent), "run.json")


TIMES = [
    '{"epoch": 1, "seconds": 1' + "0" * 400 + "}",
    '{"epoch": 1, "seconds": -Infinity}',
    '{"epoch": 1}',
    "[]",
    "{}",
]


@pytest.mark.parametrize("line", TIMES, ids=lambda line: line[:30])
def test_times_that_cannot_be_are_refused_and_written_anew(line, run):  # noqa: F811
    (run / "timing.jsonl").write_text(line + "\n")
    refused(agrlearn("report", "run", folder=run.parent), "timing.jsonl")
    assert agrlearn(*TRAIN, folder=run.parent).code == 0
    assert agrlearn("report", "run", folder=run.parent).code == 0


def test_a_line_of_times_that_was_cut_off_is_written_anew_when_the_run_goes_on(run):  # noqa: F811
    whole = (run / "timing.jsonl").read_text().splitlines(keepends=True)
    (run / "timing.jsonl").write_text(whole[0] + whole[1][:9])
    assert agrlearn(*TRAIN, folder=run.parent).code == 0
    assert (run / "timing.jsonl").read_text() == whole[0]
    assert agrlearn("report", "run", folder=run.parent).code == 0


@pytest.mark.parametrize("change", [{"objects_seen": 1}, {"objects_seen": 0}, {"epoch": 10**20}, {"loss": 10**400}])
def test_records_that_cannot_be_get_a_sentence_or_a_report(change, run):  # noqa: F811
    lines = [json.loads(line) | change for line in (run / "metrics.jsonl").read_text().splitlines()]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for command in (("info", "run"), ("report", "run")):
        outcome = agrlearn(*command, folder=run.parent)
        assert outcome.code in (0, 2), outcome
        assert "Traceback" not in outcome.err


STATES = {
    "texts in the totals": lambda state: state["totals"].update(groups="x"),
    "vectors in the totals": lambda state: state["totals"].update(loss=torch.zeros(5)),
    "whole numbers in the totals": lambda state: state["totals"].update(loss=torch.tensor(3)),
    "texts in the optimizer": lambda state: state["optimizer"]["state"][0].update(momentum_buffer="x"),
    "strange averages": lambda state: state["optimizer"]["state"][0].update(other=torch.zeros(())),
    "averages of another weight": lambda state: state["optimizer"]["state"].update({999: {}}),
    "a text for a scale": lambda state: state.update(precision={"scale": "x"}),
}


@pytest.mark.parametrize("kind", STATES)
def test_a_checkpoint_of_wrong_types_is_refused(kind, run):  # noqa: F811
    file = run / "checkpoint.pt"
    state = torch.load(io.BytesIO(file.read_bytes()[32:]), weights_only=True)
    STATES[kind](state)
    file.write_bytes(signed(saved(state)))
    refused(agrlearn(*TRAIN, folder=run.parent), "the checkpoint does not fit this run")


def test_the_optimizers_settings_are_those_of_the_recipe_whatever_a_checkpoint_says(run):  # noqa: F811
    before = (run / "network.safetensors").read_bytes()
    file = run / "checkpoint.pt"
    state = torch.load(io.BytesIO(file.read_bytes()[32:]), weights_only=True)
    state["optimizer"]["param_groups"][0]["momentum"] = "x"
    file.write_bytes(signed(saved(state)))
    assert agrlearn(*TRAIN, folder=run.parent).code == 0
    assert (run / "network.safetensors").read_bytes() == before


@pytest.mark.parametrize("place", ["/dev/null", "run", "t.csv/model.onnx"])
def test_an_export_to_what_is_no_file_gets_a_sentence(place, run):  # noqa: F811
    refused(agrlearn("export", "run", place, folder=run.parent, patience=120), seconds=120)


def test_equal_runs_leave_equal_bytes(run):  # noqa: F811
    digests = set()
    for name in ("a", "b", "c"):
        assert agrlearn(*TRAIN[:3], name, *TRAIN[4:], folder=run.parent).code == 0
        digests.add(hashlib.sha256((run.parent / name / "network.safetensors").read_bytes()).hexdigest())
    assert len(digests) == 1
