"""The paper's image networks, counted by hand from their papers."""

import pytest
import torch

from agrlearn.errors import RecipeError
from agrlearn.networks.catalogue import build_network
from agrlearn.networks.cost import count_multiply_adds, count_parameters

CIFAR = (3, 32, 32)


def make(name, fold=1, **options):
    return build_network(name, object_shape=CIFAR, num_classes=10, fold=fold, **options)


def preact_parameters(blocks, width, fold=1, classes=10):
    """Convolutions and normalisations of the stages, added up layer by layer."""
    total = 3 * fold * width * 9
    read = width
    for stage, count in enumerate(blocks):
        made = width * 2**stage
        for block in range(count):
            last = stage == 3 and block == count - 1
            out = made * fold if last else made
            total += 2 * read + read * made * 9 + 2 * made + made * out * 9
            if read != out or (stage > 0 and block == 0):
                total += read * out
            read = out
    return total + read * fold * classes + fold * classes


@pytest.mark.parametrize("fold", [1, 2, 4])
@pytest.mark.parametrize(("depth", "blocks"), [(18, (2, 2, 2, 2)), (34, (3, 4, 6, 3))])
def test_preactivation_resnets_have_the_layers_of_their_paper(depth, blocks, fold):
    assert count_parameters(make("preact-resnet", fold, depth=depth)) == preact_parameters(blocks, 64, fold)


def test_preactivation_resnet_18_is_the_reference_implementations():
    assert count_parameters(make("preact-resnet")) == 11_171_146
    assert count_parameters(make("preact-resnet", width=128)) == preact_parameters((2, 2, 2, 2), 128)


def test_wide_resnet_22_10_has_the_layers_of_its_paper():
    total, read = 3 * 16 * 9, 16
    for made in (160, 320, 640):
        for block in range(3):
            total += 2 * read + read * made * 9 + 2 * made + made * made * 9 + (read * made if block == 0 else 0)
            read = made
    total += 2 * 640 + 640 * 10 + 10
    assert count_parameters(make("wide-resnet")) == total
    # 22 layers: the stem, 18 convolutions, 3 projections (which are not counted), the classifier; 28 gives 36.5 million
    assert round(count_parameters(make("wide-resnet", depth=28)) / 1e6, 1) == 36.5


def test_wide_resnets_start_with_the_weights_of_their_authors_code():
    network = make("wide-resnet", width=4)
    layer = network.encoder[-4].conv1
    assert float(layer.weight.detach().std()) == pytest.approx((2 / (9 * layer.out_channels)) ** 0.5, rel=0.02)
    assert network.head.bias.abs().max() == 0


def test_the_channel_join_costs_little_more_than_one_image():
    one = count_multiply_adds(make("preact-resnet").eval(), torch.zeros(1, 1, *CIFAR))
    ratios = [count_multiply_adds(make("preact-resnet", fold), torch.zeros(1, fold, *CIFAR)) / one for fold in (2, 4)]
    assert ratios == pytest.approx([1.09, 1.24], abs=0.01)


@pytest.mark.parametrize("name", ["preact-resnet", "wide-resnet"])
@pytest.mark.parametrize(
    "options",
    [
        {"join_after": 3},
        {"join": "width"},
        {"join": "height", "slotwise": True},
        {"join": "max", "join_after": 2},
        {"stem_stride": 2},
    ],
)
def test_every_join_and_depth_runs_and_learns_everywhere(name, options):
    small = {"preact-resnet": {"width": 4}, "wide-resnet": {"width": 1, "depth": 16}}[name]
    network = make(name, 2, **small, **options)
    logits = network(torch.rand(3, 2, *CIFAR))
    assert logits.shape == (3, 2, 10)
    assert network.slot_blind == (options.get("join") == "max")
    logits.sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("preact-resnet", {"depth": 20}, "18 or 34 layers"),
        ("preact-resnet", {"join_after": 8}, "0 to 7 of its layers"),
        ("wide-resnet", {"depth": 20}, "6·k"),
        ("wide-resnet", {"join": "tandem"}, "can join by channels"),
    ],
)
def test_what_cannot_be_built_gets_a_sentence(name, options, message):
    with pytest.raises(RecipeError, match=message):
        make(name, 2, **options)
