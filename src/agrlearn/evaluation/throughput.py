"""Compare how fast networks predict, on a machine that may be busy."""

import statistics
import time
from collections.abc import Sequence

from agrlearn.grouping import Objects, count_objects
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.prediction.predict import predict
from agrlearn.prediction.protocols import PredictionProtocol


def objects_per_second(
    predictors: Sequence[tuple[AggregatedClassifier, PredictionProtocol]], objects: Objects, *,
    batch_size: int = 256, samples: int = 0, rounds: int = 15,
) -> list[float]:  # fmt: skip
    """The median speed of each network under its protocol.

    They take turns, so that other load on the machine slows all of them alike. `batch_size` and `samples` are those of
    `predict`.
    """
    times: list[list[float]] = [[] for _ in predictors]
    for turn in range(1 + rounds):
        for (network, protocol), seconds in zip(predictors, times, strict=True):
            start = time.perf_counter()
            predict(network, objects, protocol, batch_size=batch_size, samples=samples)
            if turn > 0:  # the first round warms up
                seconds.append(time.perf_counter() - start)
    return [count_objects(objects) / statistics.median(seconds) for seconds in times]
