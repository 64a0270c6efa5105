"""Movie Review and Subjectivity (Pang and Lee 2005, 2004): two files of sentences each, one for each class."""

from dataclasses import dataclass
from pathlib import Path

import numpy
import torch

from agrlearn.data.archives import Archive, read_archive
from agrlearn.data.sources import Part, Source
from agrlearn.data.text import Vocabulary
from agrlearn.seeding import generator


@dataclass(frozen=True)
class SentenceSet:
    """A data set of sentences in one file for each class."""

    name: str
    archive: Archive
    classes: dict[str, str]
    """Each class's name, and its file in the archive."""


MOVIE_REVIEW = SentenceSet(
    "movie-review",
    Archive(
        "https://www.cs.cornell.edu/people/pabo/movie-review-data/rt-polaritydata.tar.gz",
        "rt-polaritydata",
        {
            "rt-polarity.neg": "sha256:4ace77d558c3714723843f1d65b60c01e3417b208180f0728808d76ad0eeeaca",
            "rt-polarity.pos": "sha256:2da124ec187a9d5a29c9f04e91c540e02baed5af8868f550a26bd6fd4dbf8bf0",
        },
    ),
    {"negative": "rt-polarity.neg", "positive": "rt-polarity.pos"},
)

SUBJECTIVITY = SentenceSet(
    "subjectivity",
    Archive(
        "https://www.cs.cornell.edu/people/pabo/movie-review-data/rotten_imdb.tar.gz",
        "rotten_imdb",
        {
            "plot.tok.gt9.5000": "sha256:5ddc9b44dc60d64d651347fcd7bdd489b0c70661e3f768215c16eea36f51204a",
            "quote.tok.gt9.5000": "sha256:73a2dcf8dc3cbcc7f068a70ef9f021c86b2a8e4dac81566b7fd015b3e938f2c5",
        },
    ),
    {"objective": "plot.tok.gt9.5000", "subjective": "quote.tok.gt9.5000"},
)


def movie_review(folder: Path) -> Source:
    """10,662 sentences of film reviews, positive or negative; a tenth to test on."""
    return read_sentence_set(MOVIE_REVIEW, folder)


def subjectivity(folder: Path) -> Source:
    """10,000 sentences about films, subjective or objective; a tenth to test on."""
    return read_sentence_set(SUBJECTIVITY, folder)


def read_sentence_set(about: SentenceSet, folder: Path, *, split_seed: int = 0) -> Source:
    """Read the sentences with Kim's cleaning; the vocabulary is that of all sentences, as in his code."""
    sentences: list[str] = []
    labels: list[str] = []
    contents = read_archive(about.archive, folder)
    for label, file in about.classes.items():
        # The files are Latin-1 and hold other line ends than \n within sentences.
        found = contents[file].decode("latin-1").removesuffix("\n").split("\n")
        sentences += found
        labels += [label] * len(found)
    words = Vocabulary.of(sentences, cleaning="kim")
    tokens, names = words.encode(sentences), numpy.array(labels)
    order = torch.randperm(len(tokens), generator=generator(split_seed))
    held_out = round(0.1 * len(tokens))  # a tenth, as in the paper
    test, train = order[:held_out], order[held_out:]
    return Source(
        about.name,
        Part(tokens[train], names[train]),
        Part(tokens[test], names[test]),
        tuple(about.classes),
        preparation=words.preparation("text", "label"),
    )
