"""Pictures that can be read on a light page and on a dark one."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#7a7a7a"
"""A grey that differs as much from white as from the black of a dark page: for text, axes, and lines of no colour."""


def save_picture(figure: "Figure", target: Path | BinaryIO, **options: Any) -> None:
    """Write a figure without a background, and with grey for all that matplotlib makes black.

    Args:
        options: of `Figure.savefig`.
    """
    from matplotlib.colors import same_color
    from matplotlib.text import Text

    for axes in figure.axes:
        axes.tick_params(which="both", colors=INK)
        for spine in axes.spines.values():
            spine.set_edgecolor(INK)
    for text in figure.findobj(lambda artist: isinstance(artist, Text)):
        if same_color(text.get_color(), "black"):  # type: ignore[attr-defined]
            text.set_color(INK)  # type: ignore[attr-defined]
    figure.savefig(target, transparent=True, **options)
