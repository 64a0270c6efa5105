"""A table of the paper with ours beside it, and whether the two agree."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agrlearn.evaluation.metrics import METRICS
from agrlearn.evaluation.statistics import Mean, mean_over_runs
from agrlearn.studies.paper.experiments import Experiment
from agrlearn.studies.paper.lines import Line, ProtocolLine, summarize, summarize_protocols
from agrlearn.studies.paper.results import FOLD_1, CellResult, describe_divergences
from agrlearn.studies.paper.rows import Row
from agrlearn.studies.paper.scales import PAPER, Scale

Verdict = Literal["agrees", "better", "worse", "open"]


@dataclass(frozen=True)
class PublishedRow:
    """A line of ours with the paper's number."""

    line: Line
    scores: Mapping[str, Mean]
    """By the names of `METRICS`, beside the error."""
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
    protocols: tuple[tuple[ProtocolLine, Mapping[str, Mean]], ...]
    """With the metrics beside the error."""


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
    """The experiment's table from the results that exist."""
    lines = summarize(experiment, rows, dict(results))
    protocols = summarize_protocols(experiment, rows, dict(results))
    blocks = []
    for name in dict.fromkeys(row.block for row in rows):
        in_block = [line for line in lines if line.block == name]
        known = {line.label for line in in_block} | {label for block, label in diverged if block == name}
        base = next((row.published for row in rows if row.block == name and row.label == FOLD_1), None)
        blocks.append(
            PublishedBlock(
                name,
                tuple(
                    _compare(line, base, _means(results[name, line.label], "Replicated"), experiment, scale)
                    for line in in_block
                ),
                tuple(row.label for row in rows if row.block == name and row.label not in known),
                describe_divergences(diverged, name),
                tuple(
                    (line, _means(results[name, line.label], line.protocol)) for line in protocols if line.block == name
                ),
            )
        )
    everything = [result for each in results.values() for result in each]
    versions = [", ".join(f"{name} {value}" for name, value in each.run.versions.items()) for each in everything]
    return PublishedTable(
        f"{experiment.title}, {scale.name} scale",
        f"Test {experiment.measure} %",
        experiment.remark(scale),
        tuple(blocks),
        "\n".join(dict.fromkeys([*versions, *(each.result.machine for each in everything)])),
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


def _means(results: Sequence[CellResult], protocol: str) -> dict[str, Mean]:
    """The metrics beside the error, as far as the results hold them."""
    scores = [vars(result.result.protocols[protocol]) for result in results]
    return {
        name: mean_over_runs([each[name] for each in scores])
        for name in METRICS
        if name != "error" and all(name in each for each in scores)
    }


def _compare(
    line: Line, base: float | None, scores: Mapping[str, Mean], experiment: Experiment, scale: Scale
) -> PublishedRow:
    """A line beside the paper's; only what was trained as the paper trains is judged by its numbers."""

    def judge(ours: Mean, published: float | None) -> Verdict:
        return agreement(ours, published, smaller_is_better=experiment.measure == "error") if scale is PAPER else "open"

    known = line.published is not None and base is not None and line.label != FOLD_1
    difference = line.published - base if known else None  # type: ignore[operator]
    return PublishedRow(line, scores, judge(line.ours, line.published), difference, judge(line.difference, difference))
