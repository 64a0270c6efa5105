"""Experiments that are better seen than read: Figure 3 of the paper, and the error over the number of images."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agrlearn.evaluation.comparison import Mean, mean_over_runs
from agrlearn.experiments.cells import CellResult

Picture = Callable[[Mapping[tuple[str, str], Sequence[CellResult]], Path, str], None]
"""Draws results, by block and label, into a file under a title."""

_COLOURS = {1: "#555555", 2: "#0072b2", 4: "#d55e00"}
"""By the fold, or the fold whose number of objects fold 1 saw."""
_LEFT_OUT = ("last layer", "stopped early", "by channels", "pooled by slot")
"""Rows that would make a picture of shares too full; the table has them."""


def draw_curves(results: Mapping[tuple[str, str], Sequence[CellResult]], file: Path, title: str) -> None:
    """Loss per slot (left) and test error (right) over steps: the mean over seeds, and a band of their range."""
    with _figure(file, title, columns=2) as (losses, errors):
        for (_, label), mine in results.items():
            style = _style(label)
            fold = mine[0].cell.get("fold", 1)
            per_step = mine[0].objects_seen / mine[0].steps
            steps = [point.objects_seen / per_step for point in mine[0].curve]
            for axes, values in (
                (losses, [[point.loss / fold for point in result.curve] for result in mine]),
                (errors, [[100 * point.error for point in result.curve] for result in mine]),
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
    """Test error over the share of the training images, with the standard error over seeds."""
    lines = errors_by_share(results)
    with _figure(file, title, columns=1) as (axes,):
        for label, errors in lines.items():
            axes.errorbar(
                list(errors), [error.value for error in errors.values()],
                yerr=[error.standard_error for error in errors.values()], marker="o", capsize=3, **_style(label),
            )  # fmt: skip
        shares = sorted({share for errors in lines.values() for share in errors})
        axes.set(xlabel="training images used, %", ylabel="test error, %", xscale="log")
        axes.set_xticks(shares, [f"{share:g}" for share in shares])
        axes.minorticks_off()
        axes.legend(frameon=False)


def errors_by_share(results: Mapping[tuple[str, str], Sequence[CellResult]]) -> dict[str, dict[float, Mean]]:
    """For each label, the test error by the share of the training images, both in percent and from few to many."""
    lines: dict[str, dict[float, Mean]] = {}
    for (_, label), mine in sorted(results.items(), key=lambda item: item[1][0].cell.get("share", 1.0)):
        if not any(words in label for words in _LEFT_OUT):
            error = mean_over_runs([100 * statistics.median(result.test_errors) for result in mine])
            lines.setdefault(label, {})[100 * mine[0].cell.get("share", 1.0)] = error
    return lines


def _style(label: str) -> dict[str, Any]:
    """A colour for each fold; dashes for a control, dots for a join at a depth."""
    fold = next((fold for fold in (4, 2) if f"fold {fold}" in label), 1)
    line = "--" if label.startswith("fold 1,") else ":" if "joined after" in label else "-"
    return {"color": _COLOURS[fold], "linestyle": line, "label": label}


@contextmanager
def _figure(file: Path, title: str, *, columns: int) -> Iterator[Sequence[Any]]:
    """Axes side by side, which are drawn into `file`."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, columns, figsize=(1 + 5 * columns, 4), layout="constrained", squeeze=False)
    try:
        yield axes[0]
        figure.suptitle(title)
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=150, metadata={"Software": None})
    finally:
        pyplot.close(figure)
