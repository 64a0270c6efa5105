"""Groups and the sampler that makes them."""

import itertools
from collections import Counter

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightning_fabric.utilities.data import _set_sampler_epoch
from torch.utils.data import DataLoader, TensorDataset

from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import DataError, ShapeError
from agrlearn.grouping import GroupBatchSampler, count_objects, group, replicate, take, ungroup
from agrlearn.networks.catalogue import build_network
from agrlearn.prediction.predict import predict

sizes = st.integers(1, 40)
folds = st.integers(1, 5)


@given(groups=sizes, fold=folds, shape=st.lists(st.integers(1, 3), max_size=3))
def test_ungroup_is_the_inverse_of_group(groups, fold, shape):
    objects = torch.arange(groups * fold * torch.Size(shape).numel()).reshape(groups * fold, *shape)
    assert group(objects, fold).shape == (groups, fold, *shape)
    assert torch.equal(ungroup(group(objects, fold)), objects)


def test_mappings_are_grouped_tensor_by_tensor():
    tokens = {"ids": torch.arange(12).reshape(4, 3), "mask": torch.ones(4, 3)}
    grouped = group(tokens, 2)
    assert {name: tensor.shape for name, tensor in grouped.items()} == {"ids": (2, 2, 3), "mask": (2, 2, 3)}
    assert torch.equal(ungroup(grouped)["ids"], tokens["ids"])


def test_replicate_fills_every_slot_alike_without_copying():
    objects = torch.randn(5, 3)
    groups = replicate(objects, 4)
    assert all(torch.equal(groups[:, slot], objects) for slot in range(4))
    assert groups.data_ptr() == objects.data_ptr()


def test_objects_that_do_not_fill_their_groups_are_refused_with_the_remainder():
    with pytest.raises(ShapeError, match="multiple of fold=3 objects, got 7; leave out the last 1"):
        group(torch.zeros(7, 2), 3)
    with pytest.raises(ShapeError, match="equal first dimension"):
        count_objects({"ids": torch.zeros(3), "mask": torch.zeros(4)})


@given(objects=st.integers(5, 60), fold=folds, batch_size=st.integers(1, 20), epoch=st.integers(0, 3))
def test_an_epoch_is_one_group_per_object_and_each_slot_passes_every_object_once(objects, fold, batch_size, epoch):
    sampler = GroupBatchSampler(objects, fold, batch_size)
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    groups = torch.tensor([index for batch in batches for index in batch]).view(-1, fold)
    for slot in range(fold):
        assert sorted(groups[:, slot].tolist()) == list(range(objects))
    sizes_in_groups = [len(batch) // fold for batch in batches]
    assert all(size == batch_size for size in sizes_in_groups[:-1])
    assert sizes_in_groups[-1] != 1 or batch_size == 1 or objects == 1


@given(objects=st.integers(5, 60), batch_size=st.integers(1, 5))
def test_drop_last_leaves_only_full_batches(objects, batch_size):
    batches = list(GroupBatchSampler(objects, 2, batch_size, drop_last=True))
    assert [len(batch) for batch in batches] == [2 * batch_size] * (objects // batch_size)


def test_lightning_tells_it_the_epoch():
    sampler = GroupBatchSampler(20, 2, 5)
    loader = DataLoader(torch.arange(20), batch_sampler=sampler)
    first = list(loader)
    _set_sampler_epoch(loader, 1)
    assert sampler.epoch == 1
    assert not all(map(torch.equal, first, loader))


def test_the_order_depends_on_seed_and_epoch_alone():
    def orders(seed):
        sampler = GroupBatchSampler(30, 2, 8, seed=seed)
        for epoch in (0, 1, 0):
            sampler.set_epoch(epoch)
            yield list(sampler)

    first, second, again = orders(seed=3)
    assert first == again
    assert first != second
    assert first != next(orders(seed=4))


def test_slots_walk_different_permutations():
    groups = GroupBatchSampler(200, 2, 50).order()
    assert (groups[:, 0] == groups[:, 1]).float().mean() < 0.05


def test_repetition_is_the_share_of_groups_that_hold_one_object_in_every_slot():
    groups = GroupBatchSampler(4000, 3, 50, repetition=0.3).order()
    share = (groups == groups[:, :1]).all(dim=1).float().mean()
    assert 0.26 < share < 0.34
    assert sorted(groups[:, 0].tolist()) == list(range(4000))


@given(objects=st.integers(8, 60), fold=folds, ranks=st.integers(1, 4))
def test_ranks_share_the_groups_of_every_batch(objects, fold, ranks):
    alone = GroupBatchSampler(objects, fold, 8)
    samplers = [GroupBatchSampler(objects, fold, 8, rank=rank, world_size=ranks) for rank in range(ranks)]
    shares = [list(sampler) for sampler in samplers]
    together = [[index for share in shares for index in share[step]] for step in range(len(samplers[0]))]
    assert list(itertools.chain(*together)) == list(itertools.chain(*alone))
    assert together[:-1] == list(alone)[: len(together) - 1]
    assert all(share for mine in shares for share in mine)
    assert [len(batch) for batch in together] == [fold * samplers[0].groups_at(step) for step in range(len(together))]


def test_batches_can_start_in_the_middle_of_an_epoch():
    sampler = GroupBatchSampler(50, 2, 8)
    whole = list(sampler.batches())
    assert all(torch.equal(a, b) for a, b in zip(whole[3:], sampler.batches(start=3), strict=True))


def test_it_works_with_any_dataset_and_loader():
    dataset = TensorDataset(torch.arange(20), torch.arange(20) % 2)
    loader = DataLoader(dataset, batch_sampler=GroupBatchSampler(20, 2, 4))
    seen = Counter(int(index) for objects, _ in loader for index in objects)
    assert seen == {index: 2 for index in range(20)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(num_objects=3, fold=4, batch_size=2), "fold=4 is larger than the data set of 3"),
        (dict(num_objects=0, fold=1, batch_size=2), "empty"),
        (dict(num_objects=9, fold=0, batch_size=2), "at least 1"),
        (dict(num_objects=9, fold=1, batch_size=2, repetition=1.5), "between 0 and 1"),
        (dict(num_objects=9, fold=1, batch_size=2, world_size=3), "cannot be shared"),
        (dict(num_objects=9, fold=1, batch_size=4, rank=2, world_size=2), "rank=2"),
        (dict(num_objects=9, fold=1, batch_size=10, drop_last=True), "leaves none of 9 groups"),
    ],
)
def test_arguments_that_cannot_work_get_a_sentence(arguments, message):
    with pytest.raises(ShapeError, match=message):
        GroupBatchSampler(**arguments)


@pytest.mark.parametrize("objects", [numpy.zeros((4, 3)), [[0.0]] * 4, {"input_ids": numpy.zeros((4, 3))}])
@pytest.mark.parametrize(
    "use",
    [
        lambda objects: group(objects, 2),
        ungroup,
        lambda objects: replicate(objects, 2),
        lambda objects: LabelledSet.of(objects, [0, 1, 0, 1]),
        lambda objects: predict(build_network("mlp", object_shape=(3,), num_classes=2), objects),
    ],
    ids=["group", "ungroup", "replicate", "LabelledSet.of", "predict"],
)
def test_arrays_and_lists_are_refused_with_what_to_pass_instead(use, objects):
    with pytest.raises(DataError, match=r"got (ndarray|list); torch\.from_numpy\(\.\.\.\) makes a Tensor of an array"):
        use(objects)


@given(
    count=st.integers(2, 60), size=st.integers(2, 20), fold=st.integers(2, 3), share=st.sampled_from([0.0, 0.5, 1.0])
)
def test_mixed_folds_repeat_whole_batches_and_leave_the_first_slot_as_it_was(count, size, fold, share):
    fold = min(fold, count)
    mixed = GroupBatchSampler(count, fold, size, repetition=share, repetition_of="batches")
    plain = GroupBatchSampler(count, fold, size)
    batches = [batch.view(-1, fold) for batch in mixed.batches()]
    assert torch.equal(torch.cat(batches)[:, 0], plain.order()[:, 0])
    start = 0
    for batch in batches:
        before = plain.order()[start : start + len(batch)]
        assert torch.equal(batch, before) or (batch == batch[:, :1]).all()
        start += len(batch)
    repeated = [bool((batch == batch[:, :1]).all()) for batch in batches]
    assert share < 1 or all(repeated)


def test_about_the_share_of_batches_is_repeated():
    sampler = GroupBatchSampler(10_000, 2, 10, repetition=0.3, repetition_of="batches")
    repeated = [bool((batch.view(-1, 2)[:, 0] == batch.view(-1, 2)[:, 1]).all()) for batch in sampler.batches()]
    assert 0.25 < sum(repeated) / len(repeated) < 0.35


@pytest.mark.parametrize("indices", [[2, 0, 2], [-1, 1], [[0, 1], [2, 2]], []])
def test_taking_objects_is_indexing(indices):
    places, vectors = torch.tensor(indices, dtype=torch.int64), torch.arange(12).reshape(3, 4)
    assert torch.equal(take(vectors, places), vectors[places])
    pairs = take({"a": vectors, "b": vectors.byte()}, places)
    assert torch.equal(pairs["b"], vectors.byte()[places])
