"""Sentences become words, in any script, and a run keeps to the cleaning that it was trained with."""

import pickle
import string
import unicodedata

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agrlearn.data.cleaning import CLEANINGS, clean, clean_any_script, split_words
from agrlearn.data.datasets import open_source
from agrlearn.data.text import Vocabulary
from agrlearn.errors import DataError, UnknownNameError
from agrlearn.sklearn import AgrLearnClassifier
from tests.cli.test_cli import call
from tests.runs.notes import change_note, read_note

RUSSIAN = [("очень хороший, фильм!", "pos"), ("скучный и пустой сюжет", "neg")]


@given(st.text(string.printable))
def test_ascii_text_becomes_the_words_of_kims_cleaning(sentence):
    assert clean_any_script(sentence) == clean(sentence)


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("Очень хороший, фильм!", ["очень", "хороший", ",", "фильм", "!"]),
        ("schön übel", ["schön", "übel"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("فيلم رائع؟", ["فيلم", "رائع"]),
        ("می\u200cخواهم", ["میخواهم"]),
        ("ดี\u200bมาก", ["ดี", "มาก"]),
        ("100% 👍 great", ["100", "👍", "great"]),
        ("so good👍🏽👍🏽 I ❤\ufe0f it", ["so", "good", "👍", "👍", "i", "❤", "it"]),
        ("It isn’t", ["it", "is", "n't"]),
        ("snake_case – “quoted” 5€", ["snake", "case", "quoted", "5"]),
    ],
)
def test_words_of_every_script_stay_whole(sentence, words):
    assert split_words(sentence) == words


@given(st.text())
def test_accents_are_the_same_however_they_are_written(sentence):
    composed, apart = (unicodedata.normalize(form, sentence) for form in ("NFC", "NFD"))
    assert split_words(composed) == split_words(apart)


@pytest.mark.parametrize("cleaning", CLEANINGS)
@given(sentence=st.text())
def test_every_cleaning_leaves_single_spaces_between_words_in_lower_case(cleaning, sentence):
    cleaned = CLEANINGS[cleaning](sentence)
    assert cleaned == " ".join(cleaned.split()) == cleaned.lower()


def test_a_cleaning_that_there_is_not_lists_the_choices():
    with pytest.raises(UnknownNameError, match=r"'kmi'.*did you mean 'kim'"):
        split_words("so good", cleaning="kmi")


def write(path, rows):
    path.write_text("review,label\n" + "".join(f'"{text}",{label}\n' for text, label in rows), encoding="utf-8")
    return str(path)


def test_a_table_notes_its_cleaning_and_later_sentences_get_the_same(tmp_path):
    first = open_source(write(tmp_path / "t.csv", RUSSIAN))
    assert set(first.preparation["words"]) == {word for text, _ in RUSSIAN for word in split_words(text)}
    again = open_source(write(tmp_path / "new.csv", RUSSIAN[1:]), preparation=first.preparation)
    assert torch.equal(again.train.objects, first.train.objects[1:])
    assert again.preparation == first.preparation


def test_a_preparation_that_tells_no_cleaning_means_kims(tmp_path):
    file = write(tmp_path / "t.csv", [("schön", "a"), ("sch n", "b")])
    told = {"kind": "text", "text": "review", "label": "label", "words": ["sch", "n"], "length": 2}
    assert open_source(file, preparation=told).train.objects.tolist() == [[2, 3], [2, 3]]
    assert open_source(file, preparation={**told, "cleaning": "any-script"}).train.objects.tolist() == [[1, 0], [2, 3]]
    with pytest.raises(DataError, match="not in the form that agrlearn writes"):
        open_source(file, preparation={**told, "cleaning": "os.system"})


def test_a_run_predicts_with_the_cleaning_that_it_was_trained_with(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, run = write(tmp_path / "t.csv", RUSSIAN * 5), tmp_path / "run"
    small = ("--epochs", 1, "--batch-size", 4, "--net.maps", 2, "--net.embedding", 4, "--no-report")
    assert call("train", file, "--run-dir", run, *small) == 0
    preparation = read_note(run)["preparation"]
    assert preparation["cleaning"] == "any-script"
    assert call("predict", run, file) == 0
    predictions = (tmp_path / "predictions.csv").read_text().splitlines()
    assert len(set(line.split(",", 2)[2] for line in predictions[1:])) == 2
    assert call("evaluate", run, file) == 0
    del preparation["cleaning"]
    change_note(run, preparation=preparation)
    assert call("predict", run, write(tmp_path / "new.csv", [("очень", "pos"), ("скучный", "pos")])) == 0
    one, other = (tmp_path / "predictions.csv").read_text().splitlines()[1:]
    assert one.split(",", 2)[2] == other.split(",", 2)[2]


def test_the_estimator_reads_every_script_and_an_earlier_one_keeps_to_kims(tmp_path):
    texts, labels = zip(*RUSSIAN * 4, strict=True)
    reader = AgrLearnClassifier(epochs=1, random_state=0).fit(list(texts), list(labels))
    assert "фильм" in reader.vocabulary_.words
    assert reader.vocabulary_.encode(["фильм"])[0, 0] > 1
    earlier = Vocabulary(("sch", "n"), 2)
    del earlier.__dict__["cleaning"]  # as it was pickled before there were several
    assert pickle.loads(pickle.dumps(earlier)).encode(["schön"]).tolist() == [[2, 3]]
