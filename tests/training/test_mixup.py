"""mixup of groups."""

import copy

import pytest
import torch

from agrlearn.errors import RecipeError
from agrlearn.grouping import group
from agrlearn.seeding import generator
from agrlearn.training import loop
from agrlearn.training.mixup import Mixture, mix_groups
from agrlearn.training.objective import cross_entropy
from agrlearn.training.recipe import Recipe


def test_a_step_with_mixup_descends_the_mixed_loss_of_the_mixed_groups(vectors, make_mlp):
    network = make_mlp(2)
    twin = copy.deepcopy(network)
    groups, labels = group(vectors.objects[:64], 2), vectors.labels[:64].view(-1, 2)
    state = loop.TrainingState(
        network, torch.optim.SGD(network.parameters(), lr=0.1), None, loop.EpochTotals.zero(torch.device("cpu"))
    )
    mixture = mix_groups(groups, 0.7, generator(1))
    loop.train_step(
        network, state, groups, labels, Recipe(mixup=0.7), generator(1), torch.Tensor.backward, mixture=mixture
    )

    mixed, partners, share, _ = mixture
    assert torch.allclose(mixed, share * groups + (1 - share) * groups[partners], atol=1e-6)
    logits = twin(mixed)
    (share * cross_entropy(logits, labels) + (1 - share) * cross_entropy(logits, labels[partners])).backward()
    for mine, other in zip(network.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(mine, other - 0.1 * other.grad, atol=1e-6)


def test_a_step_with_mixup_at_the_features_mixes_the_bottlenecks(vectors, make_mlp):
    network = make_mlp(2)
    twin = copy.deepcopy(network)
    groups, labels = group(vectors.objects[:64], 2), vectors.labels[:64].view(-1, 2)
    state = loop.TrainingState(
        network, torch.optim.SGD(network.parameters(), lr=0.1), None, loop.EpochTotals.zero(torch.device("cpu"))
    )
    mixture = mix_groups(groups, 0.7, generator(1), "features")
    assert mixture.at_features and mixture.groups is groups
    recipe = Recipe(mixup=0.7, mixup_at="features", label_smoothing=0.1)
    loop.train_step(network, state, groups, labels, recipe, generator(1), torch.Tensor.backward, mixture=mixture)
    t, share = twin.bottleneck(groups), mixture.share
    logits = twin.heads(share * t + (1 - share) * t[mixture.partners])
    losses = [
        cross_entropy(logits, target, label_smoothing=0.1) for target in (labels, labels[mixture.partners])
    ]  # fmt: skip
    (share * losses[0] + (1 - share) * losses[1]).backward()
    for mine, other in zip(network.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(mine, other - 0.1 * other.grad, atol=1e-6)


def test_manifold_mixup_mixes_now_here_and_now_there():
    places = {mix_groups(torch.ones(4, 1, 2), 1.0, generator(seed), "random").at_features for seed in range(20)}
    assert places == {True, False}


def test_with_mixup_an_answer_is_as_wrong_as_the_share_of_the_label_that_it_misses(vectors, make_mlp):
    network = make_mlp(1)
    with torch.no_grad():
        network.head.bias.copy_(torch.tensor([0.0, 100.0, 0.0]))  # always answers 1
    state = loop.TrainingState(
        network, torch.optim.SGD(network.parameters(), lr=0.1), None, loop.EpochTotals.zero(torch.device("cpu"))
    )
    labels = torch.tensor([[1], [1], [0], [2]])
    mixture = Mixture(vectors.objects[:4, None], torch.tensor([1, 2, 3, 0]), 0.25)
    loop.train_step(
        network, state, mixture.groups, labels, Recipe(mixup=1), generator(1), torch.Tensor.backward, mixture=mixture
    )
    # Right; wrong by its partner's share; wrong; wrong by its own share.
    state.count_errors()
    assert float(state.totals.wrong) == pytest.approx(0 + 0.75 + 1 + 0.25)


@pytest.mark.parametrize("tokens", [torch.int32, torch.int64])
def test_mixup_refuses_tokens_with_a_sentence(tokens):
    with pytest.raises(RecipeError, match="tokens"):
        mix_groups(torch.ones(4, 2, 3, dtype=tokens), 1.0, generator(0))
