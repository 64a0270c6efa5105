"""Randomness that can be replayed."""

import pytest

from agrlearn.errors import RecipeError
from agrlearn.seeding import derive_seed


def test_a_negative_seed_gets_a_sentence():
    with pytest.raises(RecipeError, match="of at least 0, got -1"):
        derive_seed(3, -1)


def test_neighbouring_keys_give_seeds_of_their_own_within_63_bits():
    seeds = {derive_seed(seed, epoch, step) for seed in range(5) for epoch in range(5) for step in range(1, 5)}
    assert len(seeds) == 100
    assert all(0 <= seed < 2**63 for seed in seeds)
