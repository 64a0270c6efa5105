"""The demonstration: groups beside their controls on scikit-learn's digits, at equal cost and along the dial."""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from agrlearn.evaluation.metrics import METRICS
from agrlearn.evaluation.statistics import Mean, mean_over_runs, p_value, paired_difference
from agrlearn.evaluation.throughput import objects_per_second
from agrlearn.files import markdown_table, to_json, write_atomically
from agrlearn.runs.many import Job
from agrlearn.runs.result import RunResult, protocols_to_measure
from agrlearn.runs.run import Run
from agrlearn.runs.spec import RunSpec
from agrlearn.runs.train import open_data
from agrlearn.studies.compare import ORDINARY, base_spec, groups_of, seeing_as_many, with_settings
from agrlearn.studies.comparison import SIGNIFICANT, chance_text
from agrlearn.training.defaults import DEFAULT_GROUPS

DATA = "digits-as-vectors"
GROUPS = "groups of 2 by the mean"
DIAL = "fold 4, slots apart"
CHEAP = "ordinary, as cheap as fold 4"
_DIAL_FOLD = 4
# Slots that are told apart need a last layer that is fold times as wide. Half as wide as the ordinary network, Batched
# prediction with one draw is cheaper than that one; at the same width, an ordinary network is cheaper still.
_DIAL_WIDTH = 64
_MIXUP = 0.5  # the middle one of those that compare tries
_POINTS = 10
"""Of each training curve."""


@dataclass(frozen=True)
class Row:
    """One line of the table: a setting under a protocol, over all seeds."""

    setting: str
    protocol: str
    scores: dict[str, Mean]
    """By the names of `METRICS`."""
    errors: dict[int, float]
    """By seed."""
    difference: Mean
    """In error to the ordinary network, paired by seed."""
    parameters: int
    multiply_adds: float
    """Per predicted object."""
    objects_seen: int
    """In one training run."""
    training_seconds: float
    objects_per_second: float

    @property
    def error(self) -> str:
        return METRICS["error"].mean_text(self.scores["error"])


COLUMNS: dict[str, Callable[[Row], str]] = {
    "network": lambda row: row.setting,
    "prediction": lambda row: row.protocol,
    "error %": lambda row: row.error,
    "− ordinary (95 %)": lambda row: row.difference.interval_text(100),
    "NLL": lambda row: METRICS["nll"].mean_text(row.scores["nll"]),
    "ECE": lambda row: METRICS["ece"].mean_text(row.scores["ece"]),
    "parameters": lambda row: f"{row.parameters:,}",
    "multiply-adds / object": lambda row: f"{row.multiply_adds:,.0f}",
    "objects seen": lambda row: f"{row.objects_seen:,}",
    "training s": lambda row: f"{row.training_seconds:.1f}",
    "objects/s": lambda row: f"{row.objects_per_second:,.0f}",
}
"""Of the table, by their headings."""
TEXTS = 2
"""How many of them, from the left, are words."""
PRINTED = [name for name in COLUMNS if name not in ("NLL", "ECE", "parameters", "objects/s")]
"""Those that fit on a screen."""


def demo_jobs(run_dir: Path, *, seeds: int = 10, epochs: int = 60, fresh: bool = False) -> list[Job]:
    """Every setting with every seed."""
    return [
        Job(name, spec.with_seed(seed), run_dir / f"{_folder_name(name)}-seed{seed}", dial=True, fresh=fresh)
        for name, spec in _settings(epochs).items()
        for seed in range(seeds)
    ]


def _folder_name(name: str) -> str:
    return re.sub("[^a-z0-9]+", "-", name)


def _settings(epochs: int) -> dict[str, RunSpec]:
    """What is compared, by the recipe of `compare`; each seed has a test part of its own, the same for all."""
    ordinary, _, _ = base_spec(DATA, epochs=epochs)
    settings = {
        ORDINARY: ordinary,
        "ordinary, objects as fold 2": seeing_as_many(ordinary, 2),
        "ordinary, mixup": with_settings(ordinary, mixup=_MIXUP),
        GROUPS: groups_of(ordinary, **DEFAULT_GROUPS),
        DIAL: groups_of(ordinary, fold=_DIAL_FOLD, join="features", width=_DIAL_WIDTH),
        CHEAP: seeing_as_many(with_settings(ordinary, width=_DIAL_WIDTH), _DIAL_FOLD),
    }
    return {
        name: with_settings(spec, evaluate_every=max(1, spec.recipe.epochs // _POINTS))
        for name, spec in settings.items()
    }


@dataclass(frozen=True)
class Demo:
    """What the finished runs show."""

    title: str
    rows: tuple[Row, ...]

    def markdown(self) -> str:
        """The table."""
        cells = ([cell(row) for cell in COLUMNS.values()] for row in self.rows)
        return markdown_table(tuple(COLUMNS), cells, texts=TEXTS)

    @property
    def verdict(self) -> str:
        """What errs least at the ordinary network's cost, and what the dial is worth, in a few sentences."""
        return "\n".join(filter(None, (_verdict_at_equal_cost(self.rows), _verdict_on_the_dial(self.rows))))


def _verdict_at_equal_cost(rows: Sequence[Row]) -> str:
    base = rows[0]
    equal = [row for row in rows if row.multiply_adds == base.multiply_adds]
    best = min(equal, key=lambda row: row.scores["error"].value)
    text = f"Of the {len(equal)} networks that predict an object with {base.multiply_adds:,.0f} multiply-adds, "
    if best is base:
        return f"{text}the {ORDINARY} errs least, in {base.error} %."
    text += f"“{best.setting}” errs least: in {best.error} % instead of {base.error} %, {_gain(best.difference)}."
    return text if p_value(best.difference) < SIGNIFICANT else f"{text} That may be chance: try more seeds."


def _verdict_on_the_dial(rows: Sequence[Row]) -> str:
    dial = sorted((row for row in rows if row.setting == DIAL), key=lambda row: row.multiply_adds)
    cheap = next((row for row in rows if row.setting == CHEAP), None)
    if not dial or cheap is None:
        return ""
    fast, best = dial[0], min(dial[1:], key=lambda row: row.scores["error"].value)
    return (
        f"The dial of “{DIAL}” turns one set of weights from {fast.error} % error at {fast.multiply_adds:,.0f} "
        f"multiply-adds to {best.error} % at {best.multiply_adds:,.0f}. An ordinary network that takes "
        f"{cheap.multiply_adds:,.0f} has {cheap.error} % ({_gain(paired_difference(cheap.errors, fast.errors))})."
    )


def _gain(difference: Mean) -> str:
    points = f"{difference.interval_text(100)} points"
    return f"{points}, {chance_text(p_value(difference))}" if difference.runs > 1 else points


def write_demo(jobs: Sequence[Job], run_dir: Path, command: str) -> Demo:
    """The table of the finished runs, also as files in `run_dir`."""
    data = open_data(jobs[0].spec)
    assert data.test is not None
    seeds = len({job.spec.seed for job in jobs})
    parts = f"{len(data.train):,} to train on and {len(data.test):,} to test on"
    demo = Demo(f"Digits: {parts}, others for each of {seeds} seeds", tuple(_rows(jobs)))
    about = (
        f"Made by `{command}`: seeds 0 to {seeds - 1}, one thread for each run; mean ± standard error. {demo.title}; "
        "differences are paired by seed, with their 95 % t interval. Seconds and objects/s are from one machine: use "
        "them only to compare lines. Another kind of processor rounds differently, which moves errors by some tenths."
    )
    paragraphs = ["# What the demo shows", about, *demo.verdict.splitlines(), "## Digits", demo.markdown()]
    write_atomically(run_dir / "table.md", "\n\n".join(paragraphs))
    write_atomically(run_dir / "results.json", to_json([asdict(row) for row in demo.rows]))
    return demo


def _rows(jobs: Sequence[Job]) -> list[Row]:
    results: dict[str, dict[int, RunResult]] = {}
    for job in jobs:
        if (done := job.finished()) is not None:
            results.setdefault(job.label, {})[job.spec.seed] = done.result
    data = open_data(jobs[0].spec)
    networks = {job.label: Run.open(job.run_dir).network for job in reversed(jobs) if job.label in results}
    lines = [(label, *way) for label in results for way in protocols_to_measure(networks[label], data).items()]
    assert data.test is not None
    speeds = objects_per_second([(networks[label], protocol) for label, _, protocol in lines], data.test.objects)
    rows: list[Row] = []
    for (label, protocol, _), speed in zip(lines, speeds, strict=True):
        found, network = results[label], networks[label]
        scores = {seed: result.protocols[protocol] for seed, result in found.items()}
        errors = {seed: score.error for seed, score in scores.items()}
        first = next(iter(found.values()))
        rows.append(
            Row(
                setting=label,
                protocol="ordinary" if network.fold == 1 else "unwrapped" if network.slot_blind else protocol,
                scores={name: mean_over_runs([getattr(score, name) for score in scores.values()]) for name in METRICS},
                errors=errors,
                difference=paired_difference(errors, rows[0].errors if rows else {}),
                parameters=first.parameters,
                multiply_adds=first.protocols[protocol].multiply_adds,
                objects_seen=first.objects_seen,
                training_seconds=mean_over_runs([result.seconds for result in found.values()]).value,
                objects_per_second=speed,
            )
        )
    return rows
