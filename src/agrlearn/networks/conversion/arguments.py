"""What aggregate() is given, refused with a sentence where it cannot work."""

import math
import warnings
from collections.abc import Mapping
from contextlib import suppress
from numbers import Integral, Real
from types import FunctionType

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from agrlearn.errors import ConversionError
from agrlearn.grouping import Objects, count_objects


def original_module(model: nn.Module) -> nn.Module:
    """The model, or what torch.compile was given; models without weights or without Python code are refused."""
    if not isinstance(model, nn.Module):
        raise ConversionError(f"expected the model as a torch.nn.Module, got {type(model).__name__}; pass the module")
    if isinstance(model, torch.jit.ScriptModule):
        raise ConversionError(
            "the model is scripted or traced (torch.jit), so its layers cannot be watched; pass the module that "
            "torch.jit was given"
        )
    compiled = [name for name, module in model.named_modules() if "_orig_mod" in module._modules]
    if "" in compiled:
        warnings.warn(
            "the model is compiled: its original module is aggregated; call torch.compile on the result",
            stacklevel=3,
        )
        return original_module(model.get_submodule("_orig_mod"))
    if compiled:
        raise ConversionError(
            f"{compiled[0]} is compiled, so its layers cannot be watched; pass the model with its original module, "
            f"{compiled[0]}._orig_mod, and call torch.compile on the result"
        )
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(tensor):
            raise ConversionError(f"{name} has no shape yet (a lazy layer); run the model once on the example first")
        if tensor.is_meta:
            raise ConversionError(
                f"{name} is on the meta device, without values; load the model's weights, or call to_empty and "
                "initialise it, first"
            )
    _refuse_captured(model)
    return model


def _refuse_captured(model: nn.Module) -> None:
    """Refuse functions that hold on to a part of the model: a copy of the model would run and change that part."""
    parts = set(model.modules())
    for name, module in model.named_modules():
        functions = {"the forward": [vars(module).get("forward")]}
        functions["a hook"] = [*module._forward_pre_hooks.values(), *module._forward_hooks.values()]
        for what in (kind for kind, held in functions.items() if any(_captures(each, parts) for each in held)):
            raise ConversionError(
                f"{what} of {name or 'the model'} is a function that holds on to a part of the model, or is compiled, "
                "and a copy of the model would go on to use that part; make it a method of the module, or aggregate "
                "before it is set"
            )


def _captures(function: object, parts: set[nn.Module]) -> bool:
    """Whether a function has modules of the model, or their methods, in its closure or defaults."""
    if not isinstance(function, FunctionType):
        return False
    held = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # a cell that is still empty
            held.append(cell.cell_contents)
    owners = [getattr(thing, "__self__", thing) for thing in held]
    return any(isinstance(owner, nn.Module) and owner in parts for owner in owners)


def module_name(model: nn.Module, name: str | None) -> str | None:
    """The name that a module has in `named_modules`, where it is called by another one that the model has for it."""
    if name is None or name in dict(model.named_modules()):
        return name
    alias = dict(model.named_modules(remove_duplicate=False)).get(name)
    return next((key for key, module in model.named_modules() if module is alias), name)


def check_options(fold: object, slot_noise: object, noise: object, **names: object) -> None:
    if isinstance(fold, bool) or not isinstance(fold, Integral) or fold < 1:
        raise ConversionError(
            f"fold is the number of objects in a group, a whole number of at least 1, got {fold!r}; pass such as fold=2"
        )
    for option, value in {"slot_noise": slot_noise, "noise": noise}.items():
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < math.inf:
            raise ConversionError(f"{option} is a finite number of at least 0, got {value!r}")
    for option, value in names.items():
        texts = value if option == "stem" and isinstance(value, list) else [value]
        if value is not None and not all(isinstance(text, str) and text for text in texts):
            raise ConversionError(
                f"{option} is a name, such as one in model.named_modules() for a layer, got {value!r}; leave {option} "
                "out for the default"
            )


def check_example(example: Objects) -> None:
    held = {"": example} if isinstance(example, Tensor) else example
    tensors = list(held.values()) if isinstance(held, Mapping) else []
    others = [type(tensor).__name__ for tensor in tensors if not isinstance(tensor, Tensor)]
    if not tensors or others:
        what = f"holds a {others[0]}" if others else f"is a {type(example).__name__} without tensors"
        raise ConversionError(
            f"the example {what}; pass a Tensor of objects (torch.from_numpy makes one of an array), or a mapping of "
            "argument names to tensors for a model with several inputs"
        )
    for tensor in tensors:
        if tensor.ndim == 0 or tensor.layout != torch.strided or tensor.is_nested or tensor.is_meta:
            raise ConversionError(
                "the example is, or holds, a tensor without dimensions, or a sparse, nested or meta one; pass dense "
                "tensors with the objects first"
            )
    if count_objects(example) == 0:
        raise ConversionError("the example is empty; pass a batch of at least one object")
