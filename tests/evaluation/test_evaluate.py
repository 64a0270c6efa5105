"""Scores against other implementations and naive counts."""

import dataclasses

import numpy
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, log_loss, precision_recall_fscore_support
from torch.utils.data import Dataset, TensorDataset

from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import DataError
from agrlearn.evaluation.evaluate import evaluate
from agrlearn.evaluation.metrics import METRICS, Scores, macro_f1, outcomes_of, score, scores_by_class
from agrlearn.evaluation.throughput import objects_per_second
from agrlearn.networks.catalogue import build_network
from agrlearn.prediction.predict import answers_of, predict
from agrlearn.prediction.protocols import Batched, Seating
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe


def test_scores_agree_with_scikit_learn_and_with_a_loop_over_bins():
    probabilities = torch.randn(500, 4, dtype=torch.float64).mul(2).softmax(dim=1)
    labels = torch.randint(0, 4, (500,))
    scores = score(outcomes_of(probabilities, labels))
    assert scores.nll == pytest.approx(log_loss(labels, probabilities, labels=range(4)), rel=1e-4)
    assert scores.error == pytest.approx((probabilities.argmax(1) != labels).float().mean().item())
    confidence, chosen = (part.numpy() for part in probabilities.max(dim=1))
    bins = numpy.clip(numpy.ceil(confidence * 15) - 1, 0, 14)
    gaps = [abs((chosen == labels.numpy())[bins == b].mean() - confidence[bins == b].mean()) * (bins == b).mean()
            for b in set(bins)]  # fmt: skip
    assert scores.ece == pytest.approx(sum(gaps), abs=1e-4)
    one_hot = numpy.eye(4)[labels.numpy()]
    assert scores.brier == pytest.approx(((probabilities.numpy() - one_hot) ** 2).sum(axis=1).mean(), rel=1e-4)


@pytest.mark.parametrize("classes", [2, 4, 30])
def test_precision_recall_and_f1_agree_with_scikit_learn_also_for_classes_that_are_missing(classes):
    # With 30 classes and 40 objects, some classes have no objects, some no answers, and some neither.
    probabilities = torch.randn(40, classes, generator=torch.Generator().manual_seed(classes)).softmax(dim=1)
    labels = torch.arange(40) % (classes - 1)
    found = scores_by_class(outcomes_of(probabilities, labels), classes)
    options = {"labels": range(classes), "zero_division": numpy.nan}
    *expected, objects = precision_recall_fscore_support(labels, probabilities.argmax(1), **options)
    assert [each.objects for each in found] == objects.tolist()
    for name, values in zip(("precision", "recall", "f1"), expected, strict=True):
        assert [getattr(each, name) for each in found] == pytest.approx(values.tolist(), nan_ok=True)
    assert macro_f1(found) == pytest.approx(f1_score(labels, probabilities.argmax(1), average="macro"))


def test_an_evaluation_knows_its_accuracy_and_its_classes(vectors, make_mlp):
    found = evaluate(make_mlp(2), vectors)
    chosen = predict(make_mlp(2), vectors.objects).argmax(dim=1)
    assert found.accuracy == pytest.approx(accuracy_score(vectors.labels, chosen))
    assert found.macro_f1 == pytest.approx(f1_score(vectors.labels, chosen, average="macro"))
    assert sum(each.objects for each in found.classes) == len(vectors)


def test_a_certain_and_wrong_answer_costs_much_but_not_infinitely():
    assert 80 < score(outcomes_of(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))).nll < 100


def test_heads_are_judged_one_by_one(vectors, make_mlp):
    network = make_mlp(3)
    result = evaluate(network, vectors, batch_size=16)
    with torch.no_grad():
        logits = network.eval()(vectors.objects[:, None].expand(-1, 3, -1))
    chosen = logits.argmax(dim=-1)
    assert result.head_errors == pytest.approx((chosen != vectors.labels[:, None]).float().mean(dim=0).tolist())
    pairs = [(0, 1), (0, 2), (1, 2)]
    disagreement = sum((chosen[:, a] != chosen[:, b]).float().mean().item() for a, b in pairs) / 3
    assert result.head_disagreement == pytest.approx(disagreement, abs=1e-6)
    assert result.error == score(outcomes_of(predict(network, vectors.objects), vectors.labels)).error
    assert result.objects_per_second > 0


def test_batched_heads_are_judged_on_the_objects_that_sat_in_their_slot(vectors, make_mlp):
    network = make_mlp(2)
    wrong, asked = [0, 0], [0, 0]
    for answers in answers_of(network, vectors.objects, Batched()):
        for place, slot, row in zip(*answers[1:], strict=True):
            asked[slot] += 1
            wrong[slot] += int(row.argmax() != vectors.labels[answers.objects[place]])
    result = evaluate(network, vectors, Batched())
    assert result.head_errors == pytest.approx([w / a for w, a in zip(wrong, asked, strict=True)])
    assert result.head_disagreement == 0.0


@pytest.mark.parametrize(("precision", "tolerance"), [(torch.float64, 1e-5), (torch.bfloat16, 0.05)])
def test_networks_of_every_precision_are_judged_alike(vectors, make_mlp, precision, tolerance):
    network = make_mlp(2)
    expected = evaluate(network, vectors)
    found = evaluate(network.to(precision), vectors)
    assert (found.nll, found.brier) == pytest.approx((expected.nll, expected.brier), abs=tolerance)


class NamesAnObjectThatIsNotThere(Batched):
    def seatings(self, batch, count, fold, companions):
        for groups, heard in super().seatings(batch, count, fold, companions):
            yield Seating(groups + 10**6, heard)


def test_an_error_in_evaluation_leaves_a_network_that_still_trains(vectors, make_mlp):
    network = make_mlp(2).train()
    with pytest.raises((IndexError, RuntimeError)) as kept_as_in_a_notebook:
        evaluate(network, vectors, NamesAnObjectThatIsNotThere())
    assert network.training
    fit(network, vectors, Recipe(epochs=1, batch_size=16))
    assert kept_as_in_a_notebook.tb is not None


def test_any_dataset_of_pairs_can_be_evaluated(vectors, make_mlp):
    network = make_mlp(2)
    pairs = TensorDataset(vectors.objects, vectors.labels)
    assert evaluate(network, pairs).nll == pytest.approx(evaluate(network, vectors).nll)
    foreign = LabelledSet(vectors.objects, vectors.labels + 3, tuple("abcdef"))
    with pytest.raises(DataError, match="expected class numbers from 0 to 2"):
        evaluate(network, foreign)
    with pytest.raises(DataError, match="empty"):
        evaluate(network, TensorDataset(vectors.objects[:0], vectors.labels[:0]))


@pytest.mark.parametrize("protocol", ["replicated", Batched(draws=2)])
def test_draws_of_the_bottleneck_differ_from_batch_to_batch_and_do_not_depend_on_how_objects_are_loaded(
    vectors, make_mlp, protocol
):
    network = make_mlp(2, noise=2.0)
    same = LabelledSet(vectors.objects[:1].expand(60, -1), vectors.labels[:60], vectors.class_names)
    pairs = TensorDataset(same.objects, same.labels)
    options = {"batch_size": 10, "samples": 1}
    assert evaluate(network, pairs, protocol, **options).nll == evaluate(network, same, protocol, **options).nll
    drawn = predict(network, same.objects, **options)
    assert len(drawn.unique(dim=0)) == 60


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_is_held_one_batch_at_a_time(vectors, make_mlp, workers):
    class Counting(Dataset):
        loaded = 0

        def __len__(self):
            return len(vectors)

        def __getitem__(self, index):
            self.loaded += 1
            return vectors[index]

    data, network, passed = Counting(), make_mlp(2), []
    network.encoder.register_forward_pre_hook(lambda *_: passed.append(data.loaded))
    measured = evaluate(network, data, batch_size=8, workers=workers)
    assert measured.error == evaluate(network, vectors, batch_size=8).error
    if workers == 0:
        assert passed[0] == 8


def test_throughput_counts_objects(vectors, make_mlp):
    network = make_mlp(2)
    fast, slow = objects_per_second([(network, Batched()), (network, Batched(draws=40))], vectors.objects, rounds=3)
    assert fast > slow > 100


def test_every_metric_is_a_field_of_the_scores_and_says_how_it_is_shown():
    assert list(METRICS) == [column.name for column in dataclasses.fields(Scores)]
    perfect, hopeless = (outcomes_of(torch.eye(3), torch.tensor(labels)) for labels in ([0, 1, 2], [1, 2, 0]))
    for name, metric in METRICS.items():
        good, bad = (metric.function(outcomes) for outcomes in (perfect, hopeless))
        assert (good < bad) == metric.lower_is_better, name
        assert metric.label in ("error %", "NLL", "ECE", "Brier")
        float(metric.text(bad))


def test_the_draws_of_a_stochastic_bottleneck_come_from_the_seed(vectors):
    network = build_network("mlp", object_shape=tuple(vectors.objects.shape[1:]), num_classes=3, fold=2, noise=2.0)
    first, again, other = (evaluate(network, vectors, samples=3, seed=seed).nll for seed in (0, 0, 1))
    assert first == again != other
