"""A network for one object at a time: each object stands in every slot of a group of its own."""

from torch import Tensor, nn

from agrlearn.grouping import Objects, replicate
from agrlearn.modes import view
from agrlearn.networks.aggregated import AggregatedClassifier


class ReplicatedModel(nn.Module):
    """Objects in, probabilities out: each object in every slot, the heads averaged.

    A layer that reads the slots side by side need not read the same object `fold` times: its weights are summed over
    the slots instead, as they are now and in a view of the network, which itself stays as it is.
    """

    def __init__(self, network: AggregatedClassifier) -> None:
        super().__init__()
        weights = [] if network.fold == 1 else _slot_weights(network)
        summed = {weight: _sum_over_slots(weight, network.fold) for weight in weights}
        self.network = view(network, summed) if summed else network
        self.slots = 1 if summed else network.fold
        self.training = network.training

    def bottleneck(self, shared_objects: Objects) -> Tensor:
        """T of each object, from objects that have passed the shared layers already: -> (objects, features)."""
        return self.network.bottleneck_from(replicate(shared_objects, self.slots))

    def forward(self, objects: Tensor) -> Tensor:
        t = self.bottleneck(self.network.shared(objects))
        return self.network.heads(t).softmax(dim=-1).mean(dim=1)


def _slot_weights(network: AggregatedClassifier) -> list[nn.Parameter]:
    try:
        return [network.encoder.get_parameter(name) for name in network.slot_weights]
    except AttributeError:  # a weight that is computed, as by weight_norm, is no parameter and cannot be replaced
        return []


def _sum_over_slots(weight: Tensor, fold: int) -> nn.Parameter:
    return nn.Parameter(weight.detach().unflatten(1, (fold, -1)).sum(dim=1), requires_grad=False)
