"""Small data and networks that many tests share."""

import pytest
import torch

from agrlearn.data.labelled import LabelledSet
from agrlearn.networks.catalogue import build_network


@pytest.fixture(autouse=True)
def _no_test_depends_on_the_one_before() -> None:
    torch.manual_seed(0)


@pytest.fixture
def vectors() -> LabelledSet:
    """150 vectors of 3 classes that are easy but not trivial to tell apart."""
    random = torch.Generator().manual_seed(1)
    labels = torch.arange(150) % 3
    centres = 2.0 * torch.randn(3, 6, generator=random)
    return LabelledSet(centres[labels] + torch.randn(150, 6, generator=random), labels, ("a", "b", "c"))


@pytest.fixture
def images() -> LabelledSet:
    """96 grey images of 8×8 bytes, 4 classes, each class with its own bright quarter."""
    random = torch.Generator().manual_seed(2)
    labels = torch.arange(96) % 4
    pixels = torch.randint(0, 128, (96, 1, 8, 8), generator=random)
    for index, label in enumerate(labels.tolist()):
        row, column = 4 * (label // 2), 4 * (label % 2)
        pixels[index, :, row : row + 4, column : column + 4] += 100
    return LabelledSet(pixels.to(torch.uint8), labels, ("nw", "ne", "sw", "se"))


@pytest.fixture
def make_mlp(vectors):
    """Builds a small network for `vectors`."""

    def make(fold: int, **options):
        return build_network(
            "mlp", object_shape=(6,), num_classes=3, fold=fold, objects=vectors.objects, **{"width": 16, **options}
        )

    return make
