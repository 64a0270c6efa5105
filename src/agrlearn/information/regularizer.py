"""The regularizing network of the paper: a critic that learns J, and J as a penalty for the encoder."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from agrlearn.errors import look_up
from agrlearn.grouping import Objects
from agrlearn.information.bounds import BOUNDS, Bound, MovingAverage
from agrlearn.information.critics import Critic
from agrlearn.ranks import gather_own, rank, row_counts, sum_over_ranks


class InformationRegularizer:
    """Ascends the critic on J and hands J to the main loss.

    The independent pairs come from a uniformly random permutation of t within the batch, fixed points included, as in
    the paper. That matters: a deterministic encoder has infinite I(X;T), and it is the fixed points that keep J near
    log m there (m pairs); J is then a regularizer and no estimate of information. With a stochastic bottleneck it
    estimates a finite quantity, biased down by about what the fixed points take.

    Args:
        critic: scores pairs of groups and bottlenecks.
        bound: a name in `BOUNDS`.
        learning_rate: of the critic's own Adam, λ_in in the paper, which does not give it. Plain SGD at 0.1 diverges.
        clip: the largest norm that the gradient of J may have where it enters the main network, at the batch's T.
    """

    def __init__(
        self, critic: Critic, bound: str = "dv", *, learning_rate: float = 1e-3, clip: float | None = None
    ) -> None:
        self.critic = critic
        self.bound: Bound = MovingAverage() if bound == "dv-average" else look_up(BOUNDS, bound, "bound")
        self.clip = clip
        self.optimizer = torch.optim.Adam(critic.parameters(), lr=learning_rate, fused=True)

    def ascend(self, groups: Objects, t: Tensor, random: torch.Generator | None = None) -> Tensor:
        """One step of the critic up J; neither the encoder nor the heads move. A J that is not finite moves nothing.

        Args:
            groups: (groups, fold, ...).
            t: (groups, features), the groups' bottlenecks.
        Returns:
            J before the step.
        """
        value = self._value(groups, t.detach(), random)
        if torch.isfinite(value):
            self.optimizer.zero_grad(set_to_none=True)
            (-value).backward()
            for parameter in self.critic.parameters():
                if parameter.grad is not None:
                    sum_over_ranks(parameter.grad)
            self.optimizer.step()
        return value.detach()

    def penalty(self, groups: Objects, t: Tensor, random: torch.Generator | None = None) -> Tensor:
        """J with a fresh permutation, whose gradient reaches t and leaves the critic alone."""
        with _frozen(self.critic):
            if self.clip is None or not t.requires_grad:
                return self._value(groups, t, random)
            free = t.detach().requires_grad_()
            value = self._value(groups, free, random)
            (gradient,) = torch.autograd.grad(value, free)
        # By its own gradient, before any factor: the norm is then the same on one process and on several.
        norm = sum_over_ranks(gradient.square().sum()).sqrt()
        clipped = gradient * (self.clip / norm).clamp(max=1)
        return value.detach() + (clipped * (t - t.detach())).sum()

    def _value(self, groups: Objects, t: Tensor, random: torch.Generator | None) -> Tensor:
        # Shuffling t within the batch samples p(x)p(t) without a second forward pass. Over several processes the batch
        # is that of all of them.
        counts = row_counts(len(t), t.device)
        permutation = torch.randperm(sum(counts), generator=random).to(t.device)
        joint, shuffled = self.critic.joint_and_shuffled(groups, t, permutation.split(counts)[rank()], counts)
        return self.bound(gather_own(joint, counts), gather_own(shuffled, counts))

    def state_dict(self) -> dict[str, Any]:
        """All that changes in training, as torch saves it."""
        state = {"critic": self.critic.state_dict(), "optimizer": self.optimizer.state_dict()}
        return {**state, "log_average": self.bound.log_average} if isinstance(self.bound, MovingAverage) else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.critic.load_state_dict(state["critic"])
        self.optimizer.load_state_dict(state["optimizer"])
        if isinstance(self.bound, MovingAverage):
            self.bound.log_average = state["log_average"]


@contextmanager
def _frozen(module: nn.Module) -> Iterator[None]:
    """Within this block the module's parameters are constants of the graph."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)
