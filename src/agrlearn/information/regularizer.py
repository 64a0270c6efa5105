"""The regularizing network of the paper: a critic that maximizes J, and J as a penalty for the encoder."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from agrlearn.adam import Adam
from agrlearn.errors import look_up
from agrlearn.grouping import Objects
from agrlearn.information.bounds import BOUNDS, Bound, MovingAverage
from agrlearn.information.critics import Critic
from agrlearn.ranks import gather_own, gather_rows, rank, row_counts, sum_over_ranks


class InformationRegularizer:
    """Trains the critic to maximize J, and gives J to the main loss.

    The independent pairs come from a uniformly random permutation of t within the batch, with fixed points, as in the
    paper. This matters: a deterministic encoder has infinite I(X;T), and the fixed points keep J near log m (m pairs).
    J is then a regularizer, not an estimate. With a stochastic bottleneck it estimates a finite information, biased
    downwards by the fixed points.

    Args:
        critic: scores pairs of groups and bottlenecks: a `Critic`, or any module (groups, t) -> (groups,). For groups
            it gets what `ascend` and `penalty` get.
        bound: a name in `BOUNDS`.
        learning_rate: of the critic's Adam, λ_in in the paper, which gives no value. Plain SGD at 0.1 diverges.
        clip: the largest norm of the gradient of J with respect to the T of the batch, where it enters the network.
    """

    def __init__(
        self, critic: nn.Module, bound: str = "dv", *, learning_rate: float = 1e-3, clip: float | None = None
    ) -> None:
        self.critic = critic
        self.bound: Bound = MovingAverage() if bound == "dv-average" else look_up(BOUNDS, bound, "bound")
        self.clip = clip
        self.optimizer = Adam(critic.parameters(), lr=learning_rate)

    def ascend(self, groups: Objects, t: Tensor, random: torch.Generator | None = None) -> Tensor:
        """Take one step of the critic up J and return J before it; a J that is not finite changes nothing.

        Args:
            groups: (groups, fold, ...).
            t: (groups, features), the bottlenecks; no gradient reaches the encoder.
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
        """J with a new permutation; its gradient reaches t, but not the critic."""
        with _frozen(self.critic):
            if self.clip is None or not t.requires_grad:
                return self._value(groups, t, random)
            free = t.detach().requires_grad_()
            value = self._value(groups, free, random)
            (gradient,) = torch.autograd.grad(value, free)
        # Clipped before any factor is applied, so that the norm is the same on one process and on several.
        norm = sum_over_ranks(gradient.square().sum()).sqrt()
        clipped = gradient * (self.clip / norm).clamp(max=1)
        return value.detach() + (clipped * (t - t.detach())).sum()

    def _value(self, groups: Objects, t: Tensor, random: torch.Generator | None) -> Tensor:
        # Shuffling t within the batch samples p(x)p(t) without a second forward pass. With several processes, the batch
        # is that of all processes together.
        counts = row_counts(len(t), t.device)
        permutation = torch.randperm(sum(counts), generator=random).to(t.device)
        chosen = permutation.split(counts)[rank()]
        if isinstance(self.critic, Critic):
            joint, shuffled = self.critic.joint_and_shuffled(groups, t, chosen, counts)
        else:
            joint, shuffled = self.critic(groups, t), self.critic(groups, gather_rows(t, counts)[chosen])
        return self.bound(gather_own(joint, counts), gather_own(shuffled, counts))

    def state_dict(self) -> dict[str, Any]:
        """The state of the critic, its optimizer and the moving average."""
        state = {"critic": self.critic.state_dict(), "optimizer": self.optimizer.state_dict()}
        return {**state, "log_average": self.bound.log_average} if isinstance(self.bound, MovingAverage) else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        self.critic.load_state_dict(state["critic"])
        self.optimizer.load_state_dict(state["optimizer"])
        if isinstance(self.bound, MovingAverage):
            self.bound.log_average = state["log_average"]


@contextmanager
def _frozen(module: nn.Module) -> Iterator[None]:
    """Within this block, the parameters of the module get no gradients."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)
