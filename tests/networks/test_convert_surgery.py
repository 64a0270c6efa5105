"""aggregate() inside a model: it gives what the model gave and trains as the model does, or it is refused."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from agrlearn import aggregate, predict, single
from agrlearn.errors import ConversionError, UnknownNameError
from agrlearn.grouping import group, replicate
from agrlearn.networks.cost import count_multiply_adds
from agrlearn.networks.single import OneObject
from agrlearn.prediction.cost import multiply_adds_per_object
from agrlearn.prediction.protocols import Batched
from tests.networks import foreign, odd, zoo
from tests.networks.test_convert import check_laws, vit


class Series(nn.Module):
    """A convolution over time, and its mean."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 16, 3, padding=1)
        self.out = nn.Linear(16, 5)

    def forward(self, series):
        return self.out(self.conv(series).relu().mean(dim=2))


class Words(nn.Module):
    """Windows of words, with their channels moved to the front."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 8)
        self.drop = nn.Dropout(0.1)
        self.windows = nn.Conv1d(8, 12, 3)
        self.out = nn.Linear(12, 5)

    def forward(self, tokens):
        return self.out(self.windows(self.drop(self.embed(tokens)).transpose(1, 2)).relu().amax(dim=2))


def test_a_mixer_mixes_channels_and_not_time_steps():
    network = aggregate(Series(), 2, torch.randn(4, 2, 120), at="conv", verbose=False)
    assert network.join.weight.shape == (16, 32)
    series = torch.randn(3, 2, 2, 120)
    shifted = network.join(network.shared(series.flatten(0, 1)).unflatten(0, (3, 2)).roll(7, dims=-1))
    together = network.join(network.shared(series.flatten(0, 1)).unflatten(0, (3, 2)))
    torch.testing.assert_close(shifted, together.roll(7, dims=-1))


@pytest.mark.parametrize("at", ["embed", "drop"])
def test_words_are_joined_by_their_features_whatever_reads_them(at):
    assert check_laws(Words, foreign.tokens, 2, at=at).conversion.widened == ("windows",)


def test_where_no_layer_tells_the_channels_they_are_asked_for():
    class Alone(nn.Module):
        def __init__(self):
            super().__init__()
            self.pool, self.out = nn.Identity(), nn.Linear(9, 5)

        def forward(self, series):
            return self.out(self.pool(series).flatten(1)[:, :9])

    with pytest.raises(ConversionError, match=r"pool gives \(2, 4, 7\), and no layer tells which dimension"):
        aggregate(Alone(), 2, torch.rand(4, 4, 7), at="pool", verbose=False)


class Cut(foreign.Recurrent):
    def __init__(self, longest):
        super().__init__()
        self.longest = longest

    def forward(self, tokens):
        return super().forward(tokens[:, : self.longest])


UNREAD = {
    "columns": (odd.Table, torch.randint(0, 3, (4, 3))),
    "cut after one object": (lambda: Cut(7), foreign.tokens()),
    "cut within the second": (lambda: Cut(12), foreign.tokens()),
    "counted words": (odd.Packed, odd.words()),
    "counted words, without padding": (odd.Packed, torch.randint(1, 30, (4, 7))),
}


@pytest.mark.parametrize("fold", [2, 3])
@pytest.mark.parametrize("name", UNREAD)
def test_a_model_that_does_not_read_the_last_slot_to_its_end_is_refused(name, fold):
    make, example = UNREAD[name]
    with pytest.raises(ConversionError, match=rf"slot [2-{fold}] does not reach T, or not to its end.*join='max'"):
        aggregate(make(), fold, example, verbose=False)


def test_a_model_that_counts_words_reads_all_of_them_where_a_separator_replaces_the_padding():
    network = aggregate(odd.Packed(), 2, odd.words(), separator=29, verbose=False)
    assert len(network.conversion.influence) == 2


def test_the_influence_of_slots_is_told_and_a_weak_one_is_warned_of(capsys):
    with pytest.warns(UserWarning, match=r"slot 2 moves T by 0\.\d+ of what slot 1 does.*join='max'"):
        network = aggregate(foreign.tiny_bert(), 2, foreign.bert_tokens())
    first, second = network.conversion.influence
    assert first == 1.0
    assert 0 < second < 0.01
    assert "they move T by 1, 0.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("make", "options"),
    [(foreign.nested, {}), (foreign.nested, {"at": "0"}), (foreign.FunctionalNet, {"join": "width"})],
)
def test_slots_side_by_side_have_about_the_same_influence_and_no_warning(make, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = aggregate(make(), 3, foreign.images(), verbose=False, **options)
    assert max(network.conversion.influence) == 1.0
    assert min(network.conversion.influence) > 0.2


@pytest.mark.parametrize("at", [None, "first"])
def test_a_model_that_rounds_is_not_said_to_leave_a_slot_out(at):
    for seed in range(10):
        torch.manual_seed(seed)
        assert min(aggregate(odd.Binary(), 2, odd.vectors(), at=at, verbose=False).conversion.influence) > 0.1


class OneDropout(odd.Odd):
    """One dropout before and behind its second layer."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def features(self, x):
        return self.drop(self.second(self.drop(self.first(x))))


def test_a_dropout_that_is_used_on_both_sides_of_the_join_is_on_behind_it():
    network = aggregate(OneDropout(), 2, odd.vectors(), at="second", verbose=False).train()
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


class Standardised(nn.Conv2d):
    def forward(self, images):
        mean, spread = self.weight.mean((1, 2, 3), keepdim=True), self.weight.std((1, 2, 3), keepdim=True)
        return F.conv2d(images, (self.weight - mean) / spread, self.bias)


def test_one_object_gives_the_same_t_where_a_layer_works_on_its_weights():
    layers = (
        Standardised(3, 8, 3, bias=False),
        nn.GroupNorm(2, 8, eps=1e-12),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(288, 5),
    )
    network = aggregate(nn.Sequential(*layers), 2, foreign.images(), slot_noise=1.0, verbose=False).eval()
    objects = foreign.images()
    torch.testing.assert_close(OneObject(network).bottleneck(objects), network.bottleneck(replicate(objects, 2)))


@pytest.mark.parametrize("at", [None, "first"])
def test_an_embedding_beside_the_scores_is_not_taken_for_them_and_one_layer_for_all_depths_is_refused(at):
    assert aggregate(odd.EmbeddingFirst(), 2, odd.vectors(), at=at, verbose=False).num_classes == 5
    with pytest.raises(ConversionError, match="out runs 3 times in a pass"):
        aggregate(odd.AfterEveryLayer(), 2, odd.vectors(), at=at, verbose=False)


def test_the_shared_piece_has_the_parameters_up_to_the_join_and_no_others():
    model = foreign.nested()
    network = aggregate(model, 2, foreign.images(), at="0", verbose=False).train()
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
    network = aggregate(vit(), 2, torch.rand(2, 3, 32, 32), at=at, verbose=False)
    assert ("model.pos_embed" in dict(network.shared.named_parameters())) == before
    network.shared.requires_grad_(False)
    network.train()(torch.rand(2, 2, 3, 32, 32)).sum().backward()
    pos_embed = network.encoder.model.pos_embed
    assert (pos_embed.grad is None) == before


def test_layers_before_the_join_run_for_objects_only_and_the_cost_is_what_is_computed():
    model = zoo.timm_model("resnet18")().eval()
    network = aggregate(model, 2, torch.rand(2, 3, 64, 64), at="layer3", verbose=False).eval()
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


def test_parameters_are_counted_also_where_they_are_frozen():
    model = foreign.perceptron().requires_grad_(False)
    before, after = aggregate(model, 2, odd.vectors(), verbose=False).conversion.parameters
    assert before == sum(parameter.numel() for parameter in model.parameters())
    assert after == before + 6 * 16 + 16 * 5 + 5


def test_an_unknown_module_lists_only_some_of_the_choices():
    model = nn.Sequential(*(nn.Linear(6, 6) for _ in range(400)))
    with pytest.raises(UnknownNameError, match=r"and 37\d more$") as raised:
        aggregate(model, 2, odd.vectors(), at="four", verbose=False)
    assert len(str(raised.value)) < 400


WORKING = {
    "auxiliary in training": (odd.OnlyWhileTraining, odd.vectors, "second"),
    "by keyword": (odd.ByKeyword, odd.vectors, "first"),
    "experts": (odd.Experts, odd.vectors, "first"),
}


@pytest.mark.parametrize("fold", [1, 2, 4])
@pytest.mark.parametrize("name", WORKING)
def test_unusual_models_survive_at_the_input_and_within(name, fold):
    make, example, at = WORKING[name]
    for place in (None, at):
        check_laws(make, example, fold, at=place)


class PaddingChild(nn.Conv2d):
    """A convolution with a module of its own for the padding."""

    def __init__(self):
        super().__init__(3, 8, 3)
        self.pad = nn.ZeroPad2d(1)

    def forward(self, images):
        return super().forward(self.pad(images))


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


class PaddingChildOf8(PaddingChild):
    def __init__(self):
        nn.Conv2d.__init__(self, 8, 8, 5)
        self.pad = nn.ZeroPad2d(1)


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
    network = aggregate(model, fold, objects, at=at, slot_noise=0.0, verbose=False).eval()
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
    network = aggregate(model, 2, objects, at=at, slot_noise=0.0, verbose=False).eval()
    with torch.no_grad():
        torch.testing.assert_close(network(replicate(objects, 2))[:, 1], model(objects))
        torch.testing.assert_close(single(network)(objects).softmax(dim=1), model(objects).softmax(dim=1))


@pytest.mark.parametrize("at", ["first", "second"])
def test_dropout_that_is_always_on_before_a_join_is_compared_under_one_seed(at):
    network = aggregate(AlwaysDropoutFirst(), 2, odd.vectors(), at=at, verbose=False)
    assert network.conversion.difference < 1e-5


@pytest.mark.parametrize("name", ["ViT", "ConvNeXt", pytest.param("Swin", marks=pytest.mark.slow)])
def test_an_image_model_of_transformers_reads_all_slots_channels(name):
    make, example = zoo.SIGHT[name]
    model, objects = make().eval(), example()
    network = aggregate(model, 2, objects, slot_noise=0.0, verbose=False).eval()
    assert network.conversion.join == "channels"
    with torch.no_grad():
        expected = model(**objects).logits
        torch.testing.assert_close(network(replicate(objects, 2))[:, 1], expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(
            single(network)(objects).softmax(dim=1), expected.softmax(dim=1), rtol=1e-4, atol=1e-5
        )
    assert model.config.num_channels == 3
    network.train()(group(objects, 2)).sum().backward()


@pytest.mark.parametrize(
    "options", [{}, {"whole": True}, {"reentrant": True}, {"reentrant": True, "whole": True}], ids=str
)
def test_a_join_within_a_checkpointed_part_is_refused(options):
    with pytest.raises(ConversionError, match=r"does not train as the model does .*torch\.utils\.checkpoint"):
        aggregate(odd.Checkpointed(**options), 2, odd.vectors(), at="first", verbose=False)
    network = aggregate(odd.Checkpointed(**options), 2, odd.vectors(), verbose=False).train()
    network(group(odd.vectors(), 2)).sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_a_join_that_is_skipped_in_a_pass_is_told():
    class Skips(odd.Odd):
        skips = False

        def features(self, x):
            x = self.first(x).relu()
            return x if self.skips else self.second(x)

    network = aggregate(Skips(), 2, odd.vectors(), at="second", verbose=False)
    for piece in (network.encoder.model, network.shared.model):
        piece.skips = True
        with pytest.raises(ConversionError, match="did not run the module after which the slots are joined"):
            network(group(odd.vectors(), 2))


def test_auxiliary_scores_in_training_do_not_stand_in_the_way_of_a_join_before_them():
    model = zoo.TORCHVISION["googlenet"][0]()
    for at in ("inception3b", "inception4a", "inception5a"):
        network = aggregate(model, 2, torch.rand(2, 3, 64, 64), at=at, verbose=False).train()
        network(torch.rand(2, 2, 3, 64, 64)).sum().backward()


@pytest.mark.parametrize("at", ["first", "second"])
def test_a_network_with_parametrized_layers_is_copied_and_predicts(at):
    model = odd.normalised(parametrizations.weight_norm)()
    network = aggregate(model, 2, odd.vectors(), at=at, verbose=False).train()
    objects = odd.vectors()
    expected = predict(network, objects)
    torch.testing.assert_close(predict(copy.deepcopy(network), objects), expected)
    network.load_state_dict(aggregate(model, 2, objects, at=at, verbose=False).state_dict())
    torch.testing.assert_close(predict(network, objects), expected)


@pytest.mark.parametrize("make", [odd.InADataclass, odd.InANamespace, odd.InAMapping])
@pytest.mark.parametrize("at", [None, "first"])
def test_whatever_form_a_model_gives_its_scores_in_it_is_joined_and_learns(make, at):
    network = aggregate(make(), 2, odd.vectors(), at=at, verbose=False).train()
    network(group(odd.vectors(), 2)).sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.parametrize("at", [None, "first", "second"])
def test_a_quantized_network_still_gives_what_it_gave(at):
    network = aggregate(odd.Odd(), 2, odd.vectors(), at=at, verbose=False).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = torch.ao.quantization.quantize_dynamic(network, {nn.Linear})
    groups = group(odd.vectors(), 2)
    with torch.no_grad():
        torch.testing.assert_close(small(groups), network(groups), rtol=0, atol=0.05)


@pytest.mark.parametrize(
    ("make", "objects", "options"),
    [
        (foreign.nested, foreign.images(), {"at": "0"}),
        (foreign.nested, foreign.images(), {"at": "0", "join": "mean", "widen": True}),
        (foreign.TwoInputs, None, {"at": "together"}),
        (CountsFirst, foreign.images(), {"at": "conv"}),
        (Series, torch.randn(4, 2, 30), {"at": "conv"}),
        (odd.InADataclass, odd.vectors(), {"at": "first"}),
    ],
)
def test_the_network_for_one_object_is_exported_without_being_compiled(make, objects, options):
    inputs = {"image": torch.rand(6, 3, 8, 8), "about": torch.rand(6, 4)} if objects is None else objects
    network = aggregate(make(), 2, inputs, verbose=False, **options)
    alone = single(network)
    with torch.no_grad():
        exported = torch.export.export(alone, (inputs,), strict=False).module()
        torch.testing.assert_close(exported(inputs), alone(inputs))
        torch.testing.assert_close(alone(inputs).softmax(dim=1), predict(network, inputs))


@pytest.mark.parametrize("options", [{}, {"at": "0"}, {"at": "0", "join": "mean"}, {"join": "mean"}], ids=str)
def test_aggregating_draws_nothing_from_the_global_stream(options):
    model, images = foreign.nested(), foreign.images()
    before = torch.get_rng_state()
    aggregate(model, 2, images, widen="at" in options, verbose=False, **options)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("options", [{}, {"at": "0"}, {"at": "0", "join": "mean"}], ids=str)
def test_the_trial_in_train_mode_leaves_no_trace(options):
    model = foreign.nested().train()
    network = aggregate(model, 2, foreign.images(), verbose=False, **options)
    norms = [[module for module in each.modules() if isinstance(module, nn.BatchNorm2d)] for each in (model, network)]
    for before, after in zip(*norms, strict=True):
        assert torch.equal(before.running_mean, after.running_mean)
        assert after.num_batches_tracked == 0
    assert all(parameter.grad is None for parameter in network.parameters())
    assert all(module.training for module in network.modules())
