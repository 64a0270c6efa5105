"""The bottleneck: against a closed form, a linear program and known values; its certificate against bad encoders."""

import math
import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, linprog
from scipy.special import xlogy

from agrlearn import theory
from agrlearn.errors import TheoryError
from tests.theory.random_tables import joints, random_encoder

# Three blocks that share no letter: the bound is flat across them close to β = 1.
BLOCKS = np.array([[0.003, 0, 0, 0.117], [0, 0.41, 0, 0], [0.38, 0, 0, 0], [0, 0, 0.09, 0]])


def lagrangian(point):
    return point.rate - point.beta * point.relevance


def envelope_by_linear_program(p_xy, beta, steps):
    """min I(X;T) − β·I(Y;T) over posteriors on a grid of the simplex of X, in nats: at least the true minimum."""
    p_x, laws = p_xy.sum(axis=1), p_xy / p_xy.sum(axis=1, keepdims=True)
    grid = np.array(list(_grid(len(p_x), steps))) / steps
    labels = grid @ laws
    phi = -beta * xlogy(labels, labels).sum(axis=1) + xlogy(grid, grid).sum(axis=1)
    found = linprog(phi, A_eq=grid.T, b_eq=p_x, method="highs")
    p_y = p_xy.sum(axis=0)
    return found.fun - xlogy(p_x, p_x).sum() + beta * xlogy(p_y, p_y).sum()


def _grid(letters, steps):
    if letters == 1:
        yield (steps,)
        return
    for first in range(steps + 1):
        for rest in _grid(letters - 1, steps - first):
            yield (first, *rest)


@pytest.mark.parametrize("beta", [1.57, 1.6, 2.0, 3.0, 8.0])
def test_the_binary_symmetric_source_has_its_closed_form(beta):
    noise = 0.1

    def stationary(flip):
        label = noise + flip - 2 * noise * flip
        return math.log((1 - flip) / flip) - beta * (1 - 2 * noise) * math.log((1 - label) / label)

    flip = brentq(stationary, 1e-30, 0.5 - 1e-3, xtol=1e-16)
    point = theory.bottleneck(theory.binary_symmetric(noise), beta)
    assert point.rate == pytest.approx(1 - theory.binary_entropy(flip), abs=1e-7)
    assert point.relevance == pytest.approx(1 - theory.binary_entropy(noise + flip - 2 * noise * flip), abs=1e-7)
    assert point.encoder.min() == pytest.approx(flip, abs=1e-6)
    assert point.proved
    assert point.gap < 1e-6


@pytest.mark.parametrize(
    "source, beta, rate, relevance",
    [
        (theory.binary_symmetric(0.1), 2.0, 0.482730, 0.282273),
        (theory.four_letters(), 3.0, 0.154339, 0.057358),
        (theory.four_letters(), 10.0, 0.867028, 0.196263),
    ],
)
def test_known_values(source, beta, rate, relevance):
    point = theory.bottleneck(source, beta, unit="nats")
    assert (round(point.rate, 6), round(point.relevance, 6)) == (rate, relevance)
    assert point.gap < 1e-6


def test_the_flip_of_the_binary_symmetric_source_at_beta_2():
    assert theory.bottleneck(theory.binary_symmetric(0.1), 2.0).encoder.min() == pytest.approx(0.054100664, abs=1e-8)


def test_a_rare_cluster_pays_before_small_changes_do():
    p_xy = theory.four_letters()
    assert theory.critical_beta(p_xy) == pytest.approx(2.527778, abs=1e-6)
    onset = theory.onset_beta(p_xy)
    assert onset == pytest.approx(2.453633, abs=1e-5)
    assert theory.bottleneck(p_xy, onset - 1e-3).rate == pytest.approx(0, abs=1e-12)
    between = theory.bottleneck(p_xy, 2.5, unit="nats")
    rate, relevance = theory.encoder_information(p_xy, between.encoder, unit="nats")
    assert rate - 2.5 * relevance < -1e-4  # a constant T has 0


@settings(deadline=None, max_examples=12)
@given(joints(letters=st.just(3), classes=st.integers(2, 3)), st.floats(1.1, 20.0))
def test_no_linear_program_over_a_grid_of_posteriors_beats_it(p_xy, beta):
    p_xy = (p_xy + 1e-4) / (p_xy + 1e-4).sum()
    point = theory.bottleneck(p_xy, beta, unit="nats")
    oracle = envelope_by_linear_program(p_xy, beta, steps=40)
    assert lagrangian(point) < oracle + 1e-9


def test_a_linear_program_over_a_grid_of_posteriors_comes_close_for_three_letters():
    p_xy = np.array([[0.2, 0.05, 0.05], [0.1, 0.2, 0.1], [0.05, 0.05, 0.2]])
    for beta in (4.0, 9.0):
        point = theory.bottleneck(p_xy, beta, unit="nats")
        assert lagrangian(point) == pytest.approx(envelope_by_linear_program(p_xy, beta, steps=80), abs=3e-3)


def test_a_fine_linear_program_agrees_for_two_letters():
    p_xy = np.array([[0.3, 0.05, 0.05], [0.1, 0.2, 0.3]])
    for beta in (2.0, 3.0, 6.0, 25.0):
        point = theory.bottleneck(p_xy, beta, unit="nats")
        assert lagrangian(point) == pytest.approx(envelope_by_linear_program(p_xy, beta, steps=10_000), abs=1e-7)


@settings(deadline=None, max_examples=60)
@given(joints(), st.floats(1.0, 200.0))
def test_every_solution_is_certified(p_xy, beta):
    point = theory.bottleneck(p_xy, beta)
    assert point.proved
    assert point.gap < 1e-6
    again, _ = theory.certificate_gap(p_xy, point.encoder, beta)
    assert again < 2e-6


@settings(deadline=None, max_examples=25)
@given(joints(), st.sampled_from([-1e-3, -1e-6, 0.0, 1e-6, 1e-4, 1e-2]))
@example(BLOCKS, 2e-16)
@example(BLOCKS, 1e-6)
def test_solutions_close_to_a_bifurcation_are_certified(p_xy, distance):
    critical = theory.critical_beta(p_xy)
    if critical < 1e6:
        point = theory.bottleneck(p_xy, critical * (1 + distance))
        assert point.proved
        assert point.gap < 1e-6


@settings(deadline=None, max_examples=40)
@given(joints(), st.floats(1.0, 50.0), st.integers(0, 999))
def test_the_certificate_of_any_encoder_is_true(p_xy, beta, seed):
    encoder = random_encoder(np.random.default_rng(seed), len(p_xy), 3)
    gap, proved = theory.certificate_gap(p_xy, encoder, beta)
    rate, relevance = theory.encoder_information(p_xy, encoder)
    above = rate - beta * relevance - lagrangian(theory.bottleneck(p_xy, beta))
    assert proved
    assert gap >= above - 1e-9


def test_bad_encoders_get_large_gaps():
    p_xy = theory.four_letters()
    for encoder in (np.ones((4, 1)), np.eye(4)[[0, 1, 0, 1]], np.full((4, 2), 0.5)):
        assert theory.certificate_gap(p_xy, encoder, 10.0)[0] > 0.5
    assert theory.certificate_gap(p_xy, np.eye(4), 1.5)[0] > 0.5
    assert theory.certificate_gap(p_xy, np.eye(4), 0.5)[0] > 0.5


def test_telling_equal_letters_apart_costs_in_the_certificate():
    p_xy = np.array([[0.2, 0.05], [0.2, 0.05], [0.1, 0.4]])
    best = theory.bottleneck(p_xy, 6.0)
    wasteful = np.hstack([best.encoder * [[1], [0], [1]], best.encoder * [[0], [1], [0]]])
    assert theory.certificate_gap(p_xy, best.encoder, 6.0)[0] < 1e-6
    assert theory.certificate_gap(p_xy, wasteful, 6.0)[0] > 0.1


def test_a_probability_that_starts_at_0_does_not_stay_there():
    p_xy = np.array([[0.14023884, 0.13696948, 0.72279168, 0.0], [0.69277846, 0.11593259, 0.08143802, 0.10985093]])
    p_xy *= np.array([[0.18076975], [0.81923025]]) / p_xy.sum(axis=1, keepdims=True)
    assert theory.bottleneck(p_xy, 5.0).gap < 1e-6


def test_a_cluster_that_fades_does_not_stall_the_others():
    laws = np.array(
        [[0, 0, 0, 1.0], [0.0826424, 0.2594581, 0.6572910, 0.0006085], [0.7126344, 0.1168366, 0.1705290, 0]]
    )
    p_xy = theory.joint_table(laws * [[0.0978777], [0.4273290], [0.4747933]], normalize=True)
    start = time.process_time()
    point = theory.bottleneck(p_xy, 1.0029442, unit="nats")
    assert time.process_time() - start < 1
    assert point.rate == pytest.approx(0.208442, abs=1e-5)


def test_a_rare_cluster_is_weighed_exactly_enough_for_the_certificate():
    p = np.array([0.0570151144, 6.13480378e-08, 0.840642578, 0.0106591434, 0.0916831030])
    first = np.array([0.922520987, 0.112496859, 0.0100792883, 0.927427000, 4.45643015e-06])
    p_xy = theory.joint_table(p[:, None] * np.stack([first, 1 - first], axis=1), normalize=True)
    for scale in range(5):
        assert theory.bottleneck(p_xy, 100.0 + scale).gap < 1e-6


def test_a_deterministic_table_keeps_all_or_nothing():
    p_xy = np.diag([0.5, 0.3, 0.2])
    assert theory.bottleneck(p_xy, 0.999).rate == 0
    point = theory.bottleneck(p_xy, 1.001)
    assert point.rate == pytest.approx(theory.entropy([0.5, 0.3, 0.2]), abs=1e-9)
    assert point.proved
    assert point.gap < 1e-6


def test_letters_of_equal_law_share_their_clusters():
    p_xy = np.array([[0.2, 0.1], [0.1, 0.05], [0.05, 0.5]])
    point = theory.bottleneck(p_xy, math.inf)
    np.testing.assert_array_equal(point.encoder[0], point.encoder[1])
    assert point.rate == pytest.approx(theory.entropy([0.45, 0.55]))
    assert point.distortion == pytest.approx(0, abs=1e-12)


def test_independent_letters_give_nothing_to_keep():
    p_xy = np.outer([0.2, 0.3, 0.5], [0.4, 0.6])
    assert theory.bottleneck(p_xy, 100.0).rate == pytest.approx(0, abs=1e-12)
    assert theory.critical_beta(p_xy) == theory.onset_beta(p_xy) == math.inf


def test_fewer_clusters_than_needed_show_in_the_gap():
    p_xy = theory.four_letters()
    free = theory.bottleneck(p_xy, 10.0)
    two = theory.bottleneck(p_xy, 10.0, clusters=2)
    assert free.encoder.shape[1] == 3
    assert two.encoder.shape[1] == 2
    assert two.gap == pytest.approx(lagrangian(two) - lagrangian(free), abs=1e-6)
    assert two.gap > 0.2


def test_many_letters_are_searched_where_they_cannot_be_proved():
    p_xy = np.random.default_rng(3).dirichlet(np.ones(72)).reshape(9, 8)
    point = theory.bottleneck(p_xy, 6.0)
    assert not point.proved
    assert point.gap < 1e-6


def test_a_curve_of_21_points_takes_less_than_2_seconds():
    p_xy = np.random.default_rng(0).dirichlet(np.ones(24)).reshape(8, 3)
    start = time.process_time()
    curve = theory.bottleneck_curve(p_xy)
    assert time.process_time() - start < 2
    assert len(curve) == 21
    assert all(point.proved and point.gap < 1e-6 for point in curve)


@pytest.mark.slow
def test_solutions_of_many_tables_are_certified():
    random = np.random.default_rng(7)
    for _ in range(150):
        shape = (int(random.integers(2, 9)), int(random.integers(2, 5)))
        p_xy = random.dirichlet(np.full(shape[0] * shape[1], random.choice([0.1, 1.0, 20.0]))).reshape(shape)
        for beta in (1.01, 2.0, 5.0, 30.0, theory.critical_beta(p_xy) * 1.0001):
            point = theory.bottleneck(p_xy, beta)
            assert point.proved, (shape, beta)
            assert point.gap < 1e-6, (shape, beta)


@pytest.mark.parametrize("beta", [-1.0, math.nan, -math.inf])
def test_a_beta_out_of_range_is_refused(beta):
    with pytest.raises(TheoryError, match="beta of at least 0"):
        theory.bottleneck(theory.four_letters(), beta)


def test_bad_cluster_counts_are_refused():
    with pytest.raises(TheoryError, match="clusters of at least 1"):
        theory.bottleneck(theory.four_letters(), 2.0, clusters=0)
    with pytest.raises(TheoryError, match="at least 4 clusters"):
        theory.bottleneck(theory.four_letters(), math.inf, clusters=2)
    with pytest.raises(TheoryError, match="finite beta"):
        theory.certificate_gap(theory.four_letters(), np.eye(4), math.inf)
