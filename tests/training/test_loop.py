"""The training loop: what it records, accepts and refuses."""

import itertools
import json
import math

import pytest
import torch
from lightning_fabric import Fabric
from torch import nn

from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import DataError, RecipeError, RunError, ShapeError, TrainingError
from agrlearn.evaluation.evaluate import evaluate
from agrlearn.information.bounds import BOUNDS
from agrlearn.information.critics import Critic, VectorGroups
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.prediction.predict import predict
from agrlearn.training import loop
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from tests.training.small_runs import FAST, same, weights
from tests.training.stopping import StoppedError, at_most


def test_training_learns_and_records_what_happened(images):
    network = build_network(object_shape=(1, 8, 8), num_classes=4, fold=2, objects=images.objects)
    recipe = Recipe(epochs=8, batch_size=16, learning_rate=0.05, alpha=0.05, evaluate_every=3)
    history = fit(network, images, recipe, validation_set=images)
    first, last = history.records[0], history.records[-1]
    assert last.loss < first.loss
    assert last.validation_error < 0.1
    assert last.objects_seen == 8 * 96 * 2
    assert last.log_groups == pytest.approx(math.log(16 + 96 // 4))
    assert [record.epoch for record in history.records if record.validation_error is not None] == [3, 6, 8]
    assert history.seconds > 0
    assert network.training


def test_augmentation_sees_each_slot_by_itself_and_is_replayed(vectors, make_mlp):
    seen = []

    def jitter(objects, random):
        seen.append(len(objects))
        return objects + torch.randn(objects.shape, generator=random)

    results = []
    for _ in range(2):
        network = make_mlp(2)
        fit(network, vectors, Recipe(**FAST), augment=jitter)
        results.append(weights(network))
    assert seen[0] == 2 * 16
    assert same(*results)
    plain = make_mlp(2)
    fit(plain, vectors, Recipe(**FAST))
    assert not same(results[0], weights(plain))


def test_the_epochs_times_add_up_to_the_trainings_also_where_it_was_stopped(vectors, make_mlp, tmp_path, monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(loop.time, "perf_counter", lambda: float(next(clock)))
    with pytest.raises(StoppedError), at_most(15):
        fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path, checkpoint_seconds=0)
    history = fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)
    times = [json.loads(line) for line in (tmp_path / "timing.jsonl").read_text().splitlines()]
    assert [told["epoch"] for told in times] == [1, 2, 3]
    assert sum(told["seconds"] for told in times) == pytest.approx(history.seconds)


def test_data_that_do_not_fit_the_network_are_refused(vectors, make_mlp):
    many = LabelledSet(vectors.objects, vectors.labels, tuple("abcdef"))
    with pytest.raises(DataError, match="num_classes=6"):
        fit(make_mlp(2), many, Recipe(**FAST))
    with pytest.raises(ShapeError, match="fold=4 is larger"):
        fit(make_mlp(4), vectors.subset(torch.arange(3)), Recipe(**FAST))


def test_patience_stops_early_and_keeps_the_best_epochs_weights(vectors, make_mlp, tmp_path):
    train, held_out = vectors.subset(torch.arange(0, 150, 2)), vectors.subset(torch.arange(1, 150, 2))
    recipe = Recipe(epochs=60, batch_size=8, learning_rate=0.3, schedule="constant", patience=3)
    network = make_mlp(2)
    history = fit(network, train, recipe, held_out, tmp_path)
    likelihoods = [record.validation_nll for record in history.records]
    assert len(likelihoods) < 60
    assert len(likelihoods) - 1 - likelihoods.index(min(likelihoods)) == 3
    assert evaluate(network, held_out).nll == pytest.approx(min(likelihoods))
    again = make_mlp(2)
    assert fit(again, train, recipe, held_out, tmp_path).was_finished
    assert same(weights(network), weights(again))
    with pytest.raises(RecipeError, match="needs a validation set"):
        fit(make_mlp(2), train, recipe)


def test_an_epoch_that_was_not_measured_does_not_try_anyones_patience(vectors, make_mlp):
    recipe = Recipe(epochs=20, batch_size=32, learning_rate=3.0, schedule="constant", patience=1, evaluate_every=4)
    history = fit(make_mlp(2), vectors, recipe, vectors)
    measured = {record.epoch: record.validation_nll for record in history.records if record.validation_nll is not None}
    assert len(measured) >= 2
    assert len(history.records) in (20, max(measured))
    best = min(measured, key=measured.get)
    assert len(history.records) == 20 or max(measured) == best + 4


class AutocastSeenError(Exception):
    pass


class AutocastProbe(nn.Module):
    """Stops before any arithmetic, since not every machine can do it in bfloat16."""

    def forward(self, x):
        raise AutocastSeenError(torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))


def test_mixed_precision_of_the_engine_reaches_the_network(vectors):
    network = AggregatedClassifier(AutocastProbe(), features=4, fold=1, num_classes=3, join="features")
    with pytest.raises(AutocastSeenError) as seen:
        fit(network, vectors, Recipe(**FAST), fabric=Fabric(accelerator="cpu", devices=1, precision="bf16-mixed"))
    assert seen.value.args == (True, torch.bfloat16)


def test_the_callbacks_of_the_engine_are_called_and_change_nothing(vectors, make_mlp):
    class Counter:
        steps = 0

        def on_after_optimizer_step(self, **_):
            self.steps += 1

    counter, watched, plain = Counter(), make_mlp(2), make_mlp(2)
    fit(watched, vectors, Recipe(**FAST), fabric=Fabric(devices=1, accelerator="cpu", callbacks=[counter]))
    fit(plain, vectors, Recipe(**FAST))
    assert counter.steps == 30
    assert same(weights(watched), weights(plain))


def test_double_precision_of_the_engine_trains_doubles(vectors, make_mlp, tmp_path):
    network = make_mlp(2)
    double = Fabric(accelerator="cpu", devices=1, precision="64-true")
    history = fit(network, vectors, Recipe(**FAST, alpha=0.5), vectors, tmp_path, fabric=double)
    assert network.head.weight.dtype == torch.float64
    assert history.records[-1].information is not None
    assert history.records[-1].validation_nll == evaluate(network, vectors).nll
    assert history.records[-1].validation_error < 0.5
    with pytest.raises(RunError, match="precision is 64-true, not 32-true"):
        fit(make_mlp(2), vectors, Recipe(**FAST, alpha=0.5), vectors, tmp_path)


def test_more_parts_than_groups_are_refused_with_a_sentence(vectors, make_mlp):
    with pytest.raises(RecipeError, match="accumulate=9"):
        fit(make_mlp(2), vectors, Recipe(batch_size=8, accumulate=9))


@pytest.mark.parametrize("bound", BOUNDS)
def test_every_bound_can_be_the_penalty(bound, vectors, make_mlp):
    history = fit(make_mlp(2), vectors, Recipe(epochs=2, batch_size=16, learning_rate=0.05, alpha=0.1, bound=bound))
    assert history.records[-1].information is not None
    assert math.isfinite(history.records[-1].information)


def test_a_critic_of_ones_own_is_trained_along_and_belongs_to_the_run(vectors, make_mlp, tmp_path):
    recipe = Recipe(epochs=2, batch_size=16, learning_rate=0.05, alpha=0.1, critic="input")
    network = make_mlp(2)
    critic = Critic(VectorGroups(2, vectors.objects.shape[1], 32), network.features, width=32)
    before = [weight.clone() for weight in critic.parameters()]
    fit(network, vectors, recipe, run_dir=tmp_path / "run", critic=critic)
    assert not any(torch.equal(old, new) for old, new in zip(before, critic.parameters(), strict=True))
    with pytest.raises(RunError, match="its critic is"):
        fit(make_mlp(2), vectors, recipe, run_dir=tmp_path / "run")
    with pytest.raises(RecipeError, match="alpha above 0"):
        fit(make_mlp(2), vectors, Recipe(), critic=critic)


@pytest.mark.parametrize("precise", [torch.float64, torch.float32])
def test_objects_and_networks_of_two_precisions_train_and_predict(precise):
    objects, labels = torch.rand(12, 4, dtype=torch.float64), torch.arange(12) % 3
    network = build_network("mlp", object_shape=(4,), num_classes=3, fold=2).to(precise)
    fit(network, LabelledSet.of(objects.float() if precise == torch.float64 else objects, labels), Recipe(epochs=1))
    assert network.weight.dtype == precise
    assert predict(network, objects).isfinite().all()


def test_a_network_without_anything_that_learns_is_refused():
    network = build_network("mlp", object_shape=(4,), num_classes=3, fold=2).requires_grad_(False)
    with pytest.raises(TrainingError, match="all parameters of the network are frozen"):
        fit(network, LabelledSet.of(torch.rand(12, 4), torch.arange(12) % 3), Recipe(epochs=1))
