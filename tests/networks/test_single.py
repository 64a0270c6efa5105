"""Wrap, train, unwrap: the ordinary network that comes out of an aggregated one."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from agrlearn import Recipe, aggregate, build_network, fit, predict, single
from agrlearn.data.labelled import LabelledSet
from agrlearn.networks.catalogue import NETWORKS, network_defaults
from agrlearn.networks.joins import JOINS, TOKENS, VECTORS
from agrlearn.networks.outside import build_outside
from tests.networks import foreign
from tests.networks.test_convert import LARGE, PLAIN

SHAPES = {"mlp": (6,), "sentence-cnn": (9,), "sentence-lstm": (9,)}
SMALL = {
    "preact-resnet": {"width": 4}, "wide-resnet": {"width": 1, "depth": 10}, "small-cnn": {"width": 4},
    "sentence-cnn": {"vocabulary": 12, "embedding": 5, "maps": 3},
    "sentence-lstm": {"vocabulary": 12, "embedding": 5, "hidden": 4},
}  # fmt: skip


def objects_for(name, count=7):
    shape = SHAPES.get(name, (3, 8, 8))
    if name.startswith("sentence"):
        return torch.randint(1, 12, (count, *shape))
    return torch.randn(count, *shape)


def joins_of(name):
    kind = TOKENS if name.startswith("sentence") else VECTORS if name == "mlp" else "images"
    return [join for join, known in JOINS.items() if kind in known.kinds]


CATALOGUE = [(name, join, fold) for name in NETWORKS for join in joins_of(name) for fold in (1, 2, 4)]


def made(name, join, fold):
    network = build_network(
        name, object_shape=SHAPES.get(name, (3, 8, 8)), num_classes=5, fold=fold, join=join, **SMALL.get(name, {})
    )
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.uniform_(-0.3, 0.3)
    return network


@pytest.mark.parametrize(("name", "join", "fold"), CATALOGUE)
def test_a_single_network_equals_replicated_prediction(name, join, fold):
    network, objects = made(name, join, fold), objects_for(name)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    alone = single(network)
    with torch.no_grad():
        torch.testing.assert_close(alone(objects).softmax(dim=-1), predict(network, objects), rtol=1e-5, atol=1e-5)
        distributions = single(network, probabilities=True)(objects)
    torch.testing.assert_close(distributions, predict(network, objects), rtol=1e-5, atol=1e-5)
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
    # Its weights are its own.
    for parameter in alone.parameters():
        parameter.data.zero_()
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("join", ["max", "mean"])
def test_pooled_slots_leave_the_ordinary_network_with_its_own_names(name, join):
    assert "join" in network_defaults(name)
    ordinary = made(name, join, 1)
    ordinary.load_state_dict(single(made(name, join, 3)).state_dict())


@pytest.mark.parametrize("fold", [1, 2, 4])
@pytest.mark.parametrize("name", ["resnet", "vit", "perceptron", "two branches", "norm first"])
def test_a_wrapped_model_comes_back_out_with_its_own_architecture_and_names(name, fold):
    make, example, _, at = PLAIN[name]
    model, objects = make().eval(), example()
    for place in {None, at}:
        network = aggregate(model, fold, objects, join="max", at=place, verbose=False)
        alone = single(network)
        assert type(alone) is type(model)
        assert list(alone.state_dict()) == list(model.state_dict())
        with torch.no_grad():
            torch.testing.assert_close(alone(objects), model(objects), rtol=1e-5, atol=1e-5)
        fresh = make().eval()
        fresh.load_state_dict(alone.state_dict())
        with torch.no_grad():
            torch.testing.assert_close(fresh(objects), alone(objects))


def test_training_reaches_the_model_that_is_taken_out():
    torch.manual_seed(0)
    labels = torch.arange(60) % 3
    objects = torch.randn(60, 6) + 3 * nn.functional.one_hot(labels, 6)
    data = LabelledSet.of(objects, labels.tolist())
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    network = aggregate(model, 2, objects[:4], join="mean", verbose=False)
    fit(network, data, Recipe(epochs=30, batch_size=16, optimizer="adam", learning_rate=0.01, repetition=0.2))
    alone = single(network)
    accuracy = (alone(objects).argmax(dim=1) == labels).float().mean()
    assert accuracy > 0.9
    model.load_state_dict(alone.state_dict())
    torch.testing.assert_close(model(objects), alone(objects))


def test_a_transformer_comes_back_out():
    model, tokens = foreign.tiny_bert().eval(), foreign.bert_tokens(4)
    alone = single(aggregate(model, 2, tokens, join="max", verbose=False))
    assert type(alone) is type(model)
    with torch.no_grad():
        torch.testing.assert_close(alone(**tokens).logits, model(**tokens).logits)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_model_of_the_wide_catalogue_comes_back_out_with_other_weights(name):
    make, example, _, _ = LARGE[name]
    model, objects = make().eval(), example()
    network = moved_away(aggregate(model, 2, objects, join="mean", verbose=False), by=0.01)
    fresh = make().eval()
    fresh.load_state_dict(single(network).state_dict())
    with torch.no_grad():
        torch.testing.assert_close(fresh(objects).softmax(dim=-1), predict(network, objects), rtol=1e-4, atol=1e-5)
        assert not torch.allclose(fresh(objects), model(objects))


def moved_away(network, by=1.0):
    """The network with other weights than its model came with, as after training."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(by * torch.randn_like(parameter))
    return network


@pytest.mark.parametrize("at", [None, "0"])
def test_a_model_whose_class_layer_has_no_bias_comes_back_out(at):
    model, objects = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 5, bias=False)), torch.randn(7, 6)
    network = moved_away(aggregate(model, 2, objects, join="mean", at=at, verbose=False))
    with torch.no_grad():
        torch.testing.assert_close(single(network)(objects).softmax(dim=-1), predict(network, objects))


@pytest.mark.parametrize("at", [None, "0"])
def test_a_model_that_was_in_eval_mode_is_trained_by_fit_like_any_other(at):
    objects, labels = torch.randn(8, 6) + 5, [0, 1] * 4
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).eval()
    network = aggregate(model, 2, objects, join="mean", at=at, verbose=False)
    fit(network, LabelledSet.of(objects, labels), Recipe(epochs=1, batch_size=4))
    assert not torch.equal(single(network)[1].running_mean, model[1].running_mean)


def test_a_class_layer_with_a_hook_of_its_own_runs_it_once():
    model, objects = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 5)), torch.randn(7, 6)
    model[2].register_forward_pre_hook(lambda layer, args: (2 * args[0],))
    network = aggregate(model, 2, objects, join="mean", verbose=False)
    with torch.no_grad():
        torch.testing.assert_close(predict(network, objects), model(objects).softmax(dim=-1))


@pytest.mark.parametrize("at", ["", "1"])
def test_a_model_from_a_file_comes_back_out_behind_what_standardizes_its_input(at, tmp_path):
    (tmp_path / "own.py").write_text(
        "from torch import nn\n\ndef make():\n"
        "    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))\n"
    )
    images = torch.randint(0, 256, (7, 3, 8, 8), dtype=torch.uint8)
    network = build_outside(
        f"{tmp_path / 'own.py'}:make", object_shape=(3, 8, 8), num_classes=5, fold=2, objects=images, join="mean", at=at
    )
    alone = single(network)
    with torch.no_grad():
        torch.testing.assert_close(alone(images).softmax(dim=-1), predict(network, images))
    own = ["model.0.weight", "model.0.bias", "model.3.weight", "model.3.bias"]
    assert list(alone.state_dict()) == ["standardize.mean", "standardize.spread", *own]


@pytest.mark.parametrize(("name", "join"), [("mlp", "max"), ("mlp", "features"), ("small-cnn", "width")])
def test_it_copies_pickles_and_exports(name, join):
    alone, objects = single(made(name, join, 2)), objects_for(name)
    expected = alone(objects)
    assert torch.equal(copy.deepcopy(alone)(objects), expected)
    assert torch.equal(pickle.loads(pickle.dumps(alone))(objects), expected)
    exported = torch.export.export(alone, (objects,)).module()
    torch.testing.assert_close(exported(objects), expected)
    saved = io.BytesIO()
    torch.save(alone.state_dict(), saved)
