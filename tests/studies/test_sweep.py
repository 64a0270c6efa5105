"""Sweeps: the file, and many trials on either engine through crashes and kills."""

import inspect
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest
from PIL import Image

from agrlearn.cli import main
from agrlearn.cli.train import train
from agrlearn.errors import RecipeError
from agrlearn.runs.jobs import JobDiedError, Resources, run_jobs
from agrlearn.runs.run import Run
from agrlearn.runs.spec import RunSpec
from agrlearn.runs.train import open_data
from agrlearn.studies.sweep import read_sweep, summarize_sweep
from agrlearn.training.checkpoint import read_records

SWEEP = """
data = "digits"
seeds = 2
network = "{network}"
recipe.epochs = {epochs}
recipe.learning_rate = 0.05
recipe.evaluate_every = 5
[grid]
fold = [1, 2, 4]
"""
CRASHES_AT_FIRST = """
import os
from pathlib import Path

from torch import nn

marker = Path(__file__).with_name("crashed")


def make(num_classes, object_shape):
    if not marker.exists():
        marker.touch()
        os._exit(3)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, num_classes))
"""


def write(folder, text):
    file = folder / "sweep.toml"
    file.write_text(text)
    return file


def test_a_grid_is_every_combination_with_every_trial_and_seed(tmp_path):
    file = write(
        tmp_path,
        """
        data = "digits"
        seeds = [3, 5]
        recipe.epochs = 7
        net.width = 8
        [grid]
        fold = [1, 2]
        recipe.alpha = [0.0, 0.5]
        [[trials]]
        name = "narrow"
        [[trials]]
        net.width = 16
        recipe.learning_rate = 0.2
        """,
    )
    with pytest.raises(RecipeError, match="two trials are called 'narrow'"):
        read_sweep(file, tmp_path)
    trials = read_sweep(write(tmp_path, file.read_text().replace('name = "narrow"', "net.width = 4")), tmp_path)
    assert len(trials) == 2 * 2 * 2 * 2
    assert len({trial.run_dir for trial in trials}) == 16
    last = trials[-1]
    assert (last.spec.seed, last.spec.fold, last.spec.net, last.spec.recipe.alpha) == (5, 2, {"width": 16}, 0.5)
    assert (last.spec.recipe.epochs, last.spec.recipe.learning_rate) == (7, 0.2)
    assert last.label == "width=16 learning_rate=0.2 alpha=0.5 fold=2"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("data = ", "is not TOML"),
        ("fold = 2", "data: field required"),
        ('data = "digits"\nwidth = 3', "there is no setting 'width'; the settings are: data, image_size"),
        ('data = "digits"\nsedes = 3', "there is no setting 'sedes'; did you mean 'seeds'?"),
        ('data = "digits"\nseeds = 0', "seeds is a number of seeds"),
        ('data = "digits"\nseeds = "all"', "seeds is a number of seeds"),
        ('data = "digits"\n[grid]\nfold = 2', "grid.fold is a list"),
        ('data = "digits"\ngrid = 3', "grid is a table"),
        ('data = "digits"\n[grid]\nfold = [0]', "fold: input should be greater than or equal to 1, got 0"),
        ('data = "digits"\nrecipe.epochs = -1', "epochs"),
        ('data = "digits"\nrecipe = 4', "recipe is a table"),
        ('data = "digits"\nrecipe.seed = 4', "seeds stand at the top"),
        ('data = "digits"\n[[trials]]\nname = "+mixup"\n[[trials]]\nname = "-mixup"', "would share the directory"),
    ],
)
def test_a_file_that_cannot_work_gets_a_sentence(tmp_path, text, sentence):
    with pytest.raises(RecipeError, match=sentence):
        read_sweep(write(tmp_path, text), tmp_path)
    with pytest.raises(RecipeError, match="there is no file"):
        read_sweep(tmp_path / "missing.toml", tmp_path)


def double_or_fail(job):
    number, folder = job
    with (Path(folder) / str(number)).open("a") as tries:
        tries.write("x")
    if number == 3:
        raise ValueError("three")
    if number == 4:
        os._exit(9)
    return 2 * number


@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_what_fails_or_dies_is_told_and_the_others_go_on(engine, tmp_path):
    outcomes = {}
    jobs = [(number, str(tmp_path)) for number in (1, 2, 3, 4, 5)]
    done = lambda job, outcome: outcomes.__setitem__(job[0], outcome)  # noqa: E731
    run_jobs(jobs, double_or_fail, Resources(engine, workers=2, retries=1), on_done=done)
    assert isinstance(outcomes.pop(3), ValueError)
    assert isinstance(outcomes.pop(4), JobDiedError)
    assert outcomes == {1: 2, 2: 4, 5: 10}
    # Only a process that died is tried again: an error would come again.
    assert [(tmp_path / str(number)).read_text() for number in (3, 4)] == ["x", "xx"]


def undisturbed_table(tmp_path):
    folder = tmp_path / "undisturbed"
    folder.mkdir()
    (folder / "crashing.py").write_text(CRASHES_AT_FIRST)
    (folder / "crashed").touch()
    file = write(folder, SWEEP.format(network=f"{folder / 'crashing.py'}:make", epochs=30))
    main(["sweep", str(file), "--run-dir", str(folder / "runs")])
    return (folder / "runs" / "sweep.md").read_text()


def finished_runs(folder):
    """By name, when each of them was finished."""
    files = [file for file in folder.glob("*/run.json") if json.loads(file.read_text())["result"] is not None]
    return {file.parent.name: file.stat().st_mtime_ns for file in files}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_a_sweep_with_a_crash_and_a_killed_driver_ends_in_the_table_of_an_undisturbed_one(tmp_path, engine):
    (tmp_path / "crashing.py").write_text(CRASHES_AT_FIRST)
    file = write(tmp_path, SWEEP.format(network=f"{tmp_path / 'crashing.py'}:make", epochs=30))
    options = [str(file), "--run-dir", str(tmp_path / "runs"), "--workers", "2", "--engine", engine]
    driver = subprocess.Popen([sys.executable, "-m", "agrlearn", "sweep", *options], stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 240
    while len(list((tmp_path / "runs").glob("*/network.safetensors"))) < 2:
        assert driver.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    done = finished_runs(tmp_path / "runs")
    assert 1 <= len(done) < 6
    time.sleep(5)  # Ray takes a moment to end what the driver had started

    main(["sweep", *options])
    assert (tmp_path / "crashed").exists()
    again = finished_runs(tmp_path / "runs")
    assert len(again) == 6
    assert all(again[name] == when for name, when in done.items())  # what was done was not run again
    assert (tmp_path / "runs" / "sweep.md").read_text() == undisturbed_table(tmp_path)


def run_sweep(file, folder, *options):
    with pytest.raises(SystemExit) as leaving:
        main(["sweep", str(file), "--run-dir", str(folder), "--retries", "0", "--no-report", *options])
        raise SystemExit(0)
    return leaving.value.code


def test_a_sweep_whose_settings_or_data_changed_is_not_shown_as_done(tmp_path, capsys):
    random = numpy.random.default_rng(0)
    numpy.savez(tmp_path / "d.npz", x=random.normal(size=(40, 4)), y=numpy.arange(40) % 2)
    text = f'data = "{tmp_path / "d.npz"}"\nrecipe.epochs = 1\nfold = 1\n'
    file, runs = write(tmp_path, text), tmp_path / "runs"
    assert run_sweep(file, runs) == 0
    first = (runs / "sweep.md").read_text()
    table = json.loads((runs / "sweep.json").read_text(), parse_constant=pytest.fail)
    assert table[0]["error"]["standard_error"] is None  # of one run
    os.utime(tmp_path / "d.npz")  # touched, not changed
    assert run_sweep(file, runs) == 0
    assert (runs / "sweep.md").read_text() == first
    numpy.savez(tmp_path / "d.npz", x=random.normal(size=(40, 4)), y=numpy.arange(40) % 2)
    for change in (text, text.replace("epochs = 1", "epochs = 2")):
        file.write_text(change)
        capsys.readouterr()
        assert run_sweep(file, runs) == 2
        assert "--fresh" in capsys.readouterr().out
        assert (runs / "sweep.md").read_text() == first
        assert run_sweep(file, runs, "--fresh") == 0
        second = (runs / "sweep.md").read_text()
        assert second != first
        first = second


def test_a_sweep_over_a_network_whose_file_has_changed_is_not_shown_as_done(tmp_path, capsys):
    layers = "nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))"
    model = f"from torch import nn\n\n\ndef make(num_classes):\n    return {layers}\n"
    (tmp_path / "mine.py").write_text(model)
    network = f"{tmp_path / 'mine.py'}:make"
    file = write(tmp_path, f'data = "digits"\nnetwork = "{network}"\nrecipe.epochs = 1\nfold = 1\n')
    assert run_sweep(file, tmp_path / "runs") == 0
    (tmp_path / "mine.py").write_text(model.replace("nn.Flatten()", "nn.Flatten(), nn.Tanh()"))
    assert run_sweep(file, tmp_path / "runs") == 2
    assert "its network code is" in capsys.readouterr().out
    assert run_sweep(file, tmp_path / "runs", "--fresh") == 0


def test_a_trial_with_patience_is_judged_by_the_epoch_that_it_keeps_on_other_objects(tmp_path):
    random = numpy.random.default_rng(0)
    numpy.savez(tmp_path / "noise.npz", x=random.normal(size=(60, 8)), y=random.integers(0, 2, 60))
    recipe = "recipe.epochs = 60\nrecipe.patience = 5\n"
    file = write(tmp_path, f'data = "{tmp_path / "noise.npz"}"\nvalidation_fraction = 0.3\nfold = 1\n{recipe}')
    assert run_sweep(file, tmp_path / "runs") == 0
    trial = read_sweep(file, tmp_path / "runs")[0]
    records = read_records(trial.run_dir)
    kept = min(records, key=lambda record: record.validation_nll)
    assert kept.epoch < records[-1].epoch
    line = summarize_sweep([trial])[0]
    data = open_data(trial.spec)
    scores = Run.open(trial.run_dir).evaluate(str(tmp_path / "noise.npz"))
    assert scores.objects == len(data.test)
    assert len(data.train) + len(data.test) + len(data.stopping) == 60
    assert (line.error.value, line.nll.value, line.loss.value) == pytest.approx(
        (100 * scores.error, scores.nll, kept.loss)
    )


def test_a_sweep_runs_and_a_failed_trial_is_reported(tmp_path, capsys):
    text = SWEEP.format(network="small-cnn", epochs=1).replace("seeds = 2", "seeds = 1")
    file = write(tmp_path, text.replace("fold = [1, 2, 4]", "fold = [1, 2000]"))
    with pytest.raises(SystemExit) as leaving:
        main(["sweep", str(file), "--run-dir", str(tmp_path / "runs"), "--retries", "0"])
    assert leaving.value.code == 2
    told = capsys.readouterr()
    assert "failed: fold=2000, seed 0: fold=2000 is larger than the data set" in told.out
    assert "1 of 2 trials failed" in told.err
    assert "| fold=1 | 1 |" in (tmp_path / "runs" / "sweep.md").read_text()


def test_while_it_runs_a_sweep_shows_errors_on_the_validation_part_alone(tmp_path, capsys):
    text = SWEEP.format(network="small-cnn", epochs=1).replace("seeds = 2", "seeds = 1")
    file = write(tmp_path, text.replace("fold = [1, 2, 4]", "fold = [1]").replace("recipe.evaluate_every = 5", ""))
    assert run_sweep(file, tmp_path / "runs") == 0
    record = read_records(read_sweep(file, tmp_path / "runs")[0].run_dir)[-1]
    told = capsys.readouterr().out
    assert f"seed 0: epoch 1 of 1, validation error {record.validation_error:.2%} (" in told
    assert "test error" not in told


def test_a_sweep_takes_every_option_of_train_that_decides_what_is_trained():
    options = set(inspect.signature(train).parameters)
    aside = {"run_dir", "fresh", "report", "data_dir", "device", "defaults"}  # where and how, and what is left unsaid
    assert set(RunSpec.model_fields) >= options - aside


def test_a_sweep_over_sizes_of_images_and_bad_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (9, 9), (60 * number, 0, 0)).save(tmp_path / "pets" / name / f"{number}.png")
    (tmp_path / "pets" / "cat" / "broken.png").write_text("no image")
    text = 'data = "pets"\nskip_bad = true\nnet.width = 2\nrecipe.epochs = 1\n[grid]\nimage_size = [8, 12]\n'
    main(["sweep", str(write(tmp_path, text)), "--run-dir", "runs", "--no-report"])
    sizes = [Run.open(folder).data.preparation["size"] for folder in sorted((tmp_path / "runs").glob("*-seed0"))]
    assert sorted(sizes) == [8, 12]
