"""How a column of words or texts becomes features: which words are there."""

import functools
from collections import Counter
from typing import Annotated, Any, Literal

import numpy
from pydantic import Field, model_validator

from agrlearn.data.cells import as_word
from agrlearn.data.cleaning import split_words
from agrlearn.data.columns import BaseColumn, Cells

MOST_VALUES = 64
"""A column of words with more different ones has only its frequent ones told apart."""
_MOST_WORDS_OF_TEXT = 128
# One hashed place for so many rows, but no more than this. On validation parts of reviews (1,500 rows) and of a table
# whose rare words mean nothing (450), it cost no error, and the likelihood was far better than with 32 places for all.
_ROWS_PER_PLACE, _MOST_HASHED_PLACES = 100, 32
_LONGEST_WORD = 1000
_BITS = 0xFFFFFFFF


class Words(BaseColumn):
    """Words by presence: a place for each frequent one, and shared places for the rare and the new ones."""

    kind: Literal["words"] = "words"
    words: Annotated[list[Annotated[str, Field(max_length=_LONGEST_WORD)]], Field(max_length=256)]
    others: Annotated[int, Field(ge=0, le=256)]
    """Places that all other words share: none if there were none in training."""
    text: bool
    """Whether a cell is a text of several words, not one word."""

    @staticmethod
    def learn(column: str, cells: Cells, *, text: bool = False) -> "Words":
        counts = Counter(word for cell in cells for word in set(_tokens(cell, text)))
        # Fewer rows than this cannot tell a word's effect from chance.
        least = min(10, max(2, len(cells) // 200))
        most = _MOST_WORDS_OF_TEXT if text else MOST_VALUES
        # Sorted first: words that are equally frequent do not depend on the order of the rows.
        ranked = Counter(dict(sorted(counts.items()))).most_common(most)
        kept = [word for word, count in ranked if count >= least and len(word) <= _LONGEST_WORD]
        rest = len(counts) - len(kept) - (not text and "" in counts and "" not in kept)
        hashed = min(_MOST_HASHED_PLACES, max(1, len(cells) // _ROWS_PER_PLACE))
        others = 0 if rest == 0 else hashed if text or len(counts) > MOST_VALUES else 1
        return Words(column=column, words=kept, others=others, text=text)

    @model_validator(mode="after")
    def _has_each_word_once(self) -> "Words":
        if len(set(self.words)) < len(self.words):
            raise ValueError("a word occurs twice")
        return self

    @property
    def width(self) -> int:
        return len(self.words) + self.others

    def check(self, cells: Cells) -> dict[int, str]:
        return {}

    def apply(self, cells: Cells) -> numpy.ndarray:
        places = {word: place for place, word in enumerate(self.words)}
        features = numpy.zeros((len(cells), self.width))
        for row, cell in enumerate(cells):
            for word in _tokens(cell, self.text):
                if word in places:
                    features[row, places[word]] = 1
                elif word and self.others:
                    features[row, len(self.words) + abs(murmur_hash(word)) % self.others] = 1
        return features

    def describe(self, cells: Cells) -> str:
        shown = ", ".join(word or "(empty)" for word in self.words[:4])
        listed = shown if len(self.words) <= 4 else f"{len(self.words)} frequent words" if self.text else (
            f"{len(self.words)} values ({shown}, …)"
        )  # fmt: skip
        rest = {0: "", 1: "one place for the others"}.get(self.others, f"{self.others} hashed places for the others")
        return "; ".join(filter(None, [listed, rest]))


@functools.lru_cache(maxsize=2**16)
def murmur_hash(word: str) -> int:
    """MurmurHash3 of the word in UTF-8, as a signed number of 32 bits: the hash of scikit-learn's FeatureHasher.

    >>> murmur_hash("word")
    -968174432
    """
    data = word.encode()
    blocks = len(data) // 4 * 4
    state = 0
    for start in range(0, blocks, 4):
        state ^= _scramble(int.from_bytes(data[start : start + 4], "little"))
        state = (_rotate(state, 13) * 5 + 0xE6546B64) & _BITS
    state ^= _scramble(int.from_bytes(data[blocks:], "little")) ^ len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        state = ((state ^ (state >> shift)) * factor) & _BITS
    return state - (1 << 32 if state >> 31 else 0)


def _scramble(block: int) -> int:
    return (_rotate((block * 0xCC9E2D51) & _BITS, 15) * 0x1B873593) & _BITS


def _rotate(value: int, places: int) -> int:
    return ((value << places) | (value >> (32 - places))) & _BITS


def _tokens(cell: Any, text: bool) -> list[str]:
    word = as_word(cell)
    return split_words(word) if text else [word]
