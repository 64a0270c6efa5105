"""What is used where nothing is said: chosen on validation parts of public data, for an ordinary network first."""

from typing import Any

from agrlearn.training.recipe import Recipe

DEFAULT_RECIPE = Recipe(
    epochs=60, batch_size=32, optimizer="adamw", learning_rate=0.001, weight_decay=0.1, schedule="cosine",
    evaluate_every=60,
)  # fmt: skip
"""Of an ordinary network: the one of several rates, decays and numbers of epochs that erred least on 11 tables."""

GROUPS_RATE = 3
"""What groups pooled by max or mean multiply the ordinary network's learning rate by: of 1, 3 and 10 times."""

DEFAULT_GROUPS: dict[str, Any] = {"fold": 2, "join": "mean", "repetition": 0.0}
"""The setting of groups that is compared, and the default for vectors."""

_OPTIONS: dict[str, dict[str, Any]] = {"mlp": {"dropout": 0.1}}


def default_fold(*, vectors: bool) -> int:
    """2 for vectors, of which pairs pooled by the mean did best; 1 for images and sentences."""
    return DEFAULT_GROUPS["fold"] if vectors else 1


def default_options(network: str | None) -> dict[str, Any]:
    """Options of a network that differ from its own defaults: dropout helps on tables, with groups and without.

    >>> default_options("mlp")
    {'dropout': 0.1}
    """
    return dict(_OPTIONS.get(network or "", {}))
