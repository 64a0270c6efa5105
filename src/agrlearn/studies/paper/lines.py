"""What the seeds of each row of an experiment gave, as means with their errors."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from agrlearn.evaluation.statistics import Mean, mean_over_runs, paired_difference
from agrlearn.runs.result import REPLICATED
from agrlearn.studies.paper.experiments import Experiment
from agrlearn.studies.paper.results import FOLD_1, CellResult
from agrlearn.studies.paper.rows import Row, equal_objects

_ONE_ANSWER = "Batched, 1 draw"


@dataclass(frozen=True)
class Line:
    """A row with what its seeds gave; percentages as in the paper, of errors or of accuracies."""

    block: str
    label: str
    part: str
    published: float | None
    seeds: tuple[int, ...]
    ours: Mean
    """Each run's median of its last measurements, averaged over the runs."""
    averaged_first: float
    """The other reading of the paper's sentence: the runs' curves are averaged, then the median is taken."""
    difference: Mean
    """To fold 1 of the block, over the seeds that both have."""
    at_equal_objects: Mean
    """To the fold 1 of the block that saw as many objects, likewise; NaN where there is none."""
    nll: Mean
    ece: Mean
    information: float | None
    """The penalty J at the end, in nats, where there is one."""
    parameters: int
    multiply_adds: float
    objects_seen: int
    steps: int
    seconds: float


@dataclass(frozen=True)
class ProtocolLine:
    """A row under one way to predict."""

    block: str
    label: str
    protocol: str
    ours: Mean
    nll: Mean
    ece: Mean
    head_disagreement: Mean | None
    """None where an object has only one answer."""
    multiply_adds: float


def summarize(
    experiment: Experiment, rows: Sequence[Row], results: dict[tuple[str, str], list[CellResult]]
) -> list[Line]:
    """One line for each row that has a result."""
    lines = []
    for row in rows:
        mine = results[row.block, row.label]
        if not mine:
            continue
        values = _by_seed(mine, experiment)
        base = {} if row.label == FOLD_1 else _by_seed(results.get((row.block, FOLD_1), []), experiment)
        control = _by_seed(results.get((row.block, equal_objects(row.spec.fold)), []), experiment)
        curve = [statistics.fmean(errors) for errors in zip(*(result.test_errors for result in mine), strict=True)]
        final = [result.result.protocols[REPLICATED] for result in mine]
        information = [
            point.information for result in mine if (point := result.result.curve[-1]).information is not None
        ]
        lines.append(
            Line(
                block=row.block,
                label=row.label,
                part=row.part,
                published=row.published,
                seeds=tuple(values),
                ours=mean_over_runs(list(values.values())),
                averaged_first=_percent(statistics.median(curve), experiment),
                difference=paired_difference(values, base),
                at_equal_objects=paired_difference(values, control),
                nll=mean_over_runs([scores.nll for scores in final]),
                ece=mean_over_runs([scores.ece for scores in final]),
                information=statistics.fmean(information) if information else None,
                parameters=mine[0].result.parameters,
                multiply_adds=final[0].multiply_adds,
                objects_seen=round(statistics.fmean(result.result.objects_seen for result in mine)),
                steps=round(statistics.fmean(result.result.steps for result in mine)),
                seconds=statistics.median(result.result.seconds for result in mine),
            )
        )
    return lines


def summarize_protocols(
    experiment: Experiment, rows: Sequence[Row], results: dict[tuple[str, str], list[CellResult]]
) -> list[ProtocolLine]:
    """One line for each way to predict with each network of more than one fold, beside those of fold 1."""
    lines = []
    for row in rows:
        mine = results[row.block, row.label]
        for protocol in mine[0].result.protocols if mine and (row.spec.fold > 1 or row.label == FOLD_1) else ():
            scores = [result.result.protocols[protocol] for result in mine]
            one_answer = row.spec.fold == 1 or protocol == _ONE_ANSWER
            lines.append(
                ProtocolLine(
                    row.block,
                    row.label,
                    protocol,
                    mean_over_runs([_percent(score.error, experiment) for score in scores]),
                    mean_over_runs([score.nll for score in scores]),
                    mean_over_runs([score.ece for score in scores]),
                    None if one_answer else mean_over_runs([score.head_disagreement for score in scores]),
                    scores[0].multiply_adds,
                )
            )
    return lines


def _by_seed(results: Sequence[CellResult], experiment: Experiment) -> dict[int, float]:
    """Each run's median of its last measurements."""
    return {result.seed: _percent(statistics.median(result.test_errors), experiment) for result in results}


def _percent(error: float, experiment: Experiment) -> float:
    return 100 * (error if experiment.measure == "error" else 1 - error)
