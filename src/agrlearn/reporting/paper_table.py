"""A table of the paper with ours beside it, and whether the two agree."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agrlearn.evaluation.statistics import Mean
from agrlearn.studies.paper.experiments import Experiment, Row
from agrlearn.studies.paper.lines import Line, ProtocolLine, summarize, summarize_protocols
from agrlearn.studies.paper.results import FOLD_1, CellResult, describe_divergences
from agrlearn.studies.paper.scales import PAPER, Scale

Verdict = Literal["agrees", "better", "worse", "open"]


@dataclass(frozen=True)
class PublishedRow:
    """A line of ours with the paper's number."""

    line: Line
    verdict: Verdict
    published_difference: float | None
    """To the paper's fold 1."""
    difference_verdict: Verdict


@dataclass(frozen=True)
class PublishedBlock:
    """The rows that are compared with one fold 1."""

    name: str
    rows: tuple[PublishedRow, ...]
    missing: tuple[str, ...]
    diverged: tuple[str, ...]
    """A sentence for each row of which runs diverged."""
    protocols: tuple[ProtocolLine, ...]


@dataclass(frozen=True)
class PublishedTable:
    """An experiment of the paper at some scale."""

    title: str
    measure: str
    remark: str
    """What the scale changes."""
    blocks: tuple[PublishedBlock, ...]
    environment: str


def published_table(
    experiment: Experiment, scale: Scale, rows: Sequence[Row], results: Mapping[tuple[str, str], list[CellResult]],
    diverged: Mapping[tuple[str, str], Sequence[str]],
) -> PublishedTable:  # fmt: skip
    """The experiment's table from the results there are."""
    found = dict(results)
    lines = summarize(experiment, rows, found)
    protocols = summarize_protocols(experiment, rows, found)
    smaller_is_better = experiment.measure == "error"
    blocks = []
    for name in dict.fromkeys(row.block for row in rows):
        mine = [line for line in lines if line.block == name]
        told = {line.label for line in mine} | {label for where, label in diverged if where == name}
        base = next((row.published for row in rows if row.block == name and row.label == FOLD_1), None)
        blocks.append(
            PublishedBlock(
                name,
                tuple(_compare(line, base, smaller_is_better, judged=scale is PAPER) for line in mine),
                tuple(row.label for row in rows if row.block == name and row.label not in told),
                describe_divergences(diverged, name),
                tuple(line for line in protocols if line.block == name),
            )
        )
    some = [result for mine in results.values() for result in mine]
    versions = dict.fromkeys(", ".join(f"{name} {value}" for name, value in each.run.versions.items()) for each in some)
    machines = dict.fromkeys(each.result.machine for each in some)
    return PublishedTable(
        f"{experiment.title}, {scale.name} scale",
        f"Test {experiment.measure} %",
        experiment.remark(scale),
        tuple(blocks),
        "\n".join([*versions, *machines]),
    )


def agreement(ours: Mean, published: float | None, *, smaller_is_better: bool) -> Verdict:
    """Whether the published number lies in the 95 % t interval around ours; open without one, or with one seed.

    >>> agreement(Mean(5.0, 0.1, runs=3), 5.4, smaller_is_better=True)
    'agrees'
    >>> agreement(Mean(5.0, 0.1, runs=7), 4.7, smaller_is_better=True)
    'worse'
    """
    if published is None or math.isnan(ours.value) or math.isnan(ours.standard_error):
        return "open"
    gap = ours.value - published
    if abs(gap) <= ours.half_width():
        return "agrees"
    return "better" if (gap < 0) == smaller_is_better else "worse"


def _compare(line: Line, base: float | None, smaller_is_better: bool, *, judged: bool) -> PublishedRow:
    """A line beside the paper's; only what was trained as the paper trains is judged by its numbers."""
    known = line.published is not None and base is not None and line.label != FOLD_1
    difference = line.published - base if known else None  # type: ignore[operator]
    return PublishedRow(
        line,
        agreement(line.ours, line.published, smaller_is_better=smaller_is_better) if judged else "open",
        difference,
        agreement(line.difference, difference, smaller_is_better=smaller_is_better) if judged else "open",
    )
