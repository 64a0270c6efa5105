"""Sentences become tokens: words by number, 0 for padding and 1 for words that training did not see."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agrlearn.errors import DataError

PADDING, UNKNOWN = 0, 1
_FIRST_WORD = 2

_CLEANING = [
    (re.compile(r"[^A-Za-z0-9(),!?'`]"), " "),
    *((re.compile(ending), " " + ending) for ending in ("'s", "'ve", "n't", "'re", "'d", "'ll")),
    *((re.compile(re.escape(mark)), f" {mark} ") for mark in ",!()?"),
    (re.compile(r"\s{2,}"), " "),
]


def clean(sentence: str) -> str:
    """Kim's cleaning of English text (2014): lower case, punctuation and clitics as words of their own.

    >>> clean("It's great, isn't it?")
    "it 's great , is n't it ?"
    """
    for pattern, replacement in _CLEANING:
        sentence = pattern.sub(replacement, sentence)
    return sentence.strip().lower()


def split_words(sentence: str) -> list[str]:
    """The default tokenizer: cleaned words."""
    return clean(sentence).split()


@dataclass(frozen=True)
class Vocabulary:
    """The words of the training sentences, and the length to which sentences are padded or cut.

    >>> words = Vocabulary.of(["a good film", "a film"])
    >>> words.encode(["a bad film"])
    tensor([[2, 1, 3]])
    """

    words: tuple[str, ...]
    length: int

    @staticmethod
    def of(sentences: Iterable[str], tokenize: Callable[[str], list[str]] = split_words) -> "Vocabulary":
        """The words that occur, most frequent first, and the longest sentence's length."""
        counts: Counter[str] = Counter()
        longest = 0
        for sentence in sentences:
            words = tokenize(sentence)
            counts.update(words)
            longest = max(longest, len(words))
        if longest == 0:
            raise DataError("the sentences hold no words; expected text")
        return Vocabulary(tuple(word for word, _ in counts.most_common()), longest)

    @property
    def size(self) -> int:
        """How many different tokens there are, padding and unknown words included."""
        return len(self.words) + _FIRST_WORD

    def encode(self, sentences: Sequence[str], tokenize: Callable[[str], list[str]] = split_words) -> Tensor:
        """(sentences, length) tokens; longer sentences are cut."""
        numbers = {word: number for number, word in enumerate(self.words, start=_FIRST_WORD)}
        tokens = torch.zeros(len(sentences), self.length, dtype=torch.int64)
        for row, sentence in enumerate(sentences):
            # An empty sentence keeps one unknown word, so that no row is padding alone.
            found = [numbers.get(word, UNKNOWN) for word in tokenize(sentence)[: self.length]] or [UNKNOWN]
            tokens[row, : len(found)] = torch.tensor(found)
        return tokens
