"""Options that several commands share."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, Token

from agrlearn.devices import DeviceName

if TYPE_CHECKING:
    from agrlearn.runs.jobs import Resources


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
    device: DeviceName = "auto"
    """auto (a GPU if there is one), cpu, cuda or mps."""


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
    """How often a run is tried again whose process died."""
    device: DeviceName = "auto"
    """auto (a GPU if there is one), cpu, cuda or mps."""

    def resources(self) -> "Resources":
        from agrlearn.runs.jobs import Resources

        return Resources(self.engine, self.workers, self.address, self.cpus, self.gpus, self.retries, self.device)

    def announce(self) -> None:
        """Say what the runs are trained on; the machines of a cluster have devices of their own."""
        from agrlearn.cli.engine import announce_device

        if self.address is None:
            announce_device(self.device)
