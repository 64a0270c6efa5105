"""The cost of a prediction under each protocol, and the ordinary network that costs no more."""

import bisect
import functools
from typing import Any

import torch

from agrlearn.grouping import Objects, replicate
from agrlearn.modes import eval_view
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import NETWORKS, network_defaults
from agrlearn.networks.cost import count_multiply_adds
from agrlearn.networks.single import OneObject
from agrlearn.prediction.protocols import Batched, PredictionProtocol, Replicated


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


@functools.cache
def width_as_cheap(
    name: str, object_shape: tuple[int, ...], num_classes: int, fold: int, options: tuple[tuple[str, Any], ...] = ()
) -> int | None:
    """The greatest width at which an ordinary network costs no more than Batched prediction with one draw.

    This is the control for a network that is fast: one could have made an ordinary one smaller.

    Args:
        name: a name in `NETWORKS`, of a network with a width.
        options: its options at that fold; the ordinary network has all of them but those of the join.
    Returns:
        None where the ordinary network of the same width costs no more as it is, or where none is narrow enough.

    >>> width_as_cheap("small-cnn", (1, 8, 8), 10, fold=4, options=(("width", 24),))
    16
    """
    known = network_defaults(name) | dict(options)
    ordinary = {option: value for option, value in dict(options).items() if option not in ("join", "join_after")}
    shape = (object_shape, num_classes)

    # Without memory: the widest networks here take seconds to fill with random numbers.
    with torch.device("meta"):
        one_object = torch.zeros(1, *object_shape)
        grouped = NETWORKS[name](*shape, fold, **dict(options))
        limit = multiply_adds_per_object(grouped, one_object, Batched())

        def cost(width: int) -> float:
            network = NETWORKS[name](*shape, 1, **ordinary | {"width": width})
            return multiply_adds_per_object(network, one_object, Replicated())

        if cost(known["width"]) <= limit:
            return None
        return bisect.bisect_right(range(1, known["width"]), limit, key=cost) or None
