"""Plots of curves and codes, written to files; matplotlib is imported only when a plot is drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agrlearn.drawing import INK, save_picture
from agrlearn.errors import TheoryError
from agrlearn.theory.binary import BinaryCode
from agrlearn.theory.design import OperationalCurve
from agrlearn.theory.distributions import Array
from agrlearn.theory.learning import Bottleneck

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LIMIT, _SHARING, _CODES = "#178a65", "#9a9a9a", "#c8553d"


def draw_curve(curve: Sequence[Bottleneck], path: Path, title: str) -> None:
    """The bottleneck curve: I(Y;T) over I(X;T), with the region above it that no encoder reaches."""
    figure, (axes,) = _create(title, 1, 1, (6.4, 4.4))
    rates, relevances = [each.rate for each in curve], [each.relevance for each in curve]
    axes.plot(rates, relevances, color=_LIMIT, marker="o", markersize=3.5)
    top, right = max(relevances) * 1.12 or 1.0, max(rates) or 1.0
    fine = np.linspace(0, right, 500)
    axes.fill_between(fine, _ceiling(curve, fine), top, color=_LIMIT, alpha=0.08, linewidth=0)
    axes.text(0.03, 0.93, "no encoder reaches this", color=_LIMIT, transform=axes.transAxes)
    unit = curve[0].unit
    axes.set(xlabel=f"I(X;T), {unit}", ylabel=f"I(Y;T), {unit}", xlim=(0, right), ylim=(0, top))
    _write(figure, path)


def draw_codes(
    curve: Sequence[Bottleneck], scalar: Sequence[tuple[float, float]], codes: OperationalCurve, path: Path, title: str
) -> None:
    """Codes of one rate between time-sharing and the limit R_IBQ: distortion over rate, and over length.

    Args:
        scalar: rate and distortion of the scalar codes that time-sharing connects.
    """
    figure, (plane, lengths) = _create(title, 1, 2, (8.8, 4.0))
    plane.plot([each.rate for each in curve], [each.distortion for each in curve], color=_LIMIT)
    plane.plot(*zip(*scalar, strict=True), color=_SHARING, linestyle="--", marker="s", markersize=4)
    rates = [code.rate(unit=codes.unit) for code in codes.codes]
    plane.plot(rates, codes.distortions, "o", color=_CODES, markersize=4)
    plane.set(xlabel=f"rate R, {codes.unit} per letter", ylabel=f"distortion D, {codes.unit} per letter")
    plane.set_xlim(left=0)
    plane.set_ylim(bottom=0)
    n = [code.length for code in codes.codes]
    lengths.axhline(codes.time_sharing, color=_SHARING, linestyle="--", label="time-sharing of scalar codes")
    lengths.plot(n, codes.distortions, "o-", color=_CODES, markersize=5, linewidth=1, label="codes of length n")
    lengths.axhline(codes.limit, color=_LIMIT, label="limit R_IBQ")
    lengths.set(xlabel="length n", title=f"D at R = {codes.rate:g}", xticks=n)
    lengths.legend(frameon=False)
    _write(figure, path)


def draw_binary(
    codes: Sequence[tuple[BinaryCode, float]],
    random: Sequence[tuple[int, float]],
    failures: Mapping[str, Sequence[tuple[int, float]]],
    path: Path,
    noise: float,
) -> None:
    """Codes for the binary symmetric source by length, and how often joint-typicality encoding fails.

    Args:
        codes: each with its share of the gain from time-sharing to the limit, at its own rate.
        random: length and share of the gain, the mean over random codebooks.
        failures: length and probability of failure, for each named ε.
    """
    figure, (axes, lower) = _create(f"Binary symmetric source, noise {noise:g}", 2, 1, (6.4, 6.4))
    axes.axhline(1, color=_LIMIT)
    axes.axhline(0, color=_SHARING, linestyle="--")
    axes.text(2, 1.04, "limit", color=_LIMIT, fontsize=9)
    axes.text(2, 0.04, "time-sharing", color=_SHARING, fontsize=9)
    axes.plot(*zip(*random, strict=True), color=INK, linewidth=1.2, label="random codebook (mean), rate ½")
    for number, (code, share) in enumerate(codes):
        point = (code.length, share)
        offset, side = (6, "bottom") if number % 2 == 0 else (-6, "top")
        axes.plot(*point, "o", color=_CODES, markersize=5)
        axes.annotate(code.name, point, (0, offset), textcoords="offset points", fontsize=8, ha="center", va=side)
    axes.set(xscale="log", xlim=(1.8, 4500), ylim=(-0.85, 1.18), ylabel="share of the possible gain")
    axes.legend(frameon=False, loc="lower right")
    for (name, points), style in zip(failures.items(), ("-", "--", ":", "-."), strict=False):
        lower.plot(*zip(*points, strict=True), color=INK, linestyle=style, label=name)
    lower.set(xscale="log", xlabel="length n", ylabel="no typical codeword: probability", xlim=(1.8, 4500))
    lower.legend(frameon=False)
    _write(figure, path)


def _ceiling(curve: Sequence[Bottleneck], rates: Array) -> Array:
    """An upper bound of I(Y;T) at these rates: (rates,).

    The curve is concave, so it lies above the chords between solutions and below their tangents: I(X;T) − β·I(Y;T) of
    every encoder is at least rate − β·relevance − gap of a solution. I(Y;T) is also at most I(X;T) and I(X;Y).
    """
    most = np.minimum(rates, curve[0].relevance + curve[0].distortion)
    for each in curve:
        if each.proved and each.beta > 0:
            most = np.minimum(most, each.relevance + (rates - each.rate + each.gap) / each.beta)
    return most


def _create(title: str, rows: int, columns: int, size: tuple[float, float]) -> "tuple[Figure, list[Axes]]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
    axes[0].set_title(title)
    return figure, axes


def _write(figure: "Figure", path: Path) -> None:
    known = figure.canvas.get_supported_filetypes()
    if path.suffix.removeprefix(".") not in known:
        raise TheoryError(f"expected a picture that ends in one of {', '.join(sorted(known))}, got {path.name!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    save_picture(figure, path, dpi=110)
