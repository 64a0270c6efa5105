"""Experiments that are better seen than read: Figure 3 of the paper, and the error over the number of images."""

import io
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agrlearn.drawing import INK, save_picture
from agrlearn.evaluation.statistics import Mean, mean_over_runs
from agrlearn.files import write_atomically
from agrlearn.studies.paper.results import FOLD_1, CellResult

Picture = Callable[[Mapping[tuple[str, str], Sequence[CellResult]], Path, str], None]
"""Draws results, by block and label, into a file under a title."""

_COLOURS = {1: INK, 2: "#0072b2", 4: "#d55e00"}
"""By the fold, or the fold whose number of objects fold 1 saw."""
_MIXUP_COLOUR = "#009e73"
_LEFT_OUT = (
    "last layer", "stopped early", "by channels", "pooled by slot", "max of the features", "repetition", "ensemble",
    "as cheap as", "averaged", "temperature",
)  # fmt: skip
"""Rows that would make a picture of shares too full; the table has them."""
_ASIDE = 1.03
"""By how much lines are moved aside on a logarithmic axis, so that their errors do not cover each other."""


def draw_curves(results: Mapping[tuple[str, str], Sequence[CellResult]], file: Path, title: str) -> None:
    """Loss per slot (left) and test error (right) over steps: the mean over seeds, and a band of their range."""
    with _figure(file, title, columns=2) as (losses, errors):
        for (_, label), mine in results.items():
            style = _style(label)
            fold = mine[0].run.spec.fold
            per_step = mine[0].result.objects_seen / mine[0].result.steps
            steps = [point.objects_seen / per_step for point in mine[0].result.curve]
            for axes, values in (
                (losses, [[point.loss / fold for point in result.result.curve] for result in mine]),
                (errors, [[100 * point.error for point in result.result.curve] for result in mine]),
            ):
                columns = list(zip(*values, strict=True))
                axes.plot(steps, [statistics.fmean(column) for column in columns], **style)
                axes.fill_between(
                    steps, [*map(min, columns)], [*map(max, columns)], color=style["color"], alpha=0.15, lw=0
                )
        losses.set(xlabel="steps", ylabel="training loss per slot, nats", ylim=(0, None))
        errors.set(xlabel="steps", ylabel="test error, %")
        losses.legend(frameon=False, title=" and ".join(dict.fromkeys(block for block, _ in results)))


def draw_shares(results: Mapping[tuple[str, str], Sequence[CellResult]], file: Path, title: str) -> None:
    """Test error over the share of the training images (left), and the difference to fold 1 paired by seed (right)."""
    errors, differences = errors_by_share(results), errors_by_share(results, minus=FOLD_1)
    shares = sorted({share for means in errors.values() for share in means})
    with _figure(file, title, columns=2) as (left, right):
        for axes, lines in ((left, errors), (right, differences)):
            for number, (label, means) in enumerate(lines.items()):
                aside = _ASIDE ** (number - (len(lines) - 1) / 2) if axes is right else 1.0
                axes.errorbar(
                    [share * aside for share in means], [mean.value for mean in means.values()],
                    yerr=[mean.standard_error for mean in means.values()], marker="o", capsize=3, **_style(label),
                )  # fmt: skip
            axes.set(xlabel="training images used, %", xscale="log")
            axes.set_xticks(shares, [f"{share:g}" for share in shares])
            axes.minorticks_off()
        left.set(ylabel="test error, %")
        left.figure.legend(*left.get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=3)
        right.axhline(0, color=_COLOURS[1], lw=1)
        right.set(ylabel=f"difference to {FOLD_1}, points")


def errors_by_share(
    results: Mapping[tuple[str, str], Sequence[CellResult]], minus: str | None = None
) -> dict[str, dict[float, Mean]]:
    """For each label, the test error by the share of the training images, both in percent and from few to many.

    Args:
        minus: a label whose error is taken off, seed by seed; it has no line itself then.
    """
    base = {
        (block, result.seed): _error(result) for (block, label), mine in results.items() if label == minus
        for result in mine
    }  # fmt: skip
    lines: dict[str, dict[float, Mean]] = {}
    for (block, label), mine in sorted(results.items(), key=lambda item: item[1][0].run.spec.share):
        if label == minus or any(words in label for words in _LEFT_OUT):
            continue
        errors = [
            _error(result) - base.get((block, result.seed), 0.0)
            for result in mine
            if minus is None or (block, result.seed) in base
        ]
        if errors:
            lines.setdefault(label, {})[100 * mine[0].run.spec.share] = mean_over_runs(errors)
    return lines


def _error(result: CellResult) -> float:
    return 100 * statistics.median(result.test_errors)


def _style(label: str) -> dict[str, Any]:
    """A colour for each fold, and for mixup; dashes for a control, dots for a join at a depth, both for the mean."""
    fold = next((fold for fold in (4, 2) if f"fold {fold}" in label), 1)
    kinds = {"fold 1,": "--", "joined after": ":", "of the features": "-."}
    line = next((style for words, style in kinds.items() if words in label), "-")
    return {"color": _MIXUP_COLOUR if "mixup" in label else _COLOURS[fold], "linestyle": line, "label": label}


@contextmanager
def _figure(file: Path, title: str, *, columns: int) -> Iterator[Sequence[Any]]:
    """Axes side by side, which are drawn into `file`."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, columns, figsize=(1 + 5 * columns, 4.6), layout="constrained", squeeze=False)
    try:
        yield axes[0]
        figure.suptitle(title)
        file.parent.mkdir(parents=True, exist_ok=True)
        drawn = io.BytesIO()
        save_picture(figure, drawn, dpi=150, metadata={"Software": None})
        write_atomically(file, drawn.getvalue())
    finally:
        pyplot.close(figure)
