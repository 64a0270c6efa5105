"""The optimizer, the learning rate and the critic of a recipe."""

import pytest
import torch
from torch import nn

from agrlearn.networks.catalogue import build_network
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from agrlearn.training.setup import head_parameters, learning_rate_at, make_optimizer
from agrlearn.training.step import train_step
from tests.networks.foreign import aggregate_within


def test_the_critic_reads_objects_of_the_size_that_the_augmentation_gives_them(images):
    def crop(objects, random):
        first = int(torch.randint(3, (), generator=random))
        return objects[..., first : first + 6, :6]

    network = build_network("small-cnn", object_shape=(1, 6, 6), num_classes=4, fold=2, width=4)
    history = fit(network, images, Recipe(epochs=1, batch_size=16, alpha=0.1), augment=crop)
    assert history.records[0].information is not None


class Residual(nn.Module):
    """A model that needs a mixer behind `body`: what comes out of it is read by a sum too."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.more, self.classes = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, objects):
        features = self.body(objects).relu()
        return self.classes(features + self.more(features).relu())


def wrap(how):
    example = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    options = {"mixer": {"at": "body"}, "widen": {"at": "body", "widen": True}, "mean": {"join": "mean"}}[how]
    return aggregate_within(Residual(), 2, example, verbose=False, **options)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("mean", {"shared.model.classes.weight", "shared.model.classes.bias"}),
        ("mixer", {"head.weight", "head.bias", "join.weight"}),
        ("widen", {"head.weight", "head.bias", "join.weight", "encoder.1.extra.weight", "encoder.1.extra.bias"}),
    ],
)
def test_heads_and_what_aggregate_added_are_the_group_of_their_own(how, expected):
    network = wrap(how)
    own = {id(parameter) for parameter in head_parameters(network)}
    assert {name for name, parameter in network.named_parameters() if id(parameter) in own} == expected
    rest, heads = make_optimizer(network, Recipe(head_rate_factor=10)).param_groups
    assert {id(parameter) for parameter in heads["params"]} == own
    assert len(rest["params"]) + len(heads["params"]) == len(list(network.parameters()))


def test_one_rate_is_one_group_as_ever_and_frozen_layers_are_in_none():
    network = wrap("mean")
    assert len(make_optimizer(network, Recipe()).param_groups) == 1
    network.shared.model.body.requires_grad_(False)
    network.shared.model.more.requires_grad_(False)
    [heads] = make_optimizer(network, Recipe(head_rate_factor=10)).param_groups
    assert len(heads["params"]) == 2
    assert heads["lr"] == 1.0


@pytest.mark.parametrize("schedule", ["cosine", "steps"])
def test_the_heads_learn_at_their_multiple_of_the_rate_at_every_step(vectors, monkeypatch, schedule):
    used = []

    def note(module, state, *arguments, **options):
        used.append([group["lr"] for group in state.optimizer.param_groups])
        train_step(module, state, *arguments, **options)

    monkeypatch.setattr("agrlearn.training.loop.train_step", note)
    recipe = Recipe(epochs=4, batch_size=50, learning_rate=0.01, schedule=schedule, head_rate_factor=20)
    fit(wrap("mean"), vectors, recipe)
    expected = [learning_rate_at(recipe, step // 3 + step % 3 / 3) for step in range(12)]
    assert used == [[rate, 20 * rate] for rate in expected]


def test_a_step_moves_the_heads_by_their_multiple_and_the_rest_as_before(vectors):
    moved = {}
    for factor in (1.0, 20.0):
        network = wrap("mean")
        before = [value.detach().clone() for value in network.parameters()]
        # One step of SGD without momentum or decay is the rate times the gradient.
        recipe = Recipe(epochs=1, batch_size=150, learning_rate=1e-3, momentum=0, weight_decay=0,
                        head_rate_factor=factor)  # fmt: skip
        fit(network, vectors, recipe)
        moved[factor] = {
            name: after - start for (name, after), start in zip(network.named_parameters(), before, strict=True)
        }
    for name, step in moved[1.0].items():
        times = 20 if "classes" in name else 1
        torch.testing.assert_close(moved[20.0][name], times * step, rtol=1e-2, atol=1e-6)
        assert step.abs().max() > 1e-5
