"""The records of a run: its figures and times, epoch by epoch."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, TypeAdapter

from agrlearn.errors import RunError

Whole = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
"""A count in a file. JSON numbers above this limit are not exact."""
Number = Annotated[float, Field(strict=True, gt=-1e300, lt=1e300)]
"""A figure in a file; training stops before one is infinite."""


@dataclass(frozen=True)
class EpochRecord:
    """One epoch, without times: a run that is repeated, or resumed, writes the same record."""

    epoch: Annotated[Whole, Field(ge=1)]
    """From 1."""
    learning_rate: Number
    loss: Number
    """Mean cross-entropy per group, summed over slots, in nats."""
    train_error: Number
    """Share of wrong answers in training, over all slots; with mixup, a slot's two labels count by their shares."""
    information: Number | None
    """Mean of the penalty J in nats (None at alpha 0). With a deterministic encoder it is a regularizer, not I(X;T)."""
    log_groups: Number
    """log m, the most that J can show: m is the number of groups that J compares, those of a batch or microbatch and
    those that the critic remembers; like J, a mean over the epoch's groups."""
    skipped_penalties: Whole
    """Batches whose J was not finite and was left out of the loss."""
    objects_seen: Annotated[Whole, Field(ge=1)]
    """Objects passed through the network since the start: fold × groups."""
    validation_error: Number | None = None
    validation_nll: Number | None = None
    x_information_lower: Number | None = None
    """With `Recipe.track_information`, in nats on held-out groups: at most I(X;T), and at most log of their number."""
    x_information_upper: Number | None = None
    """At least I(X;T)."""
    y_information: Number | None = None
    """At most I(Y;T), Y being the group's labels: by the other groups' known p(t|x)."""
    y_information_bound: Number | None = None
    """At most I(Y;T), by Theorem 3: H(Y) − cross-entropy of the heads."""


@dataclass(frozen=True)
class EpochTime:
    """How long an epoch took."""

    epoch: Annotated[Whole, Field(ge=1)]
    seconds: Annotated[Number, Field(ge=0)]


EPOCH_RECORD, EPOCH_TIME = TypeAdapter(EpochRecord), TypeAdapter(EpochTime)
"""Check records that are read from a file."""


def best_record(records: Iterable[EpochRecord]) -> EpochRecord:
    """The first epoch with the highest validation likelihood: the one that a recipe's patience keeps."""
    measured = [(record.validation_nll, record) for record in records if record.validation_nll is not None]
    return min(measured, key=lambda pair: pair[0])[1]


@dataclass(frozen=True)
class History:
    """The records of a run, and how long its training took.

    >>> record = EpochRecord(
    ...     1, learning_rate=0.1, loss=0.5, train_error=0.25, information=None, log_groups=3.0, skipped_penalties=0,
    ...     objects_seen=100, validation_error=0.125,
    ... )
    >>> History((record,), seconds=1.5)
    History(1 epoch in 1.5 s, loss 0.5000, held-out error 12.50%)
    """

    records: tuple[EpochRecord, ...]
    seconds: float
    """Time spent training, without evaluation, including the time before a run was resumed."""
    was_finished: bool = False
    """Whether the run directory already had the finished run, so that nothing was trained."""

    def __repr__(self) -> str:
        count = len(self.records)
        facts = [f"{count:,} {'epoch' if count == 1 else 'epochs'} in {self.seconds:.1f} s"]
        if self.records:
            facts.append(f"loss {self.records[-1].loss:.4f}")
        errors = (record.validation_error for record in reversed(self.records))
        if (error := next((error for error in errors if error is not None), None)) is not None:
            facts.append(f"held-out error {error:.2%}")
        return f"History({', '.join(facts)})"

    def final_error(self, epochs: int = 10) -> float:
        """The median validation error of the last epochs, which the paper reports."""
        errors = [record.validation_error for record in self.records[-epochs:] if record.validation_error is not None]
        if not errors:
            raise RunError(f"none of the last {epochs} epochs was evaluated; train with a validation set")
        return statistics.median(errors)
