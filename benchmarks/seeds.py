"""Ten seeds of one MLP: trained together over one after the other."""

from collections.abc import Sequence
from functools import partial

import torch

from agrlearn.data.labelled import LabelledSet
from agrlearn.networks.catalogue import build_network
from agrlearn.training.defaults import complete_recipe
from agrlearn.training.loop import fit
from agrlearn.training.together import Trainee, fit_together
from benchmarks.timing import heading, ratio, take_turns, verdict

SEEDS, ROWS, FEATURES, CLASSES, EPOCHS, ROUNDS = 10, 600, 20, 3, 5, 11


def make_trainees(fold: int, width: int, depth: int, dropout: float) -> list[Trainee]:
    """A network for each seed, with objects of its own, by the default recipe."""
    trainees = []
    for seed in range(SEEDS):
        random = torch.Generator().manual_seed(seed)
        labels = torch.randint(CLASSES, (ROWS,), generator=random)
        objects = torch.randn(ROWS, FEATURES, generator=random) + 0.3 * labels.unsqueeze(1)
        recipe = complete_recipe({"epochs": EPOCHS, "seed": seed}, "vectors", objects=ROWS, pooled=fold > 1)
        network = build_network(
            "mlp", object_shape=(FEATURES,), num_classes=CLASSES, fold=fold, seed=seed, objects=objects, width=width,
            depth=depth, dropout=dropout,
        )  # fmt: skip
        trainees.append(Trainee(network, LabelledSet(objects, labels, ("a", "b", "c")), recipe))
    return trainees


def one_by_one(trainees: Sequence[Trainee]) -> None:
    for trainee in trainees:
        fit(*trainee)


def together(trainees: Sequence[Trainee]) -> None:
    assert None not in fit_together(trainees)


def least_work(fold: int, width: int, depth: int, dropout: float) -> None:
    """What no way of training can leave out: the hidden layers' products of matrices, and dropout's random numbers."""
    objects = torch.randn(fold * 32, width)
    inputs, weight = torch.randn(fold * 32, FEATURES), torch.randn(width, width)
    first, mask = torch.randn(width, FEATURES), torch.empty(fold * 32, width)
    for _ in range(SEEDS * EPOCHS * ROWS // 32):
        torch.mm(inputs, first.T)
        torch.mm(objects.T, inputs)
        for _ in range(depth - 1):
            torch.mm(objects, weight.T)
            torch.mm(objects, weight)
            torch.mm(objects.T, objects)
        for _ in range(depth if dropout > 0 else 0):
            mask.bernoulli_(1 - dropout)


def row(fold: int, width: int, depth: int, dropout: float) -> str:
    shape = (fold, width, depth, dropout)
    alone, stacked = make_trainees(*shape), make_trainees(*shape)
    actions = {
        "together": partial(together, stacked), "one by one": partial(one_by_one, alone),
        "least": partial(least_work, *shape),
    }  # fmt: skip
    times = take_turns(actions, rounds=ROUNDS, warm_up=1)
    found, least = ratio(times, "together", "one by one"), ratio(times, "least", "one by one")
    name = f"{depth} layers of {width}, dropout {dropout}, fold {fold}"
    return f"| {name} | {found} | {least.middle:.2f} | {verdict(found.middle <= 0.35)} |"


def many_seeds() -> list[str]:
    """Ten MLPs of one shape with 600 rows each: trained together over one after the other.

    Beside it what the hidden layers' products and dropout's random numbers take alone, which nothing can leave out: a
    wide network has little else to save. Two layers of 128 with dropout 0.1 are the default for tables. Aim: at most
    0.35.
    """
    shapes = [(64, 2, 0.1), (128, 2, 0.1), (128, 2, 0.0), (256, 3, 0.1), (256, 3, 0.0)]
    return [
        *heading("10 seeds, 5 epochs", "ratio", "quartiles", "the least", ""),
        *(row(fold, *shape) for shape in shapes for fold in (1, 2)),
    ]
