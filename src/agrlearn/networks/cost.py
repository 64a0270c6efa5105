"""What a network costs: parameters and multiply-adds."""

import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from agrlearn.modes import eval_view


def count_parameters(module: nn.Module) -> int:
    """The number of trained parameters.

    >>> count_parameters(nn.Linear(3, 2))
    8
    """
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


# The stance of the compiler belongs to the whole process: two threads that set and restore it could leave it set.
_ONE_AT_A_TIME = threading.RLock()


def count_multiply_adds(module: nn.Module, *inputs: Any, **keywords: Any) -> int:
    """Multiply-adds of the matrix products and convolutions of one forward pass, in eval mode.

    >>> count_multiply_adds(nn.Linear(3, 2), torch.zeros(5, 3))
    30
    """
    frozen = eval_view(module)
    compiled = "torch._dynamo" in sys.modules  # else nothing can be
    with (
        torch.no_grad(),
        _ONE_AT_A_TIME if compiled else nullcontext(),
        torch.compiler.set_stance("force_eager") if compiled else nullcontext(),
        _Counter() as counter,
    ):
        frozen(*inputs, **keywords)
    return counter.operations // 2


def _on_cpu(inputs: Tensor, from_input: Tensor, from_state: Tensor, *_: Any, **__: Any) -> int:
    """Operations of one layer and direction of a recurrent network by oneDNN."""
    return _recurrent_operations(inputs, (from_input, from_state))


def _on_gpu(inputs: Tensor, weights: Sequence[Tensor], *_: Any, **__: Any) -> int:
    """Operations of all layers and directions by cuDNN."""
    return _recurrent_operations(inputs, weights)


def _recurrent_operations(inputs: Tensor, weights: Sequence[Tensor]) -> int:
    """Every matrix is applied once at each position of `inputs`, (..., features)."""
    return 2 * inputs.shape[:-1].numel() * sum(weight.numel() for weight in weights if weight.ndim == 2)


# torch has no formulas for these two.
_FORMULAS = {**flop_registry, torch.ops.aten.mkldnn_rnn_layer: _on_cpu, torch.ops.aten._cudnn_rnn: _on_gpu}


class _Counter(TorchDispatchMode):
    """Adds up torch's own formulas, without the module hooks of its FlopCounterMode, which some models upset."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or torch imports its compiler, which takes longer than all else of a small command

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        formula = _FORMULAS.get(func._overloadpacket)
        if formula is not None:
            self.operations += formula(*args, **(kwargs or {}), out_val=result)
        return result
