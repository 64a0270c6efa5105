"""Labels of any kind, and batches of any Dataset."""

from dataclasses import replace

import numpy
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import TensorDataset

from agrlearn.data.batches import batches, fetch
from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import DataError
from agrlearn.grouping import GroupBatchSampler


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["b", "a", "b"], ("a", "b")),
        ([7, -2, 7], ("-2", "7")),
        ([1.0, 0.0, 1.0], ("0", "1")),
        ([True, False, True], ("False", "True")),
        (numpy.array(["b", "a", "b"], dtype=object), ("a", "b")),
        (numpy.array([7, -2, 7], dtype=object), ("-2", "7")),
    ],
)
def test_labels_of_any_kind_become_class_numbers(labels, names):
    made = LabelledSet.of(torch.zeros(3, 2), labels)
    assert made.labels.tolist() == [1, 0, 1]
    assert made.class_names == names


@pytest.mark.parametrize("missing", [None, numpy.nan])
def test_a_missing_label_is_no_name(missing):
    with pytest.raises(DataError, match="whole numbers or names"):
        LabelledSet.of(torch.zeros(2, 2), numpy.array(["a", missing], dtype=object))


def test_labels_take_the_class_numbers_of_training():
    made = LabelledSet.of(torch.zeros(2, 2), ["c", "a"], class_names=("a", "b", "c"))
    assert made.labels.tolist() == [2, 0]
    with pytest.raises(DataError, match="'d' is none of the 3 classes"):
        LabelledSet.of(torch.zeros(2, 2), ["d", "a"], class_names=("a", "b", "c"))


def test_batches_of_any_dataset_are_those_of_the_set_in_memory(vectors):
    pairs = TensorDataset(vectors.objects, vectors.labels)
    sampler = GroupBatchSampler(len(vectors), 2, 16)
    for start in (0, 4):
        mine, theirs = (list(batches(data, sampler, start=start)) for data in (vectors, pairs))
        assert len(mine) == len(theirs) == len(sampler) - start
        for (objects, labels, _), (others, other_labels, _) in zip(mine, theirs, strict=True):
            assert torch.equal(objects, others)
            assert torch.equal(labels, other_labels)
    assert torch.equal(fetch(pairs, torch.tensor([3, 1]))[0], vectors.objects[[3, 1]])


class CountIndexings(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function in (torch.ops.aten.index.Tensor, torch.ops.aten.index_select.default)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("weights", [None, torch.linspace(0, 2, 150)])
def test_a_batch_of_a_set_in_memory_is_one_indexing(vectors, weights):
    data = replace(vectors, weights=weights)
    sampler = GroupBatchSampler(len(data), 2, 16)
    with CountIndexings() as counter:
        found = list(batches(data, sampler))
    once_an_epoch = 1 if weights is None else 2  # the labels and the weights
    assert counter.count == len(found) + once_an_epoch
    assert torch.equal(torch.cat([batch.labels for batch in found]), data.labels[sampler.order().flatten()])
    if weights is not None:
        assert torch.equal(torch.cat([batch.weights for batch in found]), weights[sampler.order().flatten()])


def test_the_digest_tells_data_sets_apart(vectors):
    changed = LabelledSet(vectors.objects.clone(), vectors.labels, vectors.class_names)
    assert changed.digest() == vectors.digest()
    changed.objects[5, 2] += 1e-6 + changed.objects[5, 2].abs() * 1e-5
    assert changed.digest() != vectors.digest()
    assert vectors.subset(torch.arange(10)).digest() != vectors.digest()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.tensor([0, 1]), "one label for each"),
        (torch.tensor([0.0, 1, 1]), "int64"),
        (torch.tensor([0, 1, 2]), "from 0 to 1"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, message):
    with pytest.raises(DataError, match=message):
        LabelledSet(torch.zeros(3, 2), labels, ("a", "b"))


def test_weights_that_are_not_one_for_each_object_are_refused():
    with pytest.raises(DataError, match="one weight for each of 4 objects, got weights of shape \\(9,\\)"):
        LabelledSet(torch.zeros(4, 2), torch.tensor([0, 1, 1, 0]), ("a", "b"), torch.ones(9))
