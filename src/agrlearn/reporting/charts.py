"""What there is to draw, as plain data: the page's script draws any `Chart` and knows nothing of networks."""

from dataclasses import dataclass
from typing import Literal

Mark = Literal["circle", "square", "triangle", "diamond"]


@dataclass(frozen=True)
class Series:
    """One line, or a set of points, that belongs to a setting."""

    name: str
    setting: int
    """Its number, by which the page colours and hides it."""
    x: tuple[tuple[float, ...], ...]
    """For each of the chart's choices of x axis."""
    y: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    notes: tuple[str, ...] | None = None
    """A word for each point, shown on hover."""
    labels: tuple[str, ...] | None = None
    """A short word for each point, written beside it."""
    weights: tuple[float, ...] | None = None
    """From 0 to 1, how large each point's mark is."""
    line: Literal["solid", "dotted", "none"] = "solid"
    mark: Mark | None = None


@dataclass(frozen=True)
class Chart:
    """A picture: axes, series, and a sentence that says what is to be seen."""

    id: str
    title: str
    about: str
    x: tuple[str, ...]
    """The names of the x axes to choose from."""
    y: str
    series: tuple[Series, ...]
    hover: Literal["column", "point"] = "column"
    """Whether the pointer asks for all series at its x, or for the nearest point."""
    logarithmic: bool = False
    """Of x."""
    diagonal: bool = False
    """Draw where y equals x."""
    rows: tuple[str, ...] = ()
    """Where y is a row: their names."""
    key: tuple[tuple[str, str], ...] = ()
    """Pairs of a mark or kind of line and what it stands for."""
