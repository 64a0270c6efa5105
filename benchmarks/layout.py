"""channels_last and torch.compile, on and off."""

import copy
import subprocess
import sys
from collections.abc import Callable

import torch

from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from benchmarks.made import CLASSES, images, step
from benchmarks.timing import heading, ratio, take_turns

_ONCE_CRASHED = """
import torch
torch.set_num_threads(1)
layer = torch.nn.Conv2d(8, 16, 1, 2, bias=False).to(memory_format=torch.channels_last)
for _ in range(20):
    inputs = torch.randn(64, 8, 32, 128).to(memory_format=torch.channels_last).requires_grad_()
    layer(inputs).sum().backward()
"""
_CASES = {
    "PreAct ResNet-18, width 16, fold 1": ("preact-resnet", {"width": 16}, 1, 64),
    "PreAct ResNet-18, width 16, fold 2 by width": ("preact-resnet", {"width": 16, "join": "width"}, 2, 32),
    "PreAct ResNet-18, width 64, fold 1": ("preact-resnet", {"width": 64}, 1, 16),
    "WideResNet-22, factor 1, fold 1": ("wide-resnet", {"width": 1}, 1, 64),
}


def _network(name: str, options: dict, fold: int) -> AggregatedClassifier:
    torch.manual_seed(0)
    return build_network(
        name, object_shape=(3, 32, 32), num_classes=CLASSES, fold=fold, objects=images(256).objects, **options
    )


def _last(network: AggregatedClassifier) -> AggregatedClassifier:
    """The network in the other memory layout, which its first convolution's weights carry through all layers."""
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _compiled(network: AggregatedClassifier) -> AggregatedClassifier:
    torch._dynamo.reset()
    network.encoder.forward = torch.compile(network.encoder.forward, dynamic=False)  # type: ignore[method-assign]
    return network


def layout() -> list[str]:
    """A training step with another memory layout or compiled, over one without; below 1 is faster.

    Off by default: channels_last for the crash below, torch.compile for what it takes to start.
    """
    lines = heading("a step", "channels_last", "quartiles", "compiled", "quartiles")
    for label, (name, options, fold, groups) in _CASES.items():
        data = images(groups * fold)
        plain = _network(name, options, fold)
        kinds: dict[str, AggregatedClassifier] = {
            "plain": plain, "channels_last": _last(copy.deepcopy(plain)), "compiled": _compiled(copy.deepcopy(plain))
        }  # fmt: skip
        values = [network.eval()(data.objects.view(groups, fold, 3, 32, 32)) for network in kinds.values()]  # type: ignore[union-attr]
        for value in values[1:]:
            torch.testing.assert_close(value, values[0], rtol=1e-3, atol=1e-4)
        actions: dict[str, Callable[[], object]] = {kind: step(network, data) for kind, network in kinds.items()}
        times = take_turns(actions, rounds=9, warm_up=2)
        found = " | ".join(str(ratio(times, kind, "plain")) for kind in ("channels_last", "compiled"))
        lines.append(f"| {label} | {found} |")
    run = subprocess.run([sys.executable, "-c", _ONCE_CRASHED], capture_output=True)
    outcome = "passes" if run.returncode == 0 else f"still ends the process (exit code {run.returncode})"
    lines += ["", f"The backward of a 1×1 stride-2 convolution, 8 to 16 channels, at 64×8×32×128: {outcome}."]
    return lines
