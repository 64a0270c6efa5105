"""The sentence CNN against the paper's tandem sentence, written out."""

import pytest
import torch
from torch.nn import functional as F

from agrlearn.errors import RecipeError
from agrlearn.networks.catalogue import build_network
from agrlearn.networks.joins import tandem


def make(fold, **options):
    sizes = {"vocabulary": 30, "embedding": 8, "maps": 4, **options}
    return build_network("sentence-cnn", object_shape=(7,), num_classes=2, fold=fold, **sizes)


def test_it_equals_the_maximum_over_time_of_the_padded_sentences_in_tandem():
    network = make(3).eval()
    groups = torch.randint(0, 30, (5, 3, 7))
    with torch.no_grad():
        layers = network.shared
        joined = tandem(F.pad(groups, (4, 4)))
        words = layers.embed(joined).transpose(1, 2)
        expected = torch.cat([F.relu(filters(words)).amax(dim=2) for filters in layers.filters], dim=1)
        assert torch.allclose(network.bottleneck(groups), expected, atol=1e-6)
        assert torch.equal(network.bottleneck(groups), network.bottleneck(groups.flip(1)))
    assert network.slot_blind
    assert not make(1).slot_blind


def test_slotwise_maxima_keep_the_slots_apart():
    network = make(2, slotwise=True).eval()
    groups = torch.randint(1, 30, (5, 2, 7))
    assert not network.slot_blind
    assert not torch.allclose(network.bottleneck(groups), network.bottleneck(groups.flip(1)))


@pytest.mark.parametrize("length", [1, 3, 7, 20])
def test_convolving_the_unique_words_equals_convolving_every_position(length):
    layers = build_network("sentence-cnn", object_shape=(length,), num_classes=2, vocabulary=30).shared.double()
    tokens = torch.randint(0, 30, (50, length)) * (torch.arange(length) < torch.randint(0, length + 1, (50, 1)))
    tokens[0] = 7  # a sentence without padding
    direction = torch.randn(50, 300, dtype=torch.float64)
    fast, plain = layers.by_unique_words(tokens), layers.by_convolution(tokens)
    assert torch.allclose(fast, plain, atol=1e-12)
    weights = list(layers.parameters())
    for mine, theirs in zip(
        torch.autograd.grad(fast, weights, direction), torch.autograd.grad(plain, weights, direction), strict=True
    ):
        assert torch.allclose(mine, theirs, atol=1e-12)


def test_it_needs_a_vocabulary():
    with pytest.raises(RecipeError, match="vocabulary"):
        make(2, vocabulary=0)
