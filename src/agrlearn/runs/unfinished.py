"""A run that is not finished, because it was stopped or is under way: its network so far, and how to go on with it."""

import shlex
import warnings
from pathlib import Path
from typing import Any

from agrlearn.errors import AgrLearnWarning, RunError
from agrlearn.networks.catalogue import SavedNetwork, check_class_names, check_description
from agrlearn.training.checkpoint import RUN_FILE, read_checkpoint
from agrlearn.training.identity import RunFile
from agrlearn.training.state import weights_so_far


def read_unfinished(path: Path, about: RunFile) -> SavedNetwork:
    """The best network so far, or the last where none is kept as the best; a warning says which."""
    state, _ = read_checkpoint(path)
    if state is None:
        raise RunError(
            f"{path} has no checkpoint yet, as one is made after an epoch or a minute; {_how_to_go_on(path, about)}"
        )
    found = weights_so_far(state)
    warnings.warn(
        f"{path} is not finished, with {found.epochs} of {about.identity.recipe.epochs} epochs; using {found.which}; "
        f"{_how_to_go_on(path, about)}",
        AgrLearnWarning,
        stacklevel=2,
    )
    facts: dict[str, Any] = about.identity.network.model_dump()
    # A network that was built in Python is not described by its facts.
    description = check_description(path / RUN_FILE, facts) if "object_shape" in facts else None
    return SavedNetwork(path, description, check_class_names(path / RUN_FILE, about.class_names), found.weights)


def _how_to_go_on(path: Path, about: RunFile) -> str:
    if about.command is None:
        return f"go on with: fit(..., run_dir={str(path)!r})"
    try:
        words = shlex.split(about.command)
    except ValueError:  # it was so long that it was cut
        words = []
    # A stranger's run may have any text here, which nobody should paste into a shell.
    if words[:2] != ["agrlearn", "train"] or not about.command.isprintable():
        return "go on with the command that started it"
    return f"go on with: {shlex.join(word for word in words if word != '--fresh')}"  # which would start over
