"""How seconds and memory grow: exponents measured over a range of sizes, beside the ones they should have."""

import ctypes
import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agrlearn.data.batches import batches
from agrlearn.data.labelled import LabelledSet
from agrlearn.grouping import GroupBatchSampler
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.prediction.predict import predict
from agrlearn.prediction.protocols import Batched, Contextual, PredictionProtocol, Replicated
from benchmarks.made import step, vectors


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The slope of log value over log size, by least squares."""
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in values]
    return statistics.linear_regression(x, y).slope


def seconds(action: Callable[[], object], repeats: int = 5) -> float:
    """The least time of some repeats, after one that warms up."""
    times = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times[1:])


def peak_megabytes(action: Callable[[], object]) -> float:
    """How far the process's memory rises above where it was, by the kernel's own high-water mark."""
    ctypes.CDLL(None).malloc_trim(0)  # what earlier actions have freed goes back first
    Path("/proc/self/clear_refs").write_text("5")
    before = _resident("VmRSS")
    action()
    return max(0.0, _resident("VmHWM") - before)


def _resident(name: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def mlp(fold: int, classes: int = 10, width: int = 64) -> AggregatedClassifier:
    return build_network("mlp", object_shape=(32,), num_classes=classes, fold=fold, width=width, join="features")


def epoch_of_batches(count: int, fold: int = 2) -> Callable[[], None]:
    data, sampler = vectors(count), GroupBatchSampler(count, fold, 256)

    def action() -> None:
        for _ in batches(data, sampler):
            pass

    return action


def a_step(fold: int = 2, classes: int = 10, **recipe_options: object) -> Callable[[], None]:
    return step(mlp(fold, classes), vectors(64 * fold, classes=classes), **recipe_options)


def prediction(count: int, protocol: Callable[[LabelledSet], PredictionProtocol]) -> Callable[[], None]:
    network, data = mlp(2).eval(), vectors(count)
    chosen = protocol(data)
    return lambda: predict(network, data.objects, chosen)


def growth() -> list[str]:
    """How seconds and memory grow, as exponents: the slope of log seconds over log size; 1 is proportional.

    An MLP on 32 numbers. Nothing may grow faster than expected; prediction keeps one batch and the answers.
    """
    some = (10_000, 100_000, 1_000_000)
    many = (1_000, *some, 10_000_000)
    folds, classes, draws = (1, 2, 4, 8, 16), (2, 10, 100, 1_000, 10_000), (1, 2, 4, 8)
    timed: list[tuple[str, Sequence[int], Callable[[int], Callable[[], object]], str]] = [
        ("batches of an epoch, over N", many, epoch_of_batches, "1"),
        ("batches of an epoch, beyond the caches", many[-2:], epoch_of_batches, "1"),
        ("a step, over fold (joined features)", folds, lambda fold: a_step(fold), "at most 1"),
        ("a step, over classes", classes, lambda count: a_step(classes=count), "at most 1"),
        ("a step with α > 0, over K", (1, 2, 4, 8), lambda k: a_step(alpha=0.3, ascent_steps=k), "at most 1"),
        ("Replicated, over N", many[1:], lambda count: prediction(count, lambda data: Replicated()), "1"),
        ("Batched, over N", some, lambda count: prediction(count, lambda data: Batched()), "1"),
        ("Batched, over draws", draws, lambda count: prediction(50_000, lambda data: Batched(count)), "at most 1"),
        ("Contextual, over N", some, lambda count: prediction(count, lambda data: Contextual(data.objects)), "1"),
    ]
    lines = ["| seconds | sizes | measured exponent | expected |", "|---|---|---:|---:|"]
    for name, sizes, make, expected in timed:
        values = [seconds(make(size), repeats=5 if size <= 1_000_000 else 1) for size in sizes]
        lines.append(f"| {name} | {sizes[0]:,} to {sizes[-1]:,} | {exponent(sizes, values):.2f} | {expected} |")
    lines += ["", "| memory beside the data, MB | at N = 10,000 | 100,000 | 1,000,000 | of them the answers |"]
    lines.append("|---|---:|---:|---:|---:|")
    kept: list[tuple[str, Callable[[int], Callable[[], object]], int]] = [
        ("batches of an epoch", epoch_of_batches, 2 * 8),
        ("Replicated", lambda count: prediction(count, lambda data: Replicated()), 11 * 4),
        ("Batched", lambda count: prediction(count, lambda data: Batched()), 11 * 4),
        ("Contextual", lambda count: prediction(count, lambda data: Contextual(data.objects)), 11 * 4),
    ]
    for name, make, bytes_each in kept:
        peaks = [peak_megabytes(make(size)) for size in some]
        answers = bytes_each * some[-1] / 2**20
        lines.append(f"| {name} | {' | '.join(f'{peak:.1f}' for peak in peaks)} | {answers:.1f} at 1,000,000 |")
    return lines
