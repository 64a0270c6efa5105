"""Microbatches: a batch is cut into several to save memory, and J and batch normalisation see one at a time."""

import functools
import itertools
import math

from agrlearn.grouping import GroupBatchSampler
from agrlearn.information.bottleneck import memory_for
from agrlearn.training.recipe import Recipe


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


def mean_log_groups(sampler: GroupBatchSampler, recipe: Recipe) -> float:
    """log m, where J saturates: m is the number of groups that J compares, as a mean over an epoch's groups.

    These are the groups of a microbatch, and those that the critic remembers, if it does.

    >>> sampler = GroupBatchSampler(20, fold=2, batch_size=64)
    >>> [round(math.exp(mean_log_groups(sampler, Recipe(accumulate=2, bound=bound))), 6) for bound in ("dv", None)]
    [10.0, 15.0]
    """
    remembered = memory_for(sampler.num_objects) if recipe.bound_of_j == "leave-one-out" else 0
    last = len(sampler) - 1
    total, groups = 0.0, 0
    for step, times in ((0, last), (last, 1)):  # all batches except the last have the same size
        for size in microbatch_sizes(sampler.groups_at(step), recipe.accumulate, sampler.world_size):
            total += times * size * math.log(size + remembered)
            groups += times * size
    return total / groups
