"""Tables that are not distributions are refused, with a message that says why."""

import math

import numpy as np
import pytest

from agrlearn import theory
from agrlearn.errors import TheoryError

BAD_TABLES = {
    "negative": ([[0.5, -0.1], [0.3, 0.3]], "negative"),
    "not a distribution": ([[0.5, 0.1], [0.3, 0.3]], "normalize=True"),
    "almost a distribution": ([[0.5, 0.1], [0.2, 0.2 + 1e-8]], "normalize=True"),
    "NaN": ([[0.5, math.nan], [0.3, 0.2]], "NaN"),
    "infinite": ([[0.5, math.inf], [0.3, 0.2]], "infinity"),
    "one row": ([[0.5, 0.5]], "at least 2 rows"),
    "one column": ([[0.5], [0.5]], "2 columns"),
    "a vector": ([0.5, 0.5], "at least 2 rows"),
    "empty": ([], "at least 2 rows"),
    "words": ([["a", "b"], ["c", "d"]], "numbers"),
    "ragged": ([[0.5], [0.3, 0.2]], "equal length"),
}


@pytest.mark.parametrize("bad", BAD_TABLES)
def test_a_bad_table_is_refused_with_a_reason(bad):
    table, sentence = BAD_TABLES[bad]
    for function in (
        theory.joint_table,
        theory.mutual_information,
        lambda p: theory.bottleneck(p, 2.0),
        theory.bottleneck_curve,
        lambda p: theory.rate_ibl(p, 0.1),
        lambda p: theory.design_code(p, 1.0),
        lambda p: theory.operational_curve(p, 1.0),
    ):
        with pytest.raises(TheoryError, match=sentence):
            function(table)


def test_counts_are_normalized_on_request():
    np.testing.assert_allclose(theory.joint_table([[2, 1], [0, 1]], normalize=True), [[0.5, 0.25], [0, 0.25]])
    with pytest.raises(TheoryError, match="only zeros"):
        theory.joint_table([[0, 0], [0, 0]], normalize=True)


def test_other_bad_input_is_refused():
    with pytest.raises(TheoryError, match="unit='bits' or unit='nats'"):
        theory.entropy([0.5, 0.5], unit="bans")
    with pytest.raises(TheoryError, match="rows sum to 1"):
        theory.encoder_information([[0.5, 0.0], [0.0, 0.5]], [[0.5, 0.4], [0.5, 0.5]])
    with pytest.raises(TheoryError, match="with 2 rows"):
        theory.encoder_information([[0.5, 0.0], [0.0, 0.5]], [[0.5, 0.5]])
    with pytest.raises(TheoryError, match="sums to 1"):
        theory.entropy([0.5, 0.6])
    with pytest.raises(TheoryError, match="one vector"):
        theory.entropy([[0.5, 0.5]])
