"""A pass in train mode that leaves nothing behind: models may do there what they do not do in eval mode."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy
import torch
from torch import Tensor, nn


@contextmanager
def buffers_kept(module: nn.Module) -> Iterator[None]:
    """Put the module's buffers back, as they are now, after this block."""
    buffers = [
        (part, name, held, held.clone())
        for part in module.modules()
        for name, held in part._buffers.items()
        if held is not None
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for part, name, held, before in buffers:
                part._buffers[name] = held if torch.equal(held, before) else held.copy_(before)


@contextmanager
def train_mode(module: nn.Module) -> Iterator[None]:
    """Put a module from eval into train mode within this block.

    Its buffers and gradients stay as they are, and so do the streams of Python and numpy, which some models draw from.
    """
    streams = random.getstate(), numpy.random.get_state()
    gradients = [(parameter, parameter.grad) for parameter in module.parameters()]
    for parameter, _ in gradients:
        parameter.grad = None
    try:
        with buffers_kept(module):
            module.train()
            yield
    finally:
        module.eval()
        random.setstate(streams[0])
        numpy.random.set_state(streams[1])
        for parameter, gradient in gradients:
            parameter.grad = gradient


def trained_names(module: nn.Module, bottleneck: Callable[[], Tensor]) -> set[str]:
    """The parameters of the module that a step of training by T reaches."""
    with train_mode(module), torch.enable_grad():
        t = bottleneck()
        if t.requires_grad:
            t.float().square().sum().backward()
        return {name for name, parameter in module.named_parameters() if parameter.grad is not None}
