"""The design of IB-quantization codes, and how their distortion falls with their length.

For a given encoder the best decoder passes the index on, so designing a code means clustering the vectors
(p(·|x_1), …, p(·|x_n)) of all words under KL.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from agrlearn.errors import TheoryError
from agrlearn.theory.clustering import cluster_by_exchange, cluster_exactly
from agrlearn.theory.codes import IBCode, Indices, check_words, product_code, word_laws, word_probabilities
from agrlearn.theory.curve import distortion_ibq
from agrlearn.theory.distributions import Array, Unit, joint_table, rate_in_nats

Method = Literal["auto", "exact", "exchange"]

EXACT_WORDS = 16
"""The most words for which the search is exact; its time grows as 3^words."""

_MOST_WORK = 20_000_000
_EFFORT = 40_000


@dataclass(frozen=True)
class OperationalCurve:
    """Codes of one rate and growing length, and what to compare them with, all in `unit`.

    rate: R.
    codes: one per length.
    distortions: of the codes.
    time_sharing: the least distortion at rate R of alternating between two scalar codes.
    limit: the distortion of R_IBQ at R, which no code beats.
    """

    rate: float
    codes: tuple[IBCode, ...]
    distortions: tuple[float, ...]
    time_sharing: float
    limit: float
    unit: Unit


def design_code(
    p_xy: ArrayLike, rate: float, length: int = 1, *, method: Method = "auto", seed: int = 0, unit: Unit = "bits"
) -> IBCode:
    """The best code of a length and a rate: exact for up to 16 words x^n, else by exchange from many starts.

    A code of a multiple of a length is never worse than the code of that length, since the search starts from products
    of shorter codes.

    Args:
        p_xy: (letters of X, letters of Y).
        rate: R; the code has ⌊2^{nR}⌋ indices (R in bits), at most one per word.
        length: n.
        method: "exact", "exchange", or "auto": exact if possible.

    >>> p = np.array([0.95, 0.5, 0.05])
    >>> round(design_code(np.stack([p, 1 - p], axis=1) / 3, rate=1.0, length=2).distortion(), 6)
    0.13005
    """
    joint = joint_table(p_xy)
    nats = rate_in_nats(rate, unit)
    if method not in ("auto", "exact", "exchange"):
        raise TheoryError(f"expected method='auto', 'exact' or 'exchange', got {method!r}")
    return _design(joint, nats, length, method, seed, {})


def operational_curve(
    p_xy: ArrayLike, rate: float, n: int | Sequence[int] = 4, *, seed: int = 0, unit: Unit = "bits"
) -> OperationalCurve:
    """The best codes found of lengths n at one rate, with time-sharing of scalar codes and the limit R_IBQ.

    Args:
        p_xy: (letters of X, letters of Y).
        rate: R, in `unit` per letter.
        n: the lengths, or the largest of 1, 2, 3, ….

    >>> p = np.array([0.95, 0.5, 0.05])
    >>> curve = operational_curve(np.stack([p, 1 - p], axis=1) / 3, rate=1.0, n=2)
    >>> [round(d, 6) for d in curve.distortions], round(curve.limit, 6)
    ([0.1369, 0.13005], 0.100182)
    """
    joint = joint_table(p_xy)
    nats = rate_in_nats(rate, unit)
    lengths = range(1, int(n) + 1) if isinstance(n, int | np.integer) else n
    if not lengths:
        raise TheoryError(f"expected at least one length, got n={n}")
    for length in lengths:
        _count_indices(joint, nats, length)
    known: dict[int, IBCode] = {}
    codes = tuple(_design(joint, nats, length, "auto", seed, known) for length in lengths)
    return OperationalCurve(
        rate,
        codes,
        tuple(code.distortion(unit=unit) for code in codes),
        time_sharing_distortion(joint, rate, unit=unit),
        distortion_ibq(joint, rate, unit=unit),
        unit,
    )


def time_sharing_distortion(p_xy: ArrayLike, rate: float, *, unit: Unit = "bits") -> float:
    """The least distortion at a rate of alternating between two scalar codes, or of one code if that is best.

    >>> round(time_sharing_distortion([[0.45, 0.05], [0.05, 0.45]], 0.5), 6)
    0.265502
    """
    nats = rate_in_nats(rate, unit)
    points = [(code.rate(unit="nats"), code.distortion(unit=unit)) for code in scalar_codes(p_xy)]
    shared = [
        low + (high - low) * (nats - start) / (end - start)
        for start, low in points
        for end, high in points
        if start <= nats < end
    ]
    return min(shared + [distortion for start, distortion in points if start <= nats])


def scalar_codes(p_xy: ArrayLike) -> tuple[IBCode, ...]:
    """The best codes of length 1 with 1, 2, …, |X| indices.

    >>> [round(code.distortion(), 6) for code in scalar_codes([[0.45, 0.05], [0.05, 0.45]])]
    [0.531004, 0.0]
    """
    joint = joint_table(p_xy)
    return tuple(_design(joint, math.log(indices), 1, "auto", 0, {}) for indices in range(1, len(joint) + 1))


def small_alphabet_decoder(code: IBCode, letters: int) -> Indices:
    """The decoder for an alphabet of T that is smaller than the number of indices: similar p(y_i|index) share a letter.

    Args:
        letters: |T|.
    Returns:
        (indices, n), for `with_decoder`.

    >>> code = design_code([[0.45, 0.05], [0.05, 0.45]], rate=1.0, length=2)
    >>> small_alphabet_decoder(code, 2).shape
    (4, 2)
    """
    if letters < 1:
        raise TheoryError(f"expected an alphabet of T of at least 1 letter, got {letters}")
    words = _words_as_points(code.p_xy, code.length)
    points = np.zeros((code.indices, *words.shape[1:]))
    np.add.at(points, code.encoder, words)
    places = [_cluster(points[:, [place]], letters, [], "auto", 0) for place in range(code.length)]
    return np.stack(places, axis=1)


def _design(joint: Array, nats: float, length: int, method: Method, seed: int, known: dict[int, IBCode]) -> IBCode:
    """`design_code` after its checks; `known` keeps the codes of shorter lengths."""
    if length not in known:
        indices = _count_indices(joint, nats, length)
        is_exact = len(joint) ** length <= EXACT_WORDS and method != "exchange"
        starts = [
            product_code(*(_design(joint, nats, part, "auto", seed, known) for part in (first, length - first))).encoder
            for first in (() if is_exact else range(1, length // 2 + 1))
        ]
        labels = _cluster(_words_as_points(joint, length), indices, starts, method, seed)
        known[length] = IBCode(joint, length, labels)
    return known[length]


def _words_as_points(joint: Array, length: int) -> Array:
    """Every word's probability times its laws: (words, n, letters of Y)."""
    return word_probabilities(joint, length)[:, None, None] * word_laws(joint, length)


def _cluster(points: Array, clusters: int, starts: list[Indices], method: Method, seed: int) -> Indices:
    if clusters >= len(points):
        return np.arange(len(points))
    if method == "exact" and len(points) > EXACT_WORDS:
        raise TheoryError(
            f"expected at most {EXACT_WORDS} words for an exact search, got {len(points)}, which would take too long; "
            'use method="exchange" or a smaller n'
        )
    if method != "exchange" and len(points) <= EXACT_WORDS:
        return cluster_exactly(points, clusters)
    tries = min(10 * len(points), max(5, round(_EFFORT / math.sqrt(points.size * clusters))))
    return cluster_by_exchange(points, clusters, starts, np.random.default_rng(seed), tries)


def _count_indices(joint: Array, nats: float, length: int) -> int:
    """⌊e^{nR}⌋, at most one per word; refuses a search that would take too long."""
    check_words(len(joint), length)
    words = len(joint) ** length
    # The factor makes rates such as log 3 give 3 in spite of rounding.
    indices = words if length * nats >= math.log(words) else math.floor(math.exp(length * nats) * (1 + 1e-12))
    work = words * indices * length * joint.shape[1]
    if work > _MOST_WORK:
        raise TheoryError(
            f"expected words times indices times n times |Y| of at most {_MOST_WORK}, got {work} for n = {length}; "
            "choose a smaller n or rate"
        )
    return indices
