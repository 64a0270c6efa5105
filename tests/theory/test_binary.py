"""Codes for the binary symmetric source: against explicit codes, brute force and sampling."""

import math
from itertools import product

import numpy as np
import pytest

from agrlearn import theory
from agrlearn.errors import TheoryError
from agrlearn.theory.binary import inverse_binary_entropy, tail_biting_distances

NOISE = 0.1


def test_the_hamming_code_of_length_7_is_that_ib_code():
    generator = np.array([[1, 0, 0, 0, 1, 1, 0], [0, 1, 0, 0, 1, 0, 1], [0, 0, 1, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1, 1]])
    codewords = np.array(list(product([0, 1], repeat=4))) @ generator % 2
    words = theory.words(2, 7)
    nearest = (words[:, None] != codewords[None]).sum(axis=2).argmin(axis=1)
    explicit = theory.IBCode(theory.binary_symmetric(NOISE), 7, nearest)
    code = theory.perfect_code("hamming-7", NOISE)
    assert code.rate == pytest.approx(explicit.rate())
    assert code.distortion == pytest.approx(explicit.distortion())
    # For a linear code of this kind the letters of the codeword tell as much as the index.
    assert theory.with_decoder(explicit, codewords).distortion() == pytest.approx(code.distortion)


def test_known_values():
    hamming = theory.perfect_code("hamming-15", NOISE)
    assert round(hamming.distortion, 6) == 0.140845
    assert round(theory.time_sharing_distortion(theory.binary_symmetric(NOISE), hamming.rate), 6) == 0.141601
    assert round(theory.binary_limit(0.5, NOISE), 6) == 0.228320
    golay = theory.perfect_code("golay-23", NOISE)
    assert (golay.rate, round(golay.flip, 6)) == (pytest.approx(12 / 23), 0.124023)


def test_the_convolutional_code_of_256_states_is_between_time_sharing_and_the_limit():
    code = theory.convolutional_code(NOISE)
    assert (code.name, code.length, code.rate) == ("convolutional-256", 1000, 0.5)
    assert code.distortion == pytest.approx(0.2464, abs=0.0015)
    assert code.flip_error < 3e-4


def test_viterbi_finds_the_nearest_tail_biting_codeword_or_one_nearby():
    generators, length = (0o5, 0o7), 16
    messages = np.array(list(product([0, 1], repeat=length // 2)))
    window = np.stack([np.roll(messages, shift, axis=1) for shift in range(3)])
    codewords = np.stack([(window[0] + window[2]) % 2, window.sum(axis=0) % 2], axis=2).reshape(len(messages), -1)
    words = np.random.default_rng(0).integers(0, 2, (300, length))
    nearest = (words[:, None] != codewords[None]).sum(axis=2).min(axis=1)
    found = tail_biting_distances(words, generators)
    assert (found >= nearest).all()
    assert (found == nearest).mean() > 0.8
    assert (tail_biting_distances(codewords, generators) == 0).all()


def test_the_random_codebook_is_what_sampling_says():
    length, rate, draws = 8, 0.5, 4000
    random = np.random.default_rng(0)
    codebooks = random.integers(0, 2, (draws, 2 ** (length // 2), length))
    distances = codebooks.sum(axis=2).min(axis=1)  # to the word 0, as good as any
    expected = theory.random_codebook(length, rate, NOISE).flip
    assert distances.mean() / length == pytest.approx(expected, abs=4 * distances.std() / length / math.sqrt(draws))


def test_random_codebooks_approach_the_limit():
    distortions = [theory.random_codebook(n, 0.5, NOISE).distortion for n in (10, 100, 1000, 5000)]
    assert sorted(distortions, reverse=True) == distortions
    assert 0 < distortions[-1] - theory.binary_limit(0.5, NOISE) < 1e-3


def test_typicality_failure_is_what_sampling_says():
    length, rate, flip, epsilon, draws = 20, 0.4, 0.2, 0.3, 2000
    random = np.random.default_rng(1)
    failures = 0
    wanted = np.array([[1 - flip, flip], [flip, 1 - flip]]) * length / 2
    for _ in range(draws):
        x = random.integers(0, 2, length)
        t = random.integers(0, 2, (2 ** int(length * rate), length))
        counts = np.stack([[((x == a) & (t == b)).sum(axis=1) for b in (0, 1)] for a in (0, 1)])
        typical = (np.abs(counts - wanted[:, :, None]) <= epsilon * wanted[:, :, None] + 1e-9).all(axis=(0, 1))
        failures += not typical.any()
    expected = theory.typicality_failure(length, rate, flip, epsilon)
    assert 0.05 < expected < 0.95
    assert failures / draws == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / draws))


def test_joint_typicality_is_impractical_at_the_lengths_of_a_group():
    flip = inverse_binary_entropy(0.5)
    assert theory.typicality_failure(10, 0.55, flip, 0.1) > 0.999
    assert theory.typicality_failure(1000, 0.55, flip, 0.1) < 0.01


def test_units_are_one_keyword():
    for bits, nats in (
        (theory.perfect_code("golay-23", NOISE), theory.perfect_code("golay-23", NOISE, unit="nats")),
        (theory.random_codebook(50, 0.5, NOISE), theory.random_codebook(50, 0.5 * math.log(2), NOISE, unit="nats")),
    ):
        assert (bits.unit, nats.unit) == ("bits", "nats")
        assert nats.rate == pytest.approx(bits.rate * math.log(2))
        assert nats.distortion == pytest.approx(bits.distortion * math.log(2))
    assert theory.binary_limit(0.5 * math.log(2), NOISE, unit="nats") == pytest.approx(0.228320 * math.log(2), abs=1e-6)


def test_bad_input_is_refused():
    for name in ("hamming-8", "hamming-", "golay-24", "reed"):
        with pytest.raises(TheoryError, match="hamming-N"):
            theory.perfect_code(name, NOISE)
    with pytest.raises(TheoryError, match="noise p between"):
        theory.perfect_code("golay-23", 0.7)
    with pytest.raises(TheoryError, match="noise between"):
        theory.binary_symmetric(-0.1)
    with pytest.raises(TheoryError, match="even length"):
        theory.convolutional_code(NOISE, length=11)
    with pytest.raises(TheoryError, match="rate of at least 0"):
        theory.random_codebook(10, -0.5, NOISE)
    with pytest.raises(TheoryError, match="epsilon"):
        theory.typicality_failure(10, 0.5, 0.1, 2.0)
    with pytest.raises(TheoryError, match="rate of at least 0"):
        theory.binary_limit(math.nan, NOISE)
    with pytest.raises(TheoryError, match="between 0 and 1 bits"):
        inverse_binary_entropy(1.5)
