"""Processes to harm: forked from one that has imported everything, so that each starts at once."""

import contextlib
import multiprocessing
import os
import resource
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["agrlearn.cli", "agrlearn.runs.run", "agrlearn.training.loop", "agrlearn.reporting.make", "PIL.Image"]
)
GIBIBYTE = 2**30
_RUNAWAY = 6 * GIBIBYTE  # where a process that fails its test is stopped, before the machine suffers


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int | None
    """None if it had to be killed."""
    out: str
    err: str
    seconds: float
    peak: int
    """The most memory it held, in bytes."""


def agrlearn(*arguments: object, folder: Path, patience: float = 60.0) -> Outcome:
    """Run a command in a process of its own, with `folder` as the current directory."""
    mine, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_command, args=(theirs, [str(argument) for argument in arguments], folder))
    begun = time.perf_counter()
    process.start()
    theirs.close()
    code, peak = None, 0
    with contextlib.suppress(EOFError):
        if mine.poll(patience):
            code, peak = mine.recv()
    process.kill()
    process.join()
    out, err = ((folder / name).read_text(errors="replace") for name in ("stdout.txt", "stderr.txt"))
    return Outcome(code, out, err, time.perf_counter() - begun, peak)


def _command(line, arguments, folder):
    os.chdir(folder)
    for descriptor, name in ((1, "stdout.txt"), (2, "stderr.txt")):
        with open(name, "w") as file:  # noqa: PTH123
            os.dup2(file.fileno(), descriptor)
    resource.setrlimit(resource.RLIMIT_AS, (_RUNAWAY, _RUNAWAY))
    from agrlearn.cli import main

    try:
        main(arguments)
        code = 0
    except SystemExit as leave:
        code = leave.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    line.send((code, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))


def refused(outcome: Outcome, *words: str, seconds: float = 20.0) -> str:
    """The one sentence with which a command refused its input: exit code 2, in time, within 1 GiB."""
    assert outcome.code == 2, outcome
    sentences = [line for line in outcome.err.splitlines() if line.startswith("agrlearn: ")]
    assert len(sentences) == 1, outcome.err
    assert "Traceback" not in outcome.err
    assert outcome.peak < GIBIBYTE, f"{outcome.peak / GIBIBYTE:.2f} GiB"
    assert outcome.seconds < seconds, outcome.seconds
    for word in words:
        assert word in sentences[0], sentences[0]
    return sentences[0]
