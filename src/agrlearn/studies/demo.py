"""The demonstration: fold 1, 2 and 4 on scikit-learn's digits, by every protocol."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from agrlearn.evaluation.metrics import METRICS
from agrlearn.evaluation.statistics import Mean, mean_over_runs
from agrlearn.evaluation.throughput import objects_per_second
from agrlearn.files import markdown_table, to_json, write_atomically
from agrlearn.prediction.cost import width_as_cheap
from agrlearn.runs.many import Job
from agrlearn.runs.result import RunResult, protocols_to_measure
from agrlearn.runs.run import Run
from agrlearn.runs.spec import RunSpec
from agrlearn.runs.train import open_data
from agrlearn.training.recipe import Recipe

_WIDTH = 24
_SHOWN = ("error", "nll", "ece")


@dataclass(frozen=True)
class Row:
    """One line of the table: a setting under a protocol, over all seeds."""

    setting: str
    protocol: str
    scores: dict[str, Mean]
    """By the names of `METRICS`."""
    parameters: int
    multiply_adds: float
    """Per predicted object."""
    objects_seen: int
    """In one training run."""
    training_seconds: float
    objects_per_second: float


def demo_jobs(run_dir: Path, *, seeds: int = 3, epochs: int = 25, fresh: bool = False) -> list[Job]:
    """Every setting with every seed."""
    settings = {
        "fold 1": _spec(1, epochs),
        "fold 1, objects as fold 4": _spec(1, epochs, times_the_batch=4),
        "fold 1, as cheap as fold 4": _spec(1, epochs, times_the_batch=4, width=_cheap_width(fold=4)),
        "fold 2": _spec(2, epochs),
        "fold 4": _spec(4, epochs),
    }
    return [
        Job(
            name, spec.with_seed(seed), run_dir / f"{name.replace(', ', '-').replace(' ', '-')}-seed{seed}", dial=True,
            fresh=fresh,
        )
        for name, spec in settings.items()
        for seed in range(seeds)
    ]  # fmt: skip


def _cheap_width(fold: int) -> int:
    """Of an ordinary network that costs no more than Batched prediction with one draw: what is fast must beat it."""
    found = width_as_cheap("small-cnn", (1, 8, 8), 10, fold, (("width", _WIDTH),))
    assert found is not None
    return found


def _spec(fold: int, epochs: int, times_the_batch: int = 1, width: int = _WIDTH) -> RunSpec:
    """A setting.

    Args:
        times_the_batch: objects in a step over those of an ordinary one: how fold 1 sees as many objects in as many
            steps as fold n.
    """
    recipe = Recipe(
        epochs=epochs * times_the_batch,
        batch_size=64 * times_the_batch,
        evaluate_every=5 * times_the_batch,
        # In so short a run the paper's steps come too early for the higher folds; all settings get the same.
        schedule="cosine",
    )
    return RunSpec(data="digits", network="small-cnn", net={"width": width}, fold=fold, recipe=recipe)


def write_demo(jobs: Sequence[Job], run_dir: Path) -> list[Row]:
    """The table of the finished runs, also as files in `run_dir`."""
    rows = _rows(jobs)
    write_atomically(run_dir / "table.md", as_markdown(rows))
    write_atomically(run_dir / "results.json", to_json([asdict(row) for row in rows]))
    return rows


HEADER = (
    "network", "prediction", *(METRICS[name].label for name in _SHOWN), "parameters", "multiply-adds / object",
    "objects seen", "training s", "objects/s",
)  # fmt: skip


def as_cells(row: Row) -> tuple[str, ...]:
    """A row as text, in the order of `HEADER`."""
    return (
        row.setting, row.protocol, *(METRICS[name].mean_text(row.scores[name]) for name in _SHOWN),
        f"{row.parameters:,}", f"{row.multiply_adds:,.0f}", f"{row.objects_seen:,}", f"{row.training_seconds:.1f}",
        f"{row.objects_per_second:,.0f}",
    )  # fmt: skip


def as_markdown(rows: list[Row]) -> str:
    return markdown_table(HEADER, map(as_cells, rows), texts=2)


def _rows(jobs: Sequence[Job]) -> list[Row]:
    results: dict[str, list[RunResult]] = {}
    for job in jobs:
        if (done := job.finished()) is not None:
            results.setdefault(job.label, []).append(done.result)
    data = open_data(jobs[0].spec)
    first = {job.label: Run.open(job.run_dir).network for job in reversed(jobs) if job.label in results}
    lines = [
        (label, *item) for label in results for item in protocols_to_measure(first[label], data).items()
    ]  # fmt: skip
    assert data.test is not None
    speeds = objects_per_second([(first[label], protocol) for label, _, protocol in lines], data.test.objects)
    return [
        Row(
            setting=label,
            protocol=name if first[label].fold > 1 else "ordinary",
            scores={
                metric: mean_over_runs([getattr(result.protocols[name], metric) for result in results[label]])
                for metric in METRICS
            },
            parameters=results[label][0].parameters,
            multiply_adds=results[label][0].protocols[name].multiply_adds,
            objects_seen=results[label][0].objects_seen,
            training_seconds=mean_over_runs([result.seconds for result in results[label]]).value,
            objects_per_second=speed,
        )
        for (label, name, _), speed in zip(lines, speeds, strict=True)
    ]
