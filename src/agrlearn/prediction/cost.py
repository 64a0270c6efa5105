"""What a prediction costs under each protocol."""

from agrlearn.grouping import Objects, replicate
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.cost import count_multiply_adds
from agrlearn.prediction.export import ReplicatedModel
from agrlearn.prediction.protocols import PredictionProtocol, Replicated


def multiply_adds_per_object(network: AggregatedClassifier, one_object: Objects, protocol: PredictionProtocol) -> float:
    """Multiply-adds to predict one object: the shared layers once, and its share of the passes behind the join.

    Args:
        one_object: (1, ...).
    """
    one_object = network.placed(one_object)
    if isinstance(protocol, Replicated):
        return count_multiply_adds(ReplicatedModel(network), one_object)
    shared = count_multiply_adds(network.shared, one_object)
    behind_the_join = count_multiply_adds(network, replicate(one_object, network.fold)) - network.fold * shared
    return shared + behind_the_join * protocol.passes_per_object(network.fold)
