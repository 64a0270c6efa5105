"""Run directories that were tampered with in any way: a sentence, in time and in little memory, and no other harm."""

import contextlib
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.faults.processes import CONTEXT, GIBIBYTE, agrlearn
from tests.faults.test_untrusted_files import saved, signed

pytestmark = pytest.mark.slow
MUTATIONS, PARTS = 2000, 20
SECONDS = 20.0
SMALL = ("--net.width", "8", "--batch-size", "8", "--no-report")
COMMANDS = (
    ["info", "run"], ["predict", "run", "t.csv"], ["predict", "run", "t.csv", "--protocol", "contextual"],
    ["evaluate", "run", "t.csv"], ["report", "run"], ["train", "t.csv", "--run-dir", "run", "--epochs", "3", *SMALL],
    ["train", "t.csv", "--run-dir", "run", "--epochs", "3", *SMALL, "--fresh"],
)  # fmt: skip
EXPORT = ["export", "run", "model.onnx"]
OUTPUTS = ("predictions.csv", "report.html", "model.onnx", "out.txt", "err.txt")
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**53, 2**63, 2**64, 10**30, 10**400, 0.5, -0.0, 1e308, float("nan"),
    float("inf"), -float("inf"), "", "x", "\0", "\ud800", "../../outside/mine", "/dev/zero", "outside/pipe", "=1+1",
    "a" * 10**6, "9" * 5000, [], [[]], [1], ["a"] * 1000, list(range(10**5)), {}, {"a": {}},
    {"kind": "images", "size": 4096}, "digits", "evil.py:make",
]  # fmt: skip


def mutate_value(value: Any, draw: random.Random) -> Any:
    """A JSON value with one place in it changed, removed or added to."""
    if isinstance(value, dict) and value and draw.random() < 0.8:
        key = draw.choice(list(value))
        match draw.randrange(8):
            case 0:
                return {name: part for name, part in value.items() if name != key}
            case 1:
                return {**value, draw.choice(["x", "", "fold", "depth", "width"]): draw.choice(ODD)}
            case _:
                return {**value, key: mutate_value(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.7:
        place = draw.randrange(len(value))
        return [*value[:place], mutate_value(value[place], draw), *value[place + 1 :]]
    return draw.choice(ODD)


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def mutate_json(file: Path, draw: random.Random) -> None:
    file.write_bytes(as_json(mutate_value(json.loads(file.read_text()), draw)))


def mutate_lines(file: Path, draw: random.Random) -> None:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    place = draw.randrange(len(lines))
    lines[place] = mutate_value(lines[place], draw)
    file.write_bytes(b"".join(as_json(line) + b"\n" for line in lines))


def mutate_network(file: Path, draw: random.Random) -> None:
    content = file.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    if draw.random() < 0.3:
        header = mutate_value(header, draw)
    else:
        told = header["__metadata__"]
        name = draw.choice(list(told))
        try:
            told[name] = json.dumps(mutate_value(json.loads(told[name]), draw))
        except ValueError:
            told[name] = str(draw.choice(ODD))
    text = as_json(header)
    file.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])


TENSORS = [
    lambda: torch.zeros(1).expand(10**10), lambda: torch.zeros(3), lambda: torch.tensor(float("nan")),
    lambda: torch.zeros(2, 2).to_sparse(), lambda: torch.sparse_coo_tensor([[0], [0]], [1.0], (10**6, 10**6)),
    lambda: torch.zeros(2, dtype=torch.int8), lambda: torch.zeros(0), lambda: torch.tensor("x" == "y"),
]  # fmt: skip


def mutate_state(value: Any, draw: random.Random) -> Any:
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        if draw.random() < 0.1:
            return {name: part for name, part in value.items() if name != key}
        return {**value, key: mutate_state(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.8:
        place = draw.randrange(len(value))
        return [*value[:place], mutate_state(value[place], draw), *value[place + 1 :]]
    return draw.choice(TENSORS)() if draw.random() < 0.6 else draw.choice(ODD)


def mutate_checkpoint(file: Path, draw: random.Random) -> None:
    state = torch.load(io.BytesIO(file.read_bytes()[32:]), weights_only=True)
    file.write_bytes(signed(saved(mutate_state(state, draw))))
    if draw.random() < 0.5:
        file.with_name("checkpoint.previous.pt").unlink()


def flip(file: Path, draw: random.Random) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(draw.choice([1, 1, 5, 50])):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(content[: draw.randrange(len(content))] if draw.random() < 0.3 else content)


def put_instead(file: Path, draw: random.Random) -> None:
    """Something else in the place of a file, or of the draft by which it would be replaced."""
    target = file.with_name(f".{file.name}.draft") if draw.random() < 0.3 else file
    outside = file.parents[1] / "outside" / "mine"
    target.unlink(missing_ok=True)
    match draw.randrange(9):
        case 0:
            target.symlink_to(outside)
        case 1:
            target.hardlink_to(outside)
        case 2:
            os.mkfifo(target)
        case 3:
            target.symlink_to(
                draw.choice(["/dev/zero", "/dev/null", "/dev/random", "/dev/tty", "/proc/self/mem", "nowhere"])
            )
        case 4:
            target.mkdir()
        case 5:
            target.write_bytes(b"")
        case 6:
            target.touch()
            os.truncate(target, draw.choice([2**20, 2**33]))
        case 7:
            target.write_bytes(draw.randbytes(draw.choice([1, 100, 10_000])))
        case 8:
            target.symlink_to(target.name)


MUTATORS = {
    "run.json": mutate_json, "metrics.jsonl": mutate_lines, "timing.jsonl": mutate_lines,
    "network.safetensors": mutate_network, "checkpoint.pt": mutate_checkpoint,
}  # fmt: skip
PLACES = (
    *MUTATORS,
    "checkpoint.previous.pt",
    "report.html",
    "left_out.tsv",
    "predictions.csv",
    "checkpoint.damaged.pt",
)


def mutate(run: Path, draw: random.Random) -> str:
    """Tamper with a run directory in one way, or a few; what was done."""
    done = []
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        name = draw.choice(list(MUTATORS))
        kind = draw.random() if _is_plain(run / name) else 1.0
        try:
            if kind < 0.6:
                MUTATORS[name](run / name, draw)
            elif kind < 0.7:
                flip(run / name, draw)
            else:
                name = draw.choice(PLACES)
                put_instead(run / name, draw)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError):
            continue  # what an earlier change has left cannot be changed in this way
        done.append(f"{name}: {kind:.2f}")
    return ", ".join(done)


def _is_plain(file: Path) -> bool:
    """Whether a file can be changed further: an earlier change may have put something else into its place."""
    return file.is_file() and not file.is_symlink() and file.stat().st_size < 2**21


def tree(folder: Path) -> dict[str, str]:
    """All files outside of the run directory, but for what commands write by their names."""
    found = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if inside.parts[0] != "run" and inside.parts[0] not in OUTPUTS:
            found[str(inside)] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return found


def suffer(line, folder: str, seed: int) -> None:
    """In a process of its own: tamper with a run, and try every command on it."""
    os.chdir(folder)
    draw = random.Random(seed)
    what = mutate(Path("run").resolve(), draw)
    line.send(("mutation", what))
    with open("out.txt", "w") as out, open("err.txt", "w") as err:  # noqa: PTH123
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_AS, (8 * GIBIBYTE, 8 * GIBIBYTE))
    from agrlearn.cli import main

    def too_long(number, frame):
        raise TimeoutError

    signal.signal(signal.SIGALRM, too_long)
    for command in [*COMMANDS, *([EXPORT] if seed % 20 == 0 else [])]:
        begun, code, trace = time.perf_counter(), 0, ""
        signal.alarm(int(4 * SECONDS))
        try:
            main(list(command))
        except SystemExit as leave:
            code = leave.code or 0
        except BaseException:
            trace = traceback.format_exc()
        signal.alarm(0)
        sys.stdout.flush()
        peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        line.send((" ".join(command), code, trace, time.perf_counter() - begun, peak))
    line.send(None)


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """A folder with data and a run on them that has one epoch to go, and a file of somebody's beside it."""
    folder = tmp_path_factory.mktemp("template")
    rows = "".join(f"{number % 7},{number % 5},{'ab'[number % 2]}\n" for number in range(40))
    (folder / "t.csv").write_text("x,z,label\n" + rows)
    (folder / "evil.py").write_text("import pathlib; pathlib.Path('ran').touch()")
    (folder / "outside").mkdir()
    (folder / "outside" / "mine").write_text("mine\n")
    assert agrlearn(*COMMANDS[-2], folder=folder).code == 0
    shutil.copy(folder / "run" / "checkpoint.previous.pt", folder / "run" / "checkpoint.pt")
    for name in ("stdout.txt", "stderr.txt"):
        (folder / name).unlink()
    return folder


@pytest.mark.parametrize("part", range(PARTS))
def test_any_tampered_run_directory_gets_sentences_and_harms_nothing(part, template, tmp_path):
    for number in range(part * MUTATIONS // PARTS, (part + 1) * MUTATIONS // PARTS):
        folder = tmp_path / str(number)
        shutil.copytree(template, folder)
        os.mkfifo(folder / "outside" / "pipe")
        before = tree(folder)
        mine, theirs = CONTEXT.Pipe()
        process = CONTEXT.Process(target=suffer, args=(theirs, str(folder), number))
        process.start()
        theirs.close()
        heard: list[Any] = []
        with contextlib.suppress(EOFError):
            while mine.poll(6 * SECONDS) and (news := mine.recv()) is not None:
                heard.append(news)
        process.kill()
        process.join()
        about = f"mutation {number}: {heard}"
        assert len(heard) == 1 + len(COMMANDS) + (number % 20 == 0), about
        for command, code, trace, seconds, peak in heard[1:]:
            assert not trace, f"{about}\n{command}\n{trace}"
            assert code in (0, 2), f"{about}\n{command}"
            assert seconds < SECONDS or command.startswith("export"), f"{about}\n{command}"
            assert peak < GIBIBYTE, f"{about}\n{command}"
        assert "Traceback" not in (folder / "err.txt").read_text(), about
        assert tree(folder) == before, about
        shutil.rmtree(folder)
