"""The layout of images in memory, and torch.compile: faster steps, the same run."""

import copy
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn

from agrlearn import AggregatedClassifier, Recipe, build_network, fit, load, predict, save
from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import AgrLearnWarning
from agrlearn.grouping import GroupBatchSampler, group
from agrlearn.networks.joins import channels
from agrlearn.networks.layout import has_channels_last, set_channels_last, why_contiguous
from agrlearn.runs.spec import RunSpec
from agrlearn.training import execution
from agrlearn.training.execution import CompiledForward
from tests.training.stopping import StoppedError, at_most

CPU = torch.device("cpu")
RECIPE = Recipe(epochs=2, batch_size=8, learning_rate=0.01, seed=3)


def images(count=20, size=(8, 8)):
    random = torch.Generator().manual_seed(0)
    objects = torch.randint(0, 256, (count, 3, *size), generator=random, dtype=torch.uint8)
    return LabelledSet(objects, torch.arange(count) % 3, ("a", "b", "c"))


def network(data, name="small-cnn", fold=2, **options):
    shape = tuple(data.objects.shape[1:])
    return build_network(name, object_shape=shape, num_classes=3, fold=fold, objects=data.objects, **options)


def assert_close(one, other):
    for first, second in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(first, second, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("small-cnn", {}),
        ("small-cnn", {"join": "width"}),
        ("small-cnn", {"join": "mean"}),
        ("preact-resnet", {"width": 8}),
    ],
)
def test_channels_last_is_the_default_of_convolutions_and_changes_weights_by_rounding_only(name, options):
    data = images()
    built = network(data, name, **options)
    trained, contiguous = copy.deepcopy(built), copy.deepcopy(built)
    fit(trained, data, RECIPE)
    fit(contiguous, data, RECIPE.model_copy(update={"layout": "contiguous"}))
    assert has_channels_last(trained) and not has_channels_last(contiguous)
    assert_close(trained, contiguous)


@pytest.mark.parametrize("layout", ["contiguous", "channels-last"])
def test_fold_1_at_alpha_0_is_ordinary_training_bit_for_bit_in_the_same_layout(layout):
    data = images()
    ours = network(data, fold=1)
    theirs = copy.deepcopy(ours).train()
    set_channels_last(theirs, layout == "channels-last")
    fit(ours, data, RECIPE.model_copy(update={"layout": layout, "schedule": "constant"}))
    plain = nn.Sequential(theirs.shared, theirs.encoder, theirs.head)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=1e-4)
    sampler = GroupBatchSampler(len(data), 1, 8, seed=3)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for indices in sampler.batches():
            loss = nn.functional.cross_entropy(plain(data.objects[indices]), data.labels[indices])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert all(torch.equal(one, other) for one, other in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_the_convolution_whose_backward_pass_crashes_is_recognised_by_its_shape_and_stays_contiguous():
    wide, usual = images(4, (32, 96)), images(4, (32, 32))
    narrow, narrower = (network(wide, "preact-resnet", fold=1, width=width) for width in (8, 4))
    assert "from 8 channels to 16×48 positions" in why_contiguous(narrow, wide.objects[:, None], CPU)
    assert "from 4 channels to 4×4 positions" in why_contiguous(narrower, images(4).objects[:, None], CPU)
    assert why_contiguous(narrow, usual.objects[:, None], CPU) is None
    assert why_contiguous(network(wide, "preact-resnet", fold=1, width=16), wide.objects[:, None], CPU) is None
    set_channels_last(narrow, True)
    recipe = Recipe(epochs=1, batch_size=4, layout="channels-last")
    with pytest.warns(AgrLearnWarning, match="not laid out with channels last: torch may crash"):
        fit(narrow, wide, recipe)
    assert not has_channels_last(narrow)


def test_a_network_of_that_kind_trains_by_default_without_ending_the_process():
    program = (
        "import torch; from agrlearn import *; from agrlearn.data.labelled import LabelledSet\n"
        "shape = (3, 32, 128)\n"
        "data = LabelledSet.of(torch.rand(32, *shape), [0, 1] * 16)\n"
        "net = build_network('preact-resnet', object_shape=shape, num_classes=2, width=8, objects=data.objects)\n"
        "fit(net, data, Recipe(epochs=1, batch_size=32), progress=False)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


class ReadsRows(nn.Module):
    """What a user may have written: a view, which torch refuses where the channels are last."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, images):
        return self.layer(images.float() / 255).view(len(images), -1)


def test_a_model_that_does_not_run_with_channels_last_keeps_the_layout_it_needs():
    data = images()
    own = AggregatedClassifier(ReadsRows(), features=4 * 64, fold=1, num_classes=3, join="channels")
    assert "does not run so" in why_contiguous(own, data.objects[:1, None], CPU)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(own, data, RECIPE)
    assert not has_channels_last(own)


def test_trying_layouts_changes_neither_the_network_nor_the_random_streams():
    data = images()
    tried = network(data, dropout=0.5)
    before, stream = copy.deepcopy(tried.state_dict()), torch.get_rng_state()
    assert why_contiguous(tried, data.objects[:4].view(2, 2, 3, 8, 8), CPU) is None
    assert tried.training and not has_channels_last(tried) and torch.equal(torch.get_rng_state(), stream)
    assert all(torch.equal(before[name], value) for name, value in tried.state_dict().items())


def test_images_with_channels_last_stay_so_in_groups_and_joined_and_so_do_their_gradients():
    objects = torch.rand(6, 4, 5, 3).to(memory_format=torch.channels_last).requires_grad_()
    joined = channels(group(objects, 2))
    assert torch.equal(joined, channels(group(objects.detach().contiguous(), 2)))
    assert joined.is_contiguous(memory_format=torch.channels_last)
    (gradient,) = torch.autograd.grad(joined.square().sum(), objects)
    assert gradient.is_contiguous(memory_format=torch.channels_last)


def test_a_saved_network_comes_back_in_its_layout_and_answers_bit_for_bit(tmp_path):
    data = images()
    trained = network(data)
    fit(trained, data, RECIPE)
    save(trained, tmp_path / "network.safetensors")
    loaded = load(tmp_path / "network.safetensors")
    assert has_channels_last(loaded)
    assert torch.equal(predict(loaded, data.objects), predict(trained, data.objects))


def test_a_run_stays_the_same_run_in_another_layout_or_compiled(tmp_path):
    data = images()
    fit(network(data), data, RECIPE.model_copy(update={"layout": "contiguous"}), run_dir=tmp_path)
    again = fit(network(data), data, RECIPE.model_copy(update={"compile": "off"}), run_dir=tmp_path)
    assert again.was_finished


def test_a_run_that_was_stopped_goes_on_in_another_layout_to_the_same_weights_up_to_rounding(tmp_path):
    data = images()
    whole, resumed = network(data), network(data)
    fit(whole, data, RECIPE)
    other = RECIPE.model_copy(update={"layout": "contiguous"})
    with pytest.raises(StoppedError), at_most(4):
        fit(network(data), data, other, run_dir=tmp_path, checkpoint_seconds=0)
    fit(resumed, data, RECIPE, run_dir=tmp_path)
    assert has_channels_last(resumed)
    assert_close(whole, resumed)


def test_layout_and_compilation_do_not_rename_a_specification_and_earlier_files_are_read():
    plain = RunSpec(data="digits", network="small-cnn")
    other = RunSpec(data="digits", network="small-cnn", recipe=Recipe(layout="contiguous", compile="on"))
    assert other.key() == plain.key() == "digits-small-cnn-fold2-" + plain.key()[-8:]
    assert other.settings() == plain.settings()
    earlier = RunSpec(data="cifar-10", network="preact-resnet", layout="channels-last")
    assert earlier.recipe.layout == "channels-last"
    assert earlier.key() == "cifar-10-preact-resnet-fold2-03d399c0"
    assert plain.key() == "digits-small-cnn-fold2-253e02da"


def test_compiled_steps_lead_to_the_same_weights_and_other_batches_are_not_compiled(monkeypatch):
    data, sizes = images(), []

    def compile_noting(module, **_):
        def forward(groups, **options):
            sizes.append(len(groups))
            return compiled(groups, **options)

        compiled = whole(module, fullgraph=True, backend="aot_eager")
        return forward

    whole = torch.compile
    monkeypatch.setattr(torch, "compile", compile_noting)
    built = network(data, dropout=0.5, noise=0.5)
    compiled, plain = copy.deepcopy(built), copy.deepcopy(built)
    fit(compiled, data, RECIPE.model_copy(update={"compile": "on"}))
    fit(plain, data, RECIPE)
    assert sizes == [8, 8] * 2  # of 8, 8 and 4 groups
    assert_close(compiled, plain)
    assert not any("_orig_mod" in name for name in compiled.state_dict())


def test_auto_compiles_only_networks_of_convolutions_in_runs_that_are_long_enough(monkeypatch):
    made = []
    monkeypatch.setattr(execution, "CompiledForward", lambda module, *_, **__: made.append(module) or module)
    data = images()
    vectors = LabelledSet(torch.rand(20, 4), data.labels, data.class_names)
    fit(network(data), data, RECIPE)
    assert not made
    monkeypatch.setattr(execution, "_WORTH_COMPILING", 1e5)
    fit(network(data), data, RECIPE)
    fit(network(vectors, "mlp"), vectors, RECIPE)
    assert len(made) == 1


def test_without_a_compiler_of_c_the_run_goes_on_and_says_so(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    data = images()
    with pytest.warns(AgrLearnWarning, match=r"no C\+\+ compiler \(no-such-compiler\); install one"):
        history = fit(network(data), data, RECIPE.model_copy(update={"compile": "on"}))
    assert len(history.records) == 2


def test_a_network_that_torch_cannot_compile_goes_on_uncompiled_from_the_same_batch():
    class Unusual(nn.Module):
        def forward(self, groups, *, mix=None):
            torch._dynamo.graph_break()
            calls.append(len(groups))
            return groups + 1

    calls = []
    module = Unusual()
    forward = CompiledForward(module, module, 3, backend="aot_eager")
    with pytest.warns(AgrLearnWarning, match="goes on uncompiled"):
        assert torch.equal(forward(torch.zeros(3, 2)), torch.ones(3, 2))
    forward(torch.zeros(3, 2))
    assert calls == [3, 3]


@pytest.mark.slow
def test_compiled_by_inductor_dropout_and_noise_draw_what_they_draw_uncompiled():
    data = images()
    built = network(data, dropout=0.5, noise=0.5)
    compiled, plain = copy.deepcopy(built), copy.deepcopy(built)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AgrLearnWarning)
        fit(compiled, data, RECIPE.model_copy(update={"compile": "on"}))
    fit(plain, data, RECIPE)
    assert_close(compiled, plain)
