"""An epoch so far, for the progress bar, and its end: what was learned is measured and written down."""

from torch.utils.data import Dataset

from agrlearn.errors import NotFiniteError
from agrlearn.evaluation.evaluate import evaluate
from agrlearn.modes import evaluating
from agrlearn.training.history import EpochRecord
from agrlearn.training.information_plane import measure_information
from agrlearn.training.recipe import Recipe
from agrlearn.training.setup import learning_rate_at
from agrlearn.training.state import EpochTotals, TrainingState


def end_epoch(
    state: TrainingState, recipe: Recipe, log_groups: float, validation_set: Dataset | None, workers: int,
    totals: EpochTotals | None = None,
) -> EpochRecord:  # fmt: skip
    """Measure the network if it is time to, add a record, and begin the next epoch.

    Args:
        totals: of the epoch, where the caller has checked that they and the weights are finite.
    """
    totals = totals or state.gather_totals()
    answers = totals.groups * state.network.fold
    evaluation = plane = None
    last = state.epoch + 1 == recipe.epochs
    if validation_set is not None and (last or (state.epoch + 1) % recipe.evaluate_every == 0):
        with evaluating(state.network.modules()):
            try:
                evaluation = evaluate(state.network, validation_set, sharded=True, workers=workers)
            except NotFiniteError:
                raise state.diverged("network's answers are") from None
            if recipe.track_information:
                plane = measure_information(state.network, validation_set, recipe.seed)
    seen_before = state.records[-1].objects_seen if state.records else 0
    record = EpochRecord(
        epoch=state.epoch + 1,
        learning_rate=learning_rate_at(recipe, state.epoch),
        loss=float(totals.loss) / totals.groups,
        train_error=float(totals.wrong) / answers,
        information=float(totals.information) / totals.penalties if totals.penalties else None,
        log_groups=log_groups,
        skipped_penalties=totals.skipped,
        objects_seen=seen_before + answers,
        validation_error=evaluation.error if evaluation else None,
        validation_nll=evaluation.nll if evaluation else None,
        **(vars(plane) if plane else {}),
    )
    state.records.append(record)
    state.totals = EpochTotals.zero(totals.loss.device)
    state.epoch, state.step, state.epoch_seconds = state.epoch + 1, 0, 0.0
    return record


def figures(state: TrainingState, recipe: Recipe, log_groups: float, seconds: float) -> str:
    """The figures of the current epoch so far, for the progress bar."""
    state.count_errors()
    totals = state.totals
    figures = [
        f"{state.epoch + 1}/{recipe.epochs}",
        f"loss {float(totals.loss) / totals.groups:.3f}",
        f"error {float(totals.wrong) / (totals.groups * state.network.fold):.1%}",
    ]
    if totals.penalties:
        figures.append(f"J {float(totals.information) / totals.penalties:.2f} of log m {log_groups:.2f}")
    if totals.skipped:
        figures.append(f"J left out {totals.skipped}×")
    errors = (record.validation_error for record in reversed(state.records))
    if (error := next((error for error in errors if error is not None), None)) is not None:
        figures.append(f"{'held out' if recipe.patience is None else 'validation'} {error:.1%}")
    figures.append(f"{totals.groups * state.network.fold / seconds:,.0f} objects/s")
    return " · ".join(figures)
