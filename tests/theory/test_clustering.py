"""The exact clustering against all partitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agrlearn.theory.clustering import cluster_exactly, cost
from agrlearn.theory.codes import word_laws, word_probabilities
from tests.theory.random_tables import joints

SMALL = joints(letters=st.integers(2, 3), classes=st.integers(2, 3))


@settings(deadline=None, max_examples=30)
@given(SMALL, st.integers(1, 2), st.integers(1, 4))
def test_the_exact_search_is_as_good_as_trying_all_partitions(p_xy, length, indices):
    p, laws = word_probabilities(p_xy, length), word_laws(p_xy, length)
    points = (p[:7] / p[:7].sum())[:, None, None] * laws[:7]
    labels = cluster_exactly(points, indices)
    tried = min(cost(points, np.array(each), indices) for each in _partitions(len(points), indices))
    assert cost(points, labels, indices) == pytest.approx(tried, abs=1e-12)


def _partitions(things, sets):
    """Labels whose first occurrences are in order."""
    labels = [[0]]
    for _ in range(things - 1):
        labels = [[*each, label] for each in labels for label in range(min(max(each) + 2, sets))]
    return labels
