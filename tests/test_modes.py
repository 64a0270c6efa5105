"""Each module keeps its own mode, and eval mode for a while leaves no trace."""

import pytest
import torch
from torch import nn

from agrlearn.data.labelled import LabelledSet
from agrlearn.grouping import group
from agrlearn.modes import evaluating
from agrlearn.networks.cost import count_multiply_adds
from agrlearn.prediction.cost import multiply_adds_per_object
from agrlearn.prediction.protocols import Batched
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from tests.networks import foreign
from tests.networks.foreign import aggregate_within


class RemembersInEval(nn.Module):
    """Keeps what it computed from its weight in eval mode until train() is called, as timm's LeViT does."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 1, 1))
        self.kept = None

    def train(self, mode=True):
        if mode:
            self.kept = None
        return super().train(mode)

    def forward(self, x):
        if self.training:
            return x * self.weight.square()
        if self.kept is None:
            self.kept = self.weight.square()
        return x * self.kept


@pytest.mark.parametrize("seed", range(20))
def test_every_module_returns_to_its_own_mode_even_after_an_error(seed):
    random = torch.Generator().manual_seed(seed)
    network = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(), nn.Tanh())), nn.BatchNorm1d(2))
    for module in network.modules():
        module.train(bool(torch.rand((), generator=random) < 0.5))
    before = [module.training for module in network.modules()]
    with pytest.raises(KeyError), evaluating(network.modules()):
        assert not any(module.training for module in network.modules())
        raise KeyError
    assert [module.training for module in network.modules()] == before


def test_counting_costs_leaves_a_frozen_normalisation_frozen():
    network = foreign.nested().train()
    network[0][0][1].eval()
    count_multiply_adds(network, foreign.images())
    assert network.training
    assert not network[0][0][1].training


def norms_of(network):
    return [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]


@pytest.mark.parametrize("options", [{}, {"at": "1"}])
def test_a_frozen_normalisation_stays_frozen_when_its_model_is_joined_and_trained(options):
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 2)
    )
    model[1].eval()
    network = aggregate_within(model, 2, foreign.images(), **options, verbose=False)
    assert network.training
    assert [norm.training for norm in norms_of(network)] == [norm.training for norm in norms_of(model)]
    frozen, free = norms_of(network)
    before = frozen.running_mean.clone(), free.running_mean.clone()
    data = LabelledSet(foreign.images(), torch.arange(len(foreign.images())) % 2, ("a", "b"))
    fit(network, data, Recipe(epochs=2, batch_size=4, learning_rate=0.05), data)
    assert torch.equal(frozen.running_mean, before[0])
    assert not torch.equal(free.running_mean, before[1])


def test_a_network_in_eval_mode_is_trained_all_the_same():
    network = aggregate_within(foreign.nested().eval(), 2, foreign.images(), verbose=False)
    assert not any(module.training for module in network.modules())
    data = LabelledSet(foreign.images(), torch.arange(len(foreign.images())) % 2, ("a", "b"))
    fit(network, data, Recipe(epochs=1, batch_size=4, learning_rate=0.05))
    assert all(module.training for module in network.modules())


def test_a_layer_that_prepares_itself_in_train_and_eval_is_told_of_both():
    layer = RemembersInEval()
    for factor in (1.0, 2.0):
        with torch.no_grad():
            layer.weight.fill_(factor)
        with evaluating(layer.modules()):
            assert torch.equal(layer(torch.ones(1, 3, 2, 2)), torch.full((1, 3, 2, 2), factor**2))


def test_the_placeholder_of_a_joined_model_leaves_the_layers_before_the_join_as_they_were():
    network = aggregate_within(
        nn.Sequential(RemembersInEval(), foreign.nested()), 2, foreign.images(), at="1.0", verbose=False
    )
    layer, norm = (next(each for each in network.modules() if isinstance(each, kind))
                   for kind in (RemembersInEval, nn.BatchNorm2d))  # fmt: skip
    network.train()
    norm.eval()
    objects = group(torch.rand(6, 3, 8, 8), 2)
    network(objects)
    assert layer.training
    assert not norm.training
    with torch.no_grad():
        layer.weight.fill_(2.0)
        answer = network.eval()(objects)
        layer.kept = None
        assert torch.equal(answer, network(objects))


@pytest.mark.parametrize("norm", [nn.BatchNorm1d, nn.LayerNorm])
def test_counting_the_cost_of_a_network_joined_within_moves_nothing(norm):
    model = nn.Sequential(nn.Linear(6, 8), norm(8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).train()
    network = aggregate_within(model, 2, torch.rand(4, 6), at="2", verbose=False)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    multiply_adds_per_object(network, torch.rand(1, 6), Batched())
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
    assert network.training


def test_a_normalisation_with_a_forward_of_its_own_keeps_it_in_training():
    network = aggregate_within(foreign.nested(), 2, foreign.images(), verbose=False)
    norm = norms_of(network)[0]
    norm.forward = mine = lambda images: 2 * nn.BatchNorm2d.forward(norm, images)
    data = LabelledSet(foreign.images(), torch.arange(len(foreign.images())) % 2, ("a", "b"))
    fit(network, data, Recipe(epochs=1, batch_size=4, learning_rate=0.05))
    assert norm.forward is mine
