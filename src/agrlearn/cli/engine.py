"""The devices and processes that a command runs on."""

import os
import shlex
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from agrlearn.errors import RecipeError

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from agrlearn.data.sources import Source

_PATIENCE = timedelta(minutes=10)
_command_line = ""
PRECISIONS = ("32-true", "16-mixed", "bf16-mixed", "64-true")


def start_engine(precision: str = "32-true") -> "Fabric":
    """A launched Fabric: alone on one device, or one of the processes that torchrun or `fabric run` has started."""
    from lightning_fabric import Fabric
    from lightning_fabric.strategies import DDPStrategy

    if precision not in PRECISIONS:
        raise RecipeError(f"precision is one of {', '.join(PRECISIONS)}, got {precision!r}")
    if os.environ.get("LT_CLI_USED"):
        return Fabric()  # `fabric run` has the devices and the precision, and has launched already
    world, local = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if world == 1:
        return Fabric(devices=1, precision=precision)  # type: ignore[arg-type]
    strategy = DDPStrategy(timeout=_PATIENCE)
    engine = Fabric(devices=local, num_nodes=world // local, strategy=strategy, precision=precision)  # type: ignore[arg-type]
    engine.launch()
    return engine


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
