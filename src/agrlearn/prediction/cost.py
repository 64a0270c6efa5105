"""What a prediction costs under each protocol."""

from agrlearn.grouping import Objects, replicate
from agrlearn.modes import eval_view
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.cost import count_multiply_adds
from agrlearn.networks.replicated import ReplicatedModel
from agrlearn.prediction.protocols import PredictionProtocol


def multiply_adds_per_object(
    network: AggregatedClassifier, one_object: Objects, protocol: PredictionProtocol, *, samples: int = 0
) -> float:
    """Multiply-adds to predict one object: the shared layers once, and its share of the passes behind the join.

    Args:
        one_object: (1, ...).
        samples: draws of a stochastic bottleneck, each of which the heads answer; as for `predict`.
    """
    network = eval_view(network)
    one_object = network.to_device(one_object)
    passes = protocol.passes_per_object(network.fold)
    heads_again = _cost_of_heads(network) * max(0, samples - 1) * passes if network.noise > 0 else 0.0
    if not protocol.tells_slots_apart:
        return count_multiply_adds(ReplicatedModel(network), one_object) + heads_again
    shared = count_multiply_adds(network.shared, one_object)
    behind_the_join = count_multiply_adds(network, replicate(one_object, network.fold)) - network.fold * shared
    return shared + behind_the_join * passes + heads_again


def _cost_of_heads(network: AggregatedClassifier) -> int:
    """Of one pass: all of them on one bottleneck."""
    weight = network.head.weight
    return count_multiply_adds(network.head, weight.new_zeros(1, network.features))
