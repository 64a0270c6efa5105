"""What critics say of samples they were not trained on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agrlearn.information.bounds import Bound, log_mean_exp
from agrlearn.information.pair_critics import PairCritic, SeparableCritic
from agrlearn.information.pairs import all_pairs, shifted

_PAIRS_AT_MOST = {True: 2**24, False: 2**17}  # for separable critics, and for others, whose pairs cost a network each


@dataclass(frozen=True)
class ReadOut:
    """The bound of some critics on one held-out sample."""

    of_average: float
    """The bound of the critics' average."""
    of_each: tuple[float, ...]
    """The bounds of the critics alone."""
    effective_pairs: float
    """(Σe^γ)² / Σe^2γ: how many independent pairs carry the exponentials' mean."""
    samples: int
    partners: int
    """How many other samples each of them met."""

    @property
    def corrected(self) -> float:
        """The average's bound and what it still loses to the critics' independent errors, to second order."""
        count = len(self.of_each)
        if count < 2:
            return self.of_average
        return self.of_average + (self.of_average - sum(self.of_each) / count) / (count - 1)


@torch.no_grad()
def read_out(critics: Sequence[PairCritic], x: Tensor, y: Tensor, bound: Bound) -> ReadOut:
    """The bound over the whole sample at once, since batch-wise values depend on the size of the batches.

    Every sample meets every other one, or as many as a few million pairs allow.
    """
    values, total_joint, total_marginal = [], torch.zeros(()), torch.zeros(())
    partners = min(len(x) - 1, max(1, _PAIRS_AT_MOST[isinstance(critics[0], SeparableCritic)] // len(x)))
    scores = all_pairs if partners == len(x) - 1 else shifted
    for critic in critics:
        joint, marginal = scores(critic, *critic.parts(x, y), partners)
        values.append(float(bound(joint, marginal)))
        total_joint, total_marginal = total_joint + joint, total_marginal + marginal
    joint, marginal = total_joint / len(critics), total_marginal / len(critics)
    of_average = values[0] if len(critics) == 1 else float(bound(joint, marginal))
    both = 2 * log_mean_exp(marginal) - log_mean_exp(2 * marginal)
    return ReadOut(of_average, tuple(values), math.exp(float(both)) * marginal.numel(), len(x), partners)
