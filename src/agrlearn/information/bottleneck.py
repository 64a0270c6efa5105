"""The penalty J without a network of its own: a critic that reads the bottleneck, and VIB's bound.

T depends on X only through h(X), so I(X;T) = I(h(X);T): a critic γ(h(x), t) can know as much as one that reads x. T is
h(X) with Gaussian noise, so the best such critic is known up to one number, the precision s of the noise:

    γ(h, t) = −½·s·|t − h|² − log of its mean exponential over other groups.
"""

import math
from typing import Any, Protocol

import torch
from torch import Tensor

from agrlearn.ranks import gather_rows, rank, row_counts, sum_over_ranks

_MEMORY = 256


def memory_for(objects: int) -> int:
    """How many means of earlier batches to compare with, few enough that hardly a group meets its own earlier mean.

    >>> memory_for(10_000), memory_for(200)
    (256, 50)
    """
    return min(_MEMORY, objects // 4)


class Regularizer(Protocol):
    """What a step of Algorithm 1 needs: K ascents, then the penalty."""

    def ascend(self, seen: Any, t: Tensor, random: torch.Generator | None = None) -> Tensor: ...
    def penalty(self, seen: Any, t: Tensor, random: torch.Generator | None = None) -> Tensor: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class BottleneckRegularizer:
    """Bounds I(X;T) from both sides: the critic ascends the lower bound, the encoder descends the upper one.

    J shows the lower bound (InfoNCE, at most log m for m groups to compare with), so it never runs away. Once all
    groups are told apart that is flat, so the encoder gets the gradient of the upper bound, which leaves the group
    itself out (Poole et al. 2019, eq. 12 and 13). Without noise I(X;T) is infinite, and J a regularizer only.

    Args:
        noise: of the network; its precision is where the critic starts, and where it is best.
        learning_rate: of the ascent, on the logarithm of the precision.
        clip: the largest norm of the gradient of J with respect to the T of the batch.
        memory: how many means of earlier batches are kept to compare with, which tightens both bounds.
    """

    def __init__(
        self, noise: float = 0.0, *, learning_rate: float = 1e-3, clip: float | None = None, memory: int = _MEMORY
    ) -> None:
        self.log_precision = -2 * math.log(noise) if noise > 0 else 0.0
        self.learning_rate = learning_rate
        self.clip = clip
        self.size = memory
        self.memory: Tensor | None = None

    @torch.no_grad()
    def ascend(self, means: Tensor, t: Tensor, random: torch.Generator | None = None) -> Tensor:
        """Take one step of the precision up the lower bound, and return that before it.

        Args:
            means: (groups, features), h(x), without a gradient.
            t: (groups, features), the bottlenecks: the same, or draws around it.
        """
        counts = row_counts(len(t), t.device)
        centres = gather_rows(means.float(), counts)
        distances = torch.cdist(t.detach().float(), centres).square_().mul_(0.5 * math.exp(self.log_precision))
        shares = torch.log_softmax(-distances, dim=1)
        value = _own(shares, counts).sum()
        slope = torch.sum(shares.exp() * distances) - _own(distances, counts).sum()
        both = sum_over_ranks(torch.stack([slope, value])) / len(centres)
        # Concave in the precision, so that ascents find the best one; the slope on a logarithm is in nats.
        rise = self.learning_rate * float(both[0])
        if math.isfinite(rise):
            self.log_precision += rise
        return both[1] + math.log(len(centres))

    def penalty(self, means: Tensor, t: Tensor, random: torch.Generator | None = None) -> Tensor:
        """J, with a gradient that reaches t, but not the critic; the means are remembered."""
        with torch.no_grad():
            counts = row_counts(len(t), t.device)
            batch = gather_rows(means.float(), counts)
            centres = batch if self.memory is None else torch.cat([batch, self.memory])
            precision = math.exp(self.log_precision)
            scores = torch.addmm(
                centres.square().sum(1), t.detach().float(), centres.T, beta=-0.5 * precision, alpha=precision
            )
            own = _own(scores, counts).clone()
            _own(scores, counts).fill_(-math.inf)
            top = scores.amax(1, keepdim=True)
            weights = (scores - top).exp_()
            total = weights.sum(1, keepdim=True)
            others = (top + total.log()).squeeze(1)
            gradient = precision / sum(counts) * (means - (weights @ centres) / total)
            value = (own - torch.logaddexp(own, others)).sum() / sum(counts)
            value = sum_over_ranks(value) + math.log(len(centres))
            if torch.isfinite(value):
                self.memory = centres[: self.size]
            if self.clip is not None:
                norm = sum_over_ranks(gradient.square().sum()).sqrt()
                gradient *= (self.clip / norm).clamp(max=1)
        return value + (gradient.to(t.dtype) * (t - t.detach())).sum()

    def state_dict(self) -> dict[str, Any]:
        """The precision, and the means of earlier batches."""
        return {"log_precision": self.log_precision, "memory": self.memory}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        self.log_precision, self.memory = float(state["log_precision"]), state["memory"]


class VariationalRegularizer:
    """The penalty of the variational bottleneck: the divergence of p(t|x) from a standard normal, at least I(X;T).

    Alemi et al. 2017, with the noise of the network, which has no critic.
    """

    def __init__(self, noise: float) -> None:
        self.noise = noise

    def ascend(self, means: Tensor, t: Tensor, random: torch.Generator | None = None) -> Tensor:
        """Nothing, as there is no critic."""
        return torch.zeros((), device=t.device)

    def penalty(self, means: Tensor, t: Tensor, random: torch.Generator | None = None) -> Tensor:
        """½·(|h(x)|² + d·(σ² − 1 − log σ²)), averaged over the groups."""
        variance = self.noise**2
        constant = 0.5 * means.shape[1] * (variance - 1 - math.log(variance))
        moving = means + (t - t.detach())  # the gradient of h(x) is that of its draw
        share = 0.5 * moving.square().sum() / sum(row_counts(len(t), t.device))
        return share + (sum_over_ranks(share.detach().clone()) - share.detach()) + constant

    def state_dict(self) -> dict[str, Any]:
        """Nothing to keep."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to restore."""


def _own(table: Tensor, counts: list[int]) -> Tensor:
    """The entries of (groups of this process, groups of all and more) that belong to the same group, as a view."""
    return table.diagonal(sum(counts[: rank()]))
