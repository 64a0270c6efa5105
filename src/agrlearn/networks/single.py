"""A network for one object at a time: what Replicated prediction runs, and what most people deploy."""

import copy
import math
from collections import OrderedDict

from torch import Tensor, nn

from agrlearn.grouping import Objects, map_objects, replicate
from agrlearn.modes import copy_modules, view
from agrlearn.networks.aggregated import AggregatedClassifier, check_network
from agrlearn.networks.conversion.last_features import LastFeatures
from agrlearn.networks.conversion.splitting import let_run, ordinary_model, put_together, replace_module
from agrlearn.networks.conversion.within import FirstPiece, JoinedInOnePass, SecondPiece, WholeModel
from agrlearn.networks.joins import JOINS, Join
from agrlearn.networks.standardize import Standardize


def single(network: AggregatedClassifier, *, probabilities: bool = False) -> nn.Module:
    """An ordinary module that classifies one object at a time, with the weights that the network has now.

    It has no trace of groups where the slots are pooled by max or mean: of a model that `aggregate` wrapped it is that
    model, so `model.load_state_dict(single(network).state_dict())` works, unless a part of it was left out (see
    `classifier` there). Where the slots are read side by side, the
    weights that read them are summed and the heads are averaged, as Replicated prediction does. The network itself
    stays as it is.

    Args:
        probabilities: give label distributions, (objects, classes), instead of logits. Only then does a wrapped model
            get another form: its logits are taken out of whatever it returns.
    Returns:
        A module in eval mode, on the network's device.

    >>> import torch
    >>> from agrlearn import build_network
    >>> network = build_network("mlp", object_shape=(4,), num_classes=3, fold=2, join="max")
    >>> single(network)(torch.zeros(5, 4)).shape
    torch.Size([5, 3])
    """
    check_network(network)
    # What a model does behind its class layer was not trained where `aggregate` was told to leave it out.
    whole = not getattr(network.conversion, "left_out", False)
    if whole and not probabilities and isinstance(network.join, Join) and network.join.slot_blind:
        ordinary = _ordinary_model(network)
        if ordinary is not None:
            ordinary.eval()  # whose own train() may return nothing
            return ordinary
    alone = copy_modules(OneObject(network)).eval()
    _join_in_one_pass(alone)
    for parameter in alone.parameters():
        parameter.requires_grad_(parameter.is_floating_point())
    if probabilities:
        return nn.Sequential(OrderedDict(network=alone, softmax=nn.Softmax(dim=-1))).eval()
    if isinstance(network.join, Join) and network.join.slot_blind and network.shares_head:
        layers = alone.network
        return nn.Sequential(OrderedDict(shared=layers.shared, encoder=layers.encoder, head=layers.head)).eval()
    return alone


def _ordinary_model(network: AggregatedClassifier) -> nn.Module | None:
    """The model that `aggregate` wrapped, with the trained weights; None for a network that it did not make.

    With `standardize` in front of it where the command line put that there: the model was trained on what it makes.
    """
    shared, standardize = network.shared, None
    if type(shared) is nn.Sequential and len(shared) == 2 and isinstance(shared[0], Standardize):
        standardize, shared = shared
    if isinstance(shared, LastFeatures):
        model = shared.ordinary()
    elif isinstance(shared, FirstPiece) and isinstance(network.encoder, SecondPiece):
        model = ordinary_model(network.encoder, network.head)
    else:
        return None
    if standardize is None:
        return model
    return nn.Sequential(OrderedDict(standardize=copy.deepcopy(standardize), model=model))


def _join_in_one_pass(alone: "OneObject") -> None:
    """Let a model that was taken into two pieces run as a whole, which can also be exported."""
    network = alone.network
    first = next((module for module in network.modules() if isinstance(module, FirstPiece)), None)
    second = next((module for module in network.modules() if isinstance(module, SecondPiece)), None)
    if first is None or second is None:
        return
    join, slots = network.join, alone.slots
    model = put_together(second.model, lambda module: JoinedInOnePass(let_run(module), join, slots))
    replace_module(network, first, nn.Identity())
    replace_module(network, second, WholeModel(model, changes_input=first.changes_input))
    del network.join  # which may be a module
    network.join, alone.slots = JOINS["max"], 1  # of one slot: what stands in it, be it tokens or fractions


class OneObject(nn.Module):
    """Objects in, logits out: each object stands in every slot of a group of its own, and the heads are averaged.

    A layer that reads the slots side by side need not read the same object `fold` times: its weights are summed over
    the slots instead, as they are now and in a view of the network, which itself stays as it is. The maximum or the
    mean of equal objects is the object, so one is enough there too.
    """

    def __init__(self, network: AggregatedClassifier) -> None:
        super().__init__()
        weights = [] if network.fold == 1 else _slot_weights(network)
        summed = {weight: _sum_over_slots(weight, network.fold) for weight in weights}
        self.network = view(network, summed) if summed else network
        blind = isinstance(network.join, Join) and network.join.slot_blind
        self.slots = 1 if summed or blind else network.fold
        self.training = network.training

    def bottleneck(self, shared_objects: Objects) -> Tensor:
        """T of each object, from objects that have passed the shared layers already: -> (objects, features)."""
        join = self.network.join
        if self.slots == 1 and isinstance(join, Join) and (join.slot_blind or join.widens):
            # What these joins make of one slot: the object itself, or for a linear layer, its numbers in a row.
            if nn.Linear in join.readers:
                shared_objects = map_objects(lambda tensor: tensor.flatten(1), shared_objects)
            return self.network.encoder(shared_objects)
        return self.network.bottleneck_from(replicate(shared_objects, self.slots))

    def forward(self, objects: Objects) -> Tensor:
        """(objects, classes) logits, whose softmax is the mean of the heads' distributions."""
        logits = self.network.heads(self.bottleneck(self.network.shared(objects)))
        if self.network.shares_head or self.network.fold == 1:
            return logits[:, 0]
        return logits.log_softmax(dim=-1).logsumexp(dim=1) - math.log(self.network.fold)


def _slot_weights(network: AggregatedClassifier) -> list[nn.Parameter]:
    try:
        return [network.encoder.get_parameter(name) for name in network.slot_weights]
    except AttributeError:  # a weight that is computed, as by weight_norm, is no parameter and cannot be replaced
        return []


def _sum_over_slots(weight: Tensor, fold: int) -> nn.Parameter:
    return nn.Parameter(weight.detach().unflatten(1, (fold, -1)).sum(dim=1), requires_grad=False)
