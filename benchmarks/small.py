"""A small network: `fit` over the shortest loop by hand, and `AgrLearnClassifier` over scikit-learn's MLPClassifier."""

import warnings
from collections.abc import Callable
from functools import partial

import torch
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from torch import Tensor, nn
from torch.nn import functional as F

from agrlearn.data.labelled import LabelledSet
from agrlearn.grouping import GroupBatchSampler
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.sklearn import AgrLearnClassifier
from agrlearn.training.defaults import complete_recipe
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from agrlearn.training.setup import learning_rate_at
from benchmarks.timing import heading, ratio, take_turns, verdict

EPOCHS, ROUNDS, HIDDEN = 10, 15, (128, 128)


def by_hand(network: AggregatedClassifier, data: LabelledSet, recipe: Recipe) -> None:
    """Plain PyTorch on the same batches: the features of both objects, their mean, one head, the mean of two losses."""
    layers, head = nn.Sequential(network.shared, network.encoder), network.head
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True
    )
    sampler = GroupBatchSampler(len(data), network.fold, recipe.batch_size, seed=recipe.seed)
    objects, labels = data.objects, data.labels
    assert isinstance(objects, Tensor)
    for epoch in range(recipe.epochs):
        sampler.set_epoch(epoch)
        for step, indices in enumerate(sampler.order().split(recipe.batch_size)):
            optimizer.param_groups[0]["lr"] = learning_rate_at(recipe, epoch + step / len(sampler))
            if network.fold == 1:
                chosen = indices[:, 0]
                loss = F.cross_entropy(head(layers(objects[chosen])), labels[chosen])
            else:
                features = layers(objects[indices.flatten()]).unflatten(0, indices.shape).mean(dim=1)
                logits, answers = head(features), labels[indices]
                loss = F.cross_entropy(logits, answers[:, 0]) + F.cross_entropy(logits, answers[:, 1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def fit_over_hand(fold: int) -> str:
    """A row: the default network and recipe of `AgrLearnClassifier`."""
    x, y = load_digits(return_X_y=True)
    data = LabelledSet.of(torch.from_numpy(x).float(), y)
    recipe = complete_recipe({"epochs": EPOCHS}, "vectors", objects=len(data), pooled=fold > 1)
    build = partial(
        build_network, "mlp", object_shape=(64,), num_classes=10, fold=fold, objects=data.objects
    )  # fmt: skip
    ours, theirs = build(), build().train()
    fit(ours, data, recipe)
    by_hand(theirs, data, recipe)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    ours, theirs = build(dropout=0.1), build(dropout=0.1).train()  # whose masks differ, but not what they take
    times = take_turns(
        {"fit": partial(fit, ours, data, recipe), "hand": partial(by_hand, theirs, data, recipe)},
        rounds=ROUNDS,
        warm_up=1,
    )
    found = ratio(times, "fit", "hand")
    return f"| fit at fold {fold} over a loop by hand | {found} | {verdict(found.middle <= 1.15)} |"


def over_scikit_learn() -> list[str]:
    x, y = load_digits(return_X_y=True)
    shared = {"batch_size": 32, "random_state": 0}
    actions: dict[str, Callable[[], object]] = {
        f"AgrLearnClassifier({told}) over MLPClassifier": partial(
            AgrLearnClassifier(epochs=EPOCHS, optimizer="adam", **shared, **options).fit, x, y
        )
        for told, options in (("fold=1, dropout=0", {"fold": 1, "dropout": 0.0}), ("fold=1", {"fold": 1}), ("", {}))
    }
    neighbour = MLPClassifier(HIDDEN, solver="adam", max_iter=EPOCHS, n_iter_no_change=EPOCHS + 1, **shared)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        times = take_turns({**actions, "neighbour": partial(neighbour.fit, x, y)}, rounds=ROUNDS, warm_up=1)
    rows = []
    for name in actions:
        found = ratio(times, name, "neighbour")
        rows.append(f"| {name} | {found} | {verdict(found.middle <= 1.0)} |")
    return rows


def small_networks() -> list[str]:
    """An MLP of two hidden layers of 128 on scikit-learn's digits, 32 groups a step: overhead is most of its time.

    `fit` and the loop by hand use AdamW with torch's fused kernel, and reach the same weights. Aim: at most 1.15.
    MLPClassifier has as many layers, objects in a batch and epochs, and no batch normalisation; at fold 2, the default,
    a step sees twice as many objects. Aim: at most 1.
    """
    return [
        *heading("10 epochs", "ratio", "quartiles", ""),
        *(fit_over_hand(fold) for fold in (1, 2)),
        *over_scikit_learn(),
    ]
