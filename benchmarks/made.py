"""Made-up data of real shapes, and training steps as `fit` takes them, for all benchmarks."""

from collections.abc import Callable

import torch

from agrlearn.data.labelled import LabelledSet
from agrlearn.grouping import group
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.seeding import generator
from agrlearn.training.recipe import Recipe
from agrlearn.training.setup import make_optimizer, make_regularizer
from agrlearn.training.state import EpochTotals, TrainingState
from agrlearn.training.step import train_step

CLASSES = 10


def _labelled(objects: torch.Tensor, classes: int) -> LabelledSet:
    labels = torch.randint(0, classes, (len(objects),), generator=generator(1))
    return LabelledSet(objects, labels, tuple(map(str, range(classes))))


def images(count: int, shape: tuple[int, int, int] = (3, 32, 32)) -> LabelledSet:
    pixels = torch.randint(0, 256, (count, *shape), generator=generator(0), dtype=torch.uint8)
    return _labelled(pixels, CLASSES)


def vectors(count: int, features: int = 32, classes: int = CLASSES) -> LabelledSet:
    return _labelled(torch.rand(count, features, generator=generator(0)), classes)


def sentences(count: int, length: int = 56, vocabulary: int = 18_766) -> LabelledSet:
    """Sentences with the numbers of Movie Review: 56 places, 20 words on average, words by Zipf's law."""
    random = generator(0)
    chances = 1 / torch.arange(1, vocabulary).float()
    words = 1 + torch.multinomial(chances, count * length, replacement=True, generator=random).view(count, length)
    lengths = (20 + 9 * torch.randn(count, 1, generator=random)).round().clamp(1, length)
    return _labelled(words * (torch.arange(length) < lengths), 2)


def step(
    network: AggregatedClassifier, data: LabelledSet, *, objects: int | None = None, **recipe_options: object
) -> Callable[[], None]:
    """A training step on the first `objects` of `data`, or on all of it."""
    network.train()
    recipe, device, random = Recipe(**recipe_options), torch.device("cpu"), generator(2)
    regularizer = make_regularizer(network, data, recipe, device) if recipe.alpha else None
    state = TrainingState(network, make_optimizer(network, recipe), regularizer, EpochTotals.zero(device))
    batch = data.subset(torch.arange(objects or len(data)))
    groups, labels = group(batch.objects, network.fold), batch.labels.view(-1, network.fold)
    return lambda: train_step(network, state, groups, labels, recipe, random, torch.Tensor.backward)
