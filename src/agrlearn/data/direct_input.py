"""Data that are not in a file: one sentence, or rows on standard input."""

import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from agrlearn.data.datasets import DATASETS
from agrlearn.data.images import ENDINGS
from agrlearn.data.sources import Names, Part, Source
from agrlearn.data.table_files import READERS, table_ending
from agrlearn.data.tables import read_table
from agrlearn.data.text import UNKNOWN, Vocabulary
from agrlearn.errors import DataError

_STANDARD_INPUT = "-"
_NAME = "standard input"
_START = 4096  # bytes
_BEFORE_JSON = b"\xef\xbb\xbf \t\r\n"


def read_direct_input(data: str, preparation: dict[str, Any], *, skip_bad: bool = False) -> Source | None:
    """The sentence that `data` is, or with - the rows on standard input; None if it is the name of some other data.

    Args:
        preparation: how the training data of a network became objects, as these shall.
        skip_bad: leave out rows that cannot be read.
    """
    if not data.strip():
        raise DataError("expected the name of a data set, a file, a folder or a sentence, got an empty text")
    if data == _STANDARD_INPUT:
        return _read_standard_input(preparation, skip_bad=skip_bad)
    if preparation.get("kind") == "text":
        words = Vocabulary.of_preparation(preparation)
        if is_sentence(data, words):
            return _read_sentence(data, words)
    return None


def is_sentence(text: str, words: Vocabulary) -> bool:
    """Whether a text that should name data is rather a sentence: several words, or known ones, and no path.

    >>> words = Vocabulary.of(["a fine film"])
    >>> [is_sentence(text, words) for text in ("a dull film", "fine", "digits", "films", "my films.csv", "a/film")]
    [True, True, False, False, False, False]
    """
    path = Path(text)
    try:
        exists = path.exists()
    except OSError:  # too long to be the name of a file
        exists = False
    if exists or text in DATASETS or table_ending(path) in READERS or path.suffix.lower() in {".npz", *ENDINGS}:
        return False
    return len(text.split()) > 1 or ("/" not in text and UNKNOWN not in words.encode([text]))


def _read_sentence(text: str, words: Vocabulary) -> Source:
    """One sentence, in the words of a network's training data."""
    tokens = words.encode([text])
    if int(tokens.max()) <= UNKNOWN:
        raise DataError(
            f"there is no file or folder {text!r}, and as a sentence it has no word that the network was trained on; "
            "give a file, or a sentence with some of those words"
        )
    return Source("the sentence", Part(tokens, names=Names("sentence", [text])), is_file=False, is_single=True)


def _read_standard_input(preparation: dict[str, Any], *, skip_bad: bool) -> Source:
    """The rows of a table, as in a .csv or a .jsonl file."""
    if preparation.get("kind") not in ("text", "table"):
        raise DataError(f"the network was not trained on a table, so it takes no rows on {_NAME}; give a file")
    stream = sys.stdin.buffer
    start = stream.read(_START)
    with tempfile.TemporaryDirectory() as folder:
        # The readers look at a file several times: for its encoding, its delimiter, and its rows.
        file = Path(folder) / ("rows.jsonl" if start.lstrip(_BEFORE_JSON).startswith(b"{") else "rows.csv")
        with file.open("wb") as copy:
            copy.write(start)
            shutil.copyfileobj(stream, copy)
        try:
            source = read_table(file, skip_bad=skip_bad, labels=False, preparation=preparation)
        except DataError as error:
            raise DataError(str(error).replace(str(file), _NAME)) from None
    return replace(source, name=_NAME, skip_bad=skip_bad, is_file=False)
