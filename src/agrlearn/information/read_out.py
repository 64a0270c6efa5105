"""What critics say of samples they were not trained on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agrlearn.information.bounds import Bound, info_nce, log_mean_exp
from agrlearn.information.pair_critics import PairCritic, SeparableCritic
from agrlearn.information.pairs import Scores, all_pairs, shifted
from agrlearn.modes import evaluating

_PAIRS_AT_MOST = {True: 2**24, False: 2**17}  # for separable critics, and for others, whose pairs cost a network each
# The log of the pairs is about 2 times that of the samples. Of 1, 1.5 and 2, this one kept the best critics of Gaussian
# samples, 60 to 3,000 of them, of 0.5 to 17 nats.
_CREDIBLE = 1.5


@dataclass(frozen=True)
class ReadOut:
    """The bound of some critics on one held-out sample."""

    of_average: float
    """The bound of the critics' average."""
    of_each: tuple[float, ...]
    """The bounds of the critics alone."""
    lower_bound: float
    """InfoNCE of the critics' average: in expectation at most I(X;Y), however few the samples are.

    That holds row by row for every critic that has not seen them: were y drawn apart from x as its partners are, e^γ
    over its mean among them would be 1 on average, and the mean of the logarithm of such a ratio is at most I(X;Y)
    (Poole et al. 2019). The logarithm of one mean over all pairs, as in Donsker-Varadhan, has no such guarantee.
    """
    effective_pairs: float
    """(Σe^γ)² / Σe^2γ: how many independent pairs carry the exponentials' mean."""
    unreached: float
    """The share of samples whose e^γ is over e times that of any independent pair: the mean knows nothing of them."""
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
    for critic in critics:
        joint, marginal = _scores(critic, x, y)
        values.append(float(bound(joint, marginal)))
        total_joint, total_marginal = total_joint + joint, total_marginal + marginal
    joint, marginal = total_joint / len(critics), total_marginal / len(critics)
    both = 2 * log_mean_exp(marginal) - log_mean_exp(2 * marginal)
    return ReadOut(
        of_average=values[0] if len(critics) == 1 else float(bound(joint, marginal)),
        of_each=tuple(values),
        lower_bound=float(info_nce(joint, marginal)),
        effective_pairs=math.exp(float(both)) * marginal.numel(),
        unreached=float((joint > marginal.max() + 1).float().mean()),
        samples=len(x),
        partners=marginal.shape[1],
    )


@torch.no_grad()
def validation_value(critic: PairCritic, x: Tensor, y: Tensor, bound: Bound) -> float:
    """The bound on a sample that decides which critic is kept; no more than `_CREDIBLE` times the log of its size.

    Ratios of densities beyond the number of pairs leave no trace among them. There, a bound with one mean over all
    pairs rewards nothing but larger scores, and the critic that it chooses can be arbitrarily bad.
    """
    joint, marginal = _scores(critic, x, y)
    return min(float(bound(joint, marginal)), _CREDIBLE * math.log(len(x)))


def _scores(critic: PairCritic, x: Tensor, y: Tensor) -> Scores:
    """Joint scores (m,), and marginal scores (m, partners)."""
    partners = min(len(x) - 1, max(1, _PAIRS_AT_MOST[isinstance(critic, SeparableCritic)] // len(x)))
    scores = all_pairs if partners == len(x) - 1 else shifted
    with evaluating(critic.modules()):
        return scores(critic, *critic.parts(x, y), partners)
