"""The paper's sets of sentences."""

import hashlib
import os

import pytest

from agrlearn.data.catalogue import open_source
from agrlearn.data.reviews import MOVIE_REVIEW, SentenceSet, read_sentence_set
from agrlearn.errors import DataError


@pytest.fixture
def small_set(tmp_path):
    """A set in the exact form of the published ones, with a line end of another kind within a sentence."""
    contents = {
        "bad": b"so dull , isn't it ?\nan empty\x85 plot\n" * 10,
        "good": b"a fine caf\xe9\nwarm and fine\n" * 5,
    }
    files = {}
    for label, content in contents.items():
        (tmp_path / label).write_bytes(content)
        files[label] = (label, hashlib.sha256(content).hexdigest())
    return SentenceSet("small", "small.tar.gz", files)


def test_sentences_are_split_at_line_feeds_alone_and_a_tenth_is_held_out(small_set, tmp_path):
    source = read_sentence_set(small_set, tmp_path)
    train, test = source.labelled(source.train), source.labelled(source.test)
    assert (len(train), len(test)) == (27, 3)
    assert (train.labels.bincount() + test.labels.bincount(minlength=2)).tolist() == [20, 10]
    assert train.class_names == ("bad", "good")
    assert {"n't", "?", "caf", "plot"} <= set(source.preparation["words"])


def test_altered_and_missing_files_get_a_sentence(small_set, tmp_path, monkeypatch):
    (tmp_path / "good").write_bytes(b"a fine cafe\n")
    with pytest.raises(DataError, match="not the published file"):
        read_sentence_set(small_set, tmp_path)
    monkeypatch.setenv("AGRLEARN_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"unpack rt-polaritydata\.tar\.gz there, or set AGRLEARN_DATA"):
        open_source("movie-review")


@pytest.mark.skipif("AGRLEARN_DATA" not in os.environ, reason="the published files are not here: set AGRLEARN_DATA")
def test_movie_review_has_the_words_that_kim_counted():
    source = open_source("movie-review")
    assert len(source.train.objects) + len(source.test.objects) == 10_662
    assert len(source.preparation["words"]) == 18_765
    assert source.preparation["length"] == 56
    assert set(MOVIE_REVIEW.files) == {"negative", "positive"}
