"""The sentence CNN: each different word meets the filters once, over a convolution of padded sentences."""

from collections.abc import Callable

import torch
from torch import Tensor

from agrlearn.networks.sentence_cnn import MaxOverTime
from benchmarks.made import sentences
from benchmarks.timing import heading, milliseconds, ratio, take_turns, verdict


def _there_and_back(layer: MaxOverTime, way: Callable[[Tensor], Tensor], tokens: Tensor) -> list[Tensor]:
    features = way(tokens)
    return [features.detach(), *torch.autograd.grad(features.square().sum(), list(layer.parameters()))]


def sentence_cnn() -> list[str]:
    """Forward and backward by unique words over `conv1d` on padded input, 300 numbers a word. Aim: at least 2.

    Both give the same features and gradients, to 1e-5 of the largest.
    """
    lines = heading("sentences", "maps of a width", "conv1d over unique words", "quartiles", "", "ms")
    for count, maps in ((64, 100), (128, 100), (128, 200)):
        torch.manual_seed(0)
        layer, tokens = MaxOverTime(18_766, 300, maps), sentences(count).objects
        assert isinstance(tokens, Tensor)
        ways = {"unique": layer.by_unique_words, "conv1d": layer.by_convolution}
        actions = {name: lambda way=way, t=tokens: _there_and_back(layer, way, t) for name, way in ways.items()}  # noqa: B023
        for one, other in zip(*(action() for action in actions.values()), strict=True):
            if float((one - other).abs().max() / other.abs().max()) > 1e-5:
                raise AssertionError("the two ways of the sentence CNN differ")
        times = take_turns(actions, rounds=15)
        found = ratio(times, "conv1d", "unique")
        lines.append(f"| {count} | {maps} | {found} | {verdict(found.middle >= 2)} | {milliseconds(times['unique'])} |")
    return lines
