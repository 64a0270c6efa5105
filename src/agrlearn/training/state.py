"""Everything that changes while a network trains, to be saved and restored together."""

import itertools
import operator
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import torch
from pydantic import BaseModel, Field, PlainValidator, StrictBool, StrictFloat, StrictInt
from torch import Tensor

from agrlearn.errors import RunError, TrainingError
from agrlearn.information.bottleneck import Regularizer
from agrlearn.information.regularizer import InformationRegularizer
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import learned_tensors
from agrlearn.ranks import rank, sum_over_ranks, world_size
from agrlearn.training.history import EpochRecord, best_record

if TYPE_CHECKING:
    from lightning_fabric.plugins import Precision

_LONGEST_REASON = 200
_NOT_WRITTEN = "the last checkpoint is not one that agrlearn wrote; start over, with agrlearn train --fresh"
_MOST_KEPT = 2**18  # logits of answers whose errors are not counted yet
# What SGD without and with momentum, and Adam, store for each weight.
_AVERAGES: list[set[str]] = [set(), {"momentum_buffer"}, {"step", "exp_avg", "exp_avg_sq"}]


def _scalar(value: Any) -> Tensor:
    if not isinstance(value, Tensor) or value.shape != () or not value.is_floating_point():
        raise ValueError("expected a single number")
    return value


# Checked by pydantic when a checkpoint is loaded.
Scalar = Annotated[Tensor, PlainValidator(_scalar)]
Count = Annotated[StrictInt, Field(ge=0, lt=2**53)]


@dataclass
class EpochTotals:
    """Sums over the steps of the current epoch, kept on the device so that adding does not wait for it."""

    loss: Scalar
    wrong: Scalar
    information: Scalar
    groups: Count = 0
    penalties: Count = 0
    skipped: Count = 0

    @staticmethod
    def zero(device: torch.device) -> "EpochTotals":
        precise = torch.float32 if device.type == "mps" else torch.float64
        loss, wrong, information = (torch.zeros((), dtype=precise, device=device) for _ in range(3))
        return EpochTotals(loss, wrong, information)

    def over_ranks(self) -> "EpochTotals":
        """The sums of all ranks."""
        if world_size() == 1:
            return self
        values = [torch.as_tensor(value).to(self.loss) for value in vars(self).values()]
        loss, wrong, information, *counts = sum_over_ranks(torch.stack(values))
        return EpochTotals(loss, wrong, information, *(int(count) for count in counts))


def _single_precision() -> "Precision":
    from lightning_fabric.plugins import Precision  # takes long to import

    return Precision()


@dataclass
class TrainingState:
    """The networks and optimizers, and the progress of the run: the next step is `step` of `epoch`."""

    network: AggregatedClassifier
    optimizer: torch.optim.Optimizer
    regularizer: Regularizer | None
    totals: EpochTotals
    precision: "Precision" = field(default_factory=_single_precision)
    """The engine's, which scales the loss in half precision."""
    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    epoch_seconds: float = 0.0
    """Of the current epoch."""
    skipped_in_a_row: int = 0
    records: list[EpochRecord] = field(default_factory=list)
    best_epoch: int = 0
    best_weights: dict[str, Tensor] | None = None
    """The weights with the best validation likelihood, if the recipe has patience."""
    out_of_patience: bool = False
    average: dict[str, Tensor] | None = None
    """The mean of the weights after those steps that the recipe averages."""
    averaged: int = 0
    """How many steps these are."""
    answered: list[tuple[float, Tensor, Tensor]] = field(default_factory=list)
    """Logits and labels whose errors are not in the totals yet, and what these errors are multiplied by."""

    def note_answers(self, share: float, logits: Tensor, labels: Tensor) -> None:
        """Keep a step's answers until the totals are looked at, or many have come together.

        Args:
            share: what an error counts.
            logits: (groups, fold, classes).
            labels: (groups, fold).
        """
        self.answered.append((share, logits.detach(), labels))
        if len(self.answered) * logits.numel() > _MOST_KEPT:
            self.count_errors()

    def count_errors(self) -> None:
        """Add the errors of the answers kept to the totals: of many steps at once, which is as quick as of one."""
        for share, steps in itertools.groupby(self.answered, key=operator.itemgetter(0)):
            _, logits, labels = zip(*steps, strict=True)
            chosen = torch.cat(logits).argmax(dim=-1)
            self.totals.wrong.add_((chosen != torch.cat(labels)).sum(), alpha=share)
        self.answered.clear()

    def note_best(self, patience: int) -> None:
        """Keep the last epoch's weights if they are the best so far, and stop if the best epoch is too long ago.

        Epochs that were not evaluated are ignored.
        """
        if self.records[-1].validation_nll is None:
            return
        if best_record(self.records).epoch == self.epoch:
            self.best_epoch = self.epoch
            self.best_weights = {name: value.detach().clone() for name, value in self.network.state_dict().items()}
        self.out_of_patience = self.epoch - self.best_epoch >= patience

    def gather_totals(self) -> EpochTotals:
        """Sum the totals of all ranks, check and return them on every rank, and keep them on rank 0."""
        self.count_errors()
        self.totals = totals = self.totals.over_ranks()
        self.check_finite()
        if rank() > 0:
            self.totals = EpochTotals.zero(totals.loss.device)
        return totals

    def check_finite(self) -> None:
        """Stop a run that has diverged."""
        if not torch.isfinite(self.totals.loss):
            raise self.diverged("loss is")
        # A step with a finite loss can still overflow the weights.
        if not all(torch.isfinite(values).all() for values in learned_tensors(self.network)):
            raise self.diverged("weights are")

    def diverged(self, what: str) -> TrainingError:
        return TrainingError(
            f"the {what} no longer finite in epoch {self.epoch + 1}; lower the learning rate, and check the data"
        )

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain values only, so that loading runs no code; weights that are not finite are refused."""
        self.check_finite()
        self.count_errors()
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
            "average": self.average,
            "averaged": self.averaged,
        }

    def load_state_dict(self, state: dict[str, Any], *, epochs: int, steps: int) -> None:
        """Restore a checkpoint of a run of `epochs` epochs with `steps` steps each, or refuse it."""
        try:
            self.network.load_state_dict(state["network"])
            self.optimizer.load_state_dict(_fitting(self.optimizer, state["optimizer"]))
            if self.regularizer is not None:
                saved = state["regularizer"]
                if isinstance(self.regularizer, InformationRegularizer):
                    saved = {**saved, "optimizer": _fitting(self.regularizer.optimizer, saved["optimizer"])}
                self.regularizer.load_state_dict(saved)
            progress = vars(Progress.model_validate(state))
            device = self.totals.loss.device
            if precision := progress.pop("precision"):
                self.precision.load_state_dict(precision)
            for name, value in progress.items():
                setattr(self, name, value)
            sums = {name: getattr(self.totals, name).to(device) for name in ("loss", "wrong", "information")}
            self.totals = replace(self.totals, **sums)
            self.best_weights = state["best_weights"]
            average = state.get("average")  # earlier versions did not write it
            self.average = average and {name: value.to(device) for name, value in average.items()}
            self._check_fit(epochs, steps)
        except (LookupError, TypeError, AttributeError, RuntimeError, ValueError) as error:
            reason = textwrap.shorten(str(error), _LONGEST_REASON, placeholder=" …")
            raise RunError(
                f"the checkpoint does not fit this run ({reason}); start over, in another directory or with agrlearn "
                "train --fresh"
            ) from error

    def _check_fit(self, epochs: int, steps: int) -> None:
        """Refuse a checkpoint that loads, but would fail or mislead later."""
        # With another number of processes, an epoch may have had one more step.
        possible = self.best_epoch <= self.epoch <= epochs and self.step <= steps + 1
        if not possible or len(self.records) != self.epoch:
            raise ValueError(f"step {self.step} of epoch {self.epoch} with {len(self.records)} records is impossible")
        if self.best_weights is not None and _shapes(self.best_weights) != _shapes(self.network.state_dict()):
            raise ValueError("the best weights are those of another network")
        trained = {name: value for name, value in self.network.named_parameters() if value.requires_grad}
        if _shapes(self.average or {}) != _shapes(trained if self.averaged else {}):
            raise ValueError("the averaged weights are those of another network")


class Progress(BaseModel):
    """The progress in a checkpoint, with the names of `TrainingState`."""

    totals: EpochTotals
    precision: dict[str, StrictFloat | StrictInt] = {}  # earlier versions did not write it
    epoch: Count
    step: Count
    seconds: Annotated[StrictFloat, Field(ge=0)]
    epoch_seconds: Annotated[StrictFloat, Field(ge=0)] = 0.0  # earlier versions did not write it
    skipped_in_a_row: Count
    records: list[EpochRecord]
    best_epoch: Count
    out_of_patience: StrictBool
    averaged: Count = 0  # earlier versions did not write it


def read_progress(state: dict[str, Any]) -> Progress:
    """How far a checkpoint is."""
    try:
        return Progress.model_validate(state)
    except (TypeError, ValueError):
        raise RunError(_NOT_WRITTEN) from None


class WeightsSoFar(NamedTuple):
    """The weights by which a run can be used before it is finished."""

    weights: dict[str, Tensor]
    which: str
    """To show to the user."""
    epochs: int
    """That are done."""


def weights_so_far(state: dict[str, Any]) -> WeightsSoFar:
    """Of a checkpoint, the weights of the best epoch, if the recipe's patience keeps it, or else the last."""
    progress = read_progress(state)
    best = state.get("best_weights")
    weights = state.get("network") if best is None else best
    if not isinstance(weights, dict) or not all(isinstance(value, Tensor) for value in weights.values()):
        raise RunError(_NOT_WRITTEN)
    which = f"its last checkpoint, within epoch {progress.epoch + 1}"
    if best is not None:
        which = f"epoch {progress.best_epoch}, the best so far"
    elif progress.step == 0:
        which = f"epoch {progress.epoch}, the last so far"
    return WeightsSoFar(weights, which, progress.epoch)


def _fitting(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> dict[str, Any]:
    """A saved optimizer state, if it fits the weights; the hyperparameters are those of the recipe."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, averages in saved["state"].items():
        held = {name: value for name, value in averages.items() if value is not None}
        shapes = {(), tuple(parameters[number].shape)} if type(number) is int and number >= 0 else set()
        if (
            set(held) not in _AVERAGES
            or not all(isinstance(value, Tensor) and value.is_floating_point() for value in held.values())
            or not all(tuple(value.shape) in shapes for value in held.values())
        ):
            raise ValueError("the optimizer's averages are not those of the weights")
    return {"state": saved["state"], "param_groups": optimizer.state_dict()["param_groups"]}


def _shapes(weights: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in weights.items()}
