"""Adam for small networks, where torch's own step takes longer to prepare than to compute."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class Adam(torch.optim.Optimizer):
    """`torch.optim.Adam`, or AdamW if `decoupled`: the same values and the same state, bit for bit.

    It calls the kernel that torch calls with fused=True, but without what torch does around it: hooks, records for the
    profiler, and looking through all tensors several times. With the eight small tensors of an MLP, that takes twice
    as long as the kernel.

    Args:
        parameters: tensors, or groups of them with a learning rate of their own.
        decoupled: take the weight decay off the weights, not off their gradients.

    >>> weight = torch.ones(2, requires_grad=True)
    >>> optimizer = Adam([weight], lr=0.1)
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.9000, 0.9000])
    """

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[dict[str, Any]],
        *,
        lr: float,
        weight_decay: float = 0.0,
        decoupled: bool = False,
    ) -> None:
        # With "fused", torch puts the count of steps on the weights' device when it loads a state.
        settings = {"lr": lr, "weight_decay": weight_decay, "decoupled": decoupled, "fused": True, "capturable": False}
        super().__init__(parameters, settings)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move every tensor that has a gradient."""
        for settings in self.param_groups:
            kernel = torch._fused_adamw_ if settings["decoupled"] else torch._fused_adam_
            moved = [weight for weight in settings["params"] if weight.grad is not None]
            kinds = {(weight.device, weight.dtype) for weight in moved}
            for kind in kinds:  # the kernel takes tensors of one kind
                weights = moved if len(kinds) == 1 else [w for w in moved if (w.device, w.dtype) == kind]
                averages = [self.state[weight] or self._start(weight) for weight in weights]
                steps = [average["step"] for average in averages]
                torch._foreach_add_(steps, 1)
                kernel(
                    weights, [weight.grad for weight in weights], [average["exp_avg"] for average in averages],
                    [average["exp_avg_sq"] for average in averages], [], steps, lr=settings["lr"], beta1=0.9,
                    beta2=0.999, weight_decay=settings["weight_decay"], eps=1e-8, amsgrad=False, maximize=False,
                )  # fmt: skip

    step.hooked = True  # type: ignore[attr-defined] # or torch wraps it into hooks and records for the profiler

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        for settings in self.param_groups:
            for weight in settings["params"]:
                weight.grad = None

    def _start(self, weight: Tensor) -> dict[str, Tensor]:
        self.state[weight] = {
            "step": torch.zeros((), dtype=torch.float32, device=weight.device),
            "exp_avg": torch.zeros_like(weight, memory_format=torch.preserve_format),
            "exp_avg_sq": torch.zeros_like(weight, memory_format=torch.preserve_format),
        }
        return self.state[weight]
