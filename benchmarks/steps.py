"""A training step over folds, beside what its multiply-adds allow."""

from collections.abc import Callable
from typing import Any

import torch

from agrlearn.data.labelled import LabelledSet
from agrlearn.grouping import Objects, group
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.networks.cost import count_multiply_adds
from benchmarks.made import images, sentences, step, vectors
from benchmarks.timing import heading, milliseconds, ratio, take_turns, verdict

FOLDS = (1, 2, 4)
_ADAM = {"optimizer": "adam", "learning_rate": 0.001, "weight_decay": 0.0}


def _cases() -> list[tuple[str, str, dict[str, Any], Callable[[int], LabelledSet], int, dict[str, Any]]]:
    """Name, network and its options, data, groups in a step, recipe."""
    resnet = "PreAct ResNet-18, width"
    return [
        (f"{resnet} 16, joined by channels", "preact-resnet", {"width": 16}, images, 64, {}),
        (f"{resnet} 16, joined by width", "preact-resnet", {"width": 16, "join": "width"}, images, 32, {}),
        (f"{resnet} 64, joined by channels", "preact-resnet", {"width": 64}, images, 24, {}),
        (f"{resnet} 64, joined by width", "preact-resnet", {"width": 64, "join": "width"}, images, 8, {}),
        ("sentence CNN", "sentence-cnn", {"vocabulary": 18_766}, sentences, 64, _ADAM),
        ("MLP on 784 numbers", "mlp", {"width": 512}, lambda count: vectors(count, 784), 64, {}),
    ]


def _network(name: str, fold: int, data: LabelledSet, options: dict[str, Any]) -> AggregatedClassifier:
    shape = tuple(data.objects.shape[1:])  # type: ignore[union-attr]
    return build_network(
        name, object_shape=shape, num_classes=data.num_classes, fold=fold,
        **({} if data.objects.dtype == torch.int64 else {"objects": data.objects}), **options,  # type: ignore[union-attr]
    )  # fmt: skip


def training_steps() -> list[str]:
    """Fold n over fold 1 at equally many groups. The limit is the ratio of their multiply-adds; aim: within 10 %."""
    lines = heading("network", "groups", "fold", "over fold 1", "quartiles", "multiply-adds", "of the limit", "ms", "")
    for label, name, options, make, groups, recipe in _cases():
        actions, costs = {}, {}
        for fold in FOLDS:
            data = make(groups * fold)
            network = _network(name, fold, data, options)
            one_step: Objects = group(data.objects, fold)
            costs[fold] = count_multiply_adds(network, one_step)
            actions[str(fold)] = step(network, data, **recipe)
        slow = costs[4] > 5e9
        times = take_turns(actions, rounds=5 if slow else 25, warm_up=1 if slow else 3)
        for fold in FOLDS[1:]:
            found, limit = ratio(times, str(fold), "1"), costs[fold] / costs[1]
            lines.append(
                f"| {label} | {groups} | {fold} | {found} | {limit:.2f} | {found.middle / limit:.2f} "
                f"| {milliseconds(times[str(fold)])} | {verdict(found.middle / limit <= 1.1)} |"
            )
    return lines
