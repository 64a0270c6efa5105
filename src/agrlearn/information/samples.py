"""Check samples and prepare them for a critic or a nearest-neighbour search."""

from typing import Any

import numpy
import torch
from scipy.special import ndtri
from scipy.stats import rankdata
from torch import Tensor

from agrlearn.errors import DataError, ShapeError

_MOST_CATEGORIES = 64
_MOST_CATEGORICAL_COLUMNS = 16
_MOST_COPIES = 10
_RARELY = 0.05


def as_columns(samples: Any, name: str) -> numpy.ndarray:
    """(samples, ...) of any real dtype -> (samples, columns) of float64, checked.

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
    bad = int((~numpy.isfinite(columns)).any(axis=1).sum())
    if bad:
        raise DataError(f"{name} holds NaN or infinite values in {bad} of {len(columns)} samples; leave those out")
    return columns


def as_sample_pair(x: Any, y: Any, fewest: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Both samples as columns, checked to have the same number of rows, at least `fewest`."""
    x_columns, y_columns = as_columns(x, "x"), as_columns(y, "y")
    if len(x_columns) != len(y_columns):
        raise ShapeError(f"x and y should have the same number of samples, got {len(x_columns)} and {len(y_columns)}")
    if len(x_columns) < fewest:
        raise DataError(f"expected at least {fewest} samples, got {len(x_columns)}; collect more")
    return x_columns, y_columns


def is_constant(columns: numpy.ndarray) -> bool:
    return bool((columns == columns[0]).all())


def spread_out(columns: numpy.ndarray) -> Tensor:
    """Make columns easy to learn from, without changing mutual information: (samples, features) of float32.

    A column with many values is replaced by its normal scores, Φ⁻¹(rank), so that outliers, scales and units do not
    matter. A column with few values becomes one indicator per value. Constant columns are left out.
    """
    columns = columns[:, (columns != columns[0]).any(axis=0)]
    few = columns.shape[1] <= _MOST_CATEGORICAL_COLUMNS
    features = [_indicators(c) if few and _is_categorical(c) else _normal_scores(c) for c in columns.T]
    return torch.from_numpy(numpy.concatenate(features, axis=1)).float()


def first_copies(x: numpy.ndarray, y: numpy.ndarray) -> numpy.ndarray:
    """The rows to keep so that no sample is a copy of another.

    With copies on both sides of a split, a critic would be evaluated on samples that it has memorized. A repeated pair
    (x, y) counts as a copy if its x or its y occurs in no other pair, and values on that side hardly ever do. Values
    that occur in different pairs are atoms of the distribution, and so are frequent pairs, finite alphabets, and whole
    numbers in few columns, such as ages, counts and codes: all their rows stay.
    """
    if all(_is_categorical(column) for column in (*x.T, *y.T)):
        return numpy.arange(len(x))
    x_numbers, y_numbers = (numpy.unique(side, axis=0, return_inverse=True)[1].reshape(-1) for side in (x, y))
    both = x_numbers * (y_numbers.max() + 1) + y_numbers
    _, first, inverse, counts = numpy.unique(both, return_index=True, return_inverse=True, return_counts=True)
    copied = _only_copied(x, x_numbers, first) | _only_copied(y, y_numbers, first)
    kept = ~(copied & (counts <= _MOST_COPIES))[inverse]
    kept[first] = True
    return numpy.flatnonzero(kept)


def _only_copied(columns: numpy.ndarray, numbers: numpy.ndarray, first: numpy.ndarray) -> numpy.ndarray:
    """Whether the value of a distinct pair on this side repeats only by copying the pair: (pairs,).

    Args:
        columns: (samples, columns) of x or y.
        numbers: (samples,) the number of each sample's value among the distinct values.
        first: (pairs,) the first sample with each distinct pair.
    """
    recurring = numpy.bincount(numbers) > 1
    pairs = numpy.bincount(numbers[first])
    whole = columns.shape[1] <= _MOST_CATEGORICAL_COLUMNS and bool((columns == columns.round()).all())
    if whole or not recurring.any() or (pairs[recurring] > 1).mean() > _RARELY:
        return numpy.zeros(len(first), dtype=bool)
    return (pairs == 1)[numbers[first]]


def _is_categorical(column: numpy.ndarray) -> bool:
    return len(numpy.unique(column)) <= min(_MOST_CATEGORIES, len(column) // 10)


def _indicators(column: numpy.ndarray) -> numpy.ndarray:
    values, codes = numpy.unique(column, return_inverse=True)
    indicators = numpy.eye(len(values))[codes.reshape(-1)]
    return (indicators - indicators.mean(axis=0)) / indicators.std(axis=0)


def _normal_scores(column: numpy.ndarray) -> numpy.ndarray:
    return ndtri((rankdata(column) - 0.5) / len(column))[:, None]
