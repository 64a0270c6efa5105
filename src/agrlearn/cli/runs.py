"""What the commands share: data sets split as training split them, and trained networks with their classes."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, Token
from pydantic import BaseModel, ConfigDict

from agrlearn.cli.engine import speaks
from agrlearn.errors import DataError, RecipeError, RunError, look_up

if TYPE_CHECKING:
    from agrlearn.data.labelled import LabelledSet
    from agrlearn.data.sources import Source
    from agrlearn.experiments.engines import Resources
    from agrlearn.grouping import Objects
    from agrlearn.networks.aggregated import AggregatedClassifier
    from agrlearn.prediction.protocols import PredictionProtocol


def _whole_number(type_: type, tokens: Sequence[Token]) -> int:
    """A number without a fraction; cyclopts alone would round 1.5."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"expected a whole number, got {tokens[0].value!r}.") from None


WholeNumber = Annotated[int, Parameter(converter=_whole_number)]


@dataclass(frozen=True)
class PredictionOptions:
    """How `predict` and `evaluate` use a trained network."""

    draws: WholeNumber = 1
    """Random groups per object, for batched and contextual."""
    context: str | None = None
    """Where contextual takes the companions from; by default the data that RUN was trained on."""
    samples: WholeNumber = 0
    """Draws of a stochastic bottleneck to average over; 0 uses its mean."""
    seed: WholeNumber = 0
    """Of the random groups."""
    batch_size: WholeNumber = 256
    """Groups per pass."""
    network: str | None = None
    """For a run whose network comes from a Python file: that file and function, which are run."""
    skip_bad: bool = False
    """Leave out files and rows that cannot be read."""
    data_dir: Path | None = None
    """The folder of data sets as they are published; by default the one that RUN was trained with."""


@dataclass(frozen=True)
class ResourceOptions:
    """Where `reproduce` and `sweep` run their many runs."""

    workers: WholeNumber = 1
    """Runs at the same time, on this machine."""
    engine: Literal["processes", "ray"] = "processes"
    """Processes of this machine, or Ray."""
    address: str | None = None
    """Of a Ray cluster (such as ray://head:10001, or auto); its machines must share the folders of runs and data."""
    cpus: float = 1
    """Threads of each run."""
    gpus: float = 0
    """GPUs of each run, on Ray."""
    retries: WholeNumber = 1
    """How often a run that failed is tried again."""

    def resources(self) -> "Resources":
        from agrlearn.experiments.engines import Resources

        return Resources(self.engine, self.workers, self.address, self.cpus, self.gpus, self.retries)


_DATA_FILE = "data.json"
BAD_FILE = "left_out.tsv"


def split_source(source: "Source", fraction: float) -> "tuple[LabelledSet, LabelledSet | None]":
    """The training part and the part to validate on: the source's own test part, or a fraction of every class."""
    import torch

    from agrlearn.seeding import generator

    if not 0.0 <= fraction < 1.0:
        raise RecipeError(f"validation-fraction is a share from 0 up to 1, got {fraction}")
    everything = source.labelled(source.train)
    if source.test is not None:
        return everything, source.labelled(source.test, everything.class_names)
    if fraction == 0.0:
        return everything, None
    order = torch.randperm(len(everything), generator=generator(0))
    held_out = torch.zeros(len(everything), dtype=torch.bool)
    for number, name in enumerate(everything.class_names):
        members = order[everything.labels[order] == number]
        if len(members) < 2:
            raise DataError(
                f"{source.name} has a single object of the class {name!r}, too few to hold one out; add more, or "
                "train on all with --validation-fraction 0"
            )
        share = round(fraction * len(members))
        held_out[members[: min(max(1, share), len(members) - 1)]] = True
    return everything.subset(order[~held_out[order]]), everything.subset(order[held_out[order]])


def remember_data(run_dir: Path, source: "Source", fraction: float, data_dir: Path | None) -> None:
    """Note in the run directory what it trains on, how that became objects, and what was left out."""
    from agrlearn.files import write_atomically

    about = DataNote(
        source=_lasting_name(source),
        data_dir=None if data_dir is None else str(data_dir.resolve()),
        validation_fraction=fraction,
        preparation=source.preparation,
    )
    write_atomically(run_dir / _DATA_FILE, json.dumps(about.model_dump()) + "\n")
    list_bad(source, run_dir / BAD_FILE)


def list_bad(source: "Source", file: Path) -> None:
    """List what was left out of the source and why; where nothing was, an earlier list is removed."""
    from agrlearn.files import write_atomically

    if source.bad:
        write_atomically(file, "".join(f"{bad.where}\t{bad.reason}\n" for bad in source.bad))
    else:
        file.unlink(missing_ok=True)


def _lasting_name(source: "Source") -> str:
    """The source's name, wherever a command is given."""
    return str(Path(source.name).resolve()) if Path(source.name).exists() else source.name


def part_to_measure(source: "Source", run_dir: Path, class_names: tuple[str, ...]) -> "tuple[LabelledSet, str]":
    """What to measure a run on: the source's test part or all of it, but not what the run was trained on.

    Returns:
        The labelled objects, and what they are, for a person to read.
    """
    about = read_note(run_dir)
    labelled = source.labelled(source.unseen, class_names)
    if about is None or source.test is not None or about.source != _lasting_name(source):
        return labelled, f"{len(labelled):,} objects of {source.name}"
    held_out = split_source(source, about.validation_fraction)[1]
    if held_out is None:
        return labelled, f"{len(labelled):,} objects of {source.name}, all of which it was trained on"
    return held_out, f"{len(held_out):,} held-out objects of {source.name}"


def tell_about(source: "Source", bad_file: Path | None = None) -> None:
    """Say aloud what was guessed and what was left out, which `bad_file` lists."""
    if not speaks():
        return
    for remark in source.remarks:
        print(f"{source.name}: {remark}")
    if source.bad:
        where = f", listed in {bad_file}" if bad_file else ""
        print(f"{source.name}: left out {len(source.bad)} that cannot be read{where}")


def open_like_training(data: str, run_dir: Path, *, skip_bad: bool = False, data_dir: Path | None = None) -> "Source":
    """Data for a trained network: they become objects as its training data did."""
    from agrlearn.data.catalogue import open_source

    about = read_note(run_dir)
    before = about.data_dir if about else None
    return open_source(
        data,
        data_dir=data_dir or (before if before and Path(before).is_dir() else None),
        preparation=about.preparation if about else None,
        skip_bad=skip_bad,
    )


def training_objects(run_dir: Path, data_dir: Path | None = None, *, otherwise: str) -> "Objects":
    """The objects that a run was trained on, read again from where they were.

    Args:
        otherwise: what to do about a run that does not tell them.
    """
    about = read_note(run_dir)
    if about is None:
        raise RunError(f"{run_dir} was made in Python and does not tell its training data; {otherwise}")
    source = open_like_training(about.source, run_dir, skip_bad=True, data_dir=data_dir)
    train_set, _ = split_source(source, about.validation_fraction)
    return train_set.objects


class DataNote(BaseModel):
    """What a run directory remembers of the data that it trains on."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    source: str
    data_dir: str | None
    validation_fraction: float
    preparation: dict[str, Any]


def read_note(run_dir: Path) -> DataNote | None:
    """What a run directory remembers of its data; None for a run from Python."""
    from agrlearn.files import parse_json, read_small_text

    file = run_dir / _DATA_FILE
    if not file.exists():
        return None
    try:
        return DataNote.model_validate(parse_json(read_small_text(file)))
    except ValueError:
        raise RunError(f"{file} does not tell of data as agrlearn does; `agrlearn train` writes it anew") from None


def open_run(run_dir: Path, network: str | None = None) -> "tuple[AggregatedClassifier, tuple[str, ...]]":
    """A run's trained network and its class names; a network from a file is built only if `network` names it."""
    from agrlearn.networks.catalogue import load, saved_class_names, saved_description
    from agrlearn.networks.outside import build_outside, is_outside
    from agrlearn.training.checkpoint import NETWORK_FILE, read_run

    read_run(run_dir)
    file = run_dir / NETWORK_FILE
    if not file.exists():
        raise RunError(f"{run_dir} is not finished: the command that started it goes on with it")
    class_names = saved_class_names(file)
    described: Any = saved_description(file)
    if network is None or (described and network == described["network"] and not is_outside(network)):
        return _with_classes(load(file), class_names, file)
    if described is None:
        raise RunError(
            f"{run_dir} holds a network that was built in Python; agrlearn.load({str(file)!r}, model=...) opens it"
        )
    if not is_outside(network):
        raise RecipeError(
            f"the network of {run_dir} is {described['network']}, not {network}; --network is only needed for one that "
            "comes from a Python file, as FILE.py:FUNCTION"
        )
    options = {key: value for key, value in described.items() if key not in ("network", "object_shape")}
    model = build_outside(network, object_shape=tuple(described["object_shape"]), **options)
    return _with_classes(load(file, model), class_names, file)


def _with_classes(
    network: "AggregatedClassifier", class_names: tuple[str, ...], file: Path
) -> "tuple[AggregatedClassifier, tuple[str, ...]]":
    # A Dataset of the user's own, trained on in Python, need not name its classes.
    class_names = class_names or tuple(str(number) for number in range(network.num_classes))
    if len(class_names) != network.num_classes:
        raise RunError(f"{file} names {len(class_names)} classes of a network of {network.num_classes}; train it again")
    return network, class_names


def check_shapes(network: "AggregatedClassifier", objects: "Objects", name: str) -> None:
    """Refuse data whose objects do not have the shape the network was trained on."""
    from agrlearn.grouping import first_tensor

    described: Any = network.description
    expected = tuple(described["object_shape"])
    came = tuple(first_tensor(objects).shape[1:])
    if expected != came:
        raise DataError(f"{name} holds objects of shape {came}, the network was trained on shape {expected}")


def make_protocol(name: str, run_dir: Path, options: PredictionOptions) -> "PredictionProtocol":
    """The protocol called `name`; Contextual takes its companions from the context or the run's training data."""
    from agrlearn.prediction.protocols import Batched, Contextual, Replicated

    def contextual() -> Contextual:
        if options.context:
            companions = open_like_training(options.context, run_dir, data_dir=options.data_dir).train.objects
        else:
            companions = training_objects(run_dir, options.data_dir, otherwise="name them with --context")
        return Contextual(companions, draws=options.draws, seed=options.seed)

    makers: dict[str, Callable[[], Any]] = {
        "replicated": Replicated,
        "contextual": contextual,
        "batched": lambda: Batched(draws=options.draws, seed=options.seed),
    }
    return look_up(makers, name, "protocol")()
