"""Evaluate critics on samples they were not trained on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agrlearn.information.bounds import Bound, info_nce, log_mean_exp
from agrlearn.information.pair_critics import PairCritic, SeparableCritic
from agrlearn.information.pairs import Scores, all_pairs, shifted
from agrlearn.modes import evaluating

_PAIRS_AT_MOST = {True: 2**24, False: 2**17}  # separable critics; others, which evaluate a network for every pair
# Of 1, 1.5 and 2, this one kept the best critics on 60 to 3,000 Gaussian samples of 0.5 to 17 nats.
_CREDIBLE = 1.5


@dataclass(frozen=True)
class ReadOut:
    """The bound of one or more critics on one held-out sample."""

    of_average: float
    """The bound of the average of the critics."""
    of_each: tuple[float, ...]
    """The bound of each critic."""
    lower_bound: float
    """InfoNCE of the average of the critics: in expectation at most I(X;Y), however few the samples are.

    This holds row by row for every critic that has not seen the samples: if y were independent of x like its partners,
    e^γ over its mean among them would be 1 on average, and the mean log of such a ratio is at most I(X;Y) (Poole et
    al. 2019). The log of one mean over all pairs, as in Donsker-Varadhan, has no such guarantee.
    """
    effective_pairs: float
    """(Σe^γ)² / Σe^2γ: how many independent pairs dominate the mean exponential."""
    unreached: float
    """The share of samples whose e^γ is over e times that of any independent pair, so that the mean misses them."""
    samples: int
    partners: int
    """The number of other samples that each sample is paired with."""

    @property
    def corrected(self) -> float:
        """The bound of the average plus what independent errors of the critics still cost it, to second order."""
        count = len(self.of_each)
        return self.of_average + (self.of_average - sum(self.of_each) / count) / max(1, count - 1)


@torch.no_grad()
def read_out(critics: Sequence[PairCritic], x: Tensor, y: Tensor, bound: Bound) -> ReadOut:
    """The bound over the whole sample at once, since values per batch depend on the batch size.

    Every sample is paired with every other one, or with as many as a few million pairs allow.
    """
    of_each, joint, marginal = [], torch.zeros(()), torch.zeros(())
    for critic in critics:
        scores = _scores(critic, x, y)
        of_each.append(float(bound(*scores)))
        joint, marginal = joint + scores[0] / len(critics), marginal + scores[1] / len(critics)
    log_effective_share = 2 * log_mean_exp(marginal) - log_mean_exp(2 * marginal)
    return ReadOut(
        of_average=float(bound(joint, marginal)),
        of_each=tuple(of_each),
        lower_bound=float(info_nce(joint, marginal)),
        effective_pairs=math.exp(float(log_effective_share)) * marginal.numel(),
        unreached=float((joint > marginal.max() + 1).float().mean()),
        samples=len(x),
        partners=marginal.shape[1],
    )


@torch.no_grad()
def validation_value(critic: PairCritic, x: Tensor, y: Tensor, bound: Bound) -> float:
    """The bound on the sample that decides which critic is kept, at most `_CREDIBLE` times the log of its size.

    Density ratios beyond the number of pairs cannot be seen in them. There, a bound with one mean over all pairs only
    rewards larger scores, and the critic that it selects can be arbitrarily bad.
    """
    return min(float(bound(*_scores(critic, x, y))), _CREDIBLE * math.log(len(x)))


def _scores(critic: PairCritic, x: Tensor, y: Tensor) -> Scores:
    """Joint scores (m,), and marginal scores (m, partners)."""
    partners = min(len(x) - 1, max(1, _PAIRS_AT_MOST[isinstance(critic, SeparableCritic)] // len(x)))
    scores = all_pairs if partners == len(x) - 1 else shifted
    with evaluating(critic.modules()):
        return scores(critic, *critic.parts(x, y), partners)
