"""aggregate() after a module: the pieces of the model, what they hold, run and learn."""

import random

import numpy
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from agrlearn import predict, single
from agrlearn.errors import ConversionError
from agrlearn.grouping import group
from agrlearn.networks.cost import count_multiply_adds
from agrlearn.prediction.cost import multiply_adds_per_object
from agrlearn.prediction.protocols import Batched
from tests.networks import foreign, odd, zoo
from tests.networks.foreign import aggregate_within
from tests.networks.test_convert import check_laws, vit
from tests.networks.test_convert_slots import Series
from tests.networks.test_convert_unusual import CountsFirst


class OneDropout(odd.Odd):
    """One dropout before and behind its second layer."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def features(self, x):
        return self.drop(self.second(self.drop(self.first(x))))


def test_a_dropout_that_is_used_on_both_sides_of_the_join_is_on_behind_it():
    network = aggregate_within(OneDropout(), 2, odd.vectors(), at="second", verbose=False).train()
    zeros = (network.bottleneck(torch.rand(400, 2, 6)) == 0).float().mean()
    assert 0.4 < zeros < 0.6


class NormTwice(odd.Odd):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def features(self, x):
        return self.norm(self.second(self.norm(self.first(x)).relu()))


class LayerTwice(odd.Odd):
    def features(self, x):
        return self.second(self.second(self.first(x)).relu()).tanh()


@pytest.mark.parametrize(("make", "at"), [(NormTwice, "second"), (LayerTwice, "first"), (OneDropout, "second")])
@pytest.mark.parametrize("fold", [1, 2, 4])
def test_a_layer_may_be_used_on_both_sides_of_the_join(make, at, fold):
    check_laws(make, odd.vectors, fold, at=at)


def test_the_shared_piece_has_the_parameters_up_to_the_join_and_no_others():
    model = foreign.nested()
    network = aggregate_within(model, 2, foreign.images(), at="0", verbose=False).train()
    assert {name for name, _ in network.shared.model.named_parameters()} == {
        name for name, _ in model.named_parameters() if name.startswith("0.")
    }
    assert not {*network.shared.parameters()} & {*network.encoder.parameters()}
    network.shared.requires_grad_(False)
    network.shared.eval()
    norm = network.shared.model[0][0][1]
    mean = norm.running_mean.clone()
    network(torch.rand(4, 2, 3, 8, 8)).sum().backward()
    assert torch.equal(norm.running_mean, mean)
    learns = {name for name, parameter in network.named_parameters() if parameter.grad is not None}
    assert learns == {"head.weight", "head.bias", "encoder.model.1.0.weight", "encoder.model.1.0.bias"}


@pytest.mark.parametrize(("at", "before"), [("blocks.1", True), ("patch_embed", False)])
def test_what_a_container_holds_is_shared_where_the_features_depend_on_it(at, before):
    network = aggregate_within(vit(), 2, torch.rand(2, 3, 32, 32), at=at, verbose=False)
    assert ("model.pos_embed" in dict(network.shared.named_parameters())) == before
    network.shared.requires_grad_(False)
    network.train()(torch.rand(2, 2, 3, 32, 32)).sum().backward()
    pos_embed = network.encoder.model.pos_embed
    assert (pos_embed.grad is None) == before


def test_layers_before_the_join_run_for_objects_only_and_the_cost_is_what_is_computed():
    model = zoo.timm_model("resnet18")().eval()
    network = aggregate_within(model, 2, torch.rand(2, 3, 64, 64), at="layer3", verbose=False).eval()
    seen = []
    for module in network.shared.modules():
        module.register_forward_hook(lambda module, args, output: seen.append(len(output)))
    predict(network, torch.rand(8, 3, 64, 64), Batched(), batch_size=8)
    assert set(seen) == {8}

    image = torch.rand(1, 3, 64, 64)
    before = count_multiply_adds(nn.Sequential(*list(model.children())[:7]), image)
    after = count_multiply_adds(model.layer4, torch.rand(1, 256, 4, 4)) + 2 * 512 * 5
    widened = (model.layer4[0].conv1.weight.numel() + model.layer4[0].downsample[0].weight.numel()) * 4
    assert network.conversion.widened == ("layer4.0.conv1", "layer4.0.downsample.0")
    assert network.conversion.multiply_adds[1] == 2 * before + after + widened
    assert multiply_adds_per_object(network, image, Batched()) == before + (after + widened) / 2


@pytest.mark.parametrize(
    "options", [{}, {"whole": True}, {"reentrant": True}, {"reentrant": True, "whole": True}], ids=str
)
def test_a_join_within_a_checkpointed_part_is_refused(options):
    with pytest.raises(ConversionError, match=r"does not train as the model does .*torch\.utils\.checkpoint"):
        aggregate_within(odd.Checkpointed(**options), 2, odd.vectors(), at="first", verbose=False)
    network = aggregate_within(odd.Checkpointed(**options), 2, odd.vectors(), verbose=False).train()
    network(group(odd.vectors(), 2)).sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


class CheckpointedFirst(odd.Odd):
    """Keeps nothing of its first layers but their input."""

    keeps = False

    def features(self, x):
        def part(x):
            return self.second(self.first(x).relu())

        kept = self.keeps or not self.training
        return (part(x) if kept else checkpoint(part, x, use_reentrant=False)).tanh()


def test_a_join_at_the_end_of_a_checkpointed_part_has_the_gradients_of_one_that_is_not():
    network = aggregate_within(CheckpointedFirst(), 2, odd.vectors(), at="second", verbose=False).train()
    groups, gradients = group(odd.vectors(), 2), []
    for keeps in (False, True):
        network.shared.model.keeps = network.encoder.model.keeps = keeps
        network.zero_grad()
        network(groups).square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in network.parameters()])
    torch.testing.assert_close(*gradients)


def test_layers_that_are_skipped_at_random_in_training_do_not_stand_in_the_way():
    class Skips(odd.Odd):
        def features(self, x):
            x = self.first(x).relu()
            return self.second(x) if not self.training or torch.rand(()) > 0.3 else x

    for seed in range(10):
        torch.manual_seed(seed)
        assert aggregate_within(Skips(), 2, odd.vectors(), at="first", verbose=False).conversion.widened == ("second",)


def test_a_join_that_is_skipped_in_a_pass_is_told():
    class Skips(odd.Odd):
        skips = False

        def features(self, x):
            x = self.first(x).relu()
            return x if self.skips else self.second(x)

    network = aggregate_within(Skips(), 2, odd.vectors(), at="second", verbose=False)
    for piece in (network.encoder.model, network.shared.model):
        piece.skips = True
        with pytest.raises(ConversionError, match="did not run the module after which the slots are joined"):
            network(group(odd.vectors(), 2))


def test_auxiliary_scores_in_training_do_not_stand_in_the_way_of_a_join_before_them():
    model = zoo.TORCHVISION["googlenet"][0]()
    for at in ("inception3b", "inception4a", "inception5a"):
        network = aggregate_within(model, 2, torch.rand(2, 3, 64, 64), at=at, verbose=False).train()
        network(torch.rand(2, 2, 3, 64, 64)).sum().backward()


@pytest.mark.parametrize(
    ("make", "objects", "options"),
    [
        (foreign.nested, foreign.images(), {"at": "0"}),
        (foreign.nested, foreign.images(), {"at": "0", "join": "mean", "widen": True}),
        (foreign.TwoInputs, None, {"at": "together"}),
        (CountsFirst, foreign.images(), {"at": "conv"}),
        (Series, torch.randn(4, 2, 30), {"at": "conv"}),
        (odd.InADataclass, odd.vectors(), {"at": "first"}),
        (foreign.Recurrent, foreign.tokens(), {"at": "embed"}),
        (foreign.tiny_bert, foreign.bert_tokens()["input_ids"], {"at": "bert.encoder.layer.0"}),
    ],
)
@pytest.mark.filterwarnings("ignore:.*_flat_weights:UserWarning")
def test_the_network_for_one_object_is_exported_without_being_compiled(make, objects, options):
    inputs = {"image": torch.rand(6, 3, 8, 8), "about": torch.rand(6, 4)} if objects is None else objects
    network = aggregate_within(make(), 2, inputs, verbose=False, **options)
    alone = single(network)
    with torch.no_grad():
        exported = torch.export.export(alone, (inputs,), strict=False).module()
        torch.testing.assert_close(exported(inputs), alone(inputs))
        torch.testing.assert_close(alone(inputs).softmax(dim=1), predict(network, inputs))


@pytest.mark.parametrize("options", [{}, {"at": "0"}, {"at": "0", "join": "mean"}, {"join": "mean"}], ids=str)
def test_aggregating_draws_nothing_from_the_global_stream(options):
    model, images = foreign.nested(), foreign.images()
    before = torch.get_rng_state()
    aggregate_within(model, 2, images, widen="at" in options, verbose=False, **options)
    assert torch.equal(torch.get_rng_state(), before)


class DrawsInTraining(odd.Odd):
    def features(self, x):
        if self.training:
            x = x * (1 + random.random() + numpy.random.random())
        return super().features(x)


@pytest.mark.parametrize("at", [None, "first"])
def test_the_trial_in_train_mode_draws_nothing_from_the_streams_of_python_and_numpy(at):
    random.seed(3)
    numpy.random.seed(3)
    expected = random.Random(3).random(), numpy.random.RandomState(3).random_sample()
    aggregate_within(DrawsInTraining(), 2, odd.vectors(), at=at, verbose=False)
    assert (random.random(), numpy.random.random()) == expected


@pytest.mark.parametrize("options", [{}, {"at": "0"}, {"at": "0", "join": "mean"}], ids=str)
def test_the_trial_in_train_mode_leaves_no_trace(options):
    model = foreign.nested().train()
    network = aggregate_within(model, 2, foreign.images(), verbose=False, **options)
    norms = [[module for module in each.modules() if isinstance(module, nn.BatchNorm2d)] for each in (model, network)]
    for before, after in zip(*norms, strict=True):
        assert torch.equal(before.running_mean, after.running_mean)
        assert after.num_batches_tracked == 0
    assert all(parameter.grad is None for parameter in network.parameters())
    assert all(module.training for module in network.modules())
