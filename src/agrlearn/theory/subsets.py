"""The best partition of a few items into a few sets, by dynamic programming over all subsets.

It takes time of the order 3^items, whatever the costs are. Branch and bound can be faster when clusters are clear, but
not on symmetric costs, such as those of the words of a binary symmetric source, where no branch is worse than another.
"""

import functools

import numpy as np

from agrlearn.theory.distributions import Array

_SMALL = 2**10  # subsets; below this, whole batches of tables are combined at once


def best_partition(costs: Array, sets: int) -> tuple[float, list[int]]:
    """The least sum of costs of a partition into at most `sets` sets, and the sets as bit masks.

    Args:
        costs: (2^items,) of every subset, by its bit mask; the empty set costs 0.

    >>> best_partition(np.array([0.0, 1.0, 1.0, 5.0]), 2)
    (2.0, [1, 2])
    """

    @functools.cache
    def least_costs(count: int) -> Array:
        """For every subset, the least cost of a partition into `count` sets."""
        return costs if count == 1 else min_plus(least_costs(count - count // 2), least_costs(count // 2))

    def partition(mask: int, count: int) -> list[int]:
        if count == 1 or mask == 0:
            return [mask] if mask else []
        inside = np.arange(mask + 1)
        inside = inside[inside & ~mask == 0]
        first, second = count - count // 2, count // 2
        best = int(inside[np.argmin(least_costs(first)[inside] + least_costs(second)[mask ^ inside])])
        return partition(best, first) + partition(mask ^ best, second)

    found = partition(len(costs) - 1, sets)
    return float(costs[found].sum()), found


def min_plus(first: Array, second: Array) -> Array:
    """min over T ⊆ S of first(T) + second(S∖T), for every S: (2^items,).

    >>> min_plus(np.array([0.0, 3.0]), np.array([0.0, 2.0]))
    array([0., 2.])
    """
    if len(first) <= _SMALL:
        return _min_plus_batch(first[None], second[None])[0]
    half = len(first) // 2
    without = min_plus(first[:half], second[:half])
    with_last = np.minimum(min_plus(first[half:], second[:half]), min_plus(first[:half], second[half:]))
    return np.concatenate([without, with_last])


def _min_plus_batch(first: Array, second: Array) -> Array:
    """min_plus of many pairs at once: (pairs, 2^items) each."""
    if first.shape[1] == 1:
        return first + second
    half = first.shape[1] // 2
    f, f_last, g, g_last = first[:, :half], first[:, half:], second[:, :half], second[:, half:]
    joined = _min_plus_batch(np.concatenate([f, f_last, f]), np.concatenate([g, g, g_last]))
    without, one_way, other_way = np.split(joined, 3)
    return np.concatenate([without, np.minimum(one_way, other_way)], axis=1)
