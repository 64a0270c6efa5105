"""What a network costs: parameters and multiply-adds."""

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from agrlearn.grouping import Objects


def count_parameters(module: nn.Module) -> int:
    """The number of trained parameters.

    >>> count_parameters(nn.Linear(3, 2))
    8
    """
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def count_multiply_adds(module: nn.Module, inputs: Objects) -> int:
    """Multiply-adds of the matrix products and convolutions of one forward pass over `inputs`, in eval mode.

    >>> count_multiply_adds(nn.Linear(3, 2), torch.zeros(5, 3))
    30
    """
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            module(inputs)
    finally:
        module.train(was_training)
    return counter.get_total_flops() // 2
