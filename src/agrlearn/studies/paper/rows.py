"""A row of a table, and the labels of the controls that many tables have."""

from dataclasses import dataclass
from typing import Literal

from agrlearn.runs.spec import RunSpec
from agrlearn.studies.paper.results import FOLD_1

Part = Literal["paper", "control", "beyond"]


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    block: str
    """The rows of a block are compared with its fold 1."""
    label: str
    spec: RunSpec
    """Its seed is replaced by that of a run."""
    published: float | None = None
    """In percent, as printed in the paper."""
    part: Part = "paper"
    last: int = 1
    """The last so many measurements on the test part, of which the median is reported."""


def equal_objects(fold: int) -> str:
    """The label of the control that sees as many objects as `fold` does, in as many steps."""
    return f"{FOLD_1}, objects as fold {fold}"


def ensemble_of(members: int) -> str:
    """The label of the control for joins that cost `members` times as much to predict and to train."""
    return f"{FOLD_1}, ensemble of {members}"
