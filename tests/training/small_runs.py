"""Short training runs, and how to compare them."""

import torch

from agrlearn.training import loop, setup
from agrlearn.training.recipe import Recipe

FAST = dict(epochs=3, batch_size=16, learning_rate=0.05)


def weights(network):
    return {name: value.clone() for name, value in network.state_dict().items()}


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def make_state(network, alpha, vectors, **options):
    recipe = Recipe(**FAST, alpha=alpha, **options)
    regularizer = setup.make_regularizer(network, vectors, recipe, torch.device("cpu"))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    zero = loop.EpochTotals.zero(torch.device("cpu"))
    return recipe, loop.TrainingState(network, optimizer, regularizer, zero)
