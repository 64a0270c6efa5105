"""Crops, mirror images and normalisation: a batch at a time over one image at a time."""

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from agrlearn.data.augmentation import crop_and_flip
from agrlearn.data.batches import batches
from agrlearn.grouping import GroupBatchSampler
from agrlearn.networks.catalogue import build_network, standardizers
from agrlearn.seeding import generator
from benchmarks.made import CLASSES, images, step
from benchmarks.timing import heading, ratio, take_turns, verdict

COUNT, BATCH = 2048, 64


class OneByOne(Dataset):
    """What a per-image pipeline does: pad, crop, flip, to float, normalise."""

    def __init__(self, pixels: Tensor, labels: Tensor, mean: Tensor, spread: Tensor) -> None:
        self.pixels, self.labels, self.mean, self.spread = pixels, labels, mean, spread

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = functional.pad(self.pixels[index], (4, 4, 4, 4))
        top, left, mirrored = (int(torch.randint(0, high, ())) for high in (9, 9, 2))
        image = image[:, top : top + 32, left : left + 32]
        image = image.flip(2) if mirrored else image
        return (image.float() - self.mean) / self.spread, self.labels[index]


def data() -> list[str]:
    """Images a second of the vectorised pipeline over a per-image one, and its share of a training step.

    The step is one of PreAct ResNet-18 (width 16) at 64 images of 32×32. Aim: under 5 % of it.
    """
    made = images(COUNT)
    assert isinstance(made.objects, Tensor)
    network = build_network(
        "preact-resnet", object_shape=(3, 32, 32), num_classes=CLASSES, objects=made.objects, width=16
    )
    (standardize,) = standardizers(network)
    mean, spread = (values.view(3, 1, 1) for values in (standardize.mean, standardize.spread))
    shifted = crop_and_flip(made.objects[:8], generator(0))
    torch.testing.assert_close(standardize(shifted), (shifted.float() - mean) / spread)
    single = OneByOne(made.objects, made.labels, mean, spread)
    sampler = GroupBatchSampler(COUNT, 1, BATCH)

    def vectorised() -> None:
        for objects, _, _ in batches(made, sampler):
            standardize(crop_and_flip(objects, generator(0)))

    def one_by_one() -> None:
        for _ in DataLoader(single, batch_size=BATCH, shuffle=True):
            pass

    a_step = step(network, images(BATCH))
    times = take_turns({"all": vectorised, "one": one_by_one, "step": a_step}, rounds=9)
    steps = COUNT // BATCH
    share = ratio({"data": [seconds / steps for seconds in times["all"]], "step": times["step"]}, "data", "step")
    return [
        *heading("pipeline", "ratio", "quartiles", ""),
        f"| images a second, vectorised over one by one | {ratio(times, 'one', 'all')} | |",
        f"| data over the rest of a step | {share.middle:.4f} | {share.low:.4f} to {share.high:.4f} "
        f"| {verdict(share.middle < 0.05)} |",
    ]
