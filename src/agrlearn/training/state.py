"""Everything that changes while a network trains, as one thing that can be saved and restored."""

import textwrap
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import torch
from lightning_fabric.plugins import Precision
from pydantic import BaseModel, Field, PlainValidator, StrictBool, StrictFloat, StrictInt
from torch import Tensor

from agrlearn.errors import RunError, TrainingError
from agrlearn.information.regularizer import InformationRegularizer
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import learned_tensors
from agrlearn.ranks import rank, sum_over_ranks, world_size
from agrlearn.training.history import EpochRecord, best_record

_LONGEST_REASON = 200
_AVERAGES: tuple[frozenset[str], ...] = (
    frozenset(),
    frozenset({"momentum_buffer"}),
    frozenset({"step", "exp_avg", "exp_avg_sq"}),
)
"""What SGD without and with momentum, and Adam, keep of a weight."""


@dataclass
class EpochTotals:
    """Sums over the steps of the epoch under way, kept on the device so that adding does not wait for it."""

    loss: Tensor
    wrong: Tensor
    information: Tensor
    groups: int = 0
    penalties: int = 0
    skipped: int = 0

    @staticmethod
    def zero(device: torch.device) -> "EpochTotals":
        precise = torch.float32 if device.type == "mps" else torch.float64
        loss, wrong, information = (torch.zeros((), dtype=precise, device=device) for _ in range(3))
        return EpochTotals(loss, wrong, information)

    def over_ranks(self) -> "EpochTotals":
        """The sums of all ranks."""
        if world_size() == 1:
            return self
        counts = torch.tensor([self.groups, self.penalties, self.skipped], device=self.loss.device)
        sums = sum_over_ranks(torch.stack([self.loss, self.wrong, self.information, *counts.to(self.loss.dtype)]))
        groups, penalties, skipped = (int(count) for count in sums[3:])
        return EpochTotals(sums[0], sums[1], sums[2], groups, penalties, skipped)


@dataclass
class TrainingState:
    """The networks and optimizers, and how far the run has come: the next step is `step` of `epoch`."""

    network: AggregatedClassifier
    optimizer: torch.optim.Optimizer
    regularizer: InformationRegularizer | None
    totals: EpochTotals
    precision: Precision = field(default_factory=Precision)
    """The engine's, which scales the loss in half precision."""
    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    epoch_seconds: float = 0.0
    """Those of the epoch under way."""
    skipped_in_a_row: int = 0
    records: list[EpochRecord] = field(default_factory=list)
    best_epoch: int = 0
    best_weights: dict[str, Tensor] | None = None
    """The weights with the best validation likelihood, where a recipe's patience asks for them."""
    out_of_patience: bool = False

    def note_best(self, patience: int) -> None:
        """Keep the last epoch's weights if they are the best so far, and stop when the best is too long ago.

        An epoch that was not measured decides nothing.
        """
        if self.records[-1].validation_nll is None:
            return
        if best_record(self.records).epoch == self.epoch:
            self.best_epoch = self.epoch
            self.best_weights = {name: value.detach().clone() for name, value in self.network.state_dict().items()}
        self.out_of_patience = self.epoch - self.best_epoch >= patience

    def gather_totals(self) -> EpochTotals:
        """Bring the sums of all ranks together, where rank 0 keeps them; every rank is given them, and checks them."""
        together = self.totals.over_ranks()
        self.totals = together
        self.check_finite()
        if rank() > 0:
            self.totals = EpochTotals.zero(together.loss.device)
        return together

    def check_finite(self) -> None:
        """End a run that has diverged."""
        finite = bool(torch.isfinite(self.totals.loss))
        # A step with a finite loss can still overflow the weights.
        if not finite or not all(torch.isfinite(values).all() for values in learned_tensors(self.network)):
            raise TrainingError(
                f"the {'weights are' if finite else 'loss is'} no longer finite in epoch {self.epoch + 1}; lower the "
                "learning rate, and check the data"
            )

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain values only, so that it loads without running code; never weights that are lost."""
        self.check_finite()
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "regularizer": None if self.regularizer is None else self.regularizer.state_dict(),
            "totals": vars(self.totals).copy(),
            "precision": self.precision.state_dict(),
            "epoch": self.epoch,
            "step": self.step,
            "seconds": self.seconds,
            "epoch_seconds": self.epoch_seconds,
            "skipped_in_a_row": self.skipped_in_a_row,
            "records": [asdict(record) for record in self.records],
            "best_epoch": self.best_epoch,
            "best_weights": self.best_weights,
            "out_of_patience": self.out_of_patience,
        }

    def load_state_dict(self, state: dict[str, Any], *, epochs: int, steps: int) -> None:
        """Take over a checkpoint of a run of so many epochs of so many steps, or refuse it."""
        try:
            self.network.load_state_dict(state["network"])
            self.optimizer.load_state_dict(_fitting(self.optimizer, state["optimizer"]))
            if self.regularizer is not None:
                told = state["regularizer"]
                averages = _fitting(self.regularizer.optimizer, told["optimizer"])
                self.regularizer.load_state_dict({**told, "optimizer": averages})
            progress = vars(_Progress.model_validate(state))
            totals, precision = progress.pop("totals"), progress.pop("precision")
            device = self.totals.loss.device
            sums = {name: value.to(device) for name, value in vars(totals).items() if isinstance(value, Tensor)}
            self.totals = EpochTotals(**vars(totals) | sums)
            if precision:
                self.precision.load_state_dict(precision)
            for name, value in progress.items():
                setattr(self, name, value)
            self.best_weights = state["best_weights"]
            self._check_fit(epochs, steps)
        except (LookupError, TypeError, AttributeError, RuntimeError, ValueError) as error:
            reason = textwrap.shorten(str(error), _LONGEST_REASON, placeholder=" …")
            raise RunError(
                f"the checkpoint does not fit this run ({reason}); start over, in another directory or with agrlearn "
                "train --fresh"
            ) from error

    def _check_fit(self, epochs: int, steps: int) -> None:
        """Refuse what loads, but would fail or mislead later."""
        # Another number of processes may have cut the epoch into one more step.
        possible = self.best_epoch <= self.epoch <= epochs and self.step <= steps + 1
        if not possible or len(self.records) != self.epoch:
            raise ValueError(f"step {self.step} of epoch {self.epoch} cannot be, with {len(self.records)} records")
        mine = self.network.state_dict()
        if self.best_weights is not None and _shapes(self.best_weights) != _shapes(mine):
            raise ValueError("the best weights are those of another network")


def _scalar(value: Any) -> Tensor:
    if not isinstance(value, Tensor) or value.shape != () or not value.is_floating_point():
        raise ValueError("expected a single number")
    return value


Scalar = Annotated[Any, PlainValidator(_scalar)]
Count = Annotated[StrictInt, Field(ge=0, lt=2**53)]


class _Totals(BaseModel):
    """What a checkpoint says of the epoch under way, with the names of `EpochTotals`."""

    loss: Scalar
    wrong: Scalar
    information: Scalar
    groups: Count
    penalties: Count
    skipped: Count


class _Progress(BaseModel):
    """How far a checkpoint came, with the names of `TrainingState`."""

    totals: _Totals
    precision: dict[str, StrictFloat | StrictInt] = {}  # earlier versions kept none
    epoch: Count
    step: Count
    seconds: Annotated[StrictFloat, Field(ge=0)]
    epoch_seconds: Annotated[StrictFloat, Field(ge=0)] = 0.0  # earlier versions did not write it
    skipped_in_a_row: Count
    records: list[EpochRecord]
    best_epoch: Count
    out_of_patience: StrictBool


def _fitting(optimizer: torch.optim.Optimizer, told: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint says of an optimizer, if it fits the weights; the hyperparameters are those of the recipe."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, averages in told["state"].items():
        held = {name: value for name, value in averages.items() if value is not None}
        shapes = {(), tuple(parameters[number].shape)} if type(number) is int and number >= 0 else set()
        if (
            frozenset(held) not in _AVERAGES
            or not all(isinstance(value, Tensor) and value.is_floating_point() for value in held.values())
            or not all(tuple(value.shape) in shapes for value in held.values())
        ):
            raise ValueError("the optimizer's averages are not those of the weights")
    return {"state": told["state"], "param_groups": optimizer.state_dict()["param_groups"]}


def _shapes(weights: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in weights.items()}
