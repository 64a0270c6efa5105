"""Draws docs/dial.svg from the table of `./run demo` that the README shows: python docs/pictures.py"""

import json
import re
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from agrlearn.drawing import INK, save_picture

DOCS = Path(__file__).parent
COLOURS = {
    "fold 1": INK,
    "fold 1, objects as fold 4": "#009e73",
    "fold 1, as cheap as fold 4": "#cc79a7",
    "fold 2": "#0072b2",
    "fold 4": "#d55e00",
}
MARKS = {
    "ordinary": "o",
    "Replicated": "o",
    "Contextual, 4 draws": "^",
    "Batched, 4 draws": "s",
    "Batched, 1 draw": "D",
}

Point = tuple[str, str, float, float, float]
"""Network, prediction, error in percent, its standard error, millions of multiply-adds."""


def read_points(document: str) -> list[Point]:
    """The lines of the demo's table, as they stand in a Markdown document."""
    line = re.compile(r"^\| (fold [^|]+) \| ([^|]+) \| ([\d.]+) ± ([\d.]+) \|(?:[^|]+\|){3} ([\d,]+) \|", re.MULTILINE)
    return [
        (network, prediction, float(error), float(spread), int(cost.replace(",", "")) / 1e6)
        for network, prediction, error, spread, cost in line.findall(document)
    ]


def draw(points: list[Point], file: Path) -> None:
    """Error over multiply-adds: a colour for each network, a mark for each way to predict."""
    matplotlib.rcParams["svg.hashsalt"] = "dial"
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.subplots()
    for network, prediction, error, spread, cost in points:
        axes.errorbar(cost, error, spread, color=COLOURS[network], marker=MARKS[prediction], markersize=6, capsize=2)
    for network, colour in COLOURS.items():
        axes.plot([], [], color=colour, linewidth=3, label=network)
    for prediction, mark in list(MARKS.items())[1:]:
        axes.plot([], [], color=INK, marker=mark, linestyle="none", label=prediction)
    axes.set(xscale="log", xlabel="million multiply-adds per object", ylabel="test error, %", ylim=(0, None))
    ticks = (0.3, 0.4, 0.5, 0.7, 1, 1.5, 2, 3, 5)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=2)
    # The numbers are kept in the picture, so that a test can tell when the table has moved on.
    save_picture(figure, file, metadata={"Date": None, "Description": json.dumps(points)})


if __name__ == "__main__":
    draw(read_points((DOCS.parent / "README.md").read_text()), DOCS / "dial.svg")
