"""Samples as users have them, made fit for a critic or a nearest-neighbour search."""

from typing import Any

import numpy
import torch
from scipy.special import ndtri
from scipy.stats import rankdata
from torch import Tensor

from agrlearn.errors import DataError, ShapeError

_CODED_VALUES = 64
_CODED_COLUMNS = 16
_COPIES_AT_MOST = 10


def as_columns(samples: Any, name: str) -> numpy.ndarray:
    """(samples, ...) of any real dtype -> (samples, columns) of float64, or a sentence that says what is wrong.

    >>> as_columns([True, False, True], "x").shape
    (3, 1)
    """
    if isinstance(samples, Tensor):
        samples = samples.detach().cpu()
        samples = samples.float().numpy() if samples.dtype == torch.bfloat16 else samples.numpy()
    array = numpy.asarray(samples)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} should hold numbers or booleans, got {array.dtype}; code other values as integers")
    if array.ndim == 0:
        raise ShapeError(f"{name} should have one row per sample, got a single number")
    if len(array) == 0:
        raise DataError(f"{name} has no samples")
    columns = array.reshape(len(array), -1).astype(numpy.float64)
    if not numpy.isfinite(columns).all():
        bad = int((~numpy.isfinite(columns)).any(axis=1).sum())
        raise DataError(f"{name} holds NaN or infinite values in {bad} of {len(columns)} samples; leave those out")
    return columns


def as_sample_pair(x: Any, y: Any, fewest: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Both samples as columns, equally many of them and enough."""
    x_columns, y_columns = as_columns(x, "x"), as_columns(y, "y")
    if len(x_columns) != len(y_columns):
        raise ShapeError(f"x and y should have as many samples, got {len(x_columns)} and {len(y_columns)}")
    if len(x_columns) < fewest:
        raise DataError(f"expected at least {fewest} samples, got {len(x_columns)}; collect more")
    return x_columns, y_columns


def is_constant(columns: numpy.ndarray) -> bool:
    return bool((columns == columns[0]).all())


def is_finite_alphabet(columns: numpy.ndarray) -> bool:
    """Whether every column has few distinct values, each seen often."""
    return all(_is_coded(column) for column in columns.T)


def spread_out(columns: numpy.ndarray) -> Tensor:
    """Each column in a form that is easy to learn from; none of it changes any mutual information.

    A column with many values is replaced by its normal scores, Φ⁻¹(rank): mutual information does not change under
    a rising map of a column, and outliers, scales and units no longer matter. A column with few values becomes one
    indicator per value. Constant columns are left out.

    Returns:
        (samples, features) of float32.
    """
    columns = columns[:, (columns != columns[0]).any(axis=0)]
    few = columns.shape[1] <= _CODED_COLUMNS
    return torch.from_numpy(
        numpy.concatenate([_coded(c) if few and _is_coded(c) else _normal_scores(c) for c in columns.T], axis=1)
    ).float()


def first_copies(x: numpy.ndarray, y: numpy.ndarray) -> numpy.ndarray:
    """The rows to keep so that no sample is there twice.

    A copy on both sides of a split would let a critic be judged on what it has learned by heart. Rows that are seen
    often are atoms of the distribution and stay, all of them; so do all rows of a finite alphabet.
    """
    rows = numpy.concatenate([x, y], axis=1)
    if is_finite_alphabet(rows):
        return numpy.arange(len(rows))
    _, first, inverse, counts = numpy.unique(rows, axis=0, return_index=True, return_inverse=True, return_counts=True)
    is_first = numpy.zeros(len(rows), dtype=bool)
    is_first[first] = True
    return numpy.flatnonzero(is_first | (counts[inverse.reshape(-1)] > _COPIES_AT_MOST))


def _is_coded(column: numpy.ndarray) -> bool:
    return len(numpy.unique(column)) <= min(_CODED_VALUES, len(column) // 10)


def _coded(column: numpy.ndarray) -> numpy.ndarray:
    values, codes = numpy.unique(column, return_inverse=True)
    indicators = numpy.eye(len(values))[codes.reshape(-1)]
    return (indicators - indicators.mean(axis=0)) / indicators.std(axis=0)


def _normal_scores(column: numpy.ndarray) -> numpy.ndarray:
    return ndtri((rankdata(column) - 0.5) / len(column))[:, None]
