"""Settings side by side: paired by seed, with what each of them cost."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agrlearn.evaluation.statistics import Mean, mean_over_runs, paired_difference
from agrlearn.reporting.measure import Measurement
from agrlearn.runs.facts import Setting


@dataclass(frozen=True)
class ComparisonRow:
    """A setting over its seeds; what is not known is None."""

    setting: int
    name: str
    fold: int
    alpha: float
    seeds: int
    error: Mean | None
    difference: Mean | None
    """Of the errors to those of the first setting, over the seeds that both have; None if they are of other objects."""
    nll: Mean | None
    ece: Mean | None
    parameters: int | None
    multiply_adds: float | None
    """Of Replicated prediction, per object."""
    objects_seen: int
    steps: int
    seconds: float
    """Of training, the median."""
    progress: str


def compare(settings: Sequence[Setting], measured: Mapping[int, Measurement]) -> list[ComparisonRow]:
    """One row for each setting; measured where all of them are, and otherwise from what training wrote down."""
    rows = []
    everything = bool(settings) and len(measured) == len(settings)
    errors = [_by_seed(setting, "validation_error", measured[i] if everything else None, "error")
              for i, setting in enumerate(settings)]  # fmt: skip
    objects = [measured[i].origin if everything else setting.runs[0].identity.get("validation_data")
               for i, setting in enumerate(settings)]  # fmt: skip
    for number, setting in enumerate(settings):
        mine = measured.get(number)
        found = mine if everything else None
        comparable = number > 0 and objects[number] == objects[0]
        rows.append(
            ComparisonRow(
                setting=number,
                name=setting.name,
                fold=setting.fold,
                alpha=setting.runs[0].recipe.get("alpha", 0.0),
                seeds=len(setting.runs),
                error=_mean(errors[number].values()),
                difference=paired_difference(errors[number], errors[0]) if comparable else None,
                nll=_mean(_by_seed(setting, "validation_nll", found, "nll").values()),
                ece=_mean([scores.ece for scores in found.scores] if found else ()),
                parameters=mine.parameters if mine else None,
                multiply_adds=mine.multiply_adds if mine else None,
                objects_seen=max(run.objects_seen for run in setting.runs),
                steps=max(run.steps for run in setting.runs),
                seconds=statistics.median(run.seconds for run in setting.runs),
                progress=_progress(setting),
            )
        )
    return rows


def _by_seed(setting: Setting, written: str, found: Measurement | None, name: str) -> dict[int, float]:
    if found is not None:
        return {run.seed: getattr(scores, name) for run, scores in zip(setting.runs, found.scores, strict=True)}
    values = {run.seed: run.outcome(written) for run in setting.runs}
    return {seed: value for seed, value in values.items() if value is not None}


def _mean(values: Iterable[float]) -> Mean | None:
    told = list(values)
    return mean_over_runs(told) if told else None


def _progress(setting: Setting) -> str:
    done = sum(run.finished for run in setting.runs)
    if done == len(setting.runs):
        return "finished"
    epochs = " and ".join(f"{len(run.epochs)} of {run.recipe['epochs']}" for run in setting.runs if not run.finished)
    return f"epoch {epochs}"
