"""Slots that pass the same layers by themselves, with a scaling and a head of their own."""

import pytest
import torch

from agrlearn.errors import ConversionError, RecipeError
from agrlearn.networks.catalogue import build_network, load, save
from agrlearn.networks.convert import aggregate
from agrlearn.networks.cost import count_multiply_adds, count_parameters
from agrlearn.networks.stacked import SlotHeads, SlotScaling
from agrlearn.prediction.cost import multiply_adds_per_object
from agrlearn.prediction.predict import predict
from agrlearn.prediction.protocols import Batched, Replicated
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe

SETTINGS = [
    ("mlp", (6,), {"width": 8}), ("mlp", (6,), {"width": 8, "join_after": 2}),
    ("small-cnn", (1, 8, 8), {"width": 4}), ("small-cnn", (2, 8, 8), {"width": 4, "join_after": 0}),
    ("preact-resnet", (3, 8, 8), {"width": 4}), ("preact-resnet", (3, 8, 8), {"width": 4, "join_after": 3}),
    ("wide-resnet", (3, 8, 8), {"width": 1, "depth": 10, "join_after": 1}),
]  # fmt: skip


def build(name, shape, options, fold=3):
    return build_network(name, object_shape=shape, num_classes=5, fold=fold, join="stack", **options)


@pytest.mark.parametrize(("name", "shape", "options"), SETTINGS)
def test_each_slot_answers_for_its_own_object_whatever_the_others_are(name, shape, options):
    network = build(name, shape, options).eval()
    groups = torch.randn(4, 3, *shape)
    other = groups.clone()
    other[:, 0] = torch.randn(4, *shape)
    with torch.no_grad():
        before, after = network(groups), network(other)
    torch.testing.assert_close(before[:, 1:], after[:, 1:])
    assert not torch.allclose(before[:, 0], after[:, 0])
    assert not network.slot_blind


@pytest.mark.parametrize(("name", "shape", "options"), SETTINGS)
def test_a_slot_is_an_ordinary_network_with_its_scaling_and_its_head(name, shape, options):
    network = build(name, shape, options).eval()
    objects = torch.randn(4, *shape)
    scaling, *layers = network.encoder
    assert isinstance(scaling, SlotScaling) and isinstance(network.head, SlotHeads)
    with torch.no_grad():
        answers = network(objects[:, None].expand(-1, 3, *shape))
        for slot in range(3):
            features = network.shared(objects)
            features = features * scaling.weight[slot].view(1, -1, *[1] * (features.ndim - 2))
            for layer in layers:
                features = layer(features)
            expected = features @ network.head.weight[slot] + network.head.bias[slot]
            torch.testing.assert_close(answers[:, slot], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "shape", "options"), SETTINGS)
def test_prediction_costs_fold_passes_and_batched_one_and_few_weights_are_added(name, shape, options):
    network, ordinary = build(name, shape, options), build(name, shape, options, fold=1)
    one = torch.zeros(1, *shape)
    whole = multiply_adds_per_object(ordinary, one, Replicated())
    assert multiply_adds_per_object(network, one, Batched()) == pytest.approx(whole)
    shared = count_multiply_adds(network.shared, one)
    assert multiply_adds_per_object(network, one, Replicated()) == pytest.approx(shared + 3 * (whole - shared))
    scaling, heads = network.encoder[0].weight.numel(), count_parameters(network.head)
    assert count_parameters(network) == count_parameters(ordinary) - heads // 3 + heads + scaling


def test_fold_1_has_no_trace_of_it(vectors):
    networks = [
        build_network("mlp", object_shape=(6,), num_classes=3, objects=vectors.objects, join=join)
        for join in ("stack", "features")
    ]
    for network in networks:
        fit(network, vectors, Recipe(epochs=2, batch_size=16))
    first, second = (network.state_dict() for network in networks)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_it_learns_and_is_saved_and_loaded(vectors, tmp_path):
    network = build_network("mlp", object_shape=(6,), num_classes=3, fold=4, objects=vectors.objects, join="stack")
    fit(network, vectors, Recipe(epochs=5, batch_size=16, learning_rate=0.05))
    answers = predict(network, vectors.objects)
    assert (answers.argmax(dim=1) != vectors.labels).double().mean() < 0.2
    assert (predict(network, vectors.objects, Batched()).argmax(dim=1) != vectors.labels).double().mean() < 0.2
    save(network, tmp_path / "network.safetensors")
    assert torch.equal(predict(load(tmp_path / "network.safetensors"), vectors.objects), answers)


def test_what_it_is_not_for_is_told_in_a_sentence():
    with pytest.raises(ConversionError, match="aggregate cannot join by stack"):
        aggregate(torch.nn.Linear(4, 3), 2, torch.zeros(2, 4), join="stack")
    with pytest.raises(RecipeError, match="can join by tandem, max, mean, got stack"):
        build_network("sentence-cnn", object_shape=(7,), num_classes=2, fold=2, vocabulary=9, join="stack")
