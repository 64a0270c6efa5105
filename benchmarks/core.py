"""The small network on 8×8 images: training steps over folds, the regularizer, and prediction."""

from collections.abc import Callable

import torch

from agrlearn.data.labelled import LabelledSet
from agrlearn.grouping import Objects, group
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.networks.cost import count_multiply_adds
from agrlearn.prediction.cost import multiply_adds_per_object
from agrlearn.prediction.predict import predict
from agrlearn.prediction.protocols import Batched, Replicated
from agrlearn.seeding import generator
from agrlearn.training.recipe import Recipe
from agrlearn.training.setup import make_optimizer, make_regularizer
from agrlearn.training.state import EpochTotals, TrainingState
from agrlearn.training.step import train_step
from benchmarks.timing import ratio, take_turns

SHAPE, CLASSES, GROUPS = (1, 8, 8), 10, 64


def images(count: int) -> LabelledSet:
    random = generator(0)
    pixels = torch.randint(0, 17, (count, *SHAPE), generator=random, dtype=torch.uint8)
    labels = torch.randint(0, CLASSES, (count,), generator=random)
    return LabelledSet(pixels, labels, tuple(map(str, range(CLASSES))))


def make(fold: int, **options: object) -> AggregatedClassifier:
    return build_network("small-cnn", object_shape=SHAPE, num_classes=CLASSES, fold=fold, **options)


def step(fold: int, **recipe_options: object) -> Callable[[], None]:
    """A training step of 64 groups, as `fit` takes it."""
    network, data = make(fold).train(), images(GROUPS * fold)
    recipe = Recipe(**recipe_options)
    device = torch.device("cpu")
    regularizer = make_regularizer(network, data, recipe, device) if recipe.alpha else None
    state = TrainingState(network, make_optimizer(network, recipe), regularizer, EpochTotals.zero(device))
    groups: Objects = group(data.objects, fold)
    labels = data.labels.view(-1, fold)
    random = generator(1)
    return lambda: train_step(network, state, groups, labels, recipe, random, torch.Tensor.backward)


def training_steps() -> list[str]:
    times = take_turns({str(fold): step(fold) for fold in (1, 2, 4)}, rounds=100)
    one = count_multiply_adds(make(1), torch.zeros(GROUPS, 1, *SHAPE))
    lines = ["| a step of 64 groups | over fold 1 | quartiles | multiply-adds over fold 1 |", "|---|---:|---:|---:|"]
    for fold in (2, 4):
        middle, low, high = ratio(times, str(fold), "1")
        cost = count_multiply_adds(make(fold), torch.zeros(GROUPS, fold, *SHAPE)) / one
        lines.append(f"| fold {fold} | {middle:.2f} | {low:.2f} to {high:.2f} | {cost:.2f} |")
    return lines


def regularizer() -> list[str]:
    actions = {"0": step(2), "1": step(2, alpha=0.3), "5": step(2, alpha=0.3, ascent_steps=5)}
    times = take_turns(actions, rounds=100)
    lines = ["| a step at fold 2 | over alpha = 0 | quartiles |", "|---|---:|---:|"]
    for steps in ("1", "5"):
        middle, low, high = ratio(times, steps, "0")
        lines.append(f"| alpha > 0, K = {steps} | {middle:.2f} | {low:.2f} to {high:.2f} |")
    return lines


def prediction() -> list[str]:
    objects = images(4096).objects
    networks = {
        (fold, after): make(fold, join_after=after) for fold in (1, 2, 4) for after in (0, 1) if (fold, after) != (1, 0)
    }
    protocols = {"Replicated": Replicated(), "Batched, 1 draw": Batched()}
    actions: dict[str, Callable[[], object]] = {}
    limits = {}
    ordinary = multiply_adds_per_object(networks[1, 1], objects[:1], Replicated())
    for (fold, after), network in networks.items():
        for name, protocol in protocols.items():
            label = f"| {fold} | {after} | {name} |"
            actions[label] = lambda network=network, protocol=protocol: predict(network, objects, protocol)
            limits[label] = ordinary / multiply_adds_per_object(network, objects[:1], protocol)
    times = take_turns(actions, rounds=30)
    base = "| 1 | 1 | Replicated |"
    lines = ["| fold | join after | prediction | objects/s over fold 1 | quartiles | multiply-adds allow |",
             "|---:|---:|---|---:|---:|---:|"]  # fmt: skip
    for label in actions:
        middle, low, high = ratio(times, base, label)
        lines.append(f"{label} {middle:.2f} | {low:.2f} to {high:.2f} | {limits[label]:.2f} |")
    return lines


BENCHMARKS = {"training-steps": training_steps, "regularizer": regularizer, "prediction": prediction}
