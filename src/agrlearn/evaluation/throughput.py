"""How fast a network predicts."""

import statistics
import time

from agrlearn.grouping import Objects, count_objects
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.prediction.predict import predict
from agrlearn.prediction.protocols import PredictionProtocol


def objects_per_second(
    network: AggregatedClassifier,
    objects: Objects,
    protocol: str | PredictionProtocol = "replicated",
    *,
    batch_size: int = 256,
    seconds: float = 0.5,
) -> float:
    """The median speed of repeated predictions of `objects`, after one to warm up."""
    predict(network, objects, protocol, batch_size=batch_size)
    times: list[float] = []
    while sum(times) < seconds or len(times) < 3:
        start = time.perf_counter()
        predict(network, objects, protocol, batch_size=batch_size)
        times.append(time.perf_counter() - start)
    return count_objects(objects) / statistics.median(times)
