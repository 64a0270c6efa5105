"""aggregate() inside models that are unusual in what they take, in what they give, or in their layers."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from agrlearn import predict, single
from agrlearn.errors import ConversionError
from agrlearn.grouping import group, replicate
from tests.networks import foreign, odd, zoo
from tests.networks.foreign import aggregate_within
from tests.networks.test_convert import check_laws


@pytest.mark.parametrize("at", [None, "first"])
def test_an_embedding_beside_the_scores_is_not_taken_for_them_and_one_layer_for_all_depths_is_refused(at):
    assert aggregate_within(odd.EmbeddingFirst(), 2, odd.vectors(), at=at, verbose=False).num_classes == 5
    with pytest.raises(ConversionError, match="out runs 3 times in a pass"):
        aggregate_within(odd.AfterEveryLayer(), 2, odd.vectors(), at=at, verbose=False)


class EmbeddingInTraining(odd.Odd):
    def forward(self, x):
        return self.features(x) if self.training else super().forward(x)


@pytest.mark.parametrize("at", [None, "first"])
def test_a_model_that_gives_no_scores_in_training_is_refused(at):
    with pytest.raises(ConversionError, match="does not run its classifier in train mode"):
        aggregate_within(EmbeddingInTraining(), 2, odd.vectors(), at=at, verbose=False)


class Prompted(odd.Odd):
    """Parameters of its own and in a list, before its first layer and behind it."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(6))
        self.prompts = nn.ParameterList([torch.rand(6), torch.rand(8)])

    def features(self, x):
        x = self.first(self.scale * x + self.prompts[0]).relu()
        return self.second(x + self.prompts[1].tanh()).tanh()


class OneActivation(nn.Module):
    """Blocks that share a learned activation, which also runs alone."""

    def __init__(self):
        super().__init__()
        self.act = nn.PReLU()
        sizes = (6, 8), (8, 8), (8, 8)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(*size), self.act) for size in sizes)
        self.out = nn.Linear(8, 5)

    def forward(self, x):
        x = self.act(x)
        for block in self.blocks:
            x = block(x)
        return self.out(self.act(x))


class InAList(odd.Odd):
    """Holds its layers a second time, in a list that is no module."""

    def __init__(self):
        super().__init__()
        self.steps = [self.first, self.second]

    def features(self, x):
        for step in self.steps:
            x = step(x).tanh()
        return x


# name: (model, where to join it)
WORKING = {
    "auxiliary in training": (odd.OnlyWhileTraining, (None, "second")),
    "by keyword": (odd.ByKeyword, (None, "first")),
    "experts": (odd.Experts, (None, "first")),
    "prompted": (Prompted, ("first",)),
    "one activation": (OneActivation, ("blocks.1",)),
    "in a list": (InAList, (None, "first")),
}


@pytest.mark.parametrize("fold", [1, 2, 4])
@pytest.mark.parametrize("name", WORKING)
def test_unusual_models_survive_at_the_input_and_within(name, fold):
    make, places = WORKING[name]
    for at in places:
        check_laws(make, odd.vectors, fold, at=at)


def test_parameters_outside_of_layers_are_shared_where_the_features_depend_on_them():
    network = aggregate_within(Prompted(), 2, odd.vectors(), at="first", verbose=False)
    names = {name for name, _ in network.shared.model.named_parameters()}
    assert names == {"scale", "prompts.0", "first.weight", "first.bias"}


class PaddingChild(nn.Conv2d):
    """A convolution with a module of its own for the padding."""

    def __init__(self):
        super().__init__(3, 8, 3)
        self.pad = nn.ZeroPad2d(1)

    def forward(self, images):
        return super().forward(self.pad(images))


class PaddingChildOf8(PaddingChild):
    def __init__(self):
        nn.Conv2d.__init__(self, 8, 8, 5)
        self.pad = nn.ZeroPad2d(1)


class CountsFirst(nn.Module):
    """Reads the number of objects before its layers, and reshapes by it behind them."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.mix = nn.Linear(288, 16)
        self.out = nn.Linear(16, 5)

    def forward(self, images):
        batch = images.shape[0]
        return self.out(self.mix(self.norm(self.conv(images)).relu().view(batch, -1)).tanh())


class OneInput(odd.Odd):
    def forward(self, batch: dict):
        return super().forward(batch["vectors"])


class AlwaysDropoutFirst(odd.Odd):
    def __init__(self):
        super().__init__()
        self.drop = AlwaysOn()

    def features(self, x):
        return self.drop(self.second(self.drop(self.first(x))))


class AlwaysOn(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.3, training=True)


def test_a_convolution_with_a_module_for_its_padding_is_widened():
    def make():
        return nn.Sequential(PaddingChild(), nn.ReLU(), PaddingChildOf8(), nn.Flatten(), nn.Linear(288, 5))

    assert check_laws(make, foreign.images, 2).conversion.widened == ("0",)
    assert check_laws(make, foreign.images, 2, at="1").conversion.widened == ("2",)


@pytest.mark.parametrize("fold", [1, 2, 4])
@pytest.mark.parametrize("at", ["conv", "norm"])
def test_a_model_may_reshape_by_the_number_of_objects_that_it_read_before_the_join(at, fold):
    check_laws(CountsFirst, foreign.images, fold, at=at)
    check_laws(CountsFirst, foreign.images, fold, at=at, join="max")


@pytest.mark.parametrize("at", [None, "first", "second"])
@pytest.mark.parametrize("fold", [1, 2])
def test_a_model_that_works_on_its_input_in_place_leaves_the_users_objects_alone(at, fold):
    model, objects = odd.InPlace().eval(), odd.vectors()
    with torch.no_grad():
        expected = model(objects.clone())
    network = aggregate_within(model, fold, objects, at=at, slot_noise=0.0, verbose=False).eval()
    groups, known = replicate(objects, fold).clone(), objects.clone()
    with torch.no_grad():
        for run in (lambda: network(groups)[:, 0], lambda: single(network)(objects)):
            scores = run()
            torch.testing.assert_close(scores.log_softmax(dim=1), expected.log_softmax(dim=1))
    assert torch.equal(objects, known)
    assert torch.equal(groups, replicate(known, fold))


@pytest.mark.parametrize("at", [None, "first"])
def test_a_model_that_takes_a_batch_with_one_tensor_is_joined_as_that(at):
    objects = {"vectors": odd.vectors()}
    model = OneInput().eval()
    network = aggregate_within(model, 2, objects, at=at, slot_noise=0.0, verbose=False).eval()
    with torch.no_grad():
        torch.testing.assert_close(network(replicate(objects, 2))[:, 1], model(objects))
        torch.testing.assert_close(single(network)(objects).softmax(dim=1), model(objects).softmax(dim=1))


@pytest.mark.parametrize("at", ["first", "second"])
def test_dropout_that_is_always_on_before_a_join_is_compared_under_one_seed(at):
    network = aggregate_within(AlwaysDropoutFirst(), 2, odd.vectors(), at=at, verbose=False)
    assert network.conversion.difference < 1e-5


@pytest.mark.parametrize("name", ["ViT", "ConvNeXt", pytest.param("Swin", marks=pytest.mark.slow)])
@pytest.mark.parametrize("as_mapping", [True, False])
def test_an_image_model_of_transformers_reads_all_slots_channels(name, as_mapping):
    make, example = zoo.SIGHT[name]
    model, mapping = make().eval(), example()
    objects = mapping if as_mapping else mapping["pixel_values"]
    network = aggregate_within(model, 2, objects, slot_noise=0.0, verbose=False).eval()
    assert network.conversion.join == "channels"
    with torch.no_grad():
        expected = model(**mapping).logits.softmax(dim=1)
        torch.testing.assert_close(network(replicate(objects, 2))[:, 1].softmax(dim=1), expected)
        torch.testing.assert_close(single(network)(objects).softmax(dim=1), expected)
    assert model.config.num_channels == 3
    network.train()(group(objects, 2)).sum().backward()


def test_a_normalisation_of_as_many_channels_as_the_input_keeps_its_number():
    layers = nn.Conv2d(3, 3, 3), nn.GroupNorm(3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 5)
    network = aggregate_within(nn.Sequential(*layers), 2, foreign.images(), verbose=False)
    assert network.encoder.model[1].num_channels == 3
    assert network.slot_weights


@pytest.mark.parametrize("at", ["first", "second"])
def test_a_network_with_parametrized_layers_is_copied_and_predicts(at):
    model = odd.normalised(parametrizations.weight_norm)()
    network = aggregate_within(model, 2, odd.vectors(), at=at, verbose=False).train()
    objects = odd.vectors()
    expected = predict(network, objects)
    torch.testing.assert_close(predict(copy.deepcopy(network), objects), expected)
    network.load_state_dict(aggregate_within(model, 2, objects, at=at, verbose=False).state_dict())
    torch.testing.assert_close(predict(network, objects), expected)


@pytest.mark.parametrize("make", [odd.InADataclass, odd.InANamespace, odd.InAMapping])
@pytest.mark.parametrize("at", [None, "first"])
def test_whatever_form_a_model_gives_its_scores_in_it_is_joined_and_learns(make, at):
    network = aggregate_within(make(), 2, odd.vectors(), at=at, verbose=False).train()
    network(group(odd.vectors(), 2)).sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.parametrize("at", [None, "first", "second"])
def test_a_quantized_network_still_gives_what_it_gave(at):
    network = aggregate_within(odd.Odd(), 2, odd.vectors(), at=at, verbose=False).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = torch.ao.quantization.quantize_dynamic(network, {nn.Linear})
    groups = group(odd.vectors(), 2)
    with torch.no_grad():
        torch.testing.assert_close(small(groups), network(groups), rtol=0, atol=0.05)
