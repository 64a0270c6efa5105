"""IB-quantization codes (f_n, g_n): a word of n letters of X becomes one index, and the index n letters of T."""

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr

from agrlearn.errors import TheoryError
from agrlearn.theory.distributions import Array, Unit, conditional_law, joint_table, nats_per

Indices = NDArray[np.int64]

_MOST_WORDS = 70_000


@dataclass(frozen=True)
class IBCode:
    """A code of length n for the source p(x, y).

    p_xy: (letters of X, letters of Y).
    length: n.
    encoder: (|X|^n,) the index f_n(x^n) of every word, in the order of `words`.
    decoder: (indices, n) the letters t_i of g_n(index). None passes the index on in every place (t_i = index); no
        decoder is better, since the index determines t_i.

    >>> code = IBCode(np.array([[0.45, 0.05], [0.05, 0.45]]), 2, np.array([0, 0, 1, 1]))
    >>> code.rate(), round(code.distortion(), 6)
    (0.5, 0.265502)
    """

    p_xy: Array
    length: int
    encoder: Indices
    decoder: Indices | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "p_xy", joint_table(self.p_xy))
        check_words(len(self.p_xy), self.length)
        encoder = _whole_numbers(self.encoder, "an encoder")
        count = len(self.p_xy) ** self.length
        if encoder.shape != (count,):
            raise TheoryError(f"expected an encoder with an index for each of {count} words, got shape {encoder.shape}")
        object.__setattr__(self, "encoder", encoder)
        if self.decoder is not None:
            decoder = _whole_numbers(self.decoder, "a decoder")
            if decoder.ndim != 2 or len(decoder) <= encoder.max() or decoder.shape[1] != self.length:
                raise TheoryError(
                    f"expected a decoder of shape (indices, {self.length}) with more than {encoder.max()} indices, got "
                    f"{decoder.shape}"
                )
            object.__setattr__(self, "decoder", decoder)

    @property
    def indices(self) -> int:
        """The number of indices."""
        return len(self.decoder) if self.decoder is not None else int(self.encoder.max()) + 1

    def rate(self, *, unit: Unit = "bits") -> float:
        """log(indices)/n per letter."""
        return math.log(self.indices) / self.length / nats_per(unit)

    def distortion(self, *, unit: Unit = "bits") -> float:
        """The mean over i of E KL(p(·|x_i) ‖ p(·|t_i)), exact, with the p(y_i|t_i) that follows from the code."""
        p, laws = word_probabilities(self.p_xy, self.length), word_laws(self.p_xy, self.length)
        total = 0.0
        for place in range(self.length):
            law = laws[:, place]
            t = self.encoder if self.decoder is None else self.decoder[self.encoder, place]
            joint = np.zeros((int(t.max()) + 1, law.shape[1]))
            np.add.at(joint, t, p[:, None] * law)
            divergence = rel_entr(law, conditional_law(joint)[t]).sum(axis=1)
            total += float((p * np.where(p > 0, divergence, 0.0)).sum())
        return total / self.length / nats_per(unit)


def words(letters: int, length: int) -> Indices:
    """All words x^n in counting order, the last place fastest: (letters^n, n).

    >>> words(2, 2).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    return np.indices((letters,) * length).reshape(length, -1).T.astype(np.int64)


def word_probabilities(p_xy: Array, length: int) -> Array:
    """p(x^n) of independent letters, in the order of `words`: (letters^n,)."""
    return functools.reduce(np.kron, [p_xy.sum(axis=1)] * length)


def word_laws(p_xy: Array, length: int) -> Array:
    """The vectors (p(·|x_1), …, p(·|x_n)) that code design clusters: (letters^n, n, letters of Y)."""
    return conditional_law(p_xy)[words(len(p_xy), length)]


def product_code(first: IBCode, second: IBCode) -> IBCode:
    """The code that uses `first` for the first places and `second` for the rest, and passes the index on.

    >>> scalar = IBCode(np.array([[0.45, 0.05], [0.05, 0.45]]), 1, np.array([0, 1]))
    >>> product_code(scalar, scalar).encoder.tolist()
    [0, 1, 2, 3]
    """
    encoder = (first.encoder[:, None] * second.indices + second.encoder).ravel()
    return IBCode(first.p_xy, first.length + second.length, encoder)


def with_decoder(code: IBCode, decoder: ArrayLike | None) -> IBCode:
    """The same encoder with another decoder: None to pass the index on, or letters t_i as (indices, n).

    >>> code = IBCode(np.array([[0.45, 0.05], [0.05, 0.45]]), 1, np.array([0, 1]))
    >>> round(with_decoder(code, [[0], [0]]).distortion(), 6)
    0.531004
    """
    return replace(code, decoder=None if decoder is None else _whole_numbers(decoder, "a decoder"))


def check_words(letters: int, length: int) -> None:
    """Refuse a length with too many words to list."""
    if length < 1:
        raise TheoryError(f"expected a length n of at least 1, got {length}")
    if length * math.log(letters) > math.log(_MOST_WORDS):
        raise TheoryError(f"expected at most {_MOST_WORDS} words x^n, got {letters}^{length}; choose a smaller n")


def _whole_numbers(values: ArrayLike, what: str) -> Indices:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.size == 0 or array.min() < 0:
        raise TheoryError(f"expected {what} made of whole numbers from 0, got {values!r:.60}")
    return array.astype(np.int64)
