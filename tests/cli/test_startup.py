"""What a command imports: small commands start in little more than the time that torch itself takes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.datasets import load_iris

import agrlearn
from agrlearn.training.checkpoint import read_records
from tests.cli.commands import RECIPE, call

# Each takes longer to import than a small table takes to predict.
HEAVY = ("lightning_fabric", "sklearn", "scipy", "pandas", "matplotlib", "torch._dynamo", "sympy", "torch._inductor")
REPORTING = """
import sys
from agrlearn.cli import main
try:
    main(sys.argv[2:])
finally:
    print("imported:", *(name for name in sys.argv[1].split(",") if name in sys.modules))
"""


def run_and_list(names, *command, **environment):
    """What a command prints in a process of its own, and which of some modules it has imported then."""
    given = {**os.environ, "PYTHONPATH": str(Path(agrlearn.__file__).parents[1]), **environment}
    words = [sys.executable, "-c", REPORTING, ",".join(names), *map(str, command)]
    done = subprocess.run(words, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said, _, imported = done.stdout.rpartition("imported:")
    return said, imported.split()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A table with gaps, a heavy tail, frequent and rare words, and a run of it."""
    folder = tmp_path_factory.mktemp("startup")
    x, y = load_iris(return_X_y=True)
    rows = [f"{a},{'' if n % 7 == 0 else b},{c**9},w{n % 80},{'ABC'[label]}"
            for n, ((a, b, c, _), label) in enumerate(zip(x, y, strict=True))]  # fmt: skip
    (folder / "t.csv").write_text("\n".join(["a,b,c,word,kind", *rows]) + "\n")
    assert call("train", folder / "t.csv", "--label", "kind", "--run-dir", folder / "run", *RECIPE) == 0
    return folder


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_small_table_is_predicted_without_what_takes_long_to_import(command, trained):
    options = ["--output", trained / "p.csv"] if command == "predict" else []
    said, imported = run_and_list(("torch", *HEAVY), command, trained / "run", trained / "t.csv", *options)
    assert imported == ["torch"], said


def test_a_finished_command_is_answered_without_torch_as_long_as_nothing_has_changed(trained, tmp_path):
    def repeat(*options, run=trained / "run"):
        command = ["train", trained / "t.csv", "--label", "kind", "--run-dir", run, *RECIPE, *options]
        return run_and_list(["torch", "numpy"], *command)

    said, imported = repeat()
    assert "finished already" in said and "held-out error" in said and f"Next: agrlearn evaluate {trained}" in said
    assert imported == []
    said, imported = repeat("--validation-fraction", "0.1")  # the same run, by another command
    assert "finished already" in said and "torch" in imported
    os.utime(trained / "t.csv", ns=(1, 1))
    said, imported = repeat("--validation-fraction", "0.1")
    assert "finished already" in said and "torch" in imported
    (trained / "run" / "metrics.jsonl").write_text("damaged")
    said, imported = repeat("--validation-fraction", "0.1")
    assert "torch" in imported and read_records(trained / "run")
    (trained / "run" / "report.html").unlink()
    said, imported = repeat("--validation-fraction", "0.1")
    assert "torch" in imported and (trained / "run" / "report.html").exists()


def test_the_preparation_of_a_table_needs_neither_torch_nor_scikit_learn():
    names = ("torch", *HEAVY)
    code = f"import sys, agrlearn.data.preparation; print([name for name in {names} if name in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(Path(agrlearn.__file__).parents[1])}
    assert subprocess.check_output([sys.executable, "-c", code], env=environment, text=True).strip() == "[]"


def test_threads_do_not_spin_while_they_wait_unless_the_user_says_so():
    asking = (
        "import atexit, os, sys; atexit.register(lambda: print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules))"
    )
    words = [
        sys.executable,
        "-c",
        f"{asking}; sys.argv = ['agrlearn', '--version']; import agrlearn.__main__ as m; m.main()",
    ]
    given = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    for chosen, found in (({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")):
        told = subprocess.run(words, env=given | chosen, capture_output=True, text=True, check=True).stdout
        assert told.splitlines()[-1] == f"{found} False"
