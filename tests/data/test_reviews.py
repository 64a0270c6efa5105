"""The paper's sets of sentences."""

import hashlib

import pytest

from agrlearn.data.archives import Archive
from agrlearn.data.datasets import open_source
from agrlearn.data.reviews import SentenceSet, read_sentence_set
from agrlearn.errors import DataError


@pytest.fixture
def small_set(tmp_path):
    """A set in the exact form of the published ones, with a line end of another kind within a sentence."""
    contents = {
        "bad": b"so dull , isn't it ?\nan empty\x85 plot\n" * 10,
        "good": b"a fine caf\xe9\nwarm and fine\n" * 5,
    }
    (tmp_path / "small").mkdir()
    for name, content in contents.items():
        (tmp_path / "small" / name).write_bytes(content)
    files = {name: f"sha256:{hashlib.sha256(content).hexdigest()}" for name, content in contents.items()}
    archive = Archive("https://example.org/small.tar.gz", "small", files)
    return SentenceSet("small", archive, {"negative": "bad", "positive": "good"})


def test_sentences_are_split_at_line_feeds_alone_and_a_tenth_is_held_out(small_set, tmp_path):
    source = read_sentence_set(small_set, tmp_path)
    train, test = source.labelled(source.train), source.labelled(source.test)
    assert (len(train), len(test)) == (27, 3)
    assert (train.labels.bincount() + test.labels.bincount(minlength=2)).tolist() == [20, 10]
    assert train.class_names == ("negative", "positive")
    assert {"n't", "?", "caf", "plot"} <= set(source.preparation["words"])
    assert source.preparation["cleaning"] == "kim"


def test_altered_and_missing_files_get_a_sentence(small_set, tmp_path):
    file = tmp_path / "small" / "good"
    file.write_bytes(b"a fine cafe\n")
    with pytest.raises(DataError, match="good is not the published file"):
        read_sentence_set(small_set, tmp_path)
    file.unlink()
    with pytest.raises(DataError, match=r"there is no .*good; unpack small\.tar\.gz again"):
        read_sentence_set(small_set, tmp_path)


def test_movie_review_has_the_words_that_kim_counted(published_data):
    source = open_source("movie-review", data_dir=published_data)
    assert len(source.train.objects) + len(source.test.objects) == 10_662
    assert len(source.preparation["words"]) == 18_765
    assert source.preparation["length"] == 56
    assert source.class_names == ("negative", "positive")


def test_subjectivity_has_five_thousand_sentences_of_each_class(published_data):
    source = open_source("subjectivity", data_dir=published_data)
    counts = source.labelled(source.train).labels.bincount() + source.labelled(source.test).labels.bincount()
    assert counts.tolist() == [5000, 5000]
