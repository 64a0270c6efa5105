"""A run that goes on for more epochs than it was started for.

The learning rate is a function of the epoch and of the number of epochs. From the last checkpoint on, it is that of the
new number: along a cosine, it rises again to where a run of so many epochs would be.
"""

import warnings
from pathlib import Path
from typing import Any

from agrlearn.errors import AgrLearnWarning, RunError
from agrlearn.training.identity import Identity
from agrlearn.training.state import read_progress


def apart_from_length(wanted: Identity, found: Identity) -> Identity:
    """`wanted` with the length of `found`, so that what else differs between them can be seen."""
    recipe = wanted.recipe.model_copy(update={"epochs": found.recipe.epochs})
    return wanted.model_copy(update={"recipe": recipe, "made_longer_after": found.made_longer_after})


def make_longer(path: Path, found: Identity, wanted: Identity, checkpoint: dict[str, Any] | None) -> Identity:
    """What the run in a directory becomes if it goes on to the epochs of `wanted`; a warning says so.

    Args:
        found: the run as it is.
        wanted: the same run with another number of epochs.
        checkpoint: its last.
    """
    before, epochs = found.recipe.epochs, wanted.recipe.epochs
    if epochs < before:
        raise RunError(
            f"{path} is a run of {before} epochs, and epochs can be raised but not lowered to {epochs}; use another "
            "run directory, or start this one over (agrlearn train --fresh)"
        )
    if checkpoint is None:
        return wanted
    progress = read_progress(checkpoint)
    if progress.out_of_patience:
        raise RunError(
            f"{path} was ended by its patience after epoch {progress.epoch}, so more epochs change nothing; use "
            "another run directory, with more patience"
        )
    if progress.averaged:
        raise RunError(
            f"{path} has begun to average its weights for a run of {before} epochs, so it cannot go on to {epochs}; "
            "use another run directory"
        )
    message = f"{path} was a run of {before} epochs and goes on from epoch {progress.epoch} to {epochs}"
    if wanted.recipe.schedule != "constant":
        message += (
            f"; from here on, its learning rate is that of a run of {epochs} epochs, so it does not end with the "
            "weights of one from the start"
        )
    warnings.warn(message, AgrLearnWarning, stacklevel=2)
    return wanted.model_copy(update={"made_longer_after": [*found.made_longer_after, progress.epoch]})
