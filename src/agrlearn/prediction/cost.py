"""The cost of a prediction under each protocol."""

from agrlearn.grouping import Objects, replicate
from agrlearn.modes import eval_view
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.cost import count_multiply_adds
from agrlearn.networks.single import OneObject
from agrlearn.prediction.protocols import PredictionProtocol


def multiply_adds_per_object(
    network: AggregatedClassifier, one_object: Objects, protocol: PredictionProtocol, *, samples: int = 0
) -> float:
    """Multiply-adds to predict one object: the shared layers once, and its share of the passes after the join.

    Args:
        one_object: (1, ...).
        samples: draws of a stochastic bottleneck, as for `predict`; the heads run for each of them.
    """
    network = eval_view(network)
    one_object = network.to_device(one_object)
    passes = protocol.passes_per_object(network.fold)
    heads_again = 0.0
    if network.noise > 0 and samples > 1:
        one_bottleneck = network.weight.new_zeros(1, network.features)
        heads_again = count_multiply_adds(network.head, one_bottleneck) * (samples - 1) * passes
    if not protocol.tells_slots_apart:
        return count_multiply_adds(OneObject(network), one_object) + heads_again
    shared = count_multiply_adds(network.shared, one_object)
    after_the_join = count_multiply_adds(network, replicate(one_object, network.fold)) - network.fold * shared
    return shared + after_the_join * passes + heads_again
