"""Eval mode for a while."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Within this block the modules are in eval mode; afterwards each is in its own mode again.

    A normalisation that its user keeps frozen while the network around it trains stays frozen so.

    Args:
        modules: a network's `modules()`, or some others with every module before its own parts.
    """
    modes = [(module, module.training) for module in modules]
    # Through eval() and train(), not by the flag alone: some layers prepare their weights there.
    for module, _ in modes:
        if module.training:
            module.eval()
    try:
        yield
    finally:
        for module, training in modes:
            if module.training != training:
                module.train(training)
