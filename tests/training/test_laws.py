"""The laws of the house that concern training."""

import copy
import functools
import hashlib
import itertools
import json
import math

import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import MixedPrecision
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset

from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import DataError, RecipeError, RunError, ShapeError, TrainingError
from agrlearn.evaluation.evaluate import evaluate
from agrlearn.files import one_process_at_a_time
from agrlearn.grouping import GroupBatchSampler, group
from agrlearn.information.bounds import BOUNDS
from agrlearn.information.critics import Critic, VectorGroups
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.seeding import derive_seed, generator
from agrlearn.training import loop, setup
from agrlearn.training.history import EpochRecord, History
from agrlearn.training.loop import fit
from agrlearn.training.mixup import Mixture, mix_groups
from agrlearn.training.objective import cross_entropy
from agrlearn.training.recipe import Recipe
from agrlearn.training.setup import learning_rate_at
from agrlearn.training.state import EpochTotals, TrainingState
from tests.training.stopping import StoppedError, at_most

FAST = dict(epochs=3, batch_size=16, learning_rate=0.05)


def weights(network):
    return {name: value.clone() for name, value in network.state_dict().items()}


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


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


def test_cross_entropy_is_summed_over_slots_and_averaged_over_groups():
    logits, labels = torch.randn(5, 3, 4), torch.randint(0, 4, (5, 3))
    expected = -sum(logits[g, s].log_softmax(0)[labels[g, s]] for g in range(5) for s in range(3)) / 5
    assert cross_entropy(logits, labels).item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_step_with_mixup_descends_the_mixed_loss_of_the_mixed_groups(vectors, make_mlp):
    network = make_mlp(2)
    twin = copy.deepcopy(network)
    groups, labels = group(vectors.objects[:64], 2), vectors.labels[:64].view(-1, 2)
    state = loop.TrainingState(
        network, torch.optim.SGD(network.parameters(), lr=0.1), None, loop.EpochTotals.zero(torch.device("cpu"))
    )
    mixture = mix_groups(groups, 0.7, generator(1))
    loop.train_step(
        network, state, groups, labels, Recipe(mixup=0.7), generator(1), torch.Tensor.backward, mixture=mixture
    )

    mixed, partners, share = mixture
    assert torch.allclose(mixed, share * groups + (1 - share) * groups[partners], atol=1e-6)
    logits = twin(mixed)
    (share * cross_entropy(logits, labels) + (1 - share) * cross_entropy(logits, labels[partners])).backward()
    for mine, other in zip(network.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(mine, other - 0.1 * other.grad, atol=1e-6)


def test_with_mixup_an_answer_is_as_wrong_as_the_share_of_the_label_that_it_misses(vectors, make_mlp):
    network = make_mlp(1)
    with torch.no_grad():
        network.head.bias.copy_(torch.tensor([0.0, 100.0, 0.0]))  # always answers 1
    state = loop.TrainingState(
        network, torch.optim.SGD(network.parameters(), lr=0.1), None, loop.EpochTotals.zero(torch.device("cpu"))
    )
    labels = torch.tensor([[1], [1], [0], [2]])
    mixture = Mixture(vectors.objects[:4, None], torch.tensor([1, 2, 3, 0]), 0.25)
    loop.train_step(
        network, state, mixture.groups, labels, Recipe(mixup=1), generator(1), torch.Tensor.backward, mixture=mixture
    )
    # Right; wrong by its partner's share; wrong; wrong by its own share.
    assert float(state.totals.wrong) == pytest.approx(0 + 0.75 + 1 + 0.25)


@pytest.mark.parametrize("tokens", [torch.int32, torch.int64])
def test_mixup_refuses_tokens_with_a_sentence(tokens):
    with pytest.raises(RecipeError, match="tokens"):
        mix_groups(torch.ones(4, 2, 3, dtype=tokens), 1.0, generator(0))


def test_the_critic_reads_objects_of_the_size_that_the_augmentation_gives_them(images):
    def crop(objects, random):
        first = int(torch.randint(3, (), generator=random))
        return objects[..., first : first + 6, :6]

    network = build_network("small-cnn", object_shape=(1, 6, 6), num_classes=4, fold=2, width=4)
    history = fit(network, images, Recipe(epochs=1, batch_size=16, alpha=0.1), augment=crop)
    assert history.records[0].information is not None


def test_alpha_0_builds_and_runs_no_critic(vectors, make_mlp, monkeypatch):
    def refuse(*arguments, **keywords):
        raise AssertionError("a critic was built")

    monkeypatch.setattr(setup, "critic_for", refuse)
    history = fit(make_mlp(2), vectors, Recipe(**FAST))
    assert history.records[-1].information is None
    with pytest.raises(AssertionError):
        fit(make_mlp(2), vectors, Recipe(**FAST, alpha=0.1))


def make_state(network, alpha, vectors, **options):
    recipe = Recipe(**FAST, alpha=alpha, **options)
    regularizer = setup.make_regularizer(network, vectors, recipe, torch.device("cpu"))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    zero = loop.EpochTotals.zero(torch.device("cpu"))
    return recipe, loop.TrainingState(network, optimizer, regularizer, zero)


def test_a_step_of_algorithm_1_equals_the_same_step_written_out(vectors, make_mlp):
    """K ascents on J with the encoder still, then one descent on CE + αJ with the critic still."""
    network = make_mlp(2, depth=1)
    recipe, state = make_state(network, 0.7, vectors, ascent_steps=3, critic_learning_rate=0.01)
    twin, critic = copy.deepcopy(network), copy.deepcopy(state.regularizer.critic)
    groups, labels = group(vectors.objects[:64], 2), vectors.labels[:64].view(-1, 2)
    loop.train_step(network, state, groups, labels, recipe, generator(1), torch.Tensor.backward)

    random = generator(1)
    logits, t = twin(groups, with_bottleneck=True)

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
    recipe, state = make_state(network, 0.5, vectors, critic_learning_rate=1e-30)
    before = weights(state.regularizer.critic)
    groups, labels = group(vectors.objects[:128], 2), vectors.labels[:128].view(-1, 2)

    def objective():
        logits, t = network(groups, with_bottleneck=True)
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
    original = setup.InformationRegularizer.penalty

    def sometimes(self, groups, t, random=None):
        broken["penalties"] += 1
        value = original(self, groups, t, random)
        return value * math.nan if broken["penalties"] <= broken["bad"] else value

    monkeypatch.setattr(setup.InformationRegularizer, "penalty", sometimes)
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


def test_training_learns_and_records_what_happened(images):
    network = build_network(object_shape=(1, 8, 8), num_classes=4, fold=2, objects=images.objects)
    recipe = Recipe(epochs=8, batch_size=16, learning_rate=0.05, alpha=0.05, evaluate_every=3)
    history = fit(network, images, recipe, validation_set=images)
    first, last = history.records[0], history.records[-1]
    assert last.loss < first.loss
    assert last.validation_error < 0.1
    assert last.objects_seen == 8 * 96 * 2
    assert last.log_groups == math.log(16)
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


@pytest.mark.parametrize("options", [{}, {"alpha": 0.3, "ascent_steps": 2}, {"optimizer": "adam"}, {"patience": 2}])
@pytest.mark.parametrize("steps", [1, 7, 10, 23])
def test_a_stopped_run_resumes_to_the_same_weights_and_records(vectors, make_mlp, tmp_path, steps, options):
    recipe = Recipe(**FAST, **options)
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


def test_the_epochs_times_add_up_to_the_trainings_also_where_it_was_stopped(vectors, make_mlp, tmp_path, monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(loop.time, "perf_counter", lambda: float(next(clock)))
    with pytest.raises(StoppedError), at_most(15):
        fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path, checkpoint_seconds=0)
    history = fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)
    times = [json.loads(line) for line in (tmp_path / "timing.jsonl").read_text().splitlines()]
    assert [told["epoch"] for told in times] == [1, 2, 3]
    assert sum(told["seconds"] for told in times) == pytest.approx(history.seconds)


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


def test_a_run_directory_of_another_run_is_refused_and_told_apart(vectors, make_mlp, tmp_path):
    fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)
    with pytest.raises(RunError, match=r"its learning rate is 0\.05, not 0\.1"):
        fit(make_mlp(2), vectors, Recipe(**{**FAST, "learning_rate": 0.1}), run_dir=tmp_path)
    with pytest.raises(RunError, match="its fold is 2, not 4"):
        fit(make_mlp(4), vectors, Recipe(**FAST), run_dir=tmp_path)
    with pytest.raises(RunError, match="training data"):
        fit(make_mlp(2), vectors.subset(torch.arange(149)), Recipe(**FAST), run_dir=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="is a file"):
        fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path / "file")


def test_a_checkpoint_that_is_broken_or_would_run_code_is_refused(vectors, make_mlp, tmp_path):
    import pickle

    fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)
    checkpoint = tmp_path / "checkpoint.pt"
    whole = checkpoint.read_bytes()

    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    (tmp_path / "checkpoint.previous.pt").unlink()
    bomb = pickle.dumps(Bomb())
    for content in (
        whole[: len(whole) // 2], b"", b"nonsense", bomb, hashlib.sha256(bomb).digest() + bomb,
        whole[:2000] + bytes([whole[2000] ^ 1]) + whole[2001:],
    ):  # fmt: skip
        checkpoint.write_bytes(content)
        with pytest.raises(RunError, match="not a readable checkpoint"):
            fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)
    assert not (tmp_path / "exploded").exists()


def test_a_damaged_checkpoint_falls_back_to_the_one_before_it_and_loses_nothing(vectors, make_mlp, tmp_path):
    undisturbed, disturbed = make_mlp(2), make_mlp(2)
    fit(undisturbed, vectors, Recipe(**FAST))
    fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)
    previous = (tmp_path / "checkpoint.previous.pt").read_bytes()
    (tmp_path / "checkpoint.pt").write_bytes(b"nonsense")
    with pytest.warns(UserWarning, match="resumes from the checkpoint before it"):
        fit(disturbed, vectors, Recipe(**FAST), run_dir=tmp_path)
    assert same(weights(undisturbed), weights(disturbed))
    assert (tmp_path / "checkpoint.damaged.pt").read_bytes() == b"nonsense"
    assert (tmp_path / "checkpoint.previous.pt").read_bytes() == previous  # one epoch was left to save
    (tmp_path / "checkpoint.pt").unlink()  # as killed between keeping the old one and placing the new one
    fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)


def test_a_run_of_an_earlier_version_without_newer_settings_goes_on(vectors, make_mlp, tmp_path):
    fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)
    about = json.loads((tmp_path / "run.json").read_text())
    del about["identity"]["recipe"]["accumulate"]
    (tmp_path / "run.json").write_text(json.dumps(about))
    assert fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path).was_finished
    with pytest.raises(RunError, match="accumulate is 1, not 2"):
        fit(make_mlp(2), vectors, Recipe(**FAST, accumulate=2), run_dir=tmp_path)


def test_a_second_process_on_a_run_directory_is_told_so(vectors, make_mlp, tmp_path):
    with one_process_at_a_time(tmp_path), pytest.raises(RunError, match="another process is training"):
        fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)
    fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)
    fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)  # the first has let go of it


def test_data_that_do_not_fit_the_network_are_refused(vectors, make_mlp):
    many = LabelledSet(vectors.objects, vectors.labels, tuple("abcdef"))
    with pytest.raises(DataError, match="num_classes=6"):
        fit(make_mlp(2), many, Recipe(**FAST))
    with pytest.raises(ShapeError, match="fold=4 is larger"):
        fit(make_mlp(4), vectors.subset(torch.arange(3)), Recipe(**FAST))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"alpha": -1}, "alpha: input should be greater than or equal to 0, got -1"),
        ({"learning_rate": math.nan}, "learning_rate: input should be a finite number"),
        ({"epochs": 0}, "epochs"),
        ({"epochs": "many"}, "epochs: input should be a valid integer"),
        ({"optimizer": "adamw"}, "'sgd' or 'adam'"),
        ({"milestones": (0.5, 0.2)}, "milestones should rise"),
        ({"learning_rat": 0.1}, "a recipe has no 'learning_rat'; it has: epochs"),
    ],
)
def test_a_bad_recipe_gets_a_sentence(values, message):
    with pytest.raises(RecipeError, match=message):
        Recipe(**values)


def test_the_default_recipe_is_the_papers():
    recipe = Recipe()
    assert (recipe.epochs, recipe.batch_size, recipe.weight_decay) == (400, 64, 1e-4)
    rates = [learning_rate_at(recipe, epoch) for epoch in range(400)]
    assert rates == [0.1] * 100 + [0.01] * 50 + [0.001] * 100 + [0.0001] * 150
    cosine = [learning_rate_at(Recipe(epochs=10, schedule="cosine"), epoch) for epoch in range(10)]
    assert cosine[0] == 0.1
    assert cosine == sorted(cosine, reverse=True)
    with pytest.raises(Exception, match="frozen"):
        recipe.alpha = 1.0


def test_the_final_error_is_the_median_of_the_last_epochs():
    records = tuple(EpochRecord(e, 0.1, 1.0, 0.1, None, 4.0, 0, e, validation_error=e / 100) for e in range(1, 21))
    assert History(records, 1.0).final_error() == pytest.approx(0.155)
    with pytest.raises(RunError, match="validation set"):
        History((EpochRecord(1, 0.1, 1.0, 0.1, None, 4.0, 0, 1),), 1.0).final_error()


def shifted(objects, random, by=0.1):
    return objects + by


@pytest.mark.parametrize(
    ("first", "then", "told"),
    [
        (None, shifted, "its augmentation is None, not shifted"),
        (shifted, None, "its augmentation is shifted, not None"),
        (
            functools.partial(shifted, by=0.2),
            functools.partial(shifted, by=0.3),
            r"is shifted\(by=0.2\), not shifted\(by=0.3\)",
        ),
    ],
)
def test_a_run_with_another_augmentation_is_another_run(vectors, make_mlp, tmp_path, first, then, told):
    fit(make_mlp(2), vectors, Recipe(**FAST), None, tmp_path, augment=first)
    with pytest.raises(RunError, match=told):
        fit(make_mlp(2), vectors, Recipe(**FAST), None, tmp_path, augment=then)
    assert fit(make_mlp(2), vectors, Recipe(**FAST), None, tmp_path, augment=first).was_finished


def test_a_checkpoint_keeps_the_scale_of_the_loss_in_half_precision(make_mlp):
    def state():
        network, scaler = make_mlp(2), torch.amp.GradScaler("cpu", init_scale=8.0)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        precision = MixedPrecision("16-mixed", "cpu", scaler=scaler)
        return TrainingState(network, optimizer, None, EpochTotals.zero(torch.device("cpu")), precision)

    stopped, resumed, old = state(), state(), state()
    stopped.precision.scaler.scale(torch.ones(()))  # its scale exists from the first use on
    stopped.precision.scaler.update(new_scale=4.0)
    saved = stopped.state_dict()
    resumed.load_state_dict(saved, epochs=1, steps=1)
    assert resumed.precision.scaler.get_scale() == 4.0
    del saved["precision"]  # as earlier versions wrote it
    old.load_state_dict(saved, epochs=1, steps=1)
    assert old.precision.scaler.get_scale() == 8.0


@pytest.mark.parametrize("damage", ["the last record is missing", "the last record is cut short"])
def test_records_are_mended_when_a_run_was_killed_while_writing_them(vectors, make_mlp, tmp_path, damage):
    recipe = Recipe(**FAST)
    fit(make_mlp(2), vectors, recipe, vectors, tmp_path / "whole")
    with pytest.raises(StoppedError), at_most(25):
        fit(make_mlp(2), vectors, recipe, vectors, tmp_path / "cut")
    metrics = tmp_path / "cut/metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text(lines[0] if "missing" in damage else lines[0] + lines[1][:20])
    fit(make_mlp(2), vectors, recipe, vectors, tmp_path / "cut")
    assert metrics.read_bytes() == (tmp_path / "whole/metrics.jsonl").read_bytes()


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
    recipe = Recipe(epochs=2, batch_size=16, learning_rate=0.05, alpha=0.1)
    network = make_mlp(2)
    critic = Critic(VectorGroups(2, vectors.objects.shape[1], 32), network.features, width=32)
    before = [weight.clone() for weight in critic.parameters()]
    fit(network, vectors, recipe, run_dir=tmp_path / "run", critic=critic)
    assert not any(torch.equal(old, new) for old, new in zip(before, critic.parameters(), strict=True))
    with pytest.raises(RunError, match="its critic is"):
        fit(make_mlp(2), vectors, recipe, run_dir=tmp_path / "run")
    with pytest.raises(RecipeError, match="alpha above 0"):
        fit(make_mlp(2), vectors, Recipe(), critic=critic)
