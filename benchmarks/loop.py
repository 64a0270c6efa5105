"""`fit` over the shortest loop that one would write by hand, and over what the processor can do."""

import copy
import statistics
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from agrlearn.data.augmentation import crop_and_flip
from agrlearn.data.labelled import LabelledSet
from agrlearn.grouping import GroupBatchSampler
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.networks.cost import count_multiply_adds
from agrlearn.seeding import generator
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from benchmarks.made import CLASSES, images
from benchmarks.timing import heading, ratio, take_turns, verdict

COUNT, BATCH, WIDTH, SIZE = 1536, 64, 16, 2048
# Law 1 is about equal layouts; what the default layout gains is in the benchmark of its name.
_RECIPE = Recipe(epochs=1, batch_size=BATCH, schedule="constant", layout="contiguous", compile="off")
_AUGMENTATION = 2  # the key of fit's random stream for it


def by_hand(model: nn.Module, data: LabelledSet) -> None:
    """An epoch of plain PyTorch on the same batches, with the same crops."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
    assert isinstance(data.objects, Tensor)
    for number, indices in enumerate(GroupBatchSampler(len(data), 1, BATCH).batches(0)):
        inputs = crop_and_flip(data.objects[indices], generator(0, 0, number, _AUGMENTATION))
        loss = nn.functional.cross_entropy(model(inputs), data.labels[indices])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def plain(network: AggregatedClassifier) -> nn.Module:
    """The same layers as an ordinary network."""
    return nn.Sequential(network.shared, network.encoder, network.head)


def matrix_product() -> Callable[[], object]:
    left, right = torch.rand(2, SIZE, SIZE)
    return lambda: left @ right


def fit_over_a_loop() -> list[str]:
    """An epoch of `fit` at fold 1 and α = 0 over a plain PyTorch loop; both reach the same weights. Aim: at most 1.03.

    PreAct ResNet-18 of width 16 on 1,536 images of 32×32, at half their resolution. Beside it, the operations per
    second of that epoch (three passes of multiply-adds) over those of a large matrix product in the same run.
    """
    data = images(COUNT)
    ours = build_network(
        "preact-resnet",
        object_shape=(3, 32, 32),
        num_classes=CLASSES,
        objects=data.objects,
        width=WIDTH,
        stem_stride=2,
    )
    theirs = copy.deepcopy(ours).train()
    train = partial(fit, ours, data, _RECIPE, augment=crop_and_flip)
    hand = partial(by_hand, plain(theirs), data)
    train()
    hand()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    times = take_turns({"fit": train, "hand": hand, "product": matrix_product()}, rounds=13, warm_up=1)
    found = ratio(times, "fit", "hand")
    operations = 6 * count_multiply_adds(ours, torch.zeros(1, 1, 3, 32, 32)) * COUNT
    reached = operations / statistics.median(times["fit"])
    possible = 2 * SIZE**3 / statistics.median(times["product"])
    gigas = f"{reached / 1e9:.0f} of {possible / 1e9:.0f}"
    return [
        *heading("an epoch", "ratio", "quartiles", ""),
        f"| fit over a loop by hand | {found} | {verdict(found.middle <= 1.03)} |",
        f"| GFLOPS over a matrix product's | {reached / possible:.2f} | | {gigas} |",
    ]
