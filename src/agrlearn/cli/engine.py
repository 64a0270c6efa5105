"""The devices and processes that a command runs on."""

import os
import shlex
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agrlearn.errors import RecipeError

if TYPE_CHECKING:
    import torch
    from lightning_fabric import Fabric

    from agrlearn.data.sources import Source

_PATIENCE = timedelta(minutes=10)
_command_line = ""


class Alone(NamedTuple):
    """The only process there is, which predicts without Lightning Fabric: that takes longer to import than torch."""

    device: "torch.device"
    is_global_zero: bool = True


def announce_device(name: str, *, silent: bool = False) -> None:
    """Say where a command runs, unless `silent`; a device that is not there is refused, before anything is read."""
    from agrlearn.devices import choose_device, describe_device

    device = choose_device(name)
    if os.environ.get("LT_CLI_USED"):
        if name != "auto":
            raise RecipeError("under `fabric run`, its own --accelerator says where to run; leave out --device")
        return
    if is_main_process() and not silent:
        world = int(os.environ.get("WORLD_SIZE", 1))
        processes = f", {world} processes" if world > 1 else ""
        print(f"Running on {describe_device(device)}{processes}", flush=True)


def start_engine(device: str = "auto", precision: str = "32-true") -> "Fabric":
    """A launched Fabric: alone on one device, or one of the processes that torchrun or `fabric run` has started."""
    from lightning_fabric import Fabric
    from lightning_fabric.strategies import DDPStrategy

    from agrlearn.devices import check_precision, choose_device, engine_on

    check_precision(precision)
    if os.environ.get("LT_CLI_USED"):
        return Fabric()  # `fabric run` has the devices and the precision, and has launched already
    world, local = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if world == 1:
        return engine_on(device, precision)
    engine = Fabric(
        accelerator=choose_device(device).type, devices=local, num_nodes=world // local,
        strategy=DDPStrategy(timeout=_PATIENCE), precision=precision,  # type: ignore[arg-type]
    )  # fmt: skip
    engine.launch()
    return engine


def start_predicting(device: str = "auto") -> "Fabric | Alone":
    """Where this process predicts, and whether it is the one that writes."""
    from agrlearn.devices import choose_device

    if os.environ.get("LT_CLI_USED") or int(os.environ.get("WORLD_SIZE", 1)) > 1:
        return start_engine(device)
    return Alone(choose_device(device))


def stop_engine() -> None:
    """Leave the other processes in order: connections still open while Python shuts down can abort it, its work done.

    Not after an error: closing a connection may wait for a process that is gone.
    """
    distributed = sys.modules.get("torch.distributed")  # which most commands have no need to import
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def print_remarks(source: "Source", bad_file: Path | None = None) -> None:
    """Say what was guessed about a source, and what was left out, which `bad_file` lists."""
    if not is_main_process():
        return
    if source.columns:
        print(f"{source.name}:\n{source.summary}")
    for remark in source.remarks:
        print(f"{source.name}: {remark}")
    if source.bad:
        print(f"{source.left_out}{f', listed in {bad_file}' if bad_file else ''}")


def set_command_line(arguments: Sequence[str]) -> None:
    """Remember what this process was asked for."""
    global _command_line
    _command_line = shlex.join(["agrlearn", *arguments])


def command_line() -> str:
    """The command that this process runs, as it is typed."""
    return _command_line


def process_number() -> int:
    """The number of this process, from its launcher; 0 where there is only one."""
    return int(os.environ.get("RANK", 0))


def is_main_process() -> bool:
    """Whether this process is the one that prints."""
    return process_number() == 0
