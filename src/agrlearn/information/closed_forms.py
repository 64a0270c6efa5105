"""Mutual information without a critic: of tables, of Gaussians, and by nearest neighbours in few dimensions."""

from typing import Any

import numpy
from scipy.special import digamma, rel_entr
from sklearn.neighbors import KDTree, NearestNeighbors

from agrlearn.errors import DataError, ShapeError
from agrlearn.information.samples import as_sample_pair, first_copies, is_constant

_TIE_BREAKING_NOISE = 1e-8
_NOISE_SEED = (2004, 66138)  # unlike 0, not a likely seed of the samples, from which the noise must be independent


def discrete_information(joint: Any) -> float:
    """I(X;Y) in nats of a joint distribution over a finite alphabet.

    Args:
        joint: (values of x, values of y) probabilities or counts. Counts give the plug-in estimate, which is too high
            by about (|X| − 1)(|Y| − 1) / 2n.

    >>> round(discrete_information([[0.5, 0.0], [0.0, 0.5]]), 4)  # log 2
    0.6931
    """
    table = numpy.asarray(joint, dtype=numpy.float64)
    if table.ndim != 2:
        raise ShapeError(f"expected a table (values of x, values of y), got shape {table.shape}")
    if not (numpy.isfinite(table).all() and (table >= 0).all() and table.sum() > 0):
        raise DataError("expected probabilities or counts: finite, none negative, and not all zero")
    table = table / table.max()  # first, so that the sum of huge counts is finite
    table = table / table.sum()
    return max(0.0, float(rel_entr(table, numpy.outer(table.sum(axis=1), table.sum(axis=0))).sum()))


def gaussian_information(covariance: Any, x_features: int) -> float:
    """I(X;Y) in nats of a jointly Gaussian (X, Y): ½ log det Σ_x det Σ_y / det Σ.

    Args:
        covariance: (features, features) of x and y together, x first.
        x_features: the number of features of x.

    >>> round(gaussian_information([[1.0, 0.8], [0.8, 1.0]], 1), 4)  # −½ log(1 − 0.8²)
    0.5108
    """
    whole = numpy.asarray(covariance, dtype=numpy.float64)
    if whole.ndim != 2 or whole.shape[0] != whole.shape[1] or not 0 < x_features < len(whole):
        raise ShapeError(f"expected a square matrix and 0 < x_features < its size, got {whole.shape} and {x_features}")
    scale = numpy.sqrt(numpy.diag(whole))
    if not (numpy.isfinite(whole).all() and numpy.allclose(whole, whole.T) and (numpy.diag(whole) > 0).all()):
        raise DataError("expected a covariance matrix: finite, symmetric, and with a positive diagonal")
    correlation = whole / numpy.outer(scale, scale)
    blocks = (correlation[:x_features, :x_features], correlation[x_features:, x_features:], correlation)
    signs, logarithms = zip(*(numpy.linalg.slogdet(block) for block in blocks), strict=True)
    if min(signs) <= 0:
        raise DataError("expected a positive definite covariance; otherwise the information is infinite or undefined")
    return max(0.0, 0.5 * float(logarithms[0] + logarithms[1] - logarithms[2]))


def ksg_information(x: Any, y: Any, *, neighbors: int = 3) -> float:
    """I(X;Y) in nats from k nearest neighbours, in few dimensions (Kraskov, Stögbauer and Grassberger 2004).

    The bias is small up to about five dimensions and grows quickly after that. Each column is scaled to unit variance,
    and copied samples count once. The method assumes that there are no ties, so noise of 1e-8 standard deviations
    breaks them, as its authors advise; this does not change the information of integers, rounded numbers and mixtures.
    For a finite alphabet, `discrete_information` of the counts is better.

    Args:
        x, y: (samples, ...) numbers or booleans.
        neighbors: k; more lowers the variance and raises the bias.
    """
    x_columns, y_columns = as_sample_pair(x, y, neighbors + 2)
    if neighbors < 1:
        raise DataError(f"expected at least 1 neighbor, got {neighbors}")
    if is_constant(x_columns) or is_constant(y_columns):
        return 0.0
    kept = first_copies(x_columns, y_columns)
    if len(kept) < neighbors + 2:
        raise DataError(f"expected at least {neighbors + 2} different samples, got {len(kept)}; collect more")
    random = numpy.random.default_rng(_NOISE_SEED)
    sides = [_standardize(columns[kept], random) for columns in (x_columns, y_columns)]
    both = numpy.concatenate(sides, axis=1)
    radius = NearestNeighbors(n_neighbors=neighbors, metric="chebyshev").fit(both).kneighbors()[0][:, -1]
    closer = numpy.nextafter(radius, 0)  # KSG counts those strictly closer than the k-th
    near = [KDTree(side, metric="chebyshev").query_radius(side, closer, count_only=True) for side in sides]
    total = digamma(neighbors) + digamma(len(both)) - sum(digamma(count).mean() for count in near)
    return max(0.0, float(total))


def _standardize(columns: numpy.ndarray, random: numpy.random.Generator) -> numpy.ndarray:
    """Columns of unit variance, without constant columns, and with a little noise on those with ties."""
    columns = columns[:, (columns != columns[0]).any(axis=0)]
    columns = columns / numpy.abs(columns).max(axis=0)  # first, since the squares of huge numbers are infinite
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    has_ties = [len(numpy.unique(column)) < len(column) for column in columns.T]
    return columns + numpy.where(has_ties, _TIE_BREAKING_NOISE, 0.0) * random.standard_normal(columns.shape)
