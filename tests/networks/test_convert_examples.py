"""aggregate() and examples that tell little of the model: constants, a single object, words without variety."""

import pytest
import torch
from torch import nn

from agrlearn.errors import ConversionError
from tests.networks import foreign
from tests.networks.foreign import aggregate_within


@pytest.mark.parametrize("fold", [2, 3, 4])
@pytest.mark.parametrize(
    ("make", "example", "join"),
    [
        (foreign.FunctionalNet, foreign.images(), "width"),
        (foreign.FunctionalNet, foreign.images(1), "height"),
        (foreign.FunctionalNet, torch.zeros(2, 3, 8, 8), "width"),
        (foreign.Recurrent, foreign.tokens(), "tandem"),
        (foreign.Recurrent, foreign.tokens(1), "tandem"),
        (foreign.Recurrent, torch.ones(2, 7, dtype=torch.int64), "tandem"),
        (foreign.tiny_bert, foreign.bert_tokens(1), "tandem"),
    ],
)
@pytest.mark.filterwarnings("ignore:slot . moves T:UserWarning")
def test_slots_are_told_apart_whatever_the_fold_and_however_poor_the_example(make, example, join, fold):
    assert not aggregate_within(make(), fold, example, join=join, verbose=False).slot_blind


@pytest.mark.parametrize("fold", [2, 3])
def test_a_mean_over_all_positions_is_slot_blind(fold):
    points = nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
    assert aggregate_within(points, fold, foreign.images(), join="width", verbose=False).slot_blind


class ChannelsFlattenedLast(nn.Module):
    """Flattens images with their channels last, which tiled weights cannot follow."""

    def __init__(self, spread=1.0):
        super().__init__()
        self.first = nn.Linear(3 * 64, 8)
        self.out = nn.Linear(8, 5)
        nn.init.normal_(self.out.weight, std=spread)
        nn.init.zeros_(self.out.bias)

    def forward(self, images):
        return self.out(self.first(images.permute(0, 2, 3, 1).flatten(1)).relu())


@pytest.mark.parametrize("example", [foreign.images(), torch.zeros(1, 3, 8, 8), torch.ones(2, 3, 8, 8)])
@pytest.mark.parametrize("spread", [1.0, 0.0])
def test_a_network_that_would_not_survive_is_refused_however_poor_the_example_or_the_classifier(example, spread):
    with pytest.raises(ConversionError, match=r"output changes by .* when first reads all slots"):
        aggregate_within(ChannelsFlattenedLast(spread), 2, example, verbose=False)


class Picky(nn.Module):
    """Takes nothing but what lies between 0 and 1."""

    def __init__(self, look_at):
        super().__init__()
        self.look_at = look_at
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 5))

    def forward(self, x):
        self.look_at(x)
        return self.layers(torch.logit(x))


def refuse_large(x):
    assert x.max() <= 1


@pytest.mark.parametrize("look_at", [refuse_large, nn.Identity()])
def test_a_model_that_takes_only_objects_like_the_example_is_tried_on_these(look_at):
    assert aggregate_within(Picky(look_at), 2, torch.full((1, 6), 0.9), verbose=False).conversion.difference < 1e-5
