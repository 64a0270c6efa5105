"""Information measures on tables: against naive sums, in both units, with zeros."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agrlearn import theory
from tests.theory.random_tables import joints, random_encoder


def naive_information(joint):
    total = 0.0
    for row in joint:
        for y, p in enumerate(row):
            if p > 0:
                total += p * math.log2(p / (sum(row) * sum(joint[:, y])))
    return total


@given(joints())
def test_mutual_information_is_the_naive_sum(p_xy):
    assert theory.mutual_information(p_xy) == pytest.approx(naive_information(p_xy), abs=1e-12)


@given(joints())
def test_mutual_information_is_what_entropies_say(p_xy):
    entropies = [theory.entropy(p) for p in (p_xy.sum(axis=1), p_xy.sum(axis=0), p_xy.ravel())]
    assert theory.mutual_information(p_xy) == pytest.approx(entropies[0] + entropies[1] - entropies[2], abs=1e-12)


@given(joints(), st.integers(0, 999))
def test_nats_are_bits_times_log_2(p_xy, seed):
    encoder = random_encoder(np.random.default_rng(seed), len(p_xy), 3)
    for function, arguments in (
        (theory.entropy, (p_xy.ravel(),)),
        (theory.mutual_information, (p_xy,)),
        (theory.kl_divergence, (encoder[0], encoder[1])),
        (theory.mean_ib_distortion, (p_xy, encoder)),
    ):
        bits, nats = function(*arguments), function(*arguments, unit="nats")
        assert nats == pytest.approx(bits * math.log(2), abs=1e-12)


@given(joints(), st.integers(0, 999))
def test_processing_loses_information(p_xy, seed):
    encoder = random_encoder(np.random.default_rng(seed), len(p_xy), 4)
    rate, relevance = theory.encoder_information(p_xy, encoder)
    assert relevance <= min(rate, theory.mutual_information(p_xy)) + 1e-12
    assert rate <= theory.entropy(p_xy.sum(axis=1)) + 1e-12


def test_zeros_are_exact():
    assert theory.entropy([1.0, 0.0]) == 0
    assert theory.kl_divergence([1.0, 0.0], [0.5, 0.5]) == 1
    assert theory.kl_divergence([0.5, 0.5], [1.0, 0.0]) == math.inf
    table = [[0.5, 0.0], [0.0, 0.5]]
    np.testing.assert_array_equal(theory.ib_distortion(table, np.eye(2)), [[0, math.inf], [math.inf, 0]])
    assert theory.mean_ib_distortion(table, np.eye(2)) == 0


def test_a_letter_of_probability_0_changes_nothing():
    p_xy = np.array([[0.3, 0.1], [0.0, 0.0], [0.2, 0.4]])
    without = p_xy[[0, 2]]
    assert theory.mutual_information(p_xy) == theory.mutual_information(without)
    kept, left = theory.bottleneck(p_xy, 5.0), theory.bottleneck(without, 5.0)
    assert kept.rate == pytest.approx(left.rate, abs=1e-12)
    assert kept.encoder.shape[0] == 3
    np.testing.assert_allclose(kept.encoder.sum(axis=1), 1)
