"""Figure 3 of the paper, from our runs: training loss and test error while a network trains."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from agrlearn.experiments.cells import CellResult

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


def draw_curves(curves: Mapping[str, Sequence[CellResult]], file: Path, *, title: str) -> None:
    """Loss per slot (left) and test error (right) over objects seen: the mean over seeds, and a band of their range."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (losses, errors) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for colour, (label, results) in zip(_COLOURS, curves.items(), strict=False):
        fold = results[0].cell.get("fold", 1)
        per_step = results[0].objects_seen / results[0].steps
        steps = [point.objects_seen / per_step for point in results[0].curve]
        for axes, values in (
            (losses, [[point.loss / fold for point in result.curve] for result in results]),
            (errors, [[100 * point.error for point in result.curve] for result in results]),
        ):
            columns = list(zip(*values, strict=True))
            axes.plot(steps, [statistics.fmean(column) for column in columns], color=colour, label=label)
            axes.fill_between(steps, [*map(min, columns)], [*map(max, columns)], color=colour, alpha=0.15, lw=0)
    losses.set(xlabel="steps", ylabel="training loss per slot, nats", ylim=(0, None))
    errors.set(xlabel="steps", ylabel="test error, %")
    losses.legend(frameon=False)
    figure.suptitle(title)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150, metadata={"Software": None})
    pyplot.close(figure)
