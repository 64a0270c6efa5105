"""Draws docs/dial.svg from results/demo.md, the table of `./run demo`: python docs/pictures.py"""

import json
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from agrlearn.drawing import INK, save_picture

DOCS = Path(__file__).parent
TABLE = DOCS.parent / "results" / "demo.md"
COLOURS = {
    "ordinary network": INK,
    "ordinary, objects as fold 2": "#009e73",
    "ordinary, mixup": "#e69f00",
    "groups of 2 by the mean": "#0072b2",
    "fold 4, slots apart": "#d55e00",
    "ordinary, as cheap as fold 4": "#cc79a7",
}
MARKS = {
    "ordinary": "o",
    "unwrapped": "o",
    "Replicated": "o",
    "Contextual, 4 draws": "^",
    "Batched, 4 draws": "s",
    "Batched, 1 draw": "D",
}
EXPLAINED = ("Replicated", "Contextual, 4 draws", "Batched, 4 draws", "Batched, 1 draw")

Point = tuple[str, str, float, float, float]
"""Network, prediction, error in percent, its standard error, thousands of multiply-adds."""


def read_points(document: str) -> list[Point]:
    """The lines of the demo's table, as they stand in a Markdown document."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in document.splitlines() if line.startswith("|")
    ]
    lines = [dict(zip(cells[0], line, strict=True)) for line in cells[2:]]
    return [
        (
            line["network"], line["prediction"], *map(float, line["error %"].split(" ± ")),
            int(line["multiply-adds / object"].replace(",", "")) / 1e3,
        )
        for line in lines
    ]  # fmt: skip


def draw(points: list[Point], file: Path) -> None:
    """Error over multiply-adds: a colour for each network, a mark for each way to predict."""
    matplotlib.rcParams["svg.hashsalt"] = "dial"
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.subplots()
    costs = [cost for *_, cost in points]
    for place, (network, prediction, error, spread, cost) in enumerate(points):
        # Side by side where several cost the same, so that none hides another.
        beside = costs[:place].count(cost) - (costs.count(cost) - 1) / 2
        look = {"color": COLOURS[network], "marker": MARKS[prediction], "markersize": 6, "capsize": 2}
        axes.errorbar(cost * 1.04**beside, error, spread, **look)
    for network, colour in COLOURS.items():
        axes.plot([], [], color=colour, linewidth=3, label=network)
    for prediction in EXPLAINED:
        axes.plot([], [], color=INK, marker=MARKS[prediction], linestyle="none", label=prediction)
    axes.set(
        xscale="log",
        xlabel="thousand multiply-adds per object (equal ones side by side)",
        ylabel="test error, %",
        ylim=(0, None),
    )
    ticks = (10, 20, 50, 100, 200)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, ncols=3, loc="outside lower center", fontsize="small")
    # The numbers are kept in the picture, so that a test can tell when the table has moved on.
    save_picture(figure, file, metadata={"Date": None, "Description": json.dumps(points)})


if __name__ == "__main__":
    draw(read_points(TABLE.read_text()), DOCS / "dial.svg")
