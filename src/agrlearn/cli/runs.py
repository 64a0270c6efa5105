"""What the commands share: data sets split as training split them, and trained networks with their classes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agrlearn.errors import DataError, RecipeError, RunError, look_up

if TYPE_CHECKING:
    from agrlearn.data.labelled import LabelledSet
    from agrlearn.data.sources import Source
    from agrlearn.grouping import Objects
    from agrlearn.networks.aggregated import AggregatedClassifier
    from agrlearn.prediction.protocols import PredictionProtocol

_DATA_FILE = "data.json"


def split_source(source: "Source", fraction: float) -> "tuple[LabelledSet, LabelledSet | None]":
    """The training part and the part to validate on: the source's own test part, or a random fraction of all."""
    import torch

    from agrlearn.seeding import generator

    if not 0.0 <= fraction < 1.0:
        raise RecipeError(f"validation-fraction is a share from 0 up to 1, got {fraction}")
    everything = source.labelled(source.train)
    if source.test is not None:
        return everything, source.labelled(source.test, everything.class_names)
    held_out = round(fraction * len(everything))
    if held_out == 0:
        return everything, None
    if held_out == len(everything):
        raise DataError(f"{source.name} has {len(everything)} objects, too few to hold out {fraction:.0%} of them")
    order = torch.randperm(len(everything), generator=generator(0))
    return everything.subset(order[held_out:]), everything.subset(order[:held_out])


def remember_data(run_dir: Path, source: str, fraction: float) -> None:
    """Note in the run directory what it trains on."""
    from agrlearn.files import write_atomically

    stored = str(Path(source).resolve()) if Path(source).exists() else source
    write_atomically(run_dir / _DATA_FILE, json.dumps({"source": stored, "validation_fraction": fraction}) + "\n")


def training_objects(run_dir: Path) -> "Objects":
    """The objects that a run was trained on, read again from where they were."""
    from agrlearn.data.catalogue import open_source

    file = run_dir / _DATA_FILE
    if not file.exists():
        raise RunError(f"{run_dir} does not tell its training data; name them with --context")
    about = json.loads(file.read_text())
    train_set, _ = split_source(open_source(about["source"]), about["validation_fraction"])
    return train_set.objects


def open_run(run_dir: Path) -> "tuple[AggregatedClassifier, tuple[str, ...]]":
    """A run's trained network and its class names."""
    from agrlearn.networks.catalogue import load, saved_class_names
    from agrlearn.training.checkpoint import NETWORK_FILE, read_run

    read_run(run_dir)
    file = run_dir / NETWORK_FILE
    if not file.exists():
        raise RunError(f"{run_dir} is not finished: the command that started it goes on with it")
    return load(file), saved_class_names(file)


def check_shapes(network: "AggregatedClassifier", objects: "Objects", name: str) -> None:
    """Refuse data whose objects do not have the shape the network was trained on."""
    from agrlearn.grouping import first_tensor

    described: Any = network.description
    expected = tuple(described["object_shape"])
    came = tuple(first_tensor(objects).shape[1:])
    if expected != came:
        raise DataError(f"{name} holds objects of shape {came}, the network was trained on shape {expected}")


def make_protocol(name: str, run_dir: Path, *, draws: int, seed: int, context: str | None) -> "PredictionProtocol":
    """The protocol called `name`; Contextual takes its companions from `context` or the run's training data."""
    from agrlearn.data.catalogue import open_source
    from agrlearn.prediction.protocols import Batched, Contextual, Replicated

    def contextual() -> Contextual:
        companions = open_source(context).train.objects if context else training_objects(run_dir)
        return Contextual(companions, draws=draws, seed=seed)

    makers: dict[str, Callable[[], Any]] = {
        "replicated": Replicated,
        "contextual": contextual,
        "batched": lambda: Batched(draws=draws, seed=seed),
    }
    return look_up(makers, name, "protocol")()
