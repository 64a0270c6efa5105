"""Sentences become tokens: words by number, 0 for padding and 1 for words that training did not see."""

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from agrlearn.errors import DataError, look_up

PADDING, UNKNOWN = 0, 1
_FIRST_WORD = 2

_MARKS = "(),!?'`"  # the punctuation that Kim keeps
_NOT_ENGLISH = re.compile(rf"[^A-Za-z0-9{_MARKS}]")
_CUTS = [
    *((re.compile(ending), " " + ending) for ending in ("'s", "'ve", "n't", "'re", "'d", "'ll")),
    *((re.compile(re.escape(mark)), f" {mark} ") for mark in ",!()?"),
    (re.compile(r"\s{2,}"), " "),
]


def clean(sentence: str) -> str:
    """Kim's cleaning of English text (2014): lower case, punctuation and clitics as words of their own.

    >>> clean("It's great, isn't it?")
    "it 's great , is n't it ?"
    """
    return _cut(_NOT_ENGLISH.sub(" ", sentence))


def clean_any_script(sentence: str) -> str:
    """Kim's cleaning for every script: ASCII text becomes the same words, letters and digits of other scripts stay.

    Emoji and other pictorial symbols become words of their own, without their skin tones. A typographic apostrophe is
    an apostrophe, and an accent that is a character of its own is the accented letter.

    >>> clean_any_script("Очень хороший, isn’t it? 👍🏽")
    "очень хороший , is n't it ? 👍"
    """
    return _cut("".join(map(_in_any_script, unicodedata.normalize("NFC", sentence.replace("’", "'")))))


@functools.cache
def _in_any_script(character: str) -> str:
    kind = unicodedata.category(character)
    # Joiners, direction marks and variation selectors occur within words; the zero-width space separates words.
    if (kind == "Cf" and character != "\u200b") or "\ufe00" <= character <= "\ufe0f":
        return ""
    if kind[0] in "LMN" or character in _MARKS:
        return character
    return f" {character} " if kind == "So" else " "


def _cut(sentence: str) -> str:
    for pattern, replacement in _CUTS:
        sentence = pattern.sub(replacement, sentence)
    return sentence.strip().lower()


CLEANINGS: dict[str, Callable[[str], str]] = {"kim": clean, "any-script": clean_any_script}
"""Cleanings by name: Kim's for the sets that he published results on, the other for all other sentences."""


def split_words(sentence: str, cleaning: str = "any-script") -> list[str]:
    """The default tokenizer: words after `cleaning`, a name in `CLEANINGS`."""
    return look_up(CLEANINGS, cleaning, "cleaning")(sentence).split()


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
