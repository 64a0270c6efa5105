"""Sentences become tokens: words by number, 0 for padding and 1 for words that training did not see."""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from agrlearn.data.cleaning import split_words
from agrlearn.errors import DataError

PADDING, UNKNOWN = 0, 1
_FIRST_WORD = 2


@dataclass(frozen=True)
class Vocabulary:
    """The words of the training sentences, the length to which sentences are padded or cut, and their cleaning.

    >>> words = Vocabulary.of(["a good film", "a film"])
    >>> words.encode(["a bad film"])
    tensor([[2, 1, 3]])
    """

    words: tuple[str, ...]
    length: int
    cleaning: str = "any-script"

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"cleaning": "kim", **state})  # earlier versions had only this cleaning

    @staticmethod
    def of(
        sentences: Iterable[str], tokenize: Callable[[str], list[str]] | None = None, *, cleaning: str = "any-script"
    ) -> "Vocabulary":
        """The words that occur, most frequent first, and the length of the longest sentence.

        Args:
            tokenize: splits a sentence into words; by default `split_words` with the cleaning.
            cleaning: a name in `CLEANINGS`.
        """
        tokenize = tokenize or functools.partial(split_words, cleaning=cleaning)
        counts: Counter[str] = Counter()
        longest = 0
        for words in map(tokenize, sentences):
            counts.update(words)
            longest = max(longest, len(words))
        if longest == 0:
            raise DataError("the sentences have no words; expected text")
        return Vocabulary(tuple(word for word, _ in counts.most_common()), longest, cleaning)

    @staticmethod
    def of_preparation(preparation: dict[str, Any]) -> "Vocabulary":
        """The vocabulary that `preparation()` described."""
        cleaning = preparation.get("cleaning", "kim")  # earlier versions did not write it
        return Vocabulary(tuple(preparation["words"]), preparation["length"], cleaning)

    @property
    def size(self) -> int:
        """The number of different tokens, including padding and unknown words."""
        return len(self.words) + _FIRST_WORD

    def preparation(self, text_column: str, label_column: str | None) -> dict[str, Any]:
        """What `Source.preparation` keeps of sentences that were encoded with this vocabulary."""
        return {
            "kind": "text", "text": text_column, "label": label_column, "words": list(self.words),
            "length": self.length, "cleaning": self.cleaning,
        }  # fmt: skip

    def encode(self, sentences: Sequence[str], tokenize: Callable[[str], list[str]] | None = None) -> Tensor:
        """(sentences, length) tokens; longer sentences are cut."""
        tokenize = tokenize or functools.partial(split_words, cleaning=self.cleaning)
        numbers = {word: number for number, word in enumerate(self.words, start=_FIRST_WORD)}
        tokens = torch.zeros(len(sentences), self.length, dtype=torch.int64)
        for row, sentence in enumerate(sentences):
            # An empty sentence keeps one unknown word, so that no row is padding alone.
            found = [numbers.get(word, UNKNOWN) for word in tokenize(sentence)[: self.length]] or [UNKNOWN]
            tokens[row, : len(found)] = torch.tensor(found)
        return tokens
