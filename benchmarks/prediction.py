"""Prediction of one object at a time over the bare layers."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from agrlearn.data.labelled import LabelledSet
from agrlearn.networks.catalogue import build_network
from agrlearn.networks.single import single
from agrlearn.prediction.predict import predict
from benchmarks.made import images, sentences, vectors
from benchmarks.timing import heading, milliseconds, ratio, take_turns, verdict

BATCH = 256


class Bare(nn.Module):
    """The layers alone, as one would write them down for one object: its features, then one head or the mean of all."""

    def __init__(self, layers: nn.Module, head: nn.Module, heads: int) -> None:
        super().__init__()
        self.layers, self.head, self.heads = layers, head, heads

    def forward(self, objects: Tensor) -> Tensor:
        """Logits."""
        logits = self.head(self.layers(objects))
        if self.heads == 1:
            return logits
        return logits.unflatten(1, (self.heads, -1)).log_softmax(dim=-1).logsumexp(dim=1) - math.log(self.heads)

    def distributions(self, objects: Tensor) -> Tensor:
        logits = self.head(self.layers(objects))
        if self.heads == 1:
            return logits.softmax(dim=-1)
        return logits.unflatten(1, (self.heads, -1)).softmax(dim=-1).mean(dim=1)


def _cases() -> dict[str, tuple[str, int, LabelledSet, dict[str, Any]]]:
    return {
        "MLP on 32 numbers, fold 1": ("mlp", 1, vectors(100_000), {}),
        "MLP on 32 numbers, fold 2": ("mlp", 2, vectors(100_000), {}),
        "MLP on 32 numbers, fold 2, joined features": ("mlp", 2, vectors(100_000), {"join": "features"}),
        "MLP on 784 numbers, fold 2": ("mlp", 2, vectors(20_000, 784), {"width": 512}),
        "small CNN, fold 2, images of 28×28": ("small-cnn", 2, images(2048, (1, 28, 28)), {}),
        "PreAct ResNet-18, width 16, fold 2": ("preact-resnet", 2, images(512), {"width": 16}),
        "sentence CNN, fold 2": ("sentence-cnn", 2, sentences(4096), {"vocabulary": 18_766, "join": "mean"}),
    }


@torch.inference_mode()
def _in_batches(model: Callable[[Tensor], Tensor], objects: Tensor) -> Tensor:
    return torch.cat([model(batch) for batch in objects.split(BATCH)])


def prediction() -> list[str]:
    """Replicated prediction over the bare layers and a softmax in the same batches of 256. Aim: at most 1.05.

    Beside it, the logits of `single(network)` over those of the bare layers.
    """
    lines = heading("network", "predict", "quartiles", "single", "quartiles", "ms", "")
    for label, (name, fold, data, options) in _cases().items():
        objects = data.objects
        assert isinstance(objects, Tensor)
        given = {} if "vocabulary" in options else {"objects": objects}
        network = build_network(
            name, object_shape=tuple(objects.shape[1:]), num_classes=data.num_classes, fold=fold, **given, **options
        ).eval()
        alone = single(network)
        parts = getattr(alone, "network", alone)
        layers = network if network.shares_head or fold == 1 else parts
        bare = Bare(nn.Sequential(layers.shared, layers.encoder), layers.head, 1 if network.shares_head else fold)
        actions: dict[str, Callable[[], Tensor]] = {
            "predict": partial(predict, network, objects, batch_size=BATCH),
            "bare": partial(_in_batches, bare.eval().distributions, objects),
            "single": partial(_in_batches, alone, objects),
            "logits": partial(_in_batches, bare, objects),
        }
        for one, other in (("predict", "bare"), ("single", "logits")):
            torch.testing.assert_close(actions[one](), actions[other](), rtol=1e-4, atol=1e-5)
        times = take_turns(actions, rounds=15, warm_up=1)
        found = [ratio(times, "predict", "bare"), ratio(times, "single", "logits")]
        reached = verdict(all(one.middle <= 1.05 for one in found))
        lines.append(f"| {label} | {found[0]} | {found[1]} | {milliseconds(times['bare'])} | {reached} |")
    return lines
