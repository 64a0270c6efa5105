"""Where a network runs: a device by name, or the best there is. torch is imported when it is needed, not before."""

from typing import TYPE_CHECKING, Literal, get_args

from agrlearn.errors import RecipeError

if TYPE_CHECKING:
    import torch
    from lightning_fabric import Fabric

DeviceName = Literal["auto", "cpu", "cuda", "mps"]
"""auto is a GPU if torch can use one, and else the processor."""
PRECISIONS = ("32-true", "16-mixed", "bf16-mixed", "64-true")


def choose_device(name: str = "auto") -> "torch.device":
    """The device of that name, if torch can use it here.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    import torch

    if name not in get_args(DeviceName):
        raise RecipeError(f"device is one of {', '.join(get_args(DeviceName))}, got {name!r}")
    usable = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    there = [kind for kind, is_there in usable.items() if is_there]
    if name != "auto" and name not in there:
        raise RecipeError(f"torch {torch.__version__} finds no {name} device here; it can use {' and '.join(there)}")
    return torch.device(there[0] if name == "auto" else name)


def describe_device(device: "torch.device") -> str:
    """A device for a person to read: a GPU of NVIDIA or AMD with its name.

    >>> describe_device(choose_device("cpu"))
    'cpu'
    """
    import torch

    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)


def engine_on(device: str = "auto", precision: str = "32-true") -> "Fabric":
    """What `fit` takes to train on one device by name, with a precision of `PRECISIONS`.

    >>> engine_on("cpu").device
    device(type='cpu')
    """
    from lightning_fabric import Fabric

    check_precision(precision)
    return Fabric(accelerator=choose_device(device).type, devices=1, precision=precision)  # type: ignore[arg-type]


def check_precision(precision: str) -> None:
    """Refuse a precision that is not in `PRECISIONS`."""
    if precision not in PRECISIONS:
        raise RecipeError(f"precision is one of {', '.join(PRECISIONS)}, got {precision!r}")
