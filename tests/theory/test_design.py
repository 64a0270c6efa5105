"""The design of codes: exact against exchange, decoders, known values, and the operational curve."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agrlearn import theory
from agrlearn.errors import TheoryError
from tests.theory.random_tables import joints

SMALL = joints(letters=st.integers(2, 3), classes=st.integers(2, 3))


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
