"""Predicting, evaluating and counting only read a network: threads may do so at once, and it stays as it was."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from agrlearn.data.labelled import LabelledSet
from agrlearn.evaluation.evaluate import evaluate
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.prediction.cost import multiply_adds_per_object
from agrlearn.prediction.predict import predict
from agrlearn.prediction.protocols import Batched, Contextual, Replicated
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from tests.networks import foreign
from tests.networks.foreign import aggregate_within

THREADS = 8
IMAGES, VECTORS = torch.rand(12, 3, 8, 8), torch.rand(12, 6)
PROTOCOLS = {
    "replicated": lambda objects: Replicated(),
    "batched": lambda objects: Batched(draws=2),
    "contextual": lambda objects: Contextual(objects, draws=2),
}


def with_dropout() -> AggregatedClassifier:
    encoder = nn.Sequential(nn.Linear(12, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5))
    return AggregatedClassifier(encoder, features=8, fold=2, num_classes=3, join="features", noise=0.2)


def small(name: str, objects: torch.Tensor = IMAGES, **options) -> AggregatedClassifier:
    return build_network(name, object_shape=tuple(objects.shape[1:]), num_classes=3, fold=2, width=4, **options)


NETWORKS = {
    "features": lambda: (small("mlp", VECTORS, join="features"), VECTORS),
    "channels": lambda: (small("small-cnn"), IMAGES),
    "width": lambda: (small("preact-resnet", join="width"), IMAGES),
    "max": lambda: (aggregate_within(foreign.nested(), 2, IMAGES, join="max", verbose=False), IMAGES),
    "aggregated at its input": lambda: (aggregate_within(foreign.nested(), 2, IMAGES, verbose=False), IMAGES),
    "aggregated within": lambda: (aggregate_within(foreign.nested(), 2, IMAGES, at="0.0", verbose=False), IMAGES),
    "one's own": lambda: (with_dropout(), VECTORS),
}


def state_of(network: nn.Module) -> tuple:
    modes = {name: module.training for name, module in network.named_modules()}
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}, modes


def assert_unchanged(network: nn.Module, before: tuple) -> None:
    weights, modes = state_of(network)
    assert modes == before[1]
    assert weights.keys() == before[0].keys()
    assert all(torch.equal(value, before[0][name]) for name, value in weights.items())


@pytest.mark.parametrize("calls", [5, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize(
    ("kind", "protocol"),
    [(kind, name) for kind in NETWORKS for name in PROTOCOLS if kind != "max" or name == "replicated"],
)
def test_many_threads_predict_what_one_does_and_leave_the_network_as_it_was(kind, protocol, training, calls):
    network, objects = NETWORKS[kind]()
    network.train(training)
    chosen, before = PROTOCOLS[protocol](objects), state_of(network)
    alone = predict(network, objects, chosen, samples=2)
    assert_unchanged(network, before)
    with ThreadPoolExecutor(THREADS) as pool:
        given = [pool.submit(predict, network, objects, chosen, samples=2) for _ in range(THREADS * calls)]
        assert all(torch.equal(call.result(), alone) for call in given)
    assert_unchanged(network, before)


@pytest.mark.parametrize("kind", NETWORKS)
def test_evaluating_and_counting_at_once_change_nothing(kind):
    network, objects = NETWORKS[kind]()
    network.train()
    data = LabelledSet(objects, torch.arange(len(objects)) % 3, ("a", "b", "c"))
    before = state_of(network)

    def look(number: int) -> tuple:
        error = evaluate(network, data).nll
        return error, multiply_adds_per_object(network, objects[:1], Replicated())

    alone = look(0)
    with ThreadPoolExecutor(THREADS) as pool:
        assert set(pool.map(look, range(THREADS * 5))) == {alone}
    assert_unchanged(network, before)


def test_threads_that_train_at_once_reach_the_weights_that_they_reach_alone():
    data = LabelledSet(torch.rand(40, 6), torch.arange(40) % 3, ("a", "b", "c"))
    recipe = Recipe(epochs=3, batch_size=8, learning_rate=0.05, alpha=0.1)

    def train(seed: int) -> dict:
        network = build_network("mlp", object_shape=(6,), num_classes=3, fold=2, seed=seed, width=8, noise=0.3)
        network.encoder = nn.Sequential(network.encoder, nn.Dropout(0.3))
        fit(network, data, recipe.model_copy(update={"seed": seed}), data, progress=False)
        return copy.deepcopy(network.state_dict())

    alone = [train(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(train, range(4)))
    for mine, theirs in zip(alone, together, strict=True):
        assert all(torch.equal(value, theirs[name]) for name, value in mine.items())
