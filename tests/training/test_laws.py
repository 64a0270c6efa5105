"""The laws of the house that concern training."""

import copy
import json
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset

from agrlearn.errors import TrainingError
from agrlearn.grouping import GroupBatchSampler, group
from agrlearn.networks.catalogue import build_network
from agrlearn.seeding import derive_seed, generator
from agrlearn.training import loop, setup
from agrlearn.training.loop import fit
from agrlearn.training.objective import cross_entropy
from agrlearn.training.recipe import Recipe
from agrlearn.training.setup import learning_rate_at
from tests.training.small_runs import FAST, make_state, same, weights
from tests.training.stopping import StoppedError, at_most


class OrdinaryNetwork(nn.Module):
    """The same layers as the mlp of fold 1, written as anyone would."""

    def __init__(self, fold_one):
        super().__init__()
        self.prepare = copy.deepcopy(fold_one.shared)
        self.layers = copy.deepcopy(fold_one.encoder)
        self.classifier = copy.deepcopy(fold_one.head)

    def forward(self, objects):
        return self.classifier(self.layers(self.prepare(objects)))


def test_fold_1_at_alpha_0_is_ordinary_training_bit_for_bit(vectors, make_mlp):
    recipe = Recipe(**FAST, seed=5)
    network = make_mlp(1)
    network.encoder.append(nn.Dropout(0.2))
    ordinary = OrdinaryNetwork(network).train()
    fit(network, vectors, recipe)

    optimizer = torch.optim.SGD(ordinary.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
    sampler = GroupBatchSampler(len(vectors), 1, 16, seed=5)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for step, indices in enumerate(sampler):
            optimizer.param_groups[0]["lr"] = learning_rate_at(recipe, epoch + step / len(sampler))
            torch.manual_seed(derive_seed(5, epoch, step))
            loss = F.cross_entropy(ordinary(vectors.objects[indices]), vectors.labels[indices])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert torch.equal(network.head.weight, ordinary.classifier.weight)
    assert same(network.encoder.state_dict(), ordinary.layers.state_dict())


def test_alpha_0_builds_and_runs_no_critic(vectors, make_mlp, monkeypatch):
    def refuse(*arguments, **keywords):
        raise AssertionError("a critic was built")

    monkeypatch.setattr(setup, "BottleneckRegularizer", refuse)
    history = fit(make_mlp(2), vectors, Recipe(**FAST))
    assert history.records[-1].information is None
    with pytest.raises(AssertionError):
        fit(make_mlp(2), vectors, Recipe(**FAST, alpha=0.1))


def test_a_step_of_algorithm_1_equals_the_same_step_written_out(vectors, make_mlp):
    """K ascents on J with the encoder still, then one descent on CE + αJ with the critic still."""
    network = make_mlp(2, depth=1)
    recipe, state = make_state(network, 0.7, vectors, critic="input", ascent_steps=3, critic_learning_rate=0.01)
    twin, critic = copy.deepcopy(network), copy.deepcopy(state.regularizer.critic)
    groups, labels = group(vectors.objects[:64], 2), vectors.labels[:64].view(-1, 2)
    loop.train_step(network, state, groups, labels, recipe, generator(1), torch.Tensor.backward)

    random = generator(1)
    logits, t, _ = twin(groups, with_bottleneck=True)

    def j(t):
        permutation = torch.randperm(32, generator=random)
        return critic(groups, t).mean() - (critic(groups, t[permutation]).exp().mean()).log()

    up = torch.optim.Adam(critic.parameters(), lr=0.01)
    for _ in range(3):
        up.zero_grad()
        (-j(t.detach())).backward()
        up.step()
    down = torch.optim.SGD(twin.parameters(), lr=0.01)
    objective = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / 32 + 0.7 * j(t)
    gradients = torch.autograd.grad(objective, list(twin.parameters()))
    for parameter, gradient in zip(twin.parameters(), gradients, strict=True):
        parameter.grad = gradient
    down.step()
    for mine, theirs in ((network, twin), (state.regularizer.critic, critic)):
        for (name, value), expected in zip(mine.state_dict().items(), theirs.state_dict().values(), strict=True):
            assert torch.allclose(value, expected, atol=1e-5), name


def test_the_outer_step_lowers_the_objective_and_leaves_the_critic(vectors, make_mlp):
    network = make_mlp(2, depth=1)
    recipe, state = make_state(network, 0.5, vectors, critic="input", critic_learning_rate=1e-30)
    before = weights(state.regularizer.critic)
    groups, labels = group(vectors.objects[:128], 2), vectors.labels[:128].view(-1, 2)

    def objective():
        logits, t, _ = network(groups, with_bottleneck=True)
        return (cross_entropy(logits, labels) + 0.5 * state.regularizer.penalty(groups, t, generator(0))).item()

    first = objective()
    for _ in range(20):
        loop.train_step(network, state, groups, labels, recipe, generator(0), torch.Tensor.backward)
    assert objective() < first
    after = weights(state.regularizer.critic)
    assert all(torch.allclose(before[name], after[name], atol=1e-20) for name in before)


def test_a_larger_alpha_ends_with_a_lower_j_on_digits():
    from agrlearn.data.datasets import digits

    source = digits()
    train = source.labelled(source.train)
    ends = []
    for alpha in (0.001, 3.0):
        network = build_network(object_shape=(1, 8, 8), num_classes=10, fold=2, objects=train.objects, width=8)
        history = fit(network, train, Recipe(epochs=6, alpha=alpha, schedule="constant", learning_rate=0.05))
        ends.append(history.records[-1].information)
    assert ends[1] < ends[0] - 0.3


def test_a_j_that_is_not_finite_is_left_out_counted_and_at_last_ends_the_run(vectors, make_mlp, monkeypatch):
    broken = {"penalties": 0, "bad": 3}
    original = setup.BottleneckRegularizer.penalty

    def sometimes(self, groups, t, random=None):
        broken["penalties"] += 1
        value = original(self, groups, t, random)
        return value * math.nan if broken["penalties"] <= broken["bad"] else value

    monkeypatch.setattr(setup.BottleneckRegularizer, "penalty", sometimes)
    network = make_mlp(2)
    history = fit(network, vectors, Recipe(**FAST, alpha=0.1))
    assert history.records[0].skipped_penalties == 3
    assert history.records[1].skipped_penalties == 0
    assert all(torch.isfinite(value).all() for value in network.state_dict().values())
    broken.update(penalties=0, bad=math.inf)
    with pytest.raises(TrainingError, match="not finite in 20 batches in a row"):
        fit(make_mlp(2), vectors, Recipe(**FAST, alpha=0.1))


def test_a_loss_that_is_not_finite_ends_the_run_and_is_never_saved(vectors, make_mlp, tmp_path):
    with pytest.raises(TrainingError, match="lower the learning rate"):
        fit(make_mlp(2), vectors, Recipe(epochs=30, batch_size=16, learning_rate=1e30), run_dir=tmp_path)
    for line in (tmp_path / "metrics.jsonl").read_text().splitlines() if (tmp_path / "metrics.jsonl").exists() else []:
        assert math.isfinite(json.loads(line)["loss"])


@pytest.mark.parametrize("options", [{}, {"alpha": 0.2, "ascent_steps": 2}, {"optimizer": "adam", "repetition": 0.3}])
def test_equal_recipes_give_equal_weights_and_other_seeds_others(vectors, make_mlp, options):
    def train(seed):
        network = make_mlp(2, noise=0.1)
        fit(network, vectors, Recipe(**FAST, seed=seed, **options))
        return weights(network)

    first = train(0)
    torch.manual_seed(99)
    assert same(first, train(0))
    assert not same(first, train(1))


def test_training_leaves_the_global_random_stream_as_it_was(vectors, make_mlp):
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)
    fit(make_mlp(2), vectors, Recipe(**FAST, alpha=0.1))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"alpha": 0.3, "ascent_steps": 2},
        {"optimizer": "adam"},
        {"patience": 2},
        {"average_from": 0.5},
        {"average_from": 0.5, "optimizer": "adam", "repetition": 0.2},
        {"head_rate_factor": 10, "optimizer": "adamw", "learning_rate": 0.005},
        {"head_rate_factor": 0.1},
    ],
)
@pytest.mark.parametrize("steps", [1, 7, 10, 23])
def test_a_stopped_run_resumes_to_the_same_weights_and_records(vectors, make_mlp, tmp_path, steps, options):
    recipe = Recipe(**{**FAST, **options})
    whole = make_mlp(2, noise=0.1)
    fit(whole, vectors, recipe, vectors, tmp_path / "whole")
    with pytest.raises(StoppedError), at_most(steps):
        fit(make_mlp(2, noise=0.1), vectors, recipe, vectors, tmp_path / "cut", checkpoint_seconds=0)
    resumed = make_mlp(2, noise=0.1)
    with at_most(30 - steps):
        history = fit(resumed, vectors, recipe, vectors, tmp_path / "cut")
    assert same(weights(whole), weights(resumed))
    assert (tmp_path / "cut/metrics.jsonl").read_bytes() == (tmp_path / "whole/metrics.jsonl").read_bytes()
    assert not history.was_finished
    again = make_mlp(2, noise=0.1)
    assert fit(again, vectors, recipe, vectors, tmp_path / "cut").was_finished
    assert same(weights(whole), weights(again))


def test_a_run_stopped_between_an_epochs_steps_and_its_end_measures_what_it_would_have(
    vectors, make_mlp, tmp_path, monkeypatch
):
    def make():
        network = make_mlp(2)
        network.encoder.append(AlwaysDropout())
        return network

    recipe = Recipe(**FAST)
    fit(make(), vectors, recipe, vectors, tmp_path / "whole")
    with monkeypatch.context() as broken, pytest.raises(StoppedError):
        broken.setattr(loop, "end_epoch", stop)
        fit(make(), vectors, recipe, vectors, tmp_path / "cut", checkpoint_seconds=0)
    with at_most(20):
        fit(make(), vectors, recipe, vectors, tmp_path / "cut")
    assert (tmp_path / "cut/metrics.jsonl").read_bytes() == (tmp_path / "whole/metrics.jsonl").read_bytes()


class AlwaysDropout(nn.Module):
    """Draws from the global stream also in eval mode."""

    def forward(self, features):
        return F.dropout(features, 0.5, training=True)


def stop(*arguments):
    raise StoppedError


class JitteredSet(Dataset):
    """A data set with random transforms of its own."""

    def __init__(self, inner, stop_after=10**9):
        self.inner, self.left = inner, stop_after

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, index):
        self.left -= 1
        if self.left < 0:
            raise StoppedError
        return self.inner.objects[index] + torch.randn(6), self.inner.labels[index]


def test_a_data_set_with_its_own_randomness_resumes_from_the_epoch(vectors, make_mlp, tmp_path):
    recipe = Recipe(**FAST)
    whole = make_mlp(2)
    fit(whole, JitteredSet(vectors), recipe, run_dir=tmp_path / "whole")
    with pytest.raises(StoppedError):
        fit(make_mlp(2), JitteredSet(vectors, 450), recipe, run_dir=tmp_path / "cut", checkpoint_seconds=0)
    resumed = make_mlp(2)
    fit(resumed, JitteredSet(vectors), recipe, run_dir=tmp_path / "cut")
    assert same(weights(whole), weights(resumed))
