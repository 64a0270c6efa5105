"""The curve and the rate functions: closed form, linear program, inverses, time-sharing on straight pieces."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import xlogy

from agrlearn import theory
from agrlearn.errors import TheoryError
from tests.theory.random_tables import joints


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.3, 0.5, 0.9, 0.999, 1.0])
@pytest.mark.parametrize("noise", [0.02, 0.1, 0.3])
def test_the_binary_symmetric_source_has_its_closed_form(rate, noise):
    p_xy = theory.binary_symmetric(noise)
    assert theory.distortion_ibq(p_xy, rate) == pytest.approx(theory.binary_limit(rate, noise), abs=1e-7)


def test_known_values():
    assert theory.distortion_ibq(theory.binary_symmetric(0.1), 0.5) == pytest.approx(0.228320, abs=5e-7)
    assert theory.distortion_ibq(theory.three_letters(), 1.0) == pytest.approx(0.100182, abs=5e-7)


def test_a_linear_program_over_posteriors_gives_the_same_rate():
    p_xy = np.array([[0.3, 0.05, 0.05], [0.1, 0.2, 0.3]])
    p_x, p_y = p_xy.sum(axis=1), p_xy.sum(axis=0)
    first = np.linspace(0, 1, 10_001)
    grid = np.stack([first, 1 - first], axis=1)
    labels = grid @ (p_xy / p_x[:, None])
    rates = -xlogy(p_x, p_x).sum() + xlogy(grid, grid).sum(axis=1)
    relevances = -xlogy(p_y, p_y).sum() + xlogy(labels, labels).sum(axis=1)
    for relevance in (0.02, 0.06, 0.1):
        oracle = linprog(rates, A_ub=-relevances[None], b_ub=[-relevance], A_eq=grid.T, b_eq=p_x).fun
        assert theory.rate_ibl(p_xy, relevance, unit="nats") == pytest.approx(oracle, abs=1e-6)


@settings(deadline=None, max_examples=6)
@given(joints(letters=st.integers(2, 4), classes=st.integers(2, 3)), st.floats(0.05, 0.95))
def test_rate_and_relevance_are_inverse(p_xy, share):
    relevance = share * theory.mutual_information(p_xy)
    rate = theory.rate_ibl(p_xy, relevance)
    assert theory.relevance_ibl(p_xy, rate) == pytest.approx(relevance, abs=1e-6)


@settings(deadline=None, max_examples=12)
@given(joints(letters=st.integers(2, 4), classes=st.integers(2, 3)), st.floats(0.0, 1.0))
def test_the_encoder_of_a_point_has_its_numbers(p_xy, share):
    point = theory.point_at(p_xy, relevance=share * theory.mutual_information(p_xy))
    rate, relevance = theory.encoder_information(p_xy, point.encoder)
    assert rate == pytest.approx(point.rate, abs=1e-9)
    assert relevance == pytest.approx(point.relevance, abs=1e-9)
    assert relevance >= share * theory.mutual_information(p_xy) - 1e-9
    assert theory.mean_ib_distortion(p_xy, point.encoder) == pytest.approx(point.distortion, abs=1e-9)
    assert point.gap < 1e-6
    assert point.proved


@pytest.mark.parametrize("share", [5e-324, 1e-310, 1e-300])
def test_a_share_next_to_nothing_leaves_no_infinite_numbers(share):
    p_xy = np.array([[0.002, 0.0, 0.005], [0.0, 0.135, 0.0], [0.166, 0.0, 0.692]])
    point = theory.point_at(p_xy, relevance=share * theory.mutual_information(p_xy))
    rate, relevance = theory.encoder_information(p_xy, point.encoder)
    assert (rate, relevance) == pytest.approx((0.0, 0.0), abs=1e-9)
    assert np.isfinite(theory.mean_ib_distortion(p_xy, point.encoder))


def test_a_deterministic_table_is_one_straight_piece():
    p_xy = np.diag([0.5, 0.3, 0.2])
    assert len(theory.bottleneck_curve(p_xy)) == 2
    for relevance in (0.0, 0.4, 1.1):
        assert theory.rate_ibl(p_xy, relevance) == pytest.approx(relevance, abs=1e-9)


def test_time_sharing_puts_the_clusters_of_both_solutions_side_by_side():
    p_xy = np.diag([0.5, 0.3, 0.2])
    point = theory.point_at(p_xy, rate=0.5)
    assert point.encoder.shape == (3, 1 + 3)


@settings(deadline=None, max_examples=6)
@given(joints(letters=st.integers(2, 4), classes=st.integers(2, 3)))
def test_the_curve_is_concave_from_nothing_to_everything(p_xy):
    curve = theory.bottleneck_curve(p_xy, points=9)
    assert (curve[0].rate, curve[0].relevance) == pytest.approx((0, 0), abs=1e-12)
    assert curve[-1].relevance == pytest.approx(theory.mutual_information(p_xy), abs=1e-9)
    slopes = [
        (b.rate - a.rate) / (b.relevance - a.relevance) for a, b in pairwise(curve) if b.relevance > a.relevance + 1e-6
    ]
    assert all(b >= a - 1e-3 * b for a, b in pairwise(slopes))
    assert all(point.gap < 1e-6 for point in curve)


def test_given_betas_come_back_in_order():
    curve = theory.bottleneck_curve(theory.four_letters(), [10.0, 3.0], unit="nats")
    assert [point.beta for point in curve] == [3.0, 10.0]
    assert [round(point.rate, 6) for point in curve] == [0.154339, 0.867028]


@settings(deadline=None, max_examples=25)
@given(joints(), st.lists(st.floats(1.01, 60.0), min_size=2, max_size=6))
def test_betas_solved_together_are_as_good_and_as_certain_as_one_by_one(p_xy, betas):
    for point in theory.bottleneck_curve(p_xy, betas, unit="nats"):
        alone = theory.bottleneck(p_xy, point.beta, unit="nats")
        assert point.rate - point.beta * point.relevance <= alone.rate - alone.beta * alone.relevance + 1e-9
        assert point.proved
        assert point.gap < 1e-6


def test_a_beta_that_cannot_be_proved_leaves_the_proofs_of_the_others_alone():
    p_xy = np.random.default_rng(3).dirichlet(np.ones(36)).reshape(6, 6)
    hard, easy = theory.bottleneck_curve(p_xy, [1.5, 40.0], unit="nats")
    assert not hard.proved
    assert easy.proved
    assert easy.gap < 1e-6


def test_more_rate_than_there_is_brings_no_more():
    p_xy = theory.three_letters()
    assert theory.distortion_ibq(p_xy, 5.0) == pytest.approx(0, abs=1e-12)
    assert theory.rate_ibq(p_xy, 5.0) == 0


def test_targets_out_of_range_are_refused():
    p_xy = theory.three_letters()
    with pytest.raises(TheoryError, match=r"at most I\(X;Y\) = 0.475735 bits"):
        theory.rate_ibl(p_xy, 0.5)
    for function in (theory.rate_ibl, theory.rate_ibq, theory.relevance_ibl, theory.distortion_ibq):
        for bad in (-0.1, math.nan):
            with pytest.raises(TheoryError, match="at least 0"):
                function(p_xy, bad)
    with pytest.raises(TheoryError, match="one of relevance, distortion or rate"):
        theory.point_at(p_xy, rate=1.0, relevance=0.1)
    with pytest.raises(TheoryError, match="at least 2 points"):
        theory.bottleneck_curve(p_xy, points=1)
