"""Movie Review and Subjectivity (Pang and Lee 2005, 2004): two files of sentences each, one for each class."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy
import torch

from agrlearn.data.sources import Part, Source
from agrlearn.data.text import Vocabulary
from agrlearn.errors import DataError
from agrlearn.seeding import generator

FOLDER_VARIABLE = "AGRLEARN_DATA"
"""The environment variable that names the folder of data sets as they are published."""
_DEFAULT_FOLDER = Path("~/.cache/agrlearn")
_TEST_SHARE = 0.1  # of the sentences, as in the paper


@dataclass(frozen=True)
class SentenceSet:
    """A data set of sentences in one file for each class, with the files' SHA-256."""

    name: str
    archive: str
    files: dict[str, tuple[str, str]]
    """Class name: (path in the data folder, SHA-256)."""


MOVIE_REVIEW = SentenceSet(
    "movie-review",
    "rt-polaritydata.tar.gz",
    {
        "negative": (
            "rt-polaritydata/rt-polarity.neg",
            "4ace77d558c3714723843f1d65b60c01e3417b208180f0728808d76ad0eeeaca",
        ),
        "positive": (
            "rt-polaritydata/rt-polarity.pos",
            "2da124ec187a9d5a29c9f04e91c540e02baed5af8868f550a26bd6fd4dbf8bf0",
        ),
    },
)

SUBJECTIVITY = SentenceSet(
    "subjectivity",
    "rotten_imdb.tar.gz",
    {
        "objective": (
            "rotten_imdb/plot.tok.gt9.5000",
            "5ddc9b44dc60d64d651347fcd7bdd489b0c70661e3f768215c16eea36f51204a",
        ),
        "subjective": (
            "rotten_imdb/quote.tok.gt9.5000",
            "73a2dcf8dc3cbcc7f068a70ef9f021c86b2a8e4dac81566b7fd015b3e938f2c5",
        ),
    },
)


def data_folder() -> Path:
    """Where published data sets are looked for: AGRLEARN_DATA, or a folder of the user's cache."""
    return Path(os.environ.get(FOLDER_VARIABLE) or _DEFAULT_FOLDER).expanduser()


def movie_review() -> Source:
    """10,662 sentences of film reviews, positive or negative, from the folder in AGRLEARN_DATA; a tenth to test on."""
    return read_sentence_set(MOVIE_REVIEW, data_folder())


def subjectivity() -> Source:
    """10,000 sentences, subjective or objective, from the folder in AGRLEARN_DATA; a tenth to test on."""
    return read_sentence_set(SUBJECTIVITY, data_folder())


def read_sentence_set(about: SentenceSet, folder: Path, *, split_seed: int = 0) -> Source:
    """The set's sentences with Kim's cleaning; the vocabulary is that of all sentences, as in his code."""
    sentences: list[str] = []
    labels: list[str] = []
    for label, (path, checksum) in about.files.items():
        found = _read_sentences(folder / path, checksum, about.archive)
        sentences += found
        labels += [label] * len(found)
    words = Vocabulary.of(sentences)
    tokens, names = words.encode(sentences), numpy.array(labels)
    order = torch.randperm(len(tokens), generator=generator(split_seed))
    held_out = round(_TEST_SHARE * len(tokens))
    test, train = order[:held_out], order[held_out:]
    return Source(
        about.name,
        Part(tokens[train], names[train]),
        Part(tokens[test], names[test]),
        tuple(about.files),
        preparation={
            "kind": "text", "text": "text", "label": "label", "words": list(words.words), "length": words.length,
        },
    )  # fmt: skip


def _read_sentences(file: Path, checksum: str, archive: str) -> list[str]:
    if not file.is_file():
        raise DataError(
            f"there is no {file}; unpack {archive} there, or set {FOLDER_VARIABLE} to the folder that holds it"
        )
    content = file.read_bytes()
    if hashlib.sha256(content).hexdigest() != checksum:
        raise DataError(f"{file} is not the published file (its SHA-256 differs); unpack {archive} again")
    # The files are Latin-1 and hold other line ends than \n within sentences.
    return content.decode("latin-1").removesuffix("\n").split("\n")
