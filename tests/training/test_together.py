"""Networks that train together end as each of them would alone.

Weights and records are compared to 1e-4: sums in another order differ in the last bit, and in these few epochs a last
bit of the initial weights moves the weights that `fit` ends with by as much.
"""

import dataclasses

import pytest
import torch

from agrlearn import LabelledSet, Recipe, fit
from agrlearn.errors import TrainingError
from agrlearn.networks.catalogue import build_network
from agrlearn.training.together import Trainee, fit_together

ADAMW = {"optimizer": "adamw", "learning_rate": 0.01, "weight_decay": 0.1, "schedule": "cosine"}


def some_objects(seed, count=50):
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (count,), generator=random)
    return LabelledSet(torch.randn(count, 6, generator=random) + labels.unsqueeze(1), labels, ("a", "b", "c"))


def trainee(seed, *, fold=2, count=50, weighted=False, validated=True, network=None, **settings):
    recipe = Recipe(**{**ADAMW, "epochs": 3, "batch_size": 16, "seed": seed, **settings})
    data = some_objects(seed, count)
    if weighted:
        data = dataclasses.replace(data, weights=torch.rand(count, generator=torch.Generator().manual_seed(seed)))
    options = {"width": 16, "dropout": 0.1, **(network or {})}
    built = build_network(
        "mlp", object_shape=(6,), num_classes=3, fold=fold, seed=seed, objects=data.objects, **options
    )  # fmt: skip
    return Trainee(built, data, recipe, some_objects(100 + seed) if validated else None)


def assert_alike(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def weights_of(trainees):
    return [dict(one.network.state_dict()) for one in trainees]


def figures(record):
    return {name: value for name, value in vars(record).items() if value is not None}


def assert_as_alone(make, count=3):
    alone, together = ([make(seed) for seed in range(count)] for _ in range(2))
    expected = [fit(*one) for one in alone]
    histories = fit_together(together)
    assert_alike(weights_of(together), weights_of(alone))
    for found, history in zip(histories, expected, strict=True):
        for ours, theirs in zip(found.records, history.records, strict=True):
            assert figures(ours) == pytest.approx(figures(theirs), rel=1e-4, abs=1e-4)
    return histories


@pytest.mark.parametrize("fold", [1, 2])
@pytest.mark.parametrize("network", [{"join": "mean"}, {"join": "max"}, {"join": "max", "dropout": 0.0}], ids=str)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"optimizer": "sgd", "head_rate_factor": 3.0},
        {"weighted": True, "label_smoothing": 0.1},
        {"repetition": 0.5},
    ],
    ids=str,
)
def test_networks_end_together_as_each_alone(fold, network, settings):
    assert_as_alone(lambda seed: trainee(seed, fold=fold, network=network, **settings))


@pytest.mark.parametrize("at", ["input", "features", "random"])
@pytest.mark.parametrize("fold", [1, 2])
def test_each_network_has_its_own_mixup(fold, at):
    assert_as_alone(lambda seed: trainee(seed, fold=fold, mixup=1.0, mixup_at=at, weighted=True))


@pytest.mark.parametrize("join", ["mean", "max"])
@pytest.mark.parametrize("after", [0, 1])
def test_groups_may_be_joined_before_the_last_layer(join, after):
    assert_as_alone(lambda seed: trainee(seed, network={"join": join, "join_after": after, "depth": 3}))


def test_an_ordinary_network_may_have_been_built_for_any_join():
    assert_as_alone(lambda seed: trainee(seed, fold=1, network={"join": "features"}))


@pytest.mark.parametrize(("optimizer", "rate"), [("adamw", 0.03), ("sgd", 0.03)])
def test_each_network_stops_by_its_own_patience_and_keeps_its_best_epoch(optimizer, rate):
    settings = {"epochs": 12, "patience": 1, "optimizer": optimizer, "learning_rate": rate}
    histories = assert_as_alone(lambda seed: trainee(seed, **settings), count=4)
    assert len({len(history.records) for history in histories}) > 1


def test_epochs_between_evaluations_are_not_evaluated():
    histories = assert_as_alone(lambda seed: trainee(seed, evaluate_every=2))
    assert [record.validation_nll is None for record in histories[0].records] == [True, False, False]


def test_a_network_that_diverges_leaves_all_to_fit_which_says_so():
    sound, hopeless = (
        dataclasses.replace(some_objects(1), objects=some_objects(1).objects * size) for size in (1, 1e38)
    )
    trainees = [trainee(seed)._replace(train_set=data) for seed, data in enumerate((sound, hopeless))]
    before = [{name: value.clone() for name, value in weights.items()} for weights in weights_of(trainees)]
    assert fit_together(trainees) == [None, None]
    torch.testing.assert_close(weights_of(trainees), before, rtol=0, atol=0)
    fit(*trainees[0])
    with pytest.raises(TrainingError, match="no longer finite in epoch 1"):
        fit(*trainees[1])


def test_only_networks_of_one_kind_train_together():
    first = trainee(0)
    assert trainee(1).kind == first.kind
    others = [
        trainee(1, count=48), trainee(1, fold=1), trainee(1, epochs=4), trainee(1, weighted=True),
        trainee(1, network={"width": 8}), trainee(1, network={"dropout": 0.2}), trainee(1, network={"join": "max"}),
    ]  # fmt: skip
    assert len({first.kind, *(other.kind for other in others)}) == 1 + len(others)
    assert fit_together([first, *others]) == [None] * (1 + len(others))


def test_what_only_fit_can_train_is_left_to_it():
    frozen, hooked, half_trained = trainee(0), trainee(0), trainee(0)
    frozen.network.head.weight.requires_grad_(False)
    hooked.network.encoder.register_forward_hook(lambda *arguments: None)
    half_trained.network.train().shared[1].eval()
    left = [
        frozen, hooked, half_trained, trainee(0, alpha=0.1), trainee(0, average_from=0.5), trainee(0, batch_size=1),
        trainee(0, accumulate=2), trainee(0, network={"noise": 0.1}), trainee(0, network={"join": "features"}),
        trainee(0, network={"join": "stack"}),
    ]  # fmt: skip
    assert [one.kind for one in left] == [None] * len(left)


def test_networks_own_their_tensors_again_and_the_global_stream_is_where_it_was():
    trainees = [trainee(seed) for seed in range(2)]
    own = [tensor.data_ptr() for one in trainees for tensor in one.network.state_dict().values()]
    torch.manual_seed(3)
    assert None not in fit_together(trainees)
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(1))
    assert [tensor.data_ptr() for one in trainees for tensor in one.network.state_dict().values()] == own
