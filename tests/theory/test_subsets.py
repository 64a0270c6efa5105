"""The best partition and min-plus convolution against loops over all submasks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agrlearn.theory.subsets import best_partition, min_plus


@given(st.integers(0, 999))
def test_min_plus_is_the_minimum_over_submasks(seed):
    first, second = np.random.default_rng(seed).random((2, 32))
    expected = [min(first[t] + second[s ^ t] for t in range(32) if t & s == t) for s in range(32)]
    np.testing.assert_allclose(min_plus(first, second), expected)


def test_large_tables_are_folded_as_small_ones_are():
    first, second = np.random.default_rng(0).random((2, 2**12))
    whole = min_plus(first, second)
    mask = 0b101101110011
    inside = [t for t in range(2**12) if t & mask == t]
    assert whole[mask] == pytest.approx(min(first[t] + second[mask ^ t] for t in inside))


def test_a_partition_adds_up_to_its_cost():
    costs = np.random.default_rng(1).random(2**7)
    costs[0] = 0
    for sets in range(1, 8):
        value, found = best_partition(costs, sets)
        assert value == pytest.approx(costs[found].sum())
        assert sum(found) == 2**7 - 1
        assert len(found) <= sets
