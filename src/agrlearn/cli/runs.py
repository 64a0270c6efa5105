"""What the commands share: options, and trained networks with their classes and ways to predict."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, Token

from agrlearn.errors import DataError, RecipeError, RunError

if TYPE_CHECKING:
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
    """Refuse data whose objects do not have the shape, or are not of the kind, that the network was trained on."""
    import torch

    from agrlearn.grouping import first_tensor

    described: Any = network.description
    tensor = first_tensor(objects)
    expected, came = tuple(described["object_shape"]), tuple(tensor.shape[1:])
    if expected != came:
        raise DataError(f"{name} holds objects of shape {came}, the network was trained on shape {expected}")
    sentences = tensor.dtype == torch.int64
    if sentences != network.reads_tokens:
        kinds = ("sentences", "numbers") if sentences else ("numbers", "sentences")
        raise DataError(f"{name} holds {kinds[0]}, the network was trained on {kinds[1]}; give it data of that kind")


def make_protocol(
    name: str, run_dir: Path, network: "AggregatedClassifier", options: PredictionOptions
) -> "PredictionProtocol":
    """The protocol called `name`; Contextual takes its companions from the context or the run's training data."""
    from agrlearn.cli.data import open_like_training, training_objects
    from agrlearn.prediction import protocols

    def context() -> "Objects":
        if not options.context:
            return training_objects(run_dir, network, options.data_dir, otherwise="name them with --context")
        source = open_like_training(options.context, run_dir, network, data_dir=options.data_dir, labels=False)
        check_shapes(network, source.train.objects, options.context)
        return source.train.objects

    return protocols.make_protocol(name, draws=options.draws, seed=options.seed, context=context)
