"""Microbatches: a batch is cut into several to save memory, and J and batch normalisation see one at a time."""

import functools
import itertools
import math

from agrlearn.grouping import GroupBatchSampler


def count_microbatches(groups: int, accumulate: int, ranks: int) -> int:
    """The number of microbatches in a batch of `groups` groups on all ranks."""
    return max(1, min(accumulate, groups // (2 * ranks)))  # batch normalisation needs two groups in each


def microbatch_bounds(groups: int, count: int) -> list[int]:
    """Where a rank's share of a batch is cut.

    >>> microbatch_bounds(16, 3)
    [0, 5, 10, 16]
    """
    return [groups * number // count for number in range(count + 1)]


@functools.lru_cache
def microbatch_sizes(groups: int, accumulate: int, ranks: int) -> tuple[int, ...]:
    """The number of groups of all ranks in each microbatch."""
    shares = [groups // ranks + (rank < groups % ranks) for rank in range(ranks)]  # as the sampler divides them
    bounds = [microbatch_bounds(share, count_microbatches(groups, accumulate, ranks)) for share in shares]
    return tuple(end - first for first, end in itertools.pairwise(map(sum, zip(*bounds, strict=True))))


def mean_log_groups(sampler: GroupBatchSampler, accumulate: int) -> float:
    """log m, where J saturates: m is the number of groups in a microbatch, and the mean is over an epoch's groups.

    >>> round(math.exp(mean_log_groups(GroupBatchSampler(20, fold=2, batch_size=64), accumulate=2)), 6)
    10.0
    """
    last = len(sampler) - 1
    total, groups = 0.0, 0
    for step, times in ((0, last), (last, 1)):  # all batches except the last have the same size
        for size in microbatch_sizes(sampler.groups_at(step), accumulate, sampler.world_size):
            total += times * size * math.log(size)
            groups += times * size
    return total / groups
