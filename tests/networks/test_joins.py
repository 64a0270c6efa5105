"""Joins: how a group becomes one input."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from agrlearn.errors import RecipeError, ShapeError
from agrlearn.grouping import group
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.joins import JOINS, pool_globally, pool_slots, tandem, width
from agrlearn.networks.small_cnn import small_cnn
from agrlearn.prediction.predict import predict
from agrlearn.prediction.protocols import Batched, Contextual

EXAMPLES = {
    "channels": torch.randn(3, 2, 4, 5, 6),
    "width": torch.randn(3, 2, 4, 5, 6),
    "height": torch.randn(3, 2, 4, 5, 6),
    "features": torch.randn(3, 2, 4),
    "tandem": torch.randint(1, 9, (3, 2, 4)),
    "max": torch.randn(3, 2, 4),
    "mean": torch.randn(3, 2, 4),
    "stack": torch.randn(3, 2, 4),
}


@pytest.mark.parametrize("name", JOINS)
def test_every_join_keeps_every_value_and_moves_with_exchanged_slots_or_says_that_it_is_blind(name):
    groups = EXAMPLES[name]
    joined = JOINS[name](groups)
    assert len(joined) == len(groups) * (2 if JOINS[name].apart else 1)
    assert torch.equal(JOINS[name](groups.flip(1)), joined) == JOINS[name].slot_blind
    if not JOINS[name].slot_blind:
        assert torch.equal(joined.flatten().sort().values, groups.flatten().sort().values)


def test_images_lie_side_by_side_and_below_each_other():
    groups = EXAMPLES["width"]
    assert torch.equal(width(groups)[..., 6:], groups[:, 1])
    assert torch.equal(JOINS["height"](groups)[..., 5:, :], groups[:, 1])
    assert torch.equal(JOINS["channels"](groups)[:, 4:], groups[:, 1])


def test_a_join_for_images_refuses_vectors_and_names_the_one_that_fits():
    with pytest.raises(ShapeError, match="features, for vectors"):
        JOINS["width"](torch.zeros(3, 2, 4))


@given(st.lists(st.lists(st.lists(st.integers(1, 9), max_size=4), min_size=2, max_size=2), min_size=1, max_size=5))
def test_tandem_with_a_separator_is_the_sentences_without_padding_and_the_separator_between(sentences):
    padded = torch.tensor([[words + [0] * (4 - len(words)) for words in pair] for pair in sentences])
    joined = tandem(padded, separator=99)
    expected = [[*first, 99, *second] for first, second in sentences]
    for row, words in zip(joined.tolist(), expected, strict=True):
        assert row == words + [0] * (joined.shape[1] - len(words))
    assert joined.shape[1] == max(len(words) for words in expected)


@given(fold=st.integers(1, 4), positions=st.integers(1, 4), channels=st.integers(1, 3))
def test_pooling_slots_equals_pooling_each_slot_alone(fold, positions, channels):
    slots = torch.randn(5, fold, channels, 3, positions)
    for reduce in ("mean", "max"):
        alone = torch.stack([pool_globally(slots[:, slot], reduce) for slot in range(fold)], dim=1).flatten(1)
        assert torch.allclose(pool_slots(width(slots), fold, reduce), alone, atol=1e-6)
    flipped = slots.transpose(-1, -2)
    beneath = JOINS["height"](flipped)
    alone = torch.stack([pool_globally(flipped[:, slot]) for slot in range(fold)], dim=1).flatten(1)
    assert torch.allclose(pool_slots(beneath, fold, dim=-2), alone, atol=1e-6)


class MaxOverTime(nn.Module):
    """The paper's sentence CNN in small: windows that padding keeps within one sentence, then their maximum."""

    def __init__(self, slotwise: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8, padding_idx=0)
        self.windows = nn.Conv1d(8, 12, 3, padding=1)
        self.slotwise = slotwise

    def forward(self, tokens):
        found = self.windows(self.embed(tokens).transpose(1, 2))
        return pool_slots(found, 2, "max") if self.slotwise else pool_globally(found, "max")


def _sentence_network(*, slotwise: bool) -> AggregatedClassifier:
    return AggregatedClassifier(
        MaxOverTime(slotwise), features=24 if slotwise else 12, fold=2, num_classes=2, join="tandem",
        slot_blind=not slotwise,
    ).eval()  # fmt: skip


def test_the_bottleneck_moves_with_exchanged_slots_unless_the_network_says_it_is_slot_blind():
    sentences = torch.randint(1, 20, (6, 9))
    sentences[:, 6:] = 0  # padding between the two sentences
    groups = group(sentences, 2)
    for slotwise in (False, True):
        network = _sentence_network(slotwise=slotwise)
        moved = not torch.allclose(network.bottleneck(groups), network.bottleneck(groups.flip(1)), atol=1e-6)
        assert moved == (not network.slot_blind)
    image_network = small_cnn((1, 8, 8), 4, fold=2).eval()
    pictures = torch.rand(3, 2, 1, 8, 8)
    assert not torch.allclose(image_network.bottleneck(pictures), image_network.bottleneck(pictures.flip(1)))


@pytest.mark.parametrize("join", ["max", "mean", JOINS["max"]])
def test_a_network_joined_by_the_maximum_or_the_mean_knows_that_it_is_slot_blind(join):
    blind, ordinary = (
        AggregatedClassifier(nn.Linear(3, 4), features=4, fold=fold, num_classes=2, join=join) for fold in (2, 1)
    )
    with pytest.raises(RecipeError, match="slot-blind"):
        predict(blind, torch.rand(5, 3), "batched")
    assert predict(ordinary, torch.rand(5, 3), "batched").shape == (5, 2)


def test_contextual_and_batched_refuse_a_slot_blind_network_unless_told_otherwise():
    network = _sentence_network(slotwise=False)
    sentences = torch.randint(1, 20, (5, 6))
    for protocol in (Batched(), Contextual(sentences)):
        with pytest.raises(RecipeError, match=r"slot-blind.*channels"):
            predict(network, sentences, protocol)
        assert predict(network, sentences, protocol, allow_slot_blind=True).shape == (5, 2)
    assert predict(network, sentences).shape == (5, 2)
