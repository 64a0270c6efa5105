"""The main network: encoder, bottleneck and heads."""

import copy
import inspect
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from agrlearn.errors import RecipeError, RunError, ShapeError, UnknownNameError
from agrlearn.grouping import group, replicate
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import NETWORKS, build_network, load, read_saved, save
from agrlearn.networks.cost import count_multiply_adds, count_parameters
from agrlearn.networks.single import OneObject
from agrlearn.networks.standardize import Standardize
from agrlearn.prediction.predict import predict

SHAPES = {
    "small-cnn": (2, 8, 8),
    "mlp": (6,),
    "sentence-cnn": (9,),
    "sentence-lstm": (9,),
    "preact-resnet": (3, 16, 16),
    "wide-resnet": (3, 16, 16),
}
OPTIONS = {
    "sentence-cnn": {"vocabulary": 30, "embedding": 8, "maps": 4},
    "sentence-lstm": {"vocabulary": 30, "embedding": 8, "hidden": 6},
    "preact-resnet": {"width": 8},
    "wide-resnet": {"width": 1, "depth": 10},
}


def make(name, fold):
    return build_network(name, object_shape=SHAPES[name], num_classes=5, fold=fold, **OPTIONS.get(name, {}))


@pytest.mark.parametrize("fold", [1, 2, 4])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_meets_the_contract(name, fold, tmp_path):
    shape = SHAPES[name]
    network = make(name, fold)
    groups = torch.randint(0, 30, (7, fold, *shape)) if name.startswith("sentence") else torch.rand(7, fold, *shape)
    for mode in (network.train(), network.eval()):
        logits, t, _ = mode(groups, with_bottleneck=True)
        assert logits.shape == (7, fold, 5)
        assert t.shape == (7, network.features)
    assert torch.equal(network(groups), network.heads(network.bottleneck(groups)))
    shared = group(network.shared(groups.flatten(0, 1)), fold)
    assert torch.equal(network.bottleneck_from(shared), network.bottleneck(groups))
    objects = network.shared(groups[:, 0])
    torch.testing.assert_close(
        OneObject(network).bottleneck(objects), network.bottleneck_from(replicate(objects, fold))
    )
    network(groups).sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())

    save(network, tmp_path / "network.safetensors", class_names=("a", "b", "c", "d", "e"))
    again = load(tmp_path / "network.safetensors").eval()
    assert torch.equal(again(groups), network(groups))
    assert read_saved(tmp_path / "network.safetensors").class_names == ("a", "b", "c", "d", "e")


@pytest.mark.parametrize(
    ("name", "options"),
    [("small-cnn", {"join_after": 0}), ("small-cnn", {"join_after": 2}), ("mlp", {"join": "features"}),
     ("preact-resnet", {}), ("wide-resnet", {})],
)  # fmt: skip
def test_a_layer_that_reads_the_slots_side_by_side_reads_one_object_once(name, options):
    options = OPTIONS.get(name, {}) | options
    one, four = (
        build_network(name, object_shape=SHAPES[name], num_classes=5, fold=fold, **options).eval() for fold in (1, 4)
    )
    shared = four.shared(torch.rand(3, *SHAPES[name]))
    torch.testing.assert_close(OneObject(four).bottleneck(shared), four.bottleneck_from(replicate(shared, 4)))
    read = {}
    for network in (one, four):
        layer = network.encoder.get_submodule(network.slot_weights[0].removesuffix(".weight"))
        layer.register_forward_hook(lambda layer, inputs, _, fold=network.fold: read.update({fold: inputs[0].shape}))
        OneObject(network).bottleneck(network.shared(torch.rand(3, *SHAPES[name])))
    assert read[1] == read[4]


class StandardizedWeights(nn.Linear):
    def forward(self, x):
        return F.linear(x, self.weight / self.weight.std(dim=1, keepdim=True), self.bias)


class Residual(nn.Sequential):
    """Reads its input twice: by its layers, and beside them."""

    def forward(self, x):
        return super().forward(x) + x.sum(dim=1, keepdim=True)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: Residual(nn.Linear(12, 4)), (6,)),
        (lambda: spectral_norm(nn.Linear(12, 4)), (6,)),
        (lambda: weight_norm(nn.Linear(12, 4)), (6,)),
        (lambda: prune.random_unstructured(nn.Linear(12, 4), "weight", 0.5), (6,)),
        (lambda: StandardizedWeights(12, 4), (6,)),
        (lambda: nn.Linear(12, 4), (2, 3)),
    ],
    ids=["residual", "spectral norm", "weight norm", "pruned", "derived", "matrices"],
)
def test_whatever_reads_the_slots_reads_one_object_as_it_reads_its_copies(layer, shape):
    encoder = nn.Sequential(layer(), nn.BatchNorm1d(4))
    network = AggregatedClassifier(encoder, features=4, fold=2, num_classes=3, join="features").eval()
    objects = torch.rand(5, *shape)
    expected = network.bottleneck(replicate(objects, 2))
    torch.testing.assert_close(OneObject(network).bottleneck(objects), expected)


def test_a_weight_may_be_normalised_after_the_network_was_built():
    network = build_network("mlp", object_shape=(6,), num_classes=5, fold=2, join="features").eval()
    spectral_norm(network.encoder[0][0])
    objects = network.shared(torch.rand(5, 6))
    expected = network.bottleneck_from(replicate(objects, 2))
    torch.testing.assert_close(OneObject(network).bottleneck(objects), expected)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_last_feature_layer_is_widened_by_fold_unless_the_slots_are_pooled(name):
    networks = {fold: make(name, fold) for fold in (1, 2, 4)}
    least = networks[1].features
    for fold, network in networks.items():
        assert network.features == least * (1 if network.shares_head else fold)


def test_head_i_answers_for_slot_i():
    """Heads built to read one feature each: the answer in row i must come from head i's weights."""
    network = AggregatedClassifier(nn.Identity(), features=3, fold=3, num_classes=2, join="features")
    with torch.no_grad():
        network.head.weight.zero_()
        network.head.bias.zero_()
        for slot in range(3):
            network.head.weight[2 * slot + 1, slot] = 1.0
    logits = network(torch.tensor([[[10.0], [20.0], [30.0]]]))
    assert logits[0, :, 1].tolist() == [10.0, 20.0, 30.0]


def test_the_heads_equal_separate_softmax_layers():
    network = build_network("mlp", object_shape=(6,), num_classes=5, fold=3, join="features").eval()
    t = torch.randn(4, network.features)
    weights, biases = network.head.weight.view(3, 5, -1), network.head.bias.view(3, 5)
    separate = torch.stack([F.linear(t, weights[slot], biases[slot]) for slot in range(3)], dim=1)
    assert torch.allclose(network.heads(t), separate, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"join_after": 3}, {"join": "width"}, {"join": "height", "slotwise": True}])
def test_exchanging_two_objects_changes_the_bottleneck(options):
    network = build_network("small-cnn", object_shape=(1, 8, 8), num_classes=3, fold=2, **options).eval()
    groups = torch.rand(4, 2, 1, 8, 8)
    assert not torch.allclose(network.bottleneck(groups), network.bottleneck(groups.flip(1)), atol=1e-5)


def test_the_bottleneck_is_noisy_in_training_and_its_mean_in_evaluation():
    network = build_network("mlp", object_shape=(6,), num_classes=5, fold=2, noise=0.5, depth=1)
    groups = torch.randn(2000, 2, 6)
    network.eval()
    assert torch.equal(network.bottleneck(groups), network.bottleneck(groups))
    mean = network.bottleneck(groups)
    drawn = network.perturb(mean, torch.Generator().manual_seed(0)) - mean
    assert abs(drawn.std().item() - 0.5) < 0.01
    assert not torch.equal(network.train().bottleneck(groups), network.bottleneck(groups))


def test_equal_seeds_give_equal_weights_and_leave_the_global_stream_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first = build_network(object_shape=(6,), num_classes=3, seed=1)
    assert torch.equal(torch.rand(3), expected)
    same, other = (build_network(object_shape=(6,), num_classes=3, seed=seed) for seed in (1, 2))
    assert torch.equal(first.head.weight, same.head.weight)
    assert not torch.equal(first.head.weight, other.head.weight)


def test_standardize_gives_zero_mean_and_unit_spread_and_survives_constants():
    images = torch.randint(0, 255, (5000, 3, 4, 4), dtype=torch.uint8)
    images[:, 1] = 7
    result = Standardize(3).fit(images)(images)
    assert torch.allclose(result.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-4)
    assert torch.allclose(result[:, [0, 2]].std(dim=(0, 2, 3)), torch.ones(2), atol=1e-3)
    assert torch.equal(result[:, 1], torch.zeros(5000, 4, 4))


def test_standardize_learns_from_numbers_however_small_they_are():
    numbers = torch.tensor([[1e-9, 5.0, 3e-30], [3e-9, 5.0 + 1e-5, 1e-30]]).repeat(50, 1)
    result = Standardize(3).fit(numbers)(numbers)
    assert torch.allclose(result.abs(), torch.ones(100, 3), atol=0.1)
    assert torch.allclose(result.mean(dim=0), torch.zeros(3), atol=0.1)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1 / 3, 123.456, -7.7e5, 1e-9, 1e-44, 1.7e9])
@pytest.mark.parametrize("count", [3, 100_001, 4_000_000])
def test_standardize_takes_no_rounding_for_a_spread(constant, count):
    numbers = torch.full((count, 1), constant)
    layer = Standardize(1).fit(numbers)
    assert layer.spread.item() == 1
    assert layer(numbers[:1]).item() == 0
    numbers[::2] = torch.nextafter(numbers[0], torch.tensor(torch.inf))
    layer.fit(numbers)
    assert layer.spread.item() == 1
    assert torch.isfinite(layer(numbers[:2])).all()


def test_groups_of_the_wrong_fold_are_refused_with_what_to_do():
    with pytest.raises(ShapeError, match=r"fold=2 objects, got 3.*group\(objects, fold=2\)"):
        build_network("mlp", object_shape=(6,), num_classes=3, fold=2)(torch.zeros(4, 3, 6))


@pytest.mark.parametrize("name", NETWORKS)
def test_sizes_that_no_network_has_get_a_sentence(name):
    parameters = inspect.signature(NETWORKS[name]).parameters
    sizes = {option for option, parameter in parameters.items() if type(parameter.default) is int} - {"fold"}
    told = {"object_shape": SHAPES[name], "num_classes": 5}
    for option in sizes:
        least = {"join_after": -1, "vocabulary": 0}.get(option, 1)
        for value in (least - 1, -3, 2.5, True):
            with pytest.raises(RecipeError, match=f"{option} of {name} is a whole number from {least} up, got {value}"):
                build_network(name, **{**told, **OPTIONS.get(name, {}), option: value})
    for noise in (-1, math.nan, math.inf, "high"):
        with pytest.raises(RecipeError, match=f"noise of {name} is a standard deviation from 0 up, got {noise!r}"):
            build_network(name, **{**told, **OPTIONS.get(name, {}), "noise": noise})


def test_unknown_names_list_the_choices():
    with pytest.raises(UnknownNameError, match="did you mean 'mlp'"):
        build_network("mlpp", object_shape=(6,), num_classes=3)
    with pytest.raises(UnknownNameError, match="did you mean 'width'"):
        build_network("mlp", object_shape=(6,), num_classes=3, widht=3)
    with pytest.raises(RecipeError, match="small-cnn takes images"):
        build_network("mlp", object_shape=(1, 8, 8), num_classes=3)
    with pytest.raises(RecipeError, match="slot-wise pooling needs"):
        build_network("small-cnn", object_shape=(1, 8, 8), num_classes=3, slotwise=True)


def test_files_that_are_not_ours_are_refused(tmp_path, make_mlp):
    from safetensors.torch import save_file

    foreign = tmp_path / "foreign.safetensors"
    save_file({"weight": torch.zeros(3)}, foreign)
    with pytest.raises(RunError, match="not one that agrlearn wrote"):
        load(foreign)
    foreign.write_bytes(b"not a network")
    with pytest.raises(RunError, match="not a safetensors file"):
        load(foreign)
    with pytest.raises(RunError, match="no saved network"):
        load(tmp_path / "absent")
    own = copy.deepcopy(make_mlp(2))
    own.description = None
    save(own, tmp_path / "own.safetensors")
    with pytest.raises(RunError, match="pass the built network as model="):
        load(tmp_path / "own.safetensors")
    assert load(tmp_path / "own.safetensors", model=make_mlp(2)).fold == 2
    with pytest.raises(RunError, match="does not fit"):
        load(tmp_path / "own.safetensors", model=make_mlp(4))


def test_costs_are_counted_as_by_hand():
    network = build_network("mlp", object_shape=(6,), num_classes=3, fold=2, width=16, depth=1, join="features")
    # 12 -> 32 without bias, batch normalisation of 32, and 32 -> 6 with bias
    assert count_parameters(network) == 12 * 32 + 2 * 32 + 32 * 6 + 6
    assert count_multiply_adds(network, torch.zeros(5, 2, 6)) == 5 * (12 * 32 + 32 * 6)


def test_an_lstm_costs_on_a_gpu_what_it_costs_on_a_cpu():
    class ByCudnn(nn.LSTM):
        def forward(self, series):
            states = series.new_zeros(4, series.shape[1], 7)  # of 2 layers and 2 directions
            return torch.ops.aten._cudnn_rnn(
                series, self._flat_weights, 4, None, states, states, 2, 7, 0, 2, False, 0.0, False, True, [], None
            )  # fmt: skip

    sizes = {"input_size": 5, "hidden_size": 7, "num_layers": 2, "bidirectional": True}
    by_hand = 3 * 4 * 2 * (4 * 7 * (5 + 7) + 4 * 7 * (14 + 7))
    assert count_multiply_adds(nn.LSTM(**sizes), torch.zeros(3, 4, 5)) == by_hand
    # torch knows the shapes that cuDNN gives, so no GPU is needed.
    assert count_multiply_adds(ByCudnn(**sizes).to("meta"), torch.zeros(3, 4, 5, device="meta")) == by_hand


def test_a_layer_that_is_used_twice_predicts_as_its_groups_do():
    layer = nn.Linear(8, 8)
    network = AggregatedClassifier(
        nn.Sequential(layer, nn.ReLU(), layer), features=8, fold=2, num_classes=3, join="features"
    )
    objects = torch.rand(5, 4)
    with torch.no_grad():
        expected = network(replicate(objects, 2)).softmax(dim=-1).mean(dim=1)
    torch.testing.assert_close(predict(network, objects), expected)


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_tokens_of_either_type_are_read_as_sentences(kind):
    tokens = torch.randint(1, 9, (6, 5)).to(kind)
    network = build_network(object_shape=(5,), num_classes=2, fold=2, objects=tokens, vocabulary=9, embedding=4, maps=2)
    assert network.description["network"] == "sentence-cnn"
    assert predict(network, tokens).shape == (6, 2)
