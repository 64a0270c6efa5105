"""Models and objects of the user's own, from aggregate() to the saved network."""

import pytest
import torch
from torch import nn

from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import ConversionError, RecipeError
from agrlearn.evaluation.evaluate import evaluate
from agrlearn.networks.catalogue import load, save
from agrlearn.networks.single import single
from agrlearn.prediction.predict import predict
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from tests.networks import foreign
from tests.networks.foreign import aggregate_within
from tests.training.stopping import StoppedError, at_most

FAST = dict(epochs=2, batch_size=8, learning_rate=0.05)


class ByteImages(nn.Module):
    """Takes pixels as they are stored."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.out = nn.Linear(8, 5)

    def forward(self, images):
        return self.out((self.first(images.float() / 255)).relu().mean(dim=(2, 3)))


class Tied(nn.Module):
    """Two layers with one weight, and one layer that is used under two names."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.third.weight = self.second.weight
        self.again = self.second
        self.out = nn.Linear(8, 5)

    def forward(self, vectors):
        x = self.second(self.first(vectors).relu()).relu()
        return self.out(self.again(self.third(x).relu()).relu())


# name: (model, objects)
KINDS = {
    "bytes": (ByteImages, lambda: torch.randint(0, 256, (24, 3, 8, 8), dtype=torch.uint8)),
    "series": (foreign.series, lambda: torch.randn(24, 2, 30)),
    "volumes": (foreign.volume, lambda: torch.randn(24, 1, 5, 5, 5)),
    "short tokens": (foreign.Recurrent, lambda: foreign.tokens(24).int()),
    "doubles": (lambda: foreign.perceptron().double(), lambda: torch.randn(24, 6, dtype=torch.float64)),
    "half precision": (lambda: foreign.perceptron().bfloat16(), lambda: torch.randn(24, 6, dtype=torch.bfloat16)),
}


def labelled(objects):
    return LabelledSet(objects, torch.arange(len(objects)) % 5, tuple("abcde"))


@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("kind", KINDS)
def test_what_trains_without_a_penalty_trains_with_one_and_is_saved(kind, alpha, tmp_path):
    make, draw = KINDS[kind]
    objects = draw()
    network = aggregate_within(make(), 2, objects[:4], verbose=False)
    data = labelled(objects)
    [*_, last] = fit(network, data, Recipe(**FAST, alpha=alpha), data, tmp_path).records
    assert (last.information is None) == (alpha == 0)
    assert last.skipped_penalties == 0
    again = load(tmp_path / "network.safetensors", model=aggregate_within(make(), 2, objects[:4], verbose=False))
    assert torch.equal(predict(again, objects), predict(network, objects))


def tied_network(objects):
    torch.manual_seed(0)
    return aggregate_within(Tied(), 2, objects[:4], verbose=False)


def ties(network):
    model = network.encoder.model
    return model.second.weight is model.third.weight and model.again is model.second


@pytest.mark.parametrize("patience", [None, 5])
def test_tied_weights_are_saved_resumed_and_loaded_as_they_are(tmp_path, patience):
    objects = torch.randn(24, 6)
    data, recipe = labelled(objects), Recipe(**FAST, patience=patience)
    whole = tied_network(objects)
    fit(whole, data, recipe, data, tmp_path / "whole")

    with pytest.raises(StoppedError), at_most(3):  # an epoch
        fit(tied_network(objects), data, recipe, data, tmp_path / "cut")
    resumed = tied_network(objects)
    fit(resumed, data, recipe, data, tmp_path / "cut")
    loaded = load(tmp_path / "whole/network.safetensors", model=tied_network(objects))
    for network in (resumed, loaded):
        assert ties(network)
        assert torch.equal(predict(network, objects), predict(whole, objects))
    assert fit(tied_network(objects), data, recipe, data, tmp_path / "cut").was_finished


def test_weights_that_are_views_of_one_tensor_are_saved_too(tmp_path):
    network = tied_network(torch.randn(4, 6))
    both = torch.randn(2, 8)
    network.encoder.model.second.bias.data, network.encoder.model.third.bias.data = both[0], both[1]
    save(network, tmp_path / "network.safetensors")
    again = load(tmp_path / "network.safetensors", model=tied_network(torch.randn(4, 6)))
    assert torch.equal(again.encoder.model.third.bias, both[1])


@pytest.mark.parametrize(
    "use",
    [
        lambda model, data: fit(model, data, Recipe(epochs=1)),
        lambda model, data: predict(model, data.objects),
        lambda model, data: evaluate(model, data),
        lambda model, data: single(model),
        lambda model, data: save(model, "network.safetensors"),
    ],
    ids=["fit", "predict", "evaluate", "single", "save"],
)
def test_a_model_without_groups_is_refused_with_how_to_make_a_network_of_it(use, vectors):
    with pytest.raises(
        ConversionError, match=r"classifies groups, got Linear; aggregate\(model, fold, example\) makes"
    ):
        use(nn.Linear(8, 3), vectors)


def test_settings_that_are_no_recipe_and_a_network_that_has_groups_already_are_refused(vectors, make_mlp):
    with pytest.raises(RecipeError, match=r"expected a Recipe, got dict; Recipe\(epochs=10\) makes one"):
        fit(make_mlp(2), vectors, {"epochs": 1})
    with pytest.raises(ConversionError, match=r"classifies groups already; pass single\(network\)"):
        aggregate_within(make_mlp(2), 2, vectors.objects[:4])
