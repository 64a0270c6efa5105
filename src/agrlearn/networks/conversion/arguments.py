"""What aggregate() is given, refused with a sentence where it cannot work."""

import math
import warnings
from numbers import Integral, Real

import torch
from torch import nn
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
    return model


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
    if isinstance(example, tuple | list):
        raise ConversionError(
            "the example is a tuple; pass a Tensor of objects, or a mapping of argument names to tensors for a model "
            "with several inputs"
        )
    if count_objects(example) == 0:
        raise ConversionError("the example is empty; pass a batch of at least one object")
