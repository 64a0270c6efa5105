"""aggregate() on models that nobody here wrote."""

import copy
import functools
import pickle

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import ConversionError, UnknownNameError
from agrlearn.grouping import count_objects, group, map_objects, replicate, ungroup
from agrlearn.networks.conversion.tracing import call
from agrlearn.networks.conversion.widening import widen_input
from agrlearn.networks.single import OneObject, single
from agrlearn.prediction.predict import predict
from agrlearn.prediction.protocols import Batched, Contextual, Replicated
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from tests.networks import foreign
from tests.networks.foreign import aggregate_within


def vit():
    return foreign.import_timm().create_model(
        "vit_tiny_patch16_224", num_classes=5, img_size=32, patch_size=8, depth=3, embed_dim=24, num_heads=2
    )


def timm_model(name, **options):
    return lambda: foreign.import_timm().create_model(name, num_classes=5, **options)


def picture(size):
    return lambda: torch.rand(6, 3, size, size)


# name: (model, example, layers that read the input, a module to join after)
PLAIN = {
    "nested": (foreign.nested, foreign.images, ("0.0.0",), "0"),
    "functional": (foreign.FunctionalNet, foreign.images, ("first",), "first"),
    "two branches": (foreign.TwoBranches, foreign.images, ("narrow", "wide"), None),
    "norm first": (foreign.NormFirst, foreign.images, ("layers.norm", "layers.conv"), "layers.conv"),
    "perceptron": (foreign.perceptron, lambda: torch.randn(6, 6), ("0",), "1"),
    "series": (foreign.series, lambda: torch.randn(6, 2, 30), ("0",), "2"),
    "volume": (foreign.volume, lambda: torch.randn(6, 1, 5, 5, 5), ("0",), "1"),
    "resnet": (timm_model("resnet18"), picture(64), ("conv1",), "layer2"),
    "vit": (vit, picture(32), ("patch_embed.proj",), "blocks.1"),
}
LARGE = {
    "resnet50": (timm_model("resnet50"), picture(64), ("conv1",), "layer2"),
    "vgg": (timm_model("vgg11_bn"), picture(64), ("features.0",), "features.6"),
    "mobilenet v2": (timm_model("mobilenetv2_050"), picture(64), ("conv_stem",), "blocks.2"),
    "mobilenet v3": (timm_model("mobilenetv3_small_050"), picture(64), ("conv_stem",), "blocks.1"),
    "densenet": (timm_model("densenet121"), picture(64), ("features.conv0",), "features.transition1"),
    "convnext": (timm_model("convnext_atto"), picture(64), ("stem.0",), "stages.1"),
    "efficientnet": (timm_model("efficientnet_b0"), picture(64), ("conv_stem",), "blocks.2"),
    "deit": (timm_model("deit_tiny_patch16_224"), picture(224), ("patch_embed.proj",), "blocks.3"),
    "swin": (timm_model("swin_tiny_patch4_window7_224"), picture(224), ("patch_embed.proj",), "layers.1"),
    "mixer": (timm_model("mixer_s16_224"), picture(224), ("stem.proj",), "blocks.2"),
    "repvgg": (timm_model("repvgg_a0"), picture(64), ("stem.conv_1x1.conv", "stem.conv_kxk.conv"), "stages.1"),
    "cait": (timm_model("cait_xxs24_224"), picture(224), ("patch_embed.proj",), "blocks.3"),
    "poolformer": (timm_model("poolformer_s12"), picture(64), ("stem.conv",), "stages.1"),
}


TWO_INPUTS = {"image": torch.rand(6, 3, 8, 8), "about": torch.rand(6, 4)}


def logits_of(model, objects):
    """The class scores, before whatever the model does behind them."""
    out = call(model, objects)
    return out if isinstance(out, torch.Tensor) else out.logits


def moved_by_exchange(network, objects):
    """Whether exchanging a group's objects moves T, in proportion to how far other objects move it.

    Some untrained networks hardly look at their input, so this is asked in double precision.
    """
    precise = copy.deepcopy(network).double()
    doubled = map_objects(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor, objects)
    groups = group(doubled, network.fold)
    flipped = map_objects(lambda tensor: tensor.flip(1), groups)
    others = group(map_objects(lambda tensor: tensor.roll(1, dims=0), ungroup(groups)), network.fold)
    with torch.no_grad():
        t, exchanged, elsewhere = (precise.bottleneck(some) for some in (groups, flipped, others))
    return bool((t - exchanged).norm() > 1e-3 * (t - elsewhere).norm())


def check_laws(make, example, fold, *, at=None, join=None, **options):
    """Laws 2 and 3, and that the result is an ordinary module."""
    torch.manual_seed(1)
    model, objects = make().eval(), example()
    before = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        expected = logits_of(model, objects)
    network = aggregate_within(model, fold, objects, at=at, join=join, slot_noise=0.0, verbose=False, **options)
    with torch.no_grad():
        given = network(replicate(objects, fold))
    if expected.exp().sum(dim=1).allclose(torch.ones(len(expected)), atol=1e-4):  # the model gives log probabilities
        given = given.log_softmax(dim=-1)
    for slot in range(fold):
        assert torch.allclose(given[:, slot], expected, atol=1e-5 * max(1.0, float(expected.abs().max())))
    assert network.conversion.difference < 1e-5
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())

    noisy = aggregate_within(model, fold, objects, at=at, join=join, verbose=False, **options)
    if fold > 1:
        count = count_objects(objects) // fold * fold
        assert moved_by_exchange(noisy, map_objects(lambda tensor: tensor[:count], objects)) == (join != "max")
    assert noisy.slot_blind == (join == "max")
    groups = replicate(objects, fold)
    with torch.no_grad():
        for twin in (copy.deepcopy(noisy), pickle.loads(pickle.dumps(noisy))):
            assert torch.equal(twin(groups), noisy(groups))
        alone = noisy.shared(objects)
        t = noisy.bottleneck_from(replicate(alone, fold))
        torch.testing.assert_close(OneObject(noisy).bottleneck(alone), t, rtol=1e-4, atol=1e-5)
    noisy.train()(groups).sum().backward()
    assert noisy.weight.grad.abs().sum() > 0
    first = next(parameter for parameter in noisy.parameters() if parameter.requires_grad)
    assert first.grad is not None
    for module in single(noisy).modules():
        assert not module._forward_hooks and not module._forward_pre_hooks, module
    return noisy


@pytest.mark.parametrize("fold", [1, 2, 4])
@pytest.mark.parametrize("name", PLAIN)
def test_a_model_survives_and_its_slots_are_told_apart(name, fold):
    make, example, stem, at = PLAIN[name]
    assert check_laws(make, example, fold).conversion.widened == stem
    if at is not None:
        check_laws(make, example, fold, at=at)
        check_laws(make, example, fold, at=at, join="max")
    check_laws(make, example, fold, join="max")
    check_laws(make, example, fold, widen=True)


@pytest.mark.slow
@pytest.mark.parametrize("fold", [1, 2, 4])
@pytest.mark.parametrize("name", LARGE)
def test_the_wide_catalogue_survives_too(name, fold):
    make, example, stem, at = LARGE[name]
    assert check_laws(make, example, fold).conversion.widened == stem
    check_laws(make, example, fold, at=at)
    check_laws(make, example, fold, at=at, join="max")


@pytest.mark.parametrize("fold", [1, 2, 4])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.filterwarnings("ignore:slot . moves T:UserWarning")
def test_recurrent_networks_are_joined_in_tandem_or_after_their_words(kind, fold):
    make, example = lambda: foreign.Recurrent(kind), lambda: foreign.tokens(8)
    after_words = check_laws(make, example, fold, at="embed")
    assert after_words.conversion.widened == ("recurrent",)
    network = aggregate_within(make(), fold, example(), separator=29, verbose=False)
    assert network.conversion.join == "tandem"
    assert not network.slot_blind
    assert network(group(example(), fold)).shape == (8 // fold, fold, 5)


@pytest.mark.parametrize("fold", [1, 2, 4])
@pytest.mark.parametrize("features_last", [True, False])
@pytest.mark.parametrize("length", [4, 9])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.Linear])
def test_series_are_joined_where_the_first_layer_reads_their_features(kind, length, features_last, fold):
    make = functools.partial(foreign.SeriesReader, kind, features_last=features_last)
    network = check_laws(make, lambda: torch.randn(8, *((length, 4) if features_last else (4, length))), fold)
    assert network.conversion.widened == ("first",)


def test_the_channels_before_a_flattening_are_joined_as_channels():
    def make():
        return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 9), nn.Linear(9, 5))

    assert check_laws(make, foreign.images, 2, at="1").conversion.widened == ("3",)


@pytest.mark.filterwarnings("ignore:slot . moves T:UserWarning")
def test_a_transformer_takes_sentences_in_tandem():
    model, objects = foreign.tiny_bert().eval(), foreign.bert_tokens()
    network = aggregate_within(model, 2, objects, verbose=False)
    assert network.conversion.classifier == "classifier"
    groups = group(objects, 2)
    joined = network.join(groups)
    for row in range(3):
        words = [
            objects["input_ids"][index][objects["attention_mask"][index].bool()].tolist()
            for index in (2 * row, 2 * row + 1)
        ]
        kept = joined["attention_mask"][row].bool()
        assert joined["input_ids"][row][kept].tolist() == words[0] + words[1]
    assert network(groups).shape == (3, 2, 5)
    assert not network.slot_blind
    with pytest.raises(ConversionError, match="read again behind it"):  # the attention mask of single sentences
        aggregate_within(model, 2, objects, at="bert.embeddings", verbose=False)
    network.train()(groups).sum().backward()
    assert torch.allclose(predict(network, objects, Batched()).sum(dim=1), torch.ones(6), atol=1e-5)


@pytest.mark.parametrize("fold", [1, 2, 4])
def test_a_transformer_survives_a_join_after_its_words_or_at_its_bottleneck(fold):
    check_laws(foreign.tiny_bert, lambda: foreign.bert_tokens(8)["input_ids"], fold, at="bert.embeddings")
    check_laws(foreign.tiny_bert, lambda: foreign.bert_tokens(8), fold, join="max")


@pytest.mark.parametrize("at", ["bert.embeddings", "bert.encoder.layer.0"])
def test_a_join_before_layers_that_read_a_mask_is_refused_also_where_the_example_masks_nothing(at):
    full = {name: tensor[::2] for name, tensor in foreign.bert_tokens().items()}
    assert full["attention_mask"].all()
    with pytest.raises(ConversionError, match="read again behind it"):
        aggregate_within(foreign.tiny_bert(), 2, full, at=at, verbose=False)
    model, padded = foreign.tiny_bert().eval(), foreign.bert_tokens()
    behind = aggregate_within(model, 2, full, at="bert.encoder.layer.1", slot_noise=0.0, verbose=False)
    with torch.no_grad():
        torch.testing.assert_close(behind(replicate(padded, 2))[:, 0], model(**padded).logits)


def test_slot_embeddings_tell_apart_what_a_bag_of_words_cannot():
    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(30, 8, padding_idx=0)
            self.mix = nn.Linear(8, 8)
            self.out = nn.Linear(8, 5)

        def forward(self, tokens):
            return self.out(self.mix(self.embed(tokens)).relu().amax(dim=1))

    objects = foreign.tokens()
    assert aggregate_within(Bag(), 2, objects, verbose=False).slot_blind
    told = aggregate_within(Bag(), 2, objects, slot_embeddings=True, verbose=False)
    assert not told.slot_blind
    assert moved_by_exchange(told.eval(), objects)


@pytest.mark.parametrize("join", ["width", "height"])
def test_images_can_lie_beside_each_other_and_the_difference_is_told(join, capsys):
    network = aggregate_within(foreign.FunctionalNet(), 2, foreign.images(), join=join)
    assert network.conversion.difference > 1e-5
    assert "aggregated: 2 objects a pass" in capsys.readouterr().out
    assert network(torch.rand(3, 2, 3, 8, 8)).shape == (3, 2, 5)


def test_what_comes_before_the_join_runs_once_per_object_and_costs_no_more():
    model = foreign.nested().eval()
    network = aggregate_within(model, 4, foreign.images(), at="0", verbose=False).eval()
    seen = []
    stem = next(module for module in network.modules() if isinstance(module, nn.Conv2d))
    stem.register_forward_hook(lambda module, args, output: seen.append(len(output)))
    objects = foreign.images(16)
    for protocol, expected in ((Replicated(), 16), (Batched(draws=3), 16), (Contextual(foreign.images(8)), 24)):
        seen.clear()
        predict(network, objects, protocol, batch_size=4)
        assert sum(seen) == expected, seen


def test_the_layers_before_a_join_learn_and_their_running_statistics_see_only_real_objects():
    network = aggregate_within(foreign.nested(), 2, foreign.images(), at="0", verbose=False).train()
    norm = next(module for module in network.modules() if isinstance(module, nn.BatchNorm2d))
    before = norm.num_batches_tracked.item()
    network(torch.rand(4, 2, 3, 8, 8)).sum().backward()
    assert norm.num_batches_tracked.item() == before + 1
    assert norm.weight.grad is not None


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("layer", [nn.BatchNorm1d(3), nn.Linear(3, 4), nn.Conv1d(3, 4, 2), nn.LSTM(3, 4)])
def test_a_frozen_layer_stays_frozen_when_it_is_widened(layer, frozen):
    widened = copy.deepcopy(layer).requires_grad_(not frozen)
    widen_input("layer", widened, 2)
    assert [parameter.requires_grad for parameter in widened.parameters()] == [not frozen] * len([*layer.parameters()])


def test_an_aggregated_model_trains_with_fit_and_resumes(tmp_path):
    objects = torch.rand(60, 3, 8, 8)
    data = LabelledSet(objects, (objects.mean(dim=(1, 2, 3)) > 0.5).long(), ("dark", "bright"))
    results = []
    for run in ("a", "b"):
        torch.manual_seed(0)
        network = aggregate_within(foreign.nested(), 2, objects[:4], at="0", verbose=False)
        fit(network, data, Recipe(epochs=2, batch_size=10, learning_rate=0.01, alpha=0.1), data, tmp_path / run)
        results.append(network.head.weight)
    assert torch.equal(*results)


@pytest.mark.parametrize(
    ("model", "example", "options", "message"),
    [
        (nn.Sequential(nn.Conv2d(3, 4, 3)), foreign.images(), {}, "no linear layer or 1×1 convolution.*classifier="),
        (foreign.Siamese(), foreign.images(), {}, "encode reads the input 2 times.*at="),
        (foreign.FixedShape(), torch.rand(4, 3, 64), {}, r"has a fixed size.*at="),
        (foreign.TiedWeights(), torch.rand(4, 6), {}, "first and second share their weights"),
        (foreign.TwoInputs(), (torch.rand(4, 3, 8, 8), torch.rand(4, 4)), {}, "the example is a tuple"),
        (foreign.TwoInputs(), torch.rand(4, 3, 8, 8), {}, "does not take the example.*mapping"),
        (foreign.TwoInputs(), TWO_INPUTS, {"join": "width"}, "pass at="),
        (foreign.TwoBranches(), foreign.images(), {"at": "narrow"}, "read again behind it"),
        (foreign.Recurrent(), foreign.tokens(), {"at": "recurrent"}, "not a Tensor with the objects first"),
        (foreign.nested(), foreign.images(0), {}, "empty"),
        (foreign.nested(), foreign.images(), {"fold": 0}, "at least 1"),
    ],
)  # fmt: skip
def test_where_it_cannot_work_it_says_what_stands_in_the_way(model, example, options, message):
    fold = options.pop("fold", 2)
    with pytest.raises(ConversionError, match=message):
        aggregate_within(model, fold, example, verbose=False, **options)


@pytest.mark.parametrize("normalise", [nn.utils.weight_norm, nn.utils.spectral_norm, parametrizations.weight_norm])
@pytest.mark.parametrize("was_run", [False, True])
@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_weights_that_are_computed_are_refused_with_how_to_take_that_off(normalise, was_run):
    model = nn.Sequential(normalise(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 5))
    if was_run:
        model(torch.rand(4, 6))
    with pytest.raises(ConversionError, match=r"computed.*take that off first, with remove_weight_norm"):
        aggregate_within(model, 2, torch.rand(4, 6), verbose=False)


def test_unknown_modules_and_joins_list_the_closest():
    with pytest.raises(UnknownNameError, match="did you mean"):
        aggregate_within(foreign.FunctionalNet(), 2, foreign.images(), at="fist", verbose=False)
    with pytest.raises(UnknownNameError, match="did you mean 'channels'"):
        aggregate_within(foreign.FunctionalNet(), 2, foreign.images(), join="chanels", verbose=False)


def test_stem_and_classifier_can_be_named():
    network = aggregate_within(
        foreign.FunctionalNet(), 2, foreign.images(), stem="first", classifier="out", verbose=False
    )
    assert network.conversion.widened == ("first",)
    check_laws(foreign.TwoInputs, lambda: TWO_INPUTS, 2, at="together")
