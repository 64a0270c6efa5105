"""What is used where nothing is said: chosen on validation parts of public data, for an ordinary network first."""

from typing import Any, Literal

from agrlearn.training.recipe import Recipe

ObjectKind = Literal["vectors", "images", "sentences"]

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
_OF_OPTIMIZERS: dict[str, dict[str, float]] = {
    "adamw": {"learning_rate": DEFAULT_RECIPE.learning_rate, "weight_decay": DEFAULT_RECIPE.weight_decay},
    "adam": {"learning_rate": DEFAULT_RECIPE.learning_rate, "weight_decay": 0.0},
    "sgd": {"learning_rate": Recipe().learning_rate, "weight_decay": Recipe().weight_decay},
}
"""A rate and a decay that suit each; those of SGD are the paper's."""
_SEEN: dict[ObjectKind, tuple[int, int]] = {"vectors": (300_000, 10), "images": (300_000, 10), "sentences": (20_000, 3)}
"""How many objects are seen in training, those that come again included, and the fewest epochs."""


def default_fold(kind: ObjectKind) -> int:
    """2 for vectors, of which pairs pooled by the mean did best; 1 for images and sentences.

    >>> default_fold("vectors"), default_fold("images")
    (2, 1)
    """
    return DEFAULT_GROUPS["fold"] if kind == "vectors" else 1


def default_options(network: str | None) -> dict[str, Any]:
    """Options of a network that differ from its own defaults: dropout helps on tables, with groups and without.

    >>> default_options("mlp")
    {'dropout': 0.1}
    """
    return dict(_OPTIONS.get(network or "", {}))


def default_epochs(kind: ObjectKind, objects: int) -> int:
    """Fewer for many objects, and fewer for sentences, which are learned by heart soon.

    >>> [default_epochs("vectors", count) for count in (150, 10_000, 1_000_000)]
    [60, 30, 10]
    """
    seen, fewest = _SEEN[kind]
    return min(DEFAULT_RECIPE.epochs, max(fewest, seen // max(objects, 1)))


def complete_recipe(given: dict[str, Any], kind: ObjectKind, *, objects: int, pooled: bool) -> Recipe:
    """The recipe for what a user gave, and else the defaults.

    Args:
        given: by the names of `Recipe`.
        objects: how many there are to train on.
        pooled: whether groups are pooled by max or mean, which learn faster.

    >>> complete_recipe({}, "vectors", objects=1000, pooled=True).learning_rate
    0.003
    >>> complete_recipe({"optimizer": "sgd"}, "vectors", objects=1000, pooled=False).learning_rate
    0.1
    """
    optimizer = given.get("optimizer", DEFAULT_RECIPE.optimizer)
    if optimizer not in _OF_OPTIMIZERS:
        return Recipe(**given)  # refuses it in a sentence
    suited = dict(_OF_OPTIMIZERS[optimizer])
    if pooled and optimizer != "sgd":
        suited["learning_rate"] *= GROUPS_RATE
    base = DEFAULT_RECIPE.model_dump() | suited | {"epochs": default_epochs(kind, objects), "evaluate_every": 1}
    return Recipe(**base | given)
