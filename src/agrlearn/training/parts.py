"""The parts into which a batch is cut to save memory: what J and batch normalisation see at a time."""

import itertools
import math

from agrlearn.grouping import GroupBatchSampler


def count_parts(groups: int, accumulate: int, ranks: int) -> int:
    """How many parts a batch of so many groups on all ranks is cut into."""
    return max(1, min(accumulate, groups // (2 * ranks)))  # batch normalisation needs two groups in each


def part_bounds(groups: int, parts: int) -> list[int]:
    """Where a rank's share of a batch is cut.

    >>> part_bounds(16, 3)
    [0, 5, 10, 16]
    """
    return [groups * part // parts for part in range(parts + 1)]


def mean_log_groups(sampler: GroupBatchSampler, accumulate: int) -> float:
    """log m, where J saturates, as a mean over an epoch's groups: each is in a part with m groups of all ranks.

    >>> round(math.exp(mean_log_groups(GroupBatchSampler(20, fold=2, batch_size=64), accumulate=2)), 6)
    10.0
    """
    last = len(sampler) - 1
    total, groups = 0.0, 0
    for step, times in ((0, last), (last, 1)):  # all batches but the last have as many groups
        for size in part_sizes(sampler.groups_at(step), accumulate, sampler.world_size):
            total += times * size * math.log(size)
            groups += times * size
    return total / groups


def part_sizes(groups: int, accumulate: int, ranks: int) -> list[int]:
    """How many groups of all ranks each part of a batch has."""
    shares = [groups // ranks + (rank < groups % ranks) for rank in range(ranks)]  # as the sampler deals them out
    bounds = [part_bounds(share, count_parts(groups, accumulate, ranks)) for share in shares]
    return [end - first for first, end in itertools.pairwise(map(sum, zip(*bounds, strict=True)))]
