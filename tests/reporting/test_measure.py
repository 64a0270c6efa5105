"""What is measured for the page, held against the library's own evaluation."""

import copy
import dataclasses
import gc
import weakref

import pytest
import torch

from agrlearn.data.labelled import Names, Origin
from agrlearn.evaluation.evaluate import evaluate
from agrlearn.evaluation.metrics import METRICS, calibration_bins, outcomes_of, score
from agrlearn.prediction.protocols import Batched
from agrlearn.reporting.measure import measure
from agrlearn.reporting.objects import show_object


@pytest.mark.parametrize("classes", [2, 7])
def test_the_mean_gap_of_the_bins_is_the_ece(classes):
    random = torch.Generator().manual_seed(classes)
    probabilities = torch.softmax(2 * torch.randn(500, classes, generator=random), dim=1)
    probabilities[:20] = torch.eye(classes)[0]  # confidence 1 belongs to the last bin
    labels = torch.randint(classes, (500,), generator=random)
    outcomes = outcomes_of(probabilities, labels)
    bins = calibration_bins(outcomes)
    gap = sum(each.objects * abs(each.accuracy - each.confidence) for each in bins) / 500
    assert sum(each.objects for each in bins) == 500
    assert gap == pytest.approx(score(outcomes).ece, abs=1e-6)


def test_measurements_agree_with_evaluate(trained, report):
    facts, subjects = trained
    pair = [subjects[run.folder] for run in facts[2:]]
    found = report.measured[1]
    expected = [evaluate(subject.network, subject.test_set) for subject in pair]
    for scores, evaluation in zip(found.scores, expected, strict=True):
        assert [getattr(scores, name) for name in METRICS] == pytest.approx(
            [getattr(evaluation, name) for name in METRICS]
        )
    heads = torch.tensor([each.head_errors for each in expected]).mean(dim=0).tolist()
    assert found.head_errors == pytest.approx(heads)
    disagreement = sum(each.head_disagreement for each in expected) / 2
    assert found.head_disagreement.value == pytest.approx(disagreement, abs=1e-6)
    confusion = torch.tensor(found.confusion)
    assert confusion.sum() == 64
    assert 1 - confusion.diagonal().sum() / 64 == pytest.approx(sum(each.error for each in expected) / 2)
    batched = next(point for point in found.dial if (point.protocol, point.draws) == ("batched", 2))
    errors = [evaluate(subject.network, subject.test_set, Batched(draws=2)).error for subject in pair]
    assert batched.scores["error"].value == pytest.approx(sum(errors) / 2)
    assert {(point.protocol, point.draws) for point in found.dial} == {
        ("replicated", 1), *((name, draws) for name in ("batched", "contextual") for draws in (1, 2, 4)),
    }  # fmt: skip
    assert all(point.objects_per_second > 0 for point in found.dial)


def test_a_network_of_doubles_is_measured_like_one_of_singles(trained):
    facts, subjects = trained
    subject = subjects[facts[2].folder]
    doubled = dataclasses.replace(subject, network=copy.deepcopy(subject.network).double())
    (single,), (double,) = (measure([[lambda each=each: each]], dial=False) for each in (subject, doubled))
    assert double.scores[0].nll == pytest.approx(single.scores[0].nll, abs=1e-5)
    assert double.multiply_adds == single.multiply_adds


def test_the_hardest_objects_come_first_with_every_heads_verdict(report):
    hardest = report.measured[1].hardest
    likelihoods = [one.likelihood for one in hardest]
    assert likelihoods == sorted(likelihoods)
    assert all(len(one.verdicts) == 2 for one in hardest)
    assert all(one.picture.startswith("data:image/png;base64,") for one in hardest)


def test_the_hardest_objects_are_named_by_their_place_in_the_data(trained, hostile_images):
    facts, subjects = trained
    everything = dataclasses.replace(
        hostile_images, origin=Origin("data", None, {}, skip_bad=False, part="train", count=96)
    )
    rows = torch.arange(95, 63, -1)
    subject = dataclasses.replace(subjects[facts[2].folder], test_set=everything.subset(rows))
    (plain,) = measure([[lambda: subject]], dial=False)
    likelihoods = evaluate(subject.network, subject.test_set).outcomes.likelihood
    assert plain.hardest[0].place == f"object {rows[likelihoods.argmin()]}"
    names = Names("file", [f"{number}.png" for number in range(96)])
    origin = dataclasses.replace(subject.test_set.origin, names=names)
    named = dataclasses.replace(subject.test_set, origin=origin)
    (found,) = measure([[lambda: dataclasses.replace(subject, test_set=named)]], dial=False)
    assert [one.place for one in found.hardest] == [f"{one.place.split()[1]}.png" for one in plain.hardest]


def test_the_dial_is_left_out_where_it_is_not_wanted(trained):
    facts, subjects = trained
    (found,) = measure([[lambda: subjects[facts[0].folder]]], dial=False)
    assert found.dial == ()


def test_sentences_are_shown_in_words_and_vectors_in_numbers():
    sentences = torch.tensor([[2, 1, 3, 0, 0]])
    assert show_object(sentences, 0, ("good", "film")) == (None, "good ▢ film")
    assert show_object(torch.arange(12.0)[None], 0, ()) == (None, "0, 1, 2, 3, 4, 5, 6, 7, …")


@pytest.mark.parametrize("settings", [1, 5])
def test_of_many_runs_a_few_networks_are_in_memory_at_a_time(trained, settings):
    facts, subjects = trained
    alive, most = [], []

    def open_one():
        subject = subjects[facts[2].folder]
        network = copy.deepcopy(subject.network)
        alive.append(weakref.ref(network))
        gc.collect()
        most.append(sum(reference() is not None for reference in alive))
        return dataclasses.replace(subject, network=network)

    measure([[open_one] * 6] * settings, dial=True)
    assert len(most) == settings * 2 * 6
    # That of the clock, the first of a setting, the one before until it is replaced, and the new one.
    assert max(most) <= 4


def test_speeds_of_settings_that_are_timed_one_after_the_other_can_be_compared(trained, monkeypatch):
    facts, subjects = trained
    load = iter([1.0, 0.25, 0.5])

    def timed(predictors, objects, rounds):
        slower = next(load)
        return [100 * slower for _ in predictors]

    monkeypatch.setattr("agrlearn.reporting.measure.objects_per_second", timed)
    found = measure([[lambda: subjects[facts[2].folder]]] * 3, dial=True)
    assert {point.objects_per_second for each in found for point in each.dial} == {100.0}
