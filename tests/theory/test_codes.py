"""IB-quantization codes: exact design against brute force, exchange, decoders, and the operational curve."""

import math
import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agrlearn import theory
from agrlearn.errors import TheoryError
from agrlearn.theory.clustering import cluster_exactly, cost
from agrlearn.theory.codes import word_laws, word_probabilities
from agrlearn.theory.subsets import best_partition, min_plus
from tests.theory.tables import joints

SMALL = joints(letters=st.integers(2, 3), classes=st.integers(2, 3))


def naive_distortion(code):
    """By the definition: the code's joint law of (y_i, t_i), then a mean KL, all in loops."""
    p_x, laws = code.p_xy.sum(axis=1), theory.conditional_law(code.p_xy)
    words = list(product(range(len(p_x)), repeat=code.length))
    total = 0.0
    for i in range(code.length):
        joint, pairs = {}, []
        for word, index in zip(words, code.encoder, strict=True):
            t = index if code.decoder is None else code.decoder[index, i]
            p = math.prod(p_x[x] for x in word)
            joint[t] = joint.get(t, 0) + p * laws[word[i]]
            pairs.append((p, word[i], t))
        for p, x, t in pairs:
            if p > 0:
                total += p * theory.kl_divergence(laws[x], joint[t] / joint[t].sum())
    return total / code.length


@settings(deadline=None)
@given(SMALL, st.integers(1, 3), st.integers(0, 999), st.booleans())
def test_the_distortion_of_a_code_is_its_definition(p_xy, length, seed, passes_index):
    random = np.random.default_rng(seed)
    encoder = random.integers(0, 4, len(p_xy) ** length)
    decoder = None if passes_index else random.integers(0, 3, (4, length))
    code = theory.IBCode(p_xy, length, encoder, decoder)
    assert code.distortion() == pytest.approx(naive_distortion(code), abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(SMALL, st.integers(1, 2), st.integers(1, 4))
def test_the_exact_search_is_as_good_as_trying_all_partitions(p_xy, length, indices):
    p, laws = word_probabilities(p_xy, length), word_laws(p_xy, length)
    p, laws = p[:7] / p[:7].sum(), laws[:7]
    labels = cluster_exactly(p, laws, indices)
    tried = min(cost(p, laws, np.array(each), indices) for each in _partitions(len(p), indices))
    assert cost(p, laws, labels, indices) == pytest.approx(tried, abs=1e-12)


def _partitions(things, sets):
    """Labels whose first occurrences are in order."""
    labels = [[0]]
    for _ in range(things - 1):
        labels = [[*each, label] for each in labels for label in range(min(max(each) + 2, sets))]
    return labels


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


def test_known_values_of_the_three_letter_source():
    curve = theory.operational_curve(theory.three_letters(), 1.0, n=2)
    assert [round(distortion, 6) for distortion in curve.distortions] == [0.136900, 0.130050]
    assert round(curve.limit, 6) == 0.100182


def test_longer_codes_of_the_three_letter_source_fall_on_and_in_time():
    start = time.process_time()
    curve = theory.operational_curve(theory.three_letters(), 1.0, n=4)
    assert time.process_time() - start < 10
    assert all(later < sooner for sooner, later in zip(curve.distortions, curve.distortions[1:], strict=False))
    assert curve.distortions[-1] < 0.1272
    assert min(curve.distortions) > curve.limit
    assert curve.time_sharing == pytest.approx(0.136900, abs=5e-7)


@pytest.mark.parametrize("rate", [0.25, 0.5, 0.75, 1 / 3, 2 / 3, math.log2(3) / 2])
def test_no_short_code_of_the_binary_symmetric_source_beats_time_sharing(rate):
    curve = theory.operational_curve(theory.binary_symmetric(0.1), rate, n=3)
    assert min(curve.distortions) > curve.time_sharing - 1e-9
    assert curve.limit < curve.time_sharing


@pytest.mark.slow
@pytest.mark.parametrize("indices", range(2, 16))
def test_no_code_of_length_4_of_the_binary_symmetric_source_beats_time_sharing(indices):
    p_xy, rate = theory.binary_symmetric(0.1), math.log2(indices) / 4
    code = theory.design_code(p_xy, rate, length=4, method="exact")
    assert code.distortion() > theory.time_sharing_distortion(p_xy, rate) - 1e-9


@settings(deadline=None, max_examples=6)
@given(SMALL, st.floats(0.2, 1.4))
def test_multiples_of_a_length_are_never_worse_and_the_limit_is_never_beaten(p_xy, rate):
    curve = theory.operational_curve(p_xy, rate, n=[1, 2, 3])
    one, two, three = curve.distortions
    assert max(two, three) <= one + 1e-12
    assert min(curve.distortions) >= curve.limit - 1e-6
    assert theory.time_sharing_distortion(p_xy, rate) <= one + 1e-12


@pytest.mark.parametrize("seed", [0, 1])
def test_doubling_the_length_never_hurts_beyond_the_exact_search(seed):
    p_xy = np.random.default_rng(seed).dirichlet(np.ones(6)).reshape(3, 2)
    curve = theory.operational_curve(p_xy, 0.6, n=[2, 4])
    assert len(curve.codes[1].encoder) > 16
    assert curve.distortions[1] <= curve.distortions[0] + 1e-12


@settings(deadline=None, max_examples=15)
@given(SMALL, st.floats(0.3, 1.2))
def test_exchange_is_never_better_than_the_exact_search_and_often_as_good(p_xy, rate):
    exact = theory.design_code(p_xy, rate, 2, method="exact").distortion()
    assert theory.design_code(p_xy, rate, 2, method="exchange").distortion() == pytest.approx(exact, abs=1e-3)
    assert theory.design_code(p_xy, rate, 2, method="exchange").distortion() >= exact - 1e-12


@settings(deadline=None, max_examples=15)
@given(SMALL, st.integers(1, 3), st.integers(0, 999))
def test_no_decoder_beats_passing_the_index_on(p_xy, letters, seed):
    code = theory.design_code(p_xy, 0.9, length=2)
    best = code.distortion()
    random = np.random.default_rng(seed).integers(0, letters, (code.indices, 2))
    for decoder in (random, theory.small_alphabet_decoder(code, letters)):
        assert theory.with_decoder(code, decoder).distortion() >= best - 1e-12
    chosen = theory.with_decoder(code, theory.small_alphabet_decoder(code, letters))
    assert chosen.distortion() <= theory.with_decoder(code, random).distortion() + 1e-12
    assert theory.with_decoder(chosen, None).distortion() == pytest.approx(best, abs=1e-12)


def test_a_code_says_its_rate_and_unit():
    code = theory.design_code(theory.three_letters(), 1.0, length=2)
    assert code.rate() == 1.0
    assert code.rate(unit="nats") == pytest.approx(math.log(2))
    assert code.distortion(unit="nats") == pytest.approx(code.distortion() * math.log(2))
    same = theory.design_code(theory.three_letters(), math.log(2), length=2, unit="nats")
    assert same.distortion() == code.distortion()


def test_a_product_of_codes_has_the_mean_of_their_distortions():
    p_xy = theory.three_letters()
    one, two = theory.design_code(p_xy, 1.0, 1), theory.design_code(p_xy, 1.0, 2)
    both = theory.product_code(one, two)
    assert both.distortion() == pytest.approx((one.distortion() + 2 * two.distortion()) / 3)
    assert both.indices == one.indices * two.indices


def test_all_the_rate_there_is_leaves_no_distortion():
    code = theory.design_code(theory.three_letters(), math.log2(3), length=3)
    assert code.indices == 27
    assert code.distortion() == pytest.approx(0, abs=1e-12)


def test_bad_codes_are_refused():
    p_xy = theory.three_letters()
    with pytest.raises(TheoryError, match='method="exchange"'):
        theory.design_code(p_xy, 1.0, length=3, method="exact")
    with pytest.raises(TheoryError, match="smaller n"):
        theory.design_code(p_xy, 1.0, length=40)
    with pytest.raises(TheoryError, match="n = 8; choose a smaller n or rate"):
        theory.operational_curve(p_xy, 1.0, n=9)
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(TheoryError, match="rate of at least 0"):
            theory.design_code(p_xy, bad)
        with pytest.raises(TheoryError, match="rate of at least 0"):
            theory.operational_curve(p_xy, bad)
    with pytest.raises(TheoryError, match="length n of at least 1"):
        theory.design_code(p_xy, 1.0, length=0)
    with pytest.raises(TheoryError, match="at least one length"):
        theory.operational_curve(p_xy, 1.0, n=0)
    with pytest.raises(TheoryError, match="'auto', 'exact' or 'exchange'"):
        theory.design_code(p_xy, 1.0, method="guess")
    with pytest.raises(TheoryError, match="each of 9 words"):
        theory.IBCode(p_xy, 2, np.zeros(3, dtype=int))
    with pytest.raises(TheoryError, match="whole numbers from 0"):
        theory.IBCode(p_xy, 1, [0.5, 1.0, 0.0])
    with pytest.raises(TheoryError, match="whole numbers from 0"):
        theory.with_decoder(theory.design_code(p_xy, 1.0), [[-1], [0]])
    with pytest.raises(TheoryError, match=r"3\^1000000; choose a smaller n"):
        theory.design_code(p_xy, 1.0, length=1_000_000)
    with pytest.raises(TheoryError, match=r"shape \(indices, 1\)"):
        theory.IBCode(p_xy, 1, np.array([0, 1, 2]), np.zeros((2, 1), dtype=int))
    with pytest.raises(TheoryError, match="at least 1 letter"):
        theory.small_alphabet_decoder(theory.design_code(p_xy, 1.0), 0)
