"""Networks by name: build one for a data set, save it, and load it again without running any code of the file."""

import inspect
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from agrlearn.data.labelled import LONGEST_NAME
from agrlearn.errors import AgrLearnError, RecipeError, RunError, look_up
from agrlearn.files import open_regular, parse_json, write_atomically
from agrlearn.grouping import TOKEN_TYPES
from agrlearn.networks.aggregated import AggregatedClassifier, check_network
from agrlearn.networks.layout import has_channels_last, set_channels_last
from agrlearn.networks.mlp import mlp
from agrlearn.networks.outside import comes_from_file, comes_from_timm, is_outside, rebuild_outside, timm_parameters
from agrlearn.networks.preact_resnet import preact_resnet
from agrlearn.networks.sentence_cnn import sentence_cnn
from agrlearn.networks.sentence_lstm import sentence_lstm
from agrlearn.networks.small_cnn import small_cnn
from agrlearn.networks.standardize import Standardize
from agrlearn.networks.wide_resnet import wide_resnet
from agrlearn.seeding import derive_seed, seeded

NETWORKS: dict[str, Callable[..., AggregatedClassifier]] = {
    "small-cnn": small_cnn,
    "mlp": mlp,
    "sentence-cnn": sentence_cnn,
    "sentence-lstm": sentence_lstm,
    "preact-resnet": preact_resnet,
    "wide-resnet": wide_resnet,
}
"""Networks by name: each builder takes (object_shape, num_classes, fold) and options of its own as keywords."""

_FORMAT = "agrlearn-network-1"
_ANY_SIZE = 2**14  # what a description may ask for, however small the file: an image can be larger than its network
_LARGEST_HEADER = 2**25  # bytes
_LEAST = {"join_after": -1, "vocabulary": 0}  # of options that count; all other whole numbers are sizes
_SEED_PURPOSE = 0x6E6574  # keeps the initial weights' stream apart from the training's


def build_network(
    name: str | None = None,
    *,
    object_shape: tuple[int, ...],
    num_classes: int,
    fold: int = 1,
    seed: int = 0,
    objects: Tensor | None = None,
    **options: Any,
) -> AggregatedClassifier:
    """A network of the catalogue with fresh weights, the same for the same arguments.

    Args:
        name: a name in `NETWORKS`; without one, the network that fits the objects' shape.
        object_shape: the shape of one object.
        objects: training objects, whose mean and spread the network takes over as its first layer.
        options: the network's own keywords, such as `width`.

    >>> build_network(object_shape=(1, 8, 8), num_classes=10, fold=2)(torch.zeros(4, 2, 1, 8, 8)).shape
    torch.Size([4, 2, 10])
    """
    name = name or default_network(object_shape, tokens=objects is not None and objects.dtype in TOKEN_TYPES)
    known = network_defaults(name)
    if "vocabulary" in options and "vocabulary" not in known:
        readers = [reader for reader in NETWORKS if "vocabulary" in network_defaults(reader)]
        raise RecipeError(f"{name} does not take sentences; the networks that do are: {', '.join(readers)}")
    for option in options:
        look_up(known, option, f"option of {name}")
    _check_options(name, known, options)
    if fold < 1:
        raise RecipeError(f"fold is the number of objects in a group and at least 1, got {fold}")
    with seeded(derive_seed(_SEED_PURPOSE, seed)):
        network = NETWORKS[name](tuple(object_shape), num_classes, fold, **options)
    network.initial_seed = seed
    network.description = {
        "network": name,
        "object_shape": list(object_shape),
        "num_classes": num_classes,
        "fold": fold,
        **known,  # a later version may have other defaults
        **options,
    }
    if objects is not None:
        for layer in standardizers(network):
            layer.fit(objects)
    return network


def default_network(object_shape: tuple[int, ...], *, tokens: bool = False) -> str:
    """The name of the network that fits objects of this shape."""
    if tokens:
        return "sentence-cnn"
    return "small-cnn" if len(object_shape) == 3 else "mlp"


def network_defaults(name: str) -> dict[str, Any]:
    """The options of the network called `name`, each with its default.

    >>> network_defaults("mlp")
    {'width': 128, 'depth': 2, 'join': 'mean', 'join_after': -1, 'dropout': 0.0, 'noise': 0.0}
    """
    parameters = inspect.signature(look_up(NETWORKS, name, "network")).parameters
    return {key: value.default for key, value in parameters.items() if value.kind is value.KEYWORD_ONLY}


def _check_options(name: str, defaults: dict[str, Any], options: dict[str, Any]) -> None:
    """Refuse sizes and counts that no network has, in a sentence instead of a traceback of torch."""
    for option, value in options.items():
        if type(defaults[option]) is int:
            least = _LEAST.get(option, 1)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise RecipeError(f"{option} of {name} is a whole number from {least} up, got {value!r}")
        elif option == "dropout" and not (isinstance(value, int | float) and 0 <= value < 1):
            raise RecipeError(f"dropout of {name} is a share from 0 up to 1, got {value!r}")
        elif option == "noise" and not (isinstance(value, int | float) and 0 <= value < math.inf):
            raise RecipeError(f"noise of {name} is a standard deviation from 0 up, got {value!r}")


def standardizers(network: nn.Module) -> list[Standardize]:
    """The layers that hold the data's mean and spread."""
    return [layer for layer in network.modules() if isinstance(layer, Standardize)]


def learned_tensors(network: nn.Module) -> Iterator[Tensor]:
    """The parameters, and the means and spreads of the data; other buffers may be infinite on purpose."""
    yield from network.parameters()
    for layer in network.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm | Standardize):
            yield from (average for average in layer.buffers() if average.is_floating_point())


def rebuild_network(description: dict[str, Any]) -> AggregatedClassifier:
    """The network of a description, with fresh weights. No code that the description names is run."""
    arguments = dict(description)
    name = arguments.pop("network")
    shape = tuple(arguments.pop("object_shape"))
    if comes_from_file(name):
        raise RunError(f"the network comes from {name}, whose code is run only when you name it (--network {name})")
    return (rebuild_outside if is_outside(name) else build_network)(name, object_shape=shape, **arguments)


def save(network: AggregatedClassifier, path: str | Path, *, class_names: tuple[str, ...] = ()) -> None:
    """Write the weights as safetensors, with the network's description as JSON in the file's header."""
    check_network(network)
    header = {
        "format": _FORMAT,
        "description": json.dumps(network.description),
        "class_names": json.dumps(class_names),
        "fold": str(network.fold),
        "num_classes": str(network.num_classes),
    }
    if has_channels_last(network):
        header["layout"] = "channels-last"  # the weights in the file are contiguous
    # Copies, since safetensors refuses weights that are tied; loading gives both the same values, so the tie holds.
    weights = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in network.state_dict().items()}
    write_atomically(Path(path), _in_order(to_bytes(weights, metadata=header)))


def _in_order(content: bytes) -> bytes:
    """A safetensors file with its header sorted, as it is in no order of its own: equal networks, equal bytes."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8:end]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[end:]


def load(path: str | Path, model: AggregatedClassifier | None = None) -> AggregatedClassifier:
    """Read a network that `save` wrote; nothing in the file is executed.

    Args:
        model: the network to fill, needed where it is not of the catalogue.
    """
    return read_saved(path).build(model)


@dataclass(frozen=True)
class SavedNetwork:
    """A network as a file has it.

    Args:
        path: the file, for messages.
        description: how the network is built; None for one of the user's own.
    """

    path: Path
    description: dict[str, Any] | None
    class_names: tuple[str, ...]
    weights: dict[str, Tensor]
    channels_last: bool = False
    """How the network kept them."""

    def build(self, model: AggregatedClassifier | None = None) -> AggregatedClassifier:
        """The described network, or `model`, with these weights."""
        if model is None:
            if self.description is None:
                raise RunError(
                    f"{self.path} holds a network that is not in the catalogue; pass the built network as model="
                )
            model = _rebuild(self.path, self.description, self.weights)
        set_channels_last(model, self.channels_last)
        return _fill(self.path, model, self.weights)


def read_saved(path: str | Path) -> SavedNetwork:
    """Read a file that `save` wrote, without building the network."""
    path = Path(path)
    header, weights = _read(path)
    try:
        description, names = parse_json(header["description"]), parse_json(header["class_names"])
    except (KeyError, ValueError):
        raise RunError(f"{path} does not describe its network as agrlearn does; train it again") from None
    last = header.get("layout") == "channels-last"
    return SavedNetwork(path, check_description(path, description), check_class_names(path, names), weights, last)


def check_description(path: Path, description: Any) -> dict[str, Any] | None:
    """Return how a network is built, or None for one of the user's own; refuse what `save` would not write."""
    if description is None:
        return None
    try:
        counts = (*description["object_shape"], description["num_classes"], description["fold"])
        known = isinstance(description["network"], str) and all(type(count) is int and count >= 1 for count in counts)
    except (KeyError, TypeError):
        known = False
    if not known:
        raise RunError(f"{path} does not describe its network as agrlearn does; train it again")
    return description


def check_class_names(path: Path, names: Any) -> tuple[str, ...]:
    """Return the names of the classes, or refuse what `save` would not write."""
    if not isinstance(names, list) or not all(isinstance(name, str) and len(name) <= LONGEST_NAME for name in names):
        raise RunError(f"{path} does not name its classes as agrlearn does; train it again")
    return tuple(names)


def _fill(path: str | Path, model: AggregatedClassifier, weights: dict[str, Tensor]) -> AggregatedClassifier:
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise RunError(f"{path} does not fit the network: {str(error).splitlines()[-1].strip()}") from error
    if not all(tensor.is_meta or torch.isfinite(tensor).all() for tensor in learned_tensors(model)):
        raise RunError(f"{path} holds weights that are NaN or infinite; train it again, with a lower learning rate")
    return model


def _rebuild(path: str | Path, description: dict[str, Any], weights: dict[str, Tensor]) -> AggregatedClassifier:
    """The described network, unless the description asks for another one than the file's weights are of."""
    count = sum(tensor.numel() for tensor in weights.values())
    sizes = (*description["object_shape"], *description.values())
    try:
        too_large = any(isinstance(size, int) and size > max(count, _ANY_SIZE) for size in sizes)
        if too_large or description.get("depth", 0) > len(weights):  # every layer has weights of its own
            raise RunError(f"{path} describes a far larger network than it holds")
        if comes_from_timm(description["network"]):
            # Its conversion needs numbers, so it cannot be built without memory; one of twice the weights is not built.
            shape = tuple(description["object_shape"])
            if timm_parameters(description["network"], shape, description["num_classes"]) > 2 * count:
                raise RunError(f"{path} describes a far larger network than it holds")
        elif not is_outside(description["network"]):
            with torch.device("meta"):  # without memory, to compare the shapes
                _fill(path, rebuild_network(description), {name: held.to("meta") for name, held in weights.items()})
        return rebuild_network(description)
    except AgrLearnError:
        raise
    except (ArithmeticError, AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        raise RunError(f"{path} describes a network that cannot be built ({error}); train it again") from error


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    if not path.is_file():
        raise RunError(f"there is no saved network at {path}")
    try:
        with open_regular(path) as start:
            size = int.from_bytes(start.read(8), "little")
        if size > _LARGEST_HEADER:
            raise RunError(f"{path} is not a safetensors file of agrlearn: its header would have {size:,} bytes")
        with safetensors.safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (safetensors.SafetensorError, OSError) as error:
        raise RunError(f"{path} is not a safetensors file ({error})") from error
    if header.get("format") != _FORMAT:
        raise RunError(f"{path} is a safetensors file, but not one that agrlearn wrote")
    return header, weights
