"""Long codes for the binary symmetric source: X a fair bit, Y = X flipped with probability p.

A code that reproduces a bit of X wrongly with probability q, whatever the codeword, has the distortion
h(p ⋆ q) − h(p), with p ⋆ q = p + q − 2pq. If q varies with the codeword or the place, the distortion of the mean q is
an upper bound, since h is concave.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from agrlearn.errors import TheoryError
from agrlearn.theory.codes import Indices
from agrlearn.theory.distributions import Array, Unit, nats_per, rate_in_nats
from agrlearn.theory.measures import binary_entropy


@dataclass(frozen=True)
class BinaryCode:
    """A code and its distortion.

    rate: in `unit` per bit of X.
    flip: the mean probability q of a wrong bit.
    flip_error: its standard error, 0 if q is exact.
    distortion: h(p ⋆ q) − h(p), in `unit`.
    """

    name: str
    length: int
    rate: float
    flip: float
    flip_error: float
    distortion: float
    unit: Unit


def flip_distortion(flip: float, noise: float, *, unit: Unit = "bits") -> float:
    """h(p ⋆ q) − h(p): the distortion of reproducing X with flips of probability q, where Y is X with noise p.

    >>> round(flip_distortion(1 / 16, noise=0.1), 6)
    0.140845
    """
    if not 0 <= noise <= 0.5:
        raise TheoryError(f"expected a noise p between 0 and ½, got {noise}")
    mixed = noise + flip - 2 * noise * flip
    return float(binary_entropy(mixed, unit=unit) - binary_entropy(noise, unit=unit))


def binary_limit(rate: float, noise: float, *, unit: Unit = "bits") -> float:
    """D(R) = h(p ⋆ h⁻¹(1 − R)) − h(p) in closed form (Mrs. Gerber's lemma; Wyner and Ziv 1973).

    >>> round(binary_limit(0.5, noise=0.1), 6)
    0.22832
    """
    bits = rate_in_nats(rate, unit) / math.log(2)
    return flip_distortion(inverse_binary_entropy(max(0.0, 1 - bits)), noise, unit=unit)


def inverse_binary_entropy(bits: float) -> float:
    """h⁻¹ on [0, ½].

    >>> round(inverse_binary_entropy(0.5), 6)
    0.110028
    """
    if not 0 <= bits <= 1:
        raise TheoryError(f"expected an entropy between 0 and 1 bits, got {bits}")
    if bits in (0, 1):
        return bits / 2
    return float(brentq(lambda q: float(binary_entropy(q)) - bits, 0.0, 0.5, xtol=1e-16))


def perfect_code(name: str, noise: float, *, unit: Unit = "bits") -> BinaryCode:
    """A Hamming code or the Golay code as a quantizer: each word goes to the only codeword within its radius. Exact.

    Args:
        name: "hamming-7", "hamming-15", "hamming-31", … (length 2^r − 1, radius 1), or "golay-23" (radius 3).

    >>> code = perfect_code("hamming-15", noise=0.1)
    >>> round(code.rate, 6), round(code.distortion, 6)
    (0.733333, 0.140845)
    """
    family, _, number = name.partition("-")
    length = int(number) if number.isdecimal() else 0
    if family == "hamming" and length >= 3 and (length + 1).bit_count() == 1:
        radius = 1
    elif name == "golay-23":
        radius = 3
    else:
        raise TheoryError(f"expected hamming-N with N = 3, 7, 15, 31, … or golay-23, got {name!r}")
    sphere = [math.comb(length, weight) for weight in range(radius + 1)]
    # By symmetry, the distance of a word to its codeword is distributed as the weights in a sphere.
    flip = sum(weight * count for weight, count in enumerate(sphere)) / (length * sum(sphere))
    rate = 1 - math.log2(sum(sphere)) / length
    return _code(name, length, rate, flip, 0.0, noise, unit)


def convolutional_code(
    noise: float,
    *,
    length: int = 1000,
    generators: tuple[int, int] = (0o561, 0o753),
    trials: int = 200,
    seed: int = 0,
    unit: Unit = "bits",
) -> BinaryCode:
    """A convolutional code of rate ½ as a quantizer; the Viterbi algorithm measures its flips on random words.

    Args:
        length: bits per word, even; a codeword ends in the state it starts in (tail-biting), so the rate is exactly ½.
        generators: two polynomials in octal, by default those of 256 states with the largest free distance.
        trials: the number of random words.

    >>> code = convolutional_code(0.1, length=100, generators=(0o5, 0o7), trials=20)
    >>> code.rate, 0.1 < code.flip < 0.2
    (0.5, True)
    """
    memory = max(generators).bit_length() - 1
    if length < 2 or length % 2 or trials < 2 or memory < 1:
        raise TheoryError(
            f"expected an even length, at least 2 trials and generators of at least 2 bits, got length={length}, "
            f"trials={trials} and generators={generators}"
        )
    words = np.random.default_rng(seed).integers(0, 2, size=(trials, length))
    flips = tail_biting_distances(words, generators) / length
    error = float(flips.std(ddof=1) / math.sqrt(trials))
    return _code(f"convolutional-{2**memory}", length, 0.5, float(flips.mean()), error, noise, unit)


def tail_biting_distances(words: np.ndarray, generators: tuple[int, int]) -> np.ndarray:
    """The distance of each word to a nearby codeword that ends in the state it starts in: (words, length) → (words,).

    The state comes from the nearest path through the word with its halves swapped, so that the seam is in the middle.
    The nearest path through the word itself from that state back to it gives the distance.
    """
    half = words.shape[1] // 4 * 2
    free = np.zeros((len(words), 2 ** (max(generators).bit_length() - 1)), dtype=np.int32)
    distances, states = _viterbi(np.roll(words, -half, axis=1), generators, free, mark=words.shape[1] - half)
    rows = np.arange(len(words))
    seam = states[rows, distances.argmin(axis=1)]
    tied = np.full_like(free, 2 * words.shape[1])
    tied[rows, seam] = 0
    return np.asarray(_viterbi(words, generators, tied, mark=0)[0][rows, seam])


def _viterbi(
    words: np.ndarray, generators: tuple[int, int], start: np.ndarray, mark: int
) -> tuple[np.ndarray, np.ndarray]:
    """The least distance of a path into every final state, and the state of that path after `mark` bits.

    Args:
        words: (words, length) bits.
        start: (words, states) the initial distance of a path that starts in each state.
    """
    # A register is the new bit above the old state's bits; shifted down, two registers become each new state.
    registers = np.arange(start.shape[1] * 2).reshape(-1, 2)
    first, second = (np.bitwise_count(registers & generator) & 1 for generator in generators)
    wrong = np.stack([(first != bit) + np.int32(second != other) for bit in (0, 1) for other in (0, 1)])
    even, odd = registers.T % start.shape[1]
    states = np.broadcast_to(np.arange(start.shape[1]), start.shape)
    distances, marked = start, states
    for place in range(0, words.shape[1], 2):
        if place == mark:
            marked = states
        added = wrong[2 * words[:, place] + words[:, place + 1]]
        by_even, by_odd = distances[:, even] + added[..., 0], distances[:, odd] + added[..., 1]
        marked = np.where(by_even <= by_odd, marked[:, even], marked[:, odd])
        distances = np.minimum(by_even, by_odd)
    return distances, marked


def random_codebook(length: int, rate: float, noise: float, *, unit: Unit = "bits") -> BinaryCode:
    """2^{nR} random words, each x^n sent to the nearest: the exact mean of the flips over all codebooks.

    Args:
        rate: R, in `unit` per bit.

    >>> [round(random_codebook(n, 0.5, noise=0.1).distortion, 4) for n in (10, 100, 1000)]
    [0.3384, 0.2479, 0.2312]
    """
    log_words = _log_words(length, rate, unit)
    # E d = Σ_k P(d > k), and d > k if each of the 2^{nR} independent words is farther than k.
    near = np.logaddexp.accumulate(_log_binomial(np.arange(length), np.array(length)))
    flip = float(_all_miss(near, log_words).sum() / length)
    return _code("random", length, log_words / length / math.log(2), flip, 0.0, noise, unit)


def typicality_failure(length: int, rate: float, flip: float, epsilon: float, *, unit: Unit = "bits") -> float:
    """The exact probability that joint-typicality encoding, as in the proof of Theorem 1, finds no codeword.

    The 2^{nR} codewords t^n are random; (x^n, t^n) is typical if every pair of letters occurs n·p(x, t) times up to a
    factor 1 ± ε, where p(x, t) is a binary symmetric test channel. The mean over all codebooks, by counting types.

    Args:
        flip: q of the test channel, whose I(X;T) is 1 − h(q) bits.
        epsilon: ε, between 0 and 1.

    >>> [round(typicality_failure(n, 0.6, 0.110028, 0.1), 3) for n in (50, 500, 5000)]
    [0.674, 0.028, 0.0]
    """
    if not 0 < flip < 0.5 or not 0 < epsilon < 1:
        raise TheoryError(f"expected a flip in (0, ½) and an epsilon in (0, 1), got {flip} and {epsilon}")
    log_words = _log_words(length, rate, unit)
    ones = np.arange(length + 1)
    typical = _log_typical(ones, length, flip, epsilon) + _log_typical(length - ones, length, flip, epsilon)
    return float(np.exp(_log_binomial(ones, np.array(length))) @ _all_miss(typical, log_words))


def _log_typical(count: Indices, length: int, flip: float, epsilon: float) -> Array:
    """The log probability that, at `count` places with one letter of X, each letter of T occurs as often as typical."""
    rounding = 1e-9
    least = [math.ceil(length * p / 2 * (1 - epsilon) - rounding) for p in (flip, 1 - flip)]
    most = [math.floor(length * p / 2 * (1 + epsilon) + rounding) for p in (flip, 1 - flip)]
    low, high = np.maximum(least[0], count - most[1]), np.minimum(most[0], count - least[1])
    window = low[:, None] + np.arange(max(0, most[0] - least[0]) + 1)
    inside = (window <= high[:, None]) & (window <= count[:, None])
    # Logarithms, since the probabilities are of the order 2^{-n·I(X;T)}.
    terms = np.where(inside, _log_binomial(np.where(inside, window, 0), count[:, None]), -np.inf)
    return np.asarray(np.logaddexp.reduce(terms, axis=1))


def _log_binomial(hits: Indices, throws: Indices) -> Array:
    """The log probability of `hits` heads in `throws` of a fair coin (scipy.stats.binom is slow to import)."""
    ways = gammaln(throws + 1) - gammaln(hits + 1) - gammaln(throws - hits + 1)
    return np.asarray(ways - throws * math.log(2))


def _all_miss(log_chance: Array, log_words: float) -> Array:
    """(1 − chance)^words, both from their logarithms."""
    with np.errstate(divide="ignore"):
        # log(−log(1 − chance)), which is log chance where that is small.
        rate = np.where(log_chance < -20, log_chance, np.log(-np.log1p(-np.exp(np.minimum(log_chance, 0.0)))))
    return np.exp(-np.exp(np.minimum(log_words + rate, 700.0)))


def _log_words(length: int, rate: float, unit: Unit) -> float:
    if length < 1:
        raise TheoryError(f"expected a length of at least 1, got {length}")
    return length * rate_in_nats(rate, unit)


def _code(name: str, length: int, bits: float, flip: float, error: float, noise: float, unit: Unit) -> BinaryCode:
    rate = bits * math.log(2) / nats_per(unit)
    return BinaryCode(name, length, rate, flip, error, flip_distortion(flip, noise, unit=unit), unit)
