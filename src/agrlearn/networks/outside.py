"""Networks that are not in the catalogue: timm's by name, and those of the user's own Python file."""

import ast
import hashlib
import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from agrlearn.errors import ConversionError, RecipeError, UnknownNameError
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.convert import INPUT, Conversion, aggregate
from agrlearn.networks.joins import PADDING
from agrlearn.networks.standardize import Standardize
from agrlearn.seeding import derive_seed, seeded

TIMM_PREFIX = "timm:"
_SEED_PURPOSE = 0x6F7574

CONVERSION_OPTIONS: dict[str, Any] = {
    "at": "", "join": "", "stem": "", "classifier": "", "widen": False, "slot_noise": 0.1, "slot_embeddings": False,
}  # fmt: skip
"""What may be said about a conversion, with the defaults; an empty text means that `aggregate` decides.

A network's description always names its join; its `at` is empty unless one was given.
"""


def is_outside(name: str) -> bool:
    """Whether a network's name is timm:NAME or FILE.py:FUNCTION."""
    return comes_from_timm(name) or comes_from_file(name)


def comes_from_timm(name: str) -> bool:
    """Whether a network's name is timm:NAME."""
    return name.startswith(TIMM_PREFIX)


def comes_from_file(name: str) -> bool:
    """Whether a network's name is FILE.py:FUNCTION, which runs that file's code."""
    return ".py:" in name


def file_of(name: str) -> str:
    """The path in FILE.py:FUNCTION."""
    return name.rpartition(":")[0]


def code_digest(name: str) -> str | None:
    """A fingerprint of what the file in FILE.py:FUNCTION does, apart from comments; None if there is no such file."""
    try:
        code = ast.dump(ast.parse(Path(file_of(name)).read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return None
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def build_outside(
    name: str,
    *,
    object_shape: tuple[int, ...],
    num_classes: int,
    fold: int,
    seed: int = 0,
    objects: Tensor | None = None,
    tokens: bool = False,
    slot_blind: bool | None = None,
    **options: Any,
) -> AggregatedClassifier:
    """A model from outside, aggregated, with the data's mean and spread taken out first.

    Args:
        name: timm:NAME, or FILE.py:FUNCTION, which is imported and called.
        objects: training objects, as for `build_network`.
        tokens: whether the objects are tokens.
        slot_blind: what was found with the training objects of a network of tokens that is built again.
        options: of `aggregate`.
    """
    with seeded(derive_seed(_SEED_PURPOSE, seed)):
        maker = _timm_maker(name) if comes_from_timm(name) else _file_maker(name)
        model = maker(num_classes, object_shape)
    tokens = tokens or (objects is not None and objects.dtype == torch.int64)
    if isinstance(model, AggregatedClassifier):
        if (model.fold, model.num_classes) != (fold, num_classes):
            raise RecipeError(
                f"{name} made a network of fold {model.fold} and {model.num_classes} classes, "
                f"but fold {fold} and {num_classes} classes are asked for"
            )
        network = model
    else:
        example = _example(object_shape, objects, tokens=tokens)
        chosen = {option: value for option, value in options.items() if value != ""}
        network = aggregate(model, fold, example, seed=seed, verbose=False, **chosen)
        assert isinstance(network.conversion, Conversion)
        options["join"] = network.conversion.join
        if network.num_classes != num_classes:
            raise ConversionError(f"{name} made a model of {network.num_classes} classes, the data have {num_classes}")
        if slot_blind is not None:
            network.slot_blind = slot_blind
        if not tokens:
            standardize = Standardize(object_shape[0])
            network.shared = nn.Sequential(standardize if objects is None else standardize.fit(objects), network.shared)
    network.initial_seed = seed
    network.description = {
        "network": name, "object_shape": list(object_shape), "num_classes": num_classes, "fold": fold, "tokens": tokens,
        **({"slot_blind": network.slot_blind} if tokens else {}), **options,
    }  # fmt: skip
    return network


def rebuild_outside(name: str, *, object_shape: tuple[int, ...], **described: Any) -> AggregatedClassifier:
    """A model from outside as its description says."""
    if not described.get("join") and not described.get("at"):
        described["at"] = INPUT  # as earlier versions joined where nothing was said
    return build_outside(name, object_shape=object_shape, **described)


def _example(object_shape: tuple[int, ...], objects: Tensor | None, *, tokens: bool) -> Tensor:
    """(2, ...) objects that differ: sentences of the data, or of the two words that every vocabulary has."""
    if not tokens:
        return torch.rand((2, *object_shape), generator=torch.Generator())
    if objects is not None:
        return objects[:2]
    example = torch.ones((2, *object_shape), dtype=torch.int64)
    example[1, ..., 1::2] = PADDING
    return example


def timm_parameters(name: str, object_shape: tuple[int, ...], num_classes: int) -> int:
    """How many parameters a model of timm has before it is aggregated, counted without memory for them.

    0 where timm cannot build it so, as some of its older versions cannot.
    """
    make = _timm_maker(name)
    try:
        with torch.device("meta"):
            return sum(parameter.numel() for parameter in make(num_classes, object_shape).parameters())
    except (NotImplementedError, RuntimeError):
        return 0


Maker = Callable[[int, tuple[int, ...]], nn.Module]
"""Makes a model for (num_classes, object_shape)."""


def _timm_maker(name: str) -> Maker:
    try:
        import timm
    except ImportError:
        raise RecipeError(f"{name} needs timm; install it with: pip install 'agrlearn[timm]'") from None
    except RuntimeError as error:  # a torchvision that was not built for this torch
        raise RecipeError(f"timm cannot be imported here ({error}); install a torchvision that fits torch") from error
    wanted = name.removeprefix(TIMM_PREFIX)
    if not timm.is_model(wanted):
        close = timm.list_models(f"*{wanted}*")[:3]
        hint = f"; did you mean {', '.join(close)}?" if close else "; timm.list_models() lists them"
        raise UnknownNameError(f"timm has no model {wanted!r}{hint}")

    def make(num_classes: int, object_shape: tuple[int, ...]) -> nn.Module:
        if len(object_shape) != 3:
            raise RecipeError(f"timm's models take images, got objects of shape {object_shape}")
        size: dict[str, Any] = {"num_classes": num_classes, "in_chans": object_shape[0]}
        try:
            return timm.create_model(wanted, img_size=tuple(object_shape[1:]), **size)
        except TypeError:  # only models of a fixed image size take one
            return timm.create_model(wanted, **size)

    return make


def _file_maker(name: str) -> Maker:
    path, _, function = name.rpartition(":")
    file = Path(path)
    if not file.is_file():
        raise RecipeError(f"there is no file {path}, which {name} names")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's own code may raise anything
        raise RecipeError(f"{path} cannot be run ({type(error).__name__}: {error}); mend it") from error
    maker = getattr(module, function, None)
    if not callable(maker):
        raise RecipeError(f"{path} has no function {function!r}; name one that returns a model")

    def make(num_classes: int, object_shape: tuple[int, ...]) -> nn.Module:
        offered = {"num_classes": num_classes, "object_shape": object_shape}
        taken = inspect.signature(maker).parameters
        try:
            model = maker(**{key: value for key, value in offered.items() if key in taken})
        except Exception as error:
            raise RecipeError(f"{name} made no model ({type(error).__name__}: {error}); mend it") from error
        if not isinstance(model, nn.Module):
            raise RecipeError(f"{name} returned {type(model).__name__}; expected a torch.nn.Module")
        return model

    return make
