"""What `fit` does by default over what it did before: channels last, and torch.compile."""

import copy
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import torch

from agrlearn.grouping import group
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.networks.layout import set_channels_last, why_contiguous
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from benchmarks.made import CLASSES, images, step
from benchmarks.timing import heading, ratio, take_turns, verdict

_ONCE_CRASHED = """
import torch
torch.set_num_threads(1)
layer = torch.nn.Conv2d(8, 16, 1, 2, bias=False).to(memory_format=torch.channels_last)
for _ in range(20):
    inputs = torch.randn(64, 8, 32, 128).to(memory_format=torch.channels_last).requires_grad_()
    layer(inputs).sum().backward()
"""
_CASES = {
    "PreAct ResNet-18, width 16, fold 1": ("preact-resnet", {"width": 16}, 1, 64, (3, 32, 32), 0.8),
    "PreAct ResNet-18, width 16, fold 2": ("preact-resnet", {"width": 16}, 2, 64, (3, 32, 32), 0.8),
    "PreAct ResNet-18, width 16, fold 2 by width": (
        "preact-resnet", {"width": 16, "join": "width"}, 2, 32, (3, 32, 32), 0.8,
    ),
    "WideResNet-22, factor 1, fold 1": ("wide-resnet", {"width": 1}, 1, 64, (3, 32, 32), 0.8),
    "PreAct ResNet-18, width 64, fold 1": ("preact-resnet", {"width": 64}, 1, 16, (3, 32, 32), 1.0),
    "PreAct ResNet-18, width 4, fold 1": ("preact-resnet", {"width": 4}, 1, 64, (3, 32, 32), 1.0),
    "small CNN, fold 1": ("small-cnn", {}, 1, 64, (3, 32, 32), 1.0),
    "small CNN, fold 2": ("small-cnn", {}, 2, 64, (3, 32, 32), 1.0),
    "small CNN, fold 2 by width": ("small-cnn", {"join": "width"}, 2, 64, (3, 32, 32), 1.0),
    "small CNN, fold 4, images of 28×28": ("small-cnn", {}, 4, 32, (1, 28, 28), 1.0),
    "small CNN, fold 2, images of 8×8": ("small-cnn", {}, 2, 64, (1, 8, 8), 1.0),
}  # fmt: skip
_EPOCH_OBJECTS = 1280


def _network(name: str, options: dict, fold: int, shape: tuple[int, int, int]) -> AggregatedClassifier:
    return build_network(
        name, object_shape=shape, num_classes=CLASSES, fold=fold, objects=images(256, shape).objects, **options
    )


def layout() -> list[str]:
    """A training step with channels last, the default, over one with channels first; below 1 is faster.

    Aims: at most 0.8 for the small ResNets, and nowhere above 1. Then an epoch of `fit`, PreAct ResNet-18 of width 16
    on 1,280 images of 32×32, compiled too, without the time to compile. Aim: at most 0.75.
    """
    lines = heading("a step", "channels last", "quartiles", "aim", "")
    for label, (name, options, fold, groups, shape, aim) in _CASES.items():
        data = images(groups * fold, shape)
        plain = _network(name, options, fold, shape)
        last = copy.deepcopy(plain)
        assert why_contiguous(plain, group(data.objects, fold), torch.device("cpu")) is None
        set_channels_last(last, True)
        times = take_turns({"plain": step(plain, data), "last": step(last, data)}, rounds=15, warm_up=2)
        found = ratio(times, "last", "plain")
        lines.append(f"| {label} | {found} | {aim} | {verdict(found.middle <= aim)} |")
    run = subprocess.run([sys.executable, "-c", _ONCE_CRASHED], capture_output=True)
    outcome = "passes" if run.returncode == 0 else f"still ends the process (exit code {run.returncode})"
    return [
        *lines, "", f"The backward of a 1×1 stride-2 convolution, 8 to 16 channels, at 64×8×32×128: {outcome}.",
        "", *_epochs(),
    ]  # fmt: skip


def _epochs() -> list[str]:
    data = images(_EPOCH_OBJECTS)
    built = _network("preact-resnet", {"width": 16}, 1, (3, 32, 32))
    choices = {
        "contiguous, uncompiled": {"layout": "contiguous", "compile": "off"},
        "channels last": {"layout": "auto", "compile": "off"},
        "compiled": {"layout": "contiguous", "compile": "on"},
        "both": {"layout": "auto", "compile": "on"},
    }
    actions: dict[str, Callable[[], object]] = {
        name: partial(fit, copy.deepcopy(built), data, Recipe(epochs=1, schedule="constant", **choice))
        for name, choice in choices.items()
    }
    first = {}
    for name, action in actions.items():
        start = time.perf_counter()
        action()
        first[name] = time.perf_counter() - start
    times = take_turns(actions, rounds=7, warm_up=0)
    lines = heading("an epoch", "over contiguous, uncompiled", "quartiles", "first epoch, s", "")
    for name in list(choices)[1:]:
        found = ratio(times, name, "contiguous, uncompiled")
        reached = verdict(found.middle <= 0.75) if name == "both" else ""
        lines.append(f"| {name} | {found} | {first[name]:.0f} | {reached} |")
    return lines
