"""Run directories that cannot be used: a sentence and exit code 2."""

import os
import signal
import subprocess
import sys

import pytest
from lightning_fabric import Fabric

from agrlearn.training.checkpoint import RunDirectory
from agrlearn.training.identity import identity_of
from agrlearn.training.recipe import Recipe
from tests.faults.processes import CONTEXT, agrlearn, refused
from tests.faults.runs import data, names_in, network
from tests.faults.test_full_disk import private_mounts

TABLE = "x,z,label\n" + "".join(f"{number % 7},{number % 5},{'ab'[number % 2]}\n" for number in range(40))
QUICK = ("--epochs", 1, "--net.width", 4)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    return tmp_path


def hold(folder, line):
    """Take a run directory, as a run that is under way does."""
    engine = Fabric(devices=1)
    run = RunDirectory(folder, lambda: identity_of(network(), data(), None, Recipe(epochs=1), engine, None))
    run.open()
    line.send("held")
    signal.pause()


def test_a_second_process_on_a_run_directory_is_told_so_and_harms_nothing(folder):
    mine, theirs = CONTEXT.Pipe()
    first = CONTEXT.Process(target=hold, args=(folder / "run", theirs))
    first.start()
    theirs.close()
    assert mine.recv() == "held"
    before = {path.name: path.read_bytes() for path in (folder / "run").iterdir()}
    refused(agrlearn("train", "t.csv", "--run-dir", "run", *QUICK, folder=folder), "another process is training in run")
    refused(
        agrlearn("train", "t.csv", "--run-dir", "run", "--fresh", *QUICK, folder=folder),
        "another process is training in run",
    )
    assert {path.name: path.read_bytes() for path in (folder / "run").iterdir()} == before
    first.kill()  # the lock goes with the process
    first.join()
    assert agrlearn("train", "t.csv", "--run-dir", "run", "--fresh", *QUICK, folder=folder).code == 0


def test_a_missing_parent_is_made(folder):
    assert agrlearn("train", "t.csv", "--run-dir", "a/b/run", *QUICK, folder=folder).code == 0
    assert "network.safetensors" in names_in(folder / "a/b/run")


@pytest.mark.parametrize("run", ["t.csv", "t.csv/run", "/proc/run", "/dev/null", "x" * 300, "run/" * 2000])
def test_a_path_that_cannot_be_a_directory_gets_a_sentence(run, folder):
    refused(agrlearn("train", "t.csv", "--run-dir", run, *QUICK, folder=folder))
    assert (folder / "t.csv").read_text() == TABLE


@pytest.mark.parametrize("name", ["run.json", "checkpoint.pt", "metrics.jsonl", "network.safetensors"])
def test_a_directory_in_place_of_a_file_gets_a_sentence(name, folder):
    (folder / "run" / name / "inner").mkdir(parents=True)
    refused(agrlearn("train", "t.csv", "--run-dir", "run", *QUICK, folder=folder), name)


@pytest.mark.slow
def test_a_directory_that_cannot_be_written_gets_a_sentence(folder):
    """The superuser may write everywhere but into a read-only mount, so there it is one."""
    (folder / "locked").mkdir()
    command = [sys.executable, "-m", "agrlearn", "train", "t.csv", "--run-dir", "locked/run", *map(str, QUICK)]
    if os.geteuid() == 0:
        if not private_mounts():
            pytest.skip("the superuser may write everywhere, and this system does not allow read-only mounts")
        mount = 'mount -t tmpfs -o ro none locked && exec "$0" "$@"'
        command = ["unshare", "--mount", "sh", "-c", mount, *command]
    else:
        (folder / "locked").chmod(0o555)
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("agrlearn: locked/run: ")
    assert len(result.stderr.splitlines()) == 1
    assert names_in(folder / "locked") == set()
