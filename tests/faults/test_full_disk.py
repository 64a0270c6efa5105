"""A disk that fills up: a sentence, the last checkpoint stays good, and the run goes on when there is room again."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.processes import CONTEXT
from tests.faults.runs import FILES, last_checkpoint, names_in, train, weights_of

ROOT = Path(__file__).parents[2]


def train_within(folder, kind, largest_file):
    """Train where no file can become larger; end with exit code 3 if that hurts."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    try:
        train(folder, kind)
    except OSError as error:
        assert error.filename  # the sentence says which file
        os._exit(3)


def run(target, *arguments) -> int | None:
    process = CONTEXT.Process(target=target, args=arguments)
    process.start()
    process.join(60)
    return process.exitcode


@pytest.mark.parametrize("kind", ["short", pytest.param("with patience", marks=pytest.mark.slow)])
def test_a_checkpoint_that_has_no_room_leaves_the_one_before_and_no_draft(kind, tmp_path):
    assert run(train, tmp_path / "whole", kind) == 0
    size = (tmp_path / "whole" / "checkpoint.pt").stat().st_size
    came_to = []
    # Checkpoints grow with the records, so that the second limit lets some of them pass.
    for limit in (size // 50, size - 1):
        folder = tmp_path / str(limit)
        assert run(train_within, folder, kind, limit) == 3
        assert names_in(folder) <= FILES
        state = last_checkpoint(folder)
        came_to.append(0 if state is None else state["step"] + 1000 * state["epoch"])
        assert run(train, folder, kind) == 0
        assert weights_of(folder) == weights_of(tmp_path / "whole")
        assert names_in(folder) == FILES
    assert came_to[0] == 0 < came_to[1]


def private_mounts() -> bool:
    """Whether a process may have mounts of its own."""
    unshare = shutil.which("unshare")
    command = [unshare or "", "--mount", "mount", "-t", "tmpfs", "-o", "size=64k", "none", "/tmp"]
    return unshare is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0


IN_A_SMALL_ROOM = """
import os, pathlib
from agrlearn.cli import main
from tests.faults.runs import FILES, last_checkpoint, names_in, weights_of

room, whole = pathlib.Path("room"), pathlib.Path("whole")

def command(folder):
    try:
        main(["train", "t.csv", "--run-dir", str(folder), "--epochs", "6", "--batch-size", "8", "--net.width", "64"])
    except SystemExit as leave:
        return leave.code or 0
    return 0

assert command(whole) == 0
size = (whole / "checkpoint.pt").stat().st_size
epochs = []
for checkpoints in (0.5, 1.5, 0.5, 1.2):
    (room / "ballast").unlink(missing_ok=True)
    space = os.statvfs(room)
    (room / "ballast").write_bytes(bytes(space.f_bavail * space.f_frsize - int(checkpoints * size)))
    assert command(room / "run") == 2
    assert names_in(room / "run") <= FILES
    state = last_checkpoint(room / "run")
    epochs.append(state and state["epoch"])
assert epochs == [None, 1, 1, 2], epochs
(room / "ballast").unlink()
assert command(room / "run") == 0
assert weights_of(room / "run") == weights_of(whole)
assert names_in(room / "run") == FILES
"""


@pytest.mark.slow
def test_a_run_on_a_disk_that_is_full_goes_on_when_there_is_room(tmp_path):
    if not private_mounts():
        pytest.skip("this system does not allow private mounts (unshare --mount), so there is no small disk to fill")
    (tmp_path / "room").mkdir()
    rows = "".join(f"{number % 7},{number % 5},{'ab'[number % 2]}\n" for number in range(200))
    (tmp_path / "t.csv").write_text(f"x,z,label\n{rows}")
    mount = 'mount -t tmpfs -o size=2m none room && exec "$0" "$@"'
    command = ["unshare", "--mount", "sh", "-c", mount, sys.executable, "-c", IN_A_SMALL_ROOM]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("No space left on device") == 4
    assert "Traceback" not in result.stderr
