"""How fast networks predict, compared on a machine that may be busy."""

import statistics
import time
from collections.abc import Sequence

from agrlearn.grouping import Objects, count_objects
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.prediction.predict import predict
from agrlearn.prediction.protocols import PredictionProtocol


def objects_per_second(
    predictors: Sequence[tuple[AggregatedClassifier, PredictionProtocol]],
    objects: Objects,
    *,
    batch_size: int = 256,
    samples: int = 0,
    rounds: int = 15,
) -> list[float]:
    """The median speed of each network under its protocol.

    They take turns, round after round, so that whatever else the machine does slows all of them alike. `batch_size` and
    `samples` are those of `predict`.
    """
    times: list[list[float]] = [[] for _ in predictors]
    for turn in range(1 + rounds):
        for (network, protocol), mine in zip(predictors, times, strict=True):
            start = time.perf_counter()
            predict(network, objects, protocol, batch_size=batch_size, samples=samples)
            if turn > 0:  # the first round warms up
                mine.append(time.perf_counter() - start)
    return [count_objects(objects) / statistics.median(mine) for mine in times]
