"""The best partition of a few things into a few sets, by dynamic programming over all subsets.

Its time is of the order 3^things whatever the costs are; branch and bound can be quicker on costs with clear clusters,
but not on symmetric ones, such as the words of a binary symmetric source, where no branch is worse than another.
"""

import numpy as np

from agrlearn.theory.tables import Array

_LEAF = 10


def best_partition(costs: Array, sets: int) -> tuple[float, list[int]]:
    """The least sum of costs of a partition into at most `sets` sets, and the sets as bit masks.

    Args:
        costs: (2^things,) of every subset, by its bit mask; the empty set costs 0.

    >>> best_partition(np.array([0.0, 1.0, 1.0, 5.0]), 2)
    (2.0, [1, 2])
    """
    tables: dict[int, Array] = {1: costs}
    parts = _halvings(sets)
    for count in sorted(parts)[:-1]:
        tables[count] = min_plus(tables[parts[count][0]], tables[parts[count][1]])
    everything = len(costs) - 1
    found = _trace(tables, parts, sets, everything)
    return float(costs[found].sum()), found


def min_plus(first: Array, second: Array) -> Array:
    """min over T ⊆ S of first(T) + second(S∖T), for every S: (2^things,).

    >>> min_plus(np.array([0.0, 3.0]), np.array([0.0, 2.0]))
    array([0., 2.])
    """
    if len(first) <= 2**_LEAF:
        return _min_plus_batch(first[None], second[None])[0]
    half = len(first) // 2
    without = min_plus(first[:half], second[:half])
    with_last = np.minimum(min_plus(first[half:], second[:half]), min_plus(first[:half], second[half:]))
    return np.concatenate([without, with_last])


def _min_plus_batch(first: Array, second: Array) -> Array:
    """min_plus of many pairs at once: (pairs, 2^things) each."""
    if first.shape[1] == 1:
        return first + second
    half = first.shape[1] // 2
    f, f_last, g, g_last = first[:, :half], first[:, half:], second[:, :half], second[:, half:]
    joined = _min_plus_batch(np.concatenate([f, f_last, f]), np.concatenate([g, g, g_last]))
    pairs = len(first)
    with_last = np.minimum(joined[pairs : 2 * pairs], joined[2 * pairs :])
    return np.concatenate([joined[:pairs], with_last], axis=1)


def _halvings(sets: int) -> dict[int, tuple[int, int]]:
    """Which two smaller counts make up each count that is needed on the way to `sets`."""
    parts: dict[int, tuple[int, int]] = {}
    waiting = [sets]
    while waiting:
        count = waiting.pop()
        if count > 1 and count not in parts:
            parts[count] = (count - count // 2, count // 2)
            waiting += parts[count]
    return parts


def _trace(tables: dict[int, Array], parts: dict[int, tuple[int, int]], sets: int, mask: int) -> list[int]:
    """The sets that attain the table's value at a mask."""
    if sets == 1 or mask == 0:
        return [mask] if mask else []
    first, second = parts[sets]
    inside = _submasks(mask)
    best = int(inside[np.argmin(tables[first][inside] + tables[second][mask ^ inside])])
    return _trace(tables, parts, first, best) + _trace(tables, parts, second, mask ^ best)


def _submasks(mask: int) -> np.ndarray:
    found = np.zeros(1, dtype=np.int64)
    for bit in range(mask.bit_length()):
        if mask >> bit & 1:
            found = np.concatenate([found, found + (1 << bit)])
    return found
