"""How a sentence becomes words. Importing this module does not import torch."""

import functools
import re
import unicodedata
from collections.abc import Callable

from agrlearn.errors import look_up

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
