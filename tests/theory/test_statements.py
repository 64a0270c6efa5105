"""The theorems, tried on random tables."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agrlearn import theory
from agrlearn.errors import TheoryError
from tests.theory.random_tables import joints, random_encoder

SEEDS = st.integers(0, 9999)
SMALL = joints(letters=st.integers(2, 4), classes=st.integers(2, 3))


@given(joints(), SEEDS)
def test_distortion_is_lost_information(p_xy, seed):
    encoder = random_encoder(np.random.default_rng(seed), len(p_xy), 3)
    assert theory.distortion_is_lost_information(p_xy, encoder).holds()


@settings(deadline=None, max_examples=6)
@given(SMALL, st.floats(0, 1))
def test_learning_is_quantization(p_xy, share):
    assert theory.learning_is_quantization(p_xy, share * theory.mutual_information(p_xy)).holds(1e-6)


@given(joints(), SEEDS)
def test_the_variational_bound_holds_for_every_decoder(p_xy, seed):
    random = np.random.default_rng(seed)
    encoder = random_encoder(random, len(p_xy), 3)
    decoder = random_encoder(random, 3, p_xy.shape[1])
    sides = theory.variational_bound(p_xy, encoder, decoder)
    assert sides.holds()
    p_ty = theory.bottleneck_joint(p_xy, encoder)
    short = sum(p_ty[t].sum() * theory.kl_divergence(theory.conditional_law(p_ty)[t], decoder[t]) for t in range(3))
    assert sides.left - sides.right == pytest.approx(short, abs=1e-9)


@given(joints(), SEEDS)
def test_the_variational_bound_is_reached_exactly_at_the_true_decoder(p_xy, seed):
    encoder = random_encoder(np.random.default_rng(seed), len(p_xy), 3)
    decoder = theory.conditional_law(theory.bottleneck_joint(p_xy, encoder))
    sides = theory.variational_bound(p_xy, encoder, decoder)
    assert sides.left == pytest.approx(sides.right, abs=1e-9)
    other = 0.9 * decoder + 0.1 / decoder.shape[1]
    if np.abs(other - decoder).max() > 1e-3:
        away = theory.variational_bound(p_xy, encoder, other)
        assert away.left > away.right + 1e-9


def test_a_decoder_that_excludes_what_happens_explains_nothing():
    sides = theory.variational_bound([[0.5, 0.0], [0.0, 0.5]], np.eye(2), [[1.0, 0.0], [1.0, 0.0]])
    assert sides.right == -np.inf
    assert sides.holds()


@settings(deadline=None, max_examples=5)
@given(SMALL, st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_the_rate_is_convex(p_xy, first, second, share):
    information = theory.mutual_information(p_xy)
    assert theory.rate_is_convex(p_xy, first * information, second * information, share).holds(1e-6)


@settings(deadline=None, max_examples=10)
@given(SMALL, st.floats(0, 1))
def test_the_rate_is_between_its_trivial_ends(p_xy, share):
    below, above = theory.rate_between_its_ends(p_xy, share * theory.mutual_information(p_xy))
    assert below.holds(1e-6)
    assert above.holds(1e-6)


@settings(deadline=None)
@given(joints(letters=st.integers(2, 3), classes=st.integers(2, 3)), st.integers(1, 3), SEEDS)
def test_factorised_heads_miss_the_joint_loss_by_the_conditional_total_correlation(p_xy, fold, seed):
    encoder = random_encoder(np.random.default_rng(seed), len(p_xy) ** fold, 3)
    loss = theory.best_group_loss(p_xy, encoder, fold)
    assert loss.gap >= -1e-12
    assert loss.loss == pytest.approx(loss.joint + loss.gap, abs=1e-9)
    if fold == 1:
        assert loss.gap == pytest.approx(0, abs=1e-12)


@given(joints(letters=st.integers(2, 3), classes=st.integers(2, 3)), SEEDS)
def test_no_factorised_heads_do_better_than_the_best_group_loss(p_xy, seed):
    random = np.random.default_rng(seed)
    encoder = random_encoder(random, len(p_xy) ** 2, 3)
    heads = random.dirichlet(np.ones(p_xy.shape[1]), (2, 3))
    together = np.kron(p_xy, p_xy)
    p_ty = (encoder.T @ together).reshape(3, p_xy.shape[1], p_xy.shape[1])
    loss = -(p_ty * (np.log2(heads[0])[:, :, None] + np.log2(heads[1])[:, None, :])).sum()
    assert theory.best_group_loss(p_xy, encoder, 2).loss <= loss + 1e-9


def test_a_bottleneck_that_keeps_the_parity_fools_the_heads():
    parity = np.eye(2)[[0, 1, 1, 0]]
    assert theory.best_group_loss([[0.5, 0.0], [0.0, 0.5]], parity, fold=2) == theory.GroupLoss(2.0, 1.0, 1.0, "bits")


@given(joints(letters=st.integers(2, 3), classes=st.just(2)), st.integers(1, 3), SEEDS)
def test_a_group_carries_at_least_what_its_places_carry(p_xy, fold, seed):
    random = np.random.default_rng(seed)
    encoder = random_encoder(random, len(p_xy) ** fold, 5)
    assert theory.group_rate(p_xy, encoder, random.integers(0, 3, (5, fold))).holds()


@given(joints(letters=st.integers(2, 3), classes=st.just(2)), SEEDS)
def test_independent_places_carry_exactly_what_the_group_does(p_xy, seed):
    random = np.random.default_rng(seed)
    first, second = (random_encoder(random, len(p_xy), 2) for _ in range(2))
    sides = theory.group_rate(p_xy, np.kron(first, second), [[0, 0], [0, 1], [1, 0], [1, 1]])
    assert sides.left == pytest.approx(sides.right, abs=1e-9)


def test_bad_statements_are_refused():
    p_xy = theory.binary_symmetric()
    with pytest.raises(TheoryError, match="share between 0 and 1"):
        theory.rate_is_convex(p_xy, 0.1, 0.2, 1.5)
    with pytest.raises(TheoryError, match="with 4 rows"):
        theory.best_group_loss(p_xy, np.eye(2), fold=2)
    with pytest.raises(TheoryError, match="smaller n"):
        theory.best_group_loss(p_xy, np.eye(2), fold=30)
    with pytest.raises(TheoryError, match=r"shape \(indices, n\)"):
        theory.group_rate(p_xy, np.eye(2), [0, 1])
