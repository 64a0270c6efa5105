"""Codes: their distortion against a naive loop, products, units, and bad input."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agrlearn import theory
from tests.theory.random_tables import joints

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
