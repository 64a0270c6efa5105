"""aggregate() and the layer that makes a model's class scores."""

import pytest
import torch
from torch import nn

from agrlearn.errors import ConversionError
from tests.networks import foreign
from tests.networks.foreign import aggregate_within


class TwoTasks(nn.Module):
    """Gives the scores of two tasks in a way of its own."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.colour = nn.Linear(8, 5)
        self.shape = nn.Linear(8, 3)

    def forward(self, x):
        x = self.first(x).relu()
        return {"colour": self.colour(x), "shape": self.shape(x)}


@pytest.mark.parametrize("join", ["features", "max"])
def test_where_the_scores_cannot_be_told_the_classifier_is_asked_for(join):
    objects = torch.rand(4, 6)
    with pytest.raises(ConversionError, match=r"colour and shape could each make.*classifier="):
        aggregate_within(TwoTasks(), 2, objects, join=join, verbose=False)
    network = aggregate_within(TwoTasks(), 2, objects, join=join, classifier="shape", verbose=False)
    assert network.conversion.difference < 1e-5
    assert network.num_classes == 3


class Behind(nn.Module):
    """Does something with the output of its classifier."""

    def __init__(self, end):
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.out = nn.Linear(8, 5)
        self.end = end

    def forward(self, x):
        return self.end(self.out(self.first(x).relu()))


LOST = {
    "a factor": lambda scores: 16 * scores,
    "a factor in place": lambda scores: scores.mul_(16),
    "a temperature": lambda scores: (scores / 3).softmax(dim=1),
    "a normalisation": nn.BatchNorm1d(5, eps=1.0),
}


@pytest.mark.parametrize("end", LOST)
def test_what_a_model_does_behind_its_classifier_is_not_lost_unless_told(end):
    model, objects = Behind(LOST[end]), torch.randn(4, 6)
    with pytest.raises(ConversionError, match=r"class scores are not the output of out.*pass classifier='out'"):
        aggregate_within(model, 2, objects, verbose=False)
    named = aggregate_within(model, 2, objects, classifier="out", verbose=False)
    assert "what the model does behind out is left out" in str(named.conversion)


@pytest.mark.parametrize("end", [nn.Identity(), nn.Softmax(dim=1), nn.LogSoftmax(dim=1)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_probabilities_behind_a_classifier_are_no_loss(end, dtype):
    model, objects = Behind(end).to(dtype), torch.randn(4, 6, dtype=dtype)
    conversion = aggregate_within(model, 2, objects, verbose=False).conversion
    assert conversion.classifier == "out"
    assert "left out" not in str(conversion)


@pytest.mark.parametrize("join", ["features", "max"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_sigmoid_is_refused_since_heads_choose_one_class(join, dtype):
    with pytest.raises(ConversionError, match=r"ends in a sigmoid.*multi-label.*softmax.*take the sigmoid off"):
        aggregate_within(Behind(nn.Sigmoid()).to(dtype), 2, torch.randn(4, 6, dtype=dtype), join=join, verbose=False)


class PooledScores(nn.Module):
    """Classifies every position and pools the scores, as SqueezeNet does."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.score = nn.Conv2d(8, 5, 1)

    def forward(self, images):
        return self.score(self.first(images).relu()).mean(dim=(2, 3))


@pytest.mark.parametrize("classifier", [None, "score"])
def test_a_classifier_of_positions_is_refused_without_asking_for_its_name(classifier):
    with pytest.raises(ConversionError, match=r"score runs at every position.*\(2, 5, 6, 6\).*pool .* before score$"):
        aggregate_within(PooledScores(), 2, foreign.images(), classifier=classifier, verbose=False)
