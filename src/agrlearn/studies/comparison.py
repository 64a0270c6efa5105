"""Methods side by side: the table, the picture and the verdict of a comparison."""

import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from agrlearn.drawing import INK, save_picture
from agrlearn.evaluation.metrics import METRICS
from agrlearn.evaluation.statistics import Mean
from agrlearn.files import markdown_table, to_json, write_atomically

SIGNIFICANT = 0.05
_SHOWN = ("error", "nll", "ece")

Kind = Literal["ordinary", "remedy", "groups", "context"]


@dataclass(frozen=True)
class Line:
    """A method over all seeds."""

    name: str
    kind: Kind
    scores: dict[str, Mean]
    """By the names of `METRICS`, on the test parts."""
    differences: dict[str, Mean]
    """To the ordinary network, paired by split."""
    p: float
    """Of the difference in error, by the paired t test."""
    multiply_adds: float | None
    """To predict one object; None where they are not counted."""
    seconds: float
    """Of training one run, with the tries of its choice."""


@dataclass(frozen=True)
class Comparison:
    """What `compare` found."""

    data: str
    seeds: int
    lines: tuple[Line, ...]

    @property
    def verdict(self) -> str:
        """What to use on this data, in a sentence."""
        return _verdict(self.lines)

    def markdown(self) -> str:
        """The table, mean ± standard error over splits; the difference with its 95 % t interval."""
        header = (
            "", *(METRICS[name].label for name in _SHOWN), "error − ordinary (95 %)", "p", "multiply-adds",
            "training s",
        )  # fmt: skip
        return markdown_table(header, map(_cells, self.lines))

    def __str__(self) -> str:
        return f"{self.markdown()}\n{self.verdict}"


def _cells(line: Line) -> tuple[str, ...]:
    difference, apart = line.differences["error"], ("", "")
    if line.kind != "ordinary" and difference.runs > 1:
        apart = difference.interval_text(100), chance_text(line.p).removeprefix("p ").removeprefix("= ")
    return (
        f"*{line.name}*" if line.kind == "context" else line.name,
        *(METRICS[name].mean_text(line.scores[name]) for name in _SHOWN), *apart,
        "" if line.multiply_adds is None else f"{line.multiply_adds:,.0f}", f"{line.seconds:.1f}",
    )  # fmt: skip


def chance_text(p: float) -> str:
    """How likely a difference is by chance, for a sentence.

    >>> chance_text(0.0004), chance_text(0.03)
    ('p < 0.001', 'p = 0.030')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _verdict(lines: Sequence[Line]) -> str:
    base = next(line for line in lines if line.kind == "ordinary")
    before = 100 * base.scores["error"].value

    def better(line: Line) -> bool:
        return line.differences["error"].value < 0 and line.p < SIGNIFICANT

    def sentence(line: Line) -> str:
        cost = (line.multiply_adds or 0) / max(1.0, base.multiply_adds or 0)
        price = "at no cost in prediction" if cost <= 1.01 else f"at {cost:.1f} times the cost in prediction"
        after = 100 * line.scores["error"].value
        return f"{line.name} errs in {after:.2f} % instead of {before:.2f} % ({chance_text(line.p)}) {price}"

    winners = sorted(
        (line for line in lines if line.kind in ("remedy", "groups") and better(line)),
        key=lambda line: line.scores["error"].value,
    )
    least = winners[0].scores["error"].value if winners else before / 100
    ahead = [line for line in lines if line.kind == "context" and better(line) and line.scores["error"].value < least]
    context = ""
    if ahead:
        first = min(ahead, key=lambda line: line.scores["error"].value)
        context = f" Of the classifiers for context, {first.name} errs in {100 * first.scores['error'].value:.2f} %."
    if not winners:
        return f"Nothing here beats an ordinary network, which errs in {before:.2f} %: use fold 1.{context}"
    groups = [line for line in winners if line.kind == "groups"]
    best = winners[0]
    text = f"{sentence(best)[0].upper()}{sentence(best)[1:]}: use it."
    if groups and best.kind != "groups":
        text += f" Of the groups, {sentence(groups[0])}."
    if not groups:
        text += " Groups do not beat an ordinary network here."
    return text + context


def draw(comparison: Comparison, file: Path) -> None:
    """Each method's error relative to the ordinary network's, with the 95 % t interval of the paired difference."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    colours = {"ordinary": INK, "remedy": "#8c8c8c", "groups": "#0072b2", "context": "#c9a66b"}
    lines = comparison.lines
    base = lines[0].scores["error"].value or 1.0
    figure, axes = pyplot.subplots(figsize=(7, 0.6 + 0.38 * len(lines)), layout="constrained")
    try:
        for place, line in enumerate(reversed(lines)):
            width = 100 * line.differences["error"].half_width() / base if line.differences["error"].runs > 1 else 0.0
            axes.errorbar(
                100 * line.scores["error"].value / base, place, xerr=width if line.kind != "ordinary" else None,
                fmt="o", color=colours[line.kind], capsize=3,
            )  # fmt: skip
        axes.axvline(100, color=colours["ordinary"], lw=1)
        axes.set_yticks(range(len(lines)), [line.name for line in reversed(lines)])
        axes.set(xlabel=f"error, % of the ordinary network's ({comparison.data}, {comparison.seeds} splits)")
        drawn = io.BytesIO()
        save_picture(figure, drawn, dpi=150, metadata={"Software": None})
        write_atomically(file, drawn.getvalue())
    finally:
        pyplot.close(figure)


def write_comparison(comparison: Comparison, folder: Path, command: str) -> None:
    """table.md, compare.json and compare.png in the folder."""
    text = (
        f"# {comparison.data}: {comparison.verdict}\n\nMade by `{command}`. Means ± standard errors over "
        f"{comparison.seeds} splits, the same for all; strengths of remedies are chosen on a validation part of each "
        f"training part. *In italics*: scikit-learn's defaults, for context.\n\n{comparison.markdown()}"
    )
    write_atomically(folder / "table.md", text)
    write_atomically(folder / "compare.json", to_json({"command": command, **asdict(comparison)}))
    draw(comparison, folder / "compare.png")
