"""Labels of any Dataset, in training and in evaluation."""

import pytest
import torch
from torch.utils.data import Subset, TensorDataset, random_split

from agrlearn.data.labelled import LabelledSet
from agrlearn.data.pairs import unwrap
from agrlearn.errors import DataError
from agrlearn.evaluation.evaluate import evaluate
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe

RECIPE = Recipe(epochs=2, batch_size=16)


@pytest.mark.parametrize(
    "kind", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16, torch.bool], ids=lambda kind: str(kind)
)
@pytest.mark.parametrize("shape", [(150,), (150, 1)])
def test_whole_numbers_of_any_type_are_the_labels_that_they_are_as_int64(vectors, make_mlp, kind, shape):
    numbers = vectors.labels.clamp(max=1) if kind == torch.bool else vectors.labels
    results = []
    for labels in (numbers, numbers.to(kind).view(shape)):
        network, pairs = make_mlp(2), TensorDataset(vectors.objects, labels)
        fit(network, pairs, RECIPE, pairs)
        results.append((network.head.weight, evaluate(network, pairs).nll))
    assert torch.equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


class Named(TensorDataset):
    """Pairs whose labels are names."""

    def __getitem__(self, index):
        return super().__getitem__(index)[0], "abc"[index % 3]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x, y: TensorDataset(x, y + 1), "expected class numbers from 0 to 2, got the label 3"),
        (lambda x, y: TensorDataset(x, y - 1), "got the label -1"),
        (lambda x, y: TensorDataset(x, y.float()), r"whole numbers, got torch\.float32"),
        (
            lambda x, y: TensorDataset(x, torch.eye(3).long()[y]),
            r"one label for each object, got labels of shape \(3,\)",
        ),
        (Named, "whole numbers, got str"),
    ],
)
def test_labels_that_are_no_class_numbers_get_a_sentence(vectors, make_mlp, make, message):
    data = make(vectors.objects, vectors.labels)
    with pytest.raises(DataError, match=message):
        fit(make_mlp(2), data, RECIPE)
    with pytest.raises(DataError, match=message):
        evaluate(make_mlp(2), data)


def test_an_empty_validation_set_is_told_before_training(vectors, make_mlp):
    network = make_mlp(2)
    before = network.head.weight.clone()
    with pytest.raises(DataError, match="validation set is empty"):
        fit(network, vectors, RECIPE, TensorDataset(vectors.objects[:0], vectors.labels[:0]))
    assert torch.equal(network.head.weight, before)


def test_sets_that_number_their_classes_differently_are_refused_before_training(vectors, make_mlp):
    names = [vectors.class_names[label] for label in vectors.labels]
    without_a = vectors.labels > 0
    alone = LabelledSet.of(vectors.objects[without_a], [name for name in names if name != "a"])
    with pytest.raises(DataError, match=r"differently \(a, b, c; b, c\); make .* class_names=train_set"):
        fit(make_mlp(2), vectors, RECIPE, alone)
    told = LabelledSet.of(alone.objects, [name for name in names if name != "a"], class_names=vectors.class_names)
    fit(make_mlp(2), vectors, RECIPE, told)


def test_a_subset_of_a_labelled_set_keeps_its_weights_and_classes(vectors, make_mlp):
    weighted = LabelledSet(vectors.objects, vectors.labels, vectors.class_names, torch.linspace(0, 2, 150))
    chosen = torch.arange(20, 120)
    losses = []
    for data in (
        weighted.subset(chosen),
        Subset(weighted, chosen.tolist()),
        Subset(Subset(weighted, range(150)), chosen),
    ):
        history = fit(make_mlp(2), data, RECIPE)
        losses.append([record.loss for record in history.records])
    assert losses[0] == losses[1] == losses[2]
    part, _ = random_split(weighted, [100, 50])
    assert unwrap(part).class_names == vectors.class_names
    pairs = TensorDataset(vectors.objects, vectors.labels)
    for foreign in (pairs, Subset(pairs, [0, 1])):
        assert unwrap(foreign) is foreign
