"""What is compared: data sets, rivals, and settings of groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agrlearn.runs.spec import RunSpec
from agrlearn.studies.compare import (
    ORDINARY,
    TEST_FRACTION,
    Method,
    groups_of,
    make_methods,
    seeing_as_many,
    with_fewer_epochs,
    with_settings,
)
from agrlearn.training.defaults import DEFAULT_GROUPS, DEFAULT_RECIPE
from benchmarks.evidence.fresh import FRESH
from benchmarks.evidence.tabm_rival import tabm_of

GROUPS = tuple(
    {"fold": fold, "join": join, "repetition": repetition}
    for fold in (2, 4) for join in ("mean", "max") for repetition in (0.0, 0.2, 0.5)
)  # fmt: skip
FEWER_GROUPS = tuple(
    {"fold": 2, "join": join, "repetition": repetition} for join in ("mean", "max") for repetition in (0.0, 0.2)
)
"""Where a run takes minutes."""
_DROPOUT = 0.1
DROPPED, DROPPED_GROUPS = f"ordinary, dropout {_DROPOUT}", f"fold 2, mean, dropout {_DROPOUT}"
FRESH_TABLES = "Fresh tables"
CHOSEN = "groups, chosen"
"""Of three settings of groups, the one that a validation part chooses: as many tries as each remedy has."""
_TRIES = ({"fold": 2, "join": "mean"}, {"fold": 2, "join": "max", "repetition": 0.2}, {"fold": 4, "join": "mean"})
CANDIDATES: dict[str, dict[str, Any]] = {
    ORDINARY: {"fold": 1},
    DROPPED: {"fold": 1, "dropout": _DROPOUT},
    "fold 2, mean": {"fold": 2, "join": "mean", "repetition": 0.0},
    DROPPED_GROUPS: {"fold": 2, "join": "mean", "repetition": 0.0, "dropout": _DROPOUT},
    "fold 2, max, repetition 0.2": {"fold": 2, "join": "max", "repetition": 0.2},
}
"""Of which the default for vectors was chosen, on a fifth of the training part of 11 tables."""


@dataclass(frozen=True)
class DataSet:
    """What the methods are compared on."""

    spec: RunSpec
    """Of the ordinary network."""
    splits: int
    groups: Sequence[dict[str, Any]] = FEWER_GROUPS
    tabm: bool = False
    fresh: bool = False
    """Whether only the default is tried, beside what could explain its gain."""
    quick: bool = True
    """Whether runs are so short that strengths can be chosen; otherwise every remedy has its middle strength."""


def _on_vectors(data: str, **settings: Any) -> DataSet:
    spec = RunSpec(data=data, network="mlp", fold=1, test_fraction=TEST_FRACTION, recipe=DEFAULT_RECIPE)
    return DataSet(spec, splits=10, **settings)


_TABLES = (
    "vehicle.npz", "vowel.npz", "glass.npz", "sonar.npz", "pima.npz", "german.npz", "segmentation.npz",
    "ionosphere.npz", "digits-as-vectors", "breast-cancer", "wine", "spam.npz",
)  # fmt: skip
_EMBEDDINGS = ("movie-review-minilm.npz", "subjectivity-minilm.npz")
_WORDS = ("movie-review", "subjectivity")


def _on_words(data: str) -> DataSet:
    recipe = DEFAULT_RECIPE.model_copy(update={"epochs": 3, "evaluate_every": 3})
    spec = RunSpec(data=data, network="sentence-cnn", fold=1, test_fraction=TEST_FRACTION, recipe=recipe)
    return DataSet(spec, splits=5, quick=False)


SECTIONS: dict[str, dict[str, DataSet]] = {
    "Tables": {name: _on_vectors(name, groups=GROUPS, tabm=True) for name in _TABLES},
    FRESH_TABLES: {f"keel-{name}.csv": _on_vectors(f"keel-{name}.csv", fresh=True) for name in FRESH},
    "Sentences as embeddings": {name: _on_vectors(name) for name in _EMBEDDINGS},
    "Sentences as words": {name: _on_words(name) for name in _WORDS},
    "Images": {
        "fashion-mnist": DataSet(
            RunSpec(data="fashion-mnist", network="small-cnn", fold=1, share=2000 / 60000, recipe=DEFAULT_RECIPE),
            splits=3,
        ),
    },
}
DATA_SETS = {name: found for section in SECTIONS.values() for name, found in section.items()}


def methods_for(data: str) -> list[Method]:
    """All rivals and settings of groups for a data set."""
    about = DATA_SETS[data]
    spec = about.spec
    if about.fresh:
        return _methods_for_fresh(with_settings(spec, dropout=_DROPOUT, label_column="label"))
    vectors = spec.network == "mlp"
    dropped = [{**DEFAULT_GROUPS, "dropout": _DROPOUT}] if vectors else []
    also = [*(settings for settings in about.groups if settings != DEFAULT_GROUPS), *dropped]
    methods = make_methods(spec, also=also, tokens=spec.network == "sentence-cnn", vectors=vectors)
    folds = sorted({settings["fold"] for settings in about.groups})
    controls = [Method(f"ordinary, objects as fold {fold}", (seeing_as_many(spec, fold),)) for fold in folds]
    controls.append(Method("ordinary, rate as groups", (groups_of(spec, fold=1),)))
    if vectors:
        controls.append(Method(DROPPED, (with_settings(spec, dropout=_DROPOUT),)))
    controls.append(Method("mixup of features, halves", (_halves(spec),)))
    found = [methods[0], *controls, *methods[1:]]
    if about.quick:
        found.append(Method(CHOSEN, tuple(groups_of(spec, **settings) for settings in _TRIES), "groups"))
        if vectors:
            found.append(_fewer_epochs_of_groups(with_settings(spec, dropout=_DROPOUT)))
    else:
        found = [Method(method.name, (method.tries[len(method.tries) // 2],), method.kind) for method in found]
    if about.tabm:
        found += _further_ways(spec)
        found.append(Method("one of five, chosen", tuple(candidates(spec).values()), "groups"))
        found.append(Method("TabM", (tabm_of(spec),)))
    return found


def _methods_for_fresh(spec: RunSpec) -> list[Method]:
    """The default beside rivals that all have its dropout."""
    rivals = make_methods(spec, also=[], tokens=False, vectors=True)
    return [
        Method(DROPPED, (spec,)),
        Method("ordinary, objects as fold 2", (seeing_as_many(spec, 2),)),
        Method("mixup of features, halves", (_halves(spec),)),
        *(method for method in rivals if method.name.startswith(("ensemble", "fewer epochs"))),
        Method(DROPPED_GROUPS, (groups_of(spec, **DEFAULT_GROUPS),), "groups"),
        _fewer_epochs_of_groups(spec),
        *(method for method in rivals if method.kind == "context"),
    ]


def _further_ways(spec: RunSpec) -> list[Method]:
    """Stacked slots, each of which learns as an ordinary network does, and whole batches of groups of one object."""
    mixed = groups_of(spec, **DEFAULT_GROUPS | {"repetition": 0.5, "repetition_of": "batches"})
    stacked = {fold: with_settings(spec, fold=fold, join="stack") for fold in (2, 4)}
    return [
        Method("fold 2, mean, mixed folds 0.5", (mixed,), "groups"),
        *(Method(f"fold {fold}, stacked", (of_fold,), "groups") for fold, of_fold in stacked.items()),
    ]


def _fewer_epochs_of_groups(dropped: RunSpec) -> Method:
    tries = tuple(with_fewer_epochs(groups_of(dropped, **DEFAULT_GROUPS)))
    return Method(f"{DROPPED_GROUPS}, fewer epochs", tries, "groups")


def candidates(spec: RunSpec) -> dict[str, RunSpec]:
    """Each candidate's run on the data of an ordinary network."""
    return {
        name: (with_settings if settings["fold"] == 1 else groups_of)(spec, **settings)
        for name, settings in CANDIDATES.items()
    }


def _halves(spec: RunSpec) -> RunSpec:
    """What fold 2 by the mean is akin to: manifold mixup of the last features, always half and half."""
    return groups_of(seeing_as_many(spec, 2), fold=1, mixup=1000.0, mixup_at="features")
