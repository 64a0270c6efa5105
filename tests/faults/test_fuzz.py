"""Recipes, sweeps and command lines of any kind: exit code 0 or 2, a sentence, and never a traceback."""

import json
import os
import resource
import signal
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agrlearn.cli import main
from agrlearn.errors import AgrLearnError, RecipeError
from agrlearn.studies.sweep import read_sweep
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from tests.faults.processes import GIBIBYTE
from tests.faults.runs import data, network

pytestmark = pytest.mark.slow
MANY = settings(
    max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
ODD_TEXTS = [
    "", " ", "0", "-1", "1", "2", "1.5", "1e-3", "nan", "inf", "-inf", "1e400", "9" * 30, "-" + "9" * 400, "0x10",
    "1_0", "true", "None", "[1]", "{}", "null", "\0", "a\0b", "\ud800", "ﬁ", "…", "٣", "🦊", "../..", ".", "~", "*",
    "[/red]", "[bold]x", "[link=x]", "{0}", "%s", "${HOME}", "--", "-", "--help", "--version", "a" * 5000,
    "a/" * 3000, "\n", "a\nb", "\x1b[31m", "/proc/x", "/dev/null/x", "t.csv", "t.jsonl", "t.npz", "pets", "run",
    "digits", "cifar-10", "movie-review", "x.py:make", "timm:resnet18", "timm:", ":", ".py:",
    "run/network.safetensors", "empty.csv", "sgd", "adam", "cosine", "replicated", "batched", "contextual",
    "32-true", "64-true", "bf16-mixed", "ray", "processes", "\udcff",
]  # fmt: skip
NUMBERS = st.sampled_from(["0", "1", "2", "3", "-1", "0.5", "1e-9", "1e30", "1e31", str(2**31), str(2**63), str(2**64)])
TEXTS = st.one_of(
    st.sampled_from(ODD_TEXTS), NUMBERS, st.text(max_size=12).map(lambda text: text.lstrip("/")), st.floats().map(str)
)
RECIPE_OPTIONS = [name.replace("_", "-") for name in Recipe.model_fields]
NET_OPTIONS = ["width", "depth", "noise", "join", "maps", "nonsense", ""]
PREDICTION_OPTIONS = [
    "draws",
    "context",
    "samples",
    "seed",
    "batch-size",
    "network",
    "skip-bad",
    "data-dir",
    "device",
]
OPTIONS = {
    "train": [
        *RECIPE_OPTIONS, *(f"net.{name}" for name in NET_OPTIONS), "fold", "network", "net", "data-dir", "image-size",
        "validation-fraction", "text-column", "label-column", "skip-bad", "run-dir", "fresh", "precision", "device",
        "nonsense",
    ],
    "predict": [*PREDICTION_OPTIONS, "protocol", "output", "abstain"],
    "evaluate": [*PREDICTION_OPTIONS, "protocols"],
    "export": ["groups", "network"],
    "info": ["nonsense"],
    "sweep": ["run-dir", "workers", "engine", "cpus", "gpus", "retries"],
    "reproduce": ["scale", "seeds", "cells", "data-dir", "nonsense"],
    "demo": ["seeds", "epochs", "nonsense"],
}  # fmt: skip
GOOD_ARGUMENTS = {"train": ["t.csv"], "predict": ["run", "t.csv"], "evaluate": ["run", "t.csv"], "export": ["run", "m"]}
QUICK = {"train": ["--epochs", "1", "--net.width", "4"], "reproduce": ["--seeds", "0"], "demo": ["--seeds", "0"]}


@contextmanager
def limits(seconds: float):
    """Within this block memory is short, and Ctrl-C comes after a while: some arguments ask for long runs."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2 * GIBIBYTE, before[1]))
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def call(arguments) -> int:
    try:
        # An export that is broken off within torch's compiler may raise anything.
        with limits(seconds=60 if "export" in arguments else 3):
            main(arguments)
    except SystemExit as leave:
        return leave.code or 0
    return 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data and a finished run."""
    deep = tmp_path_factory.mktemp("fuzz") / "a" / "b" / "c"
    deep.mkdir(parents=True)
    rows = [{"x": number % 7, "z": number % 5, "label": "ab"[number % 2]} for number in range(40)]
    (deep / "t.csv").write_text("x,z,label\n" + "".join(f"{row['x']},{row['z']},{row['label']}\n" for row in rows))
    (deep / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (deep / "empty.csv").write_text("")
    (deep / "pets").mkdir()
    os.chdir(deep)
    assert call(["train", "t.csv", "--run-dir", "run", *QUICK["train"]]) == 0
    return deep


@st.composite
def command_lines(draw):
    command = draw(st.sampled_from([*OPTIONS, *["train"] * 4, *["predict"] * 2]))
    arguments = draw(st.sampled_from([GOOD_ARGUMENTS.get(command, [])] * 3 + [None]))
    if arguments is None:
        arguments = draw(st.lists(TEXTS, max_size=3))
    line = [command, *arguments]
    count = draw(st.sampled_from([0, 1, 1, 1, 1, 2, 3]))
    chosen = draw(st.lists(st.sampled_from(OPTIONS[command]), min_size=count, max_size=count))
    for option in chosen:
        line += draw(st.sampled_from([[f"--{option}"], [f"--{option}={draw(TEXTS)}"], [f"--{option}", draw(TEXTS)]]))
    quick = QUICK.get(command, [])
    return line + [text for text in quick if not {"epochs", "net.width", "seeds", "net"} & set(chosen)]


@settings(MANY, max_examples=1000)
@given(line=command_lines())
def test_any_command_line_ends_with_exit_code_0_or_2_and_no_traceback(folder, line):
    os.chdir(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = call(line)
    assert code in (0, 2, 130), line


@pytest.mark.parametrize("name", ["[/red]", "[bold]x", "[link=x]", "a\nb", "\x1b[31m", "🦊", "%s", " "])
def test_any_name_serves_for_a_run(folder, name):
    os.chdir(folder)
    assert call(["train", "t.csv", "--run-dir", name, *QUICK["train"]]) == 0
    for command in (["evaluate", name, "t.csv"], ["predict", name, "t.csv"], ["info", name]):
        assert call(command) == 0


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=3),
    st.lists(st.floats(0, 1), max_size=3), st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.sampled_from([0, 1, 2, -1, 2**31 - 1, 2**31, 2**63, 1e30, 1e-300, 0.5, "sgd", "adam", "cosine", "1", "1.5"]),
)  # fmt: skip
PLAUSIBLE = {
    "batch_size": st.sampled_from([1, 2, 3, 96, 10**9]), "accumulate": st.integers(1, 4),
    "learning_rate": st.floats(1e-300, 1e30), "momentum": st.floats(0, 1, exclude_max=True),
    "weight_decay": st.floats(0, 1e30), "alpha": st.sampled_from([0.0, 1e-300, 0.1, 1e30]),
    "mixup": st.sampled_from([0.0, 1e-300, 1e-3, 1.0, 1e30]), "repetition": st.floats(0, 1),
    "decay": st.floats(0, 1, exclude_min=True), "critic_learning_rate": st.floats(1e-300, 1e30),
    "clip_penalty": st.floats(1e-300, 1e30), "optimizer": st.sampled_from(["sgd", "adam"]),
    "schedule": st.sampled_from(["steps", "cosine", "constant"]), "seed": st.integers(0, 2**63 - 1),
    "patience": st.integers(1, 3), "evaluate_every": st.sampled_from([1, 2**31 - 1]),
    "milestones": st.lists(st.floats(0, 1, exclude_min=True, exclude_max=True), max_size=3),
}  # fmt: skip
NAMES = st.sampled_from([*Recipe.model_fields, "nonsense", ""])


@MANY
@given(values=st.dictionaries(NAMES, VALUES, max_size=4))
def test_any_values_make_a_recipe_or_a_sentence(values):
    try:
        recipe = Recipe(**values)
    except RecipeError as error:
        assert str(error)
    else:
        assert Recipe(**json.loads(recipe.model_dump_json())) == recipe


@MANY
@given(values=st.fixed_dictionaries({}, optional=PLAUSIBLE))
def test_any_recipe_trains_or_says_why_not(values):
    try:
        recipe = Recipe(**values, epochs=2, critic_width=4)
        with limits(seconds=20):
            history = fit(network(), data(), recipe, data(), progress=False)
    except AgrLearnError as error:
        assert str(error)
        assert "\n" not in str(error)
    else:
        assert len(history.records) >= 1


TOML_VALUES = st.sampled_from(
    ["1", "-1", "0", "10000000000", "1e9", "nan", "'x'", "''", "true", "[]", "[1, 2]", "[[1]]", "{}", "{a = 1}", "[{}]",
     "1979-05-27", "[0, 0]", "['a', 'b']", "[" * 3000, "'digits'", "'\\u0000'"]
)  # fmt: skip
TOML_NAMES = st.sampled_from(
    ["data", "seeds", "fold", "recipe.alpha", "recipe", "recipe.seed", "grid.fold", "grid.recipe.alpha", "grid",
     "trials", "net", "net.width", "network", "validation_fraction", "nonsense", "''", "a.b.c"]
)  # fmt: skip


@MANY
@given(lines=st.dictionaries(TOML_NAMES, TOML_VALUES, max_size=4), data_first=st.booleans())
def test_any_sweep_file_is_read_or_refused_with_a_sentence(lines, data_first, tmp_path_factory):
    file = tmp_path_factory.getbasetemp() / "sweep.toml"
    text = "data = 'digits'\n" if data_first and "data" not in lines else ""
    file.write_text(text + "".join(f"{name} = {value}\n" for name, value in lines.items()))
    try:
        with limits(seconds=10):
            trials = read_sweep(file, Path("runs"))
    except RecipeError as error:
        assert str(error)
    else:
        assert trials
