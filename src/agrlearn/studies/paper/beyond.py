"""Two ways to train a network for groups that the paper does not have, beside what could do as well for less.

*Mixed folds* draw whole batches of groups that repeat one object, so that one network serves for single objects and for
groups. *Stacked* slots share all layers but a scaling and a head, as the members of BatchEnsemble and TabM do.
"""

from collections.abc import Callable
from typing import Any

from agrlearn.runs.spec import RunSpec
from agrlearn.studies.paper.rows import Part, Row, ensemble_of, equal_objects
from agrlearn.studies.paper.scales import SMOKE, Scale
from agrlearn.studies.paper.specs import image_spec, narrow_width
from agrlearn.training.defaults import DEFAULT_RECIPE, default_options
from agrlearn.training.recipe import Recipe

_TABLES = {"Digits as vectors": "digits-as-vectors", "Breast cancer": "breast-cancer", "Wine": "wine"}
_DIGITS = Recipe(epochs=25, batch_size=64, schedule="cosine", evaluate_every=5)
_SHARE = 0.5


def beyond_rows(scale: Scale) -> list[Row]:
    """The rows of images and of tables."""
    channels, deep = {"join": "channels"}, {"join": "channels", "join_after": 4}
    rows = _block("Digits", _maker(scale, "digits", "small-cnn", _DIGITS, {"width": 24}), channels, {}, cheap=True)
    for block, data in _TABLES.items():
        make = _maker(scale, data, "mlp", DEFAULT_RECIPE, default_options("mlp"), test_fraction=0.25)
        rows += _block(block, make, {"join": "features"}, {})

    def make_cifar(**settings: Any) -> RunSpec:
        return image_spec(scale, "cifar-10", share=0.1, converge=True, **settings)

    return rows + _block("10% of CIFAR-10", make_cifar, deep, {"join_after": 1}, cheap=True)


def _maker(
    scale: Scale, data: str, network: str, base: Recipe, options: dict[str, Any], **held_out: Any
) -> Callable[..., RunSpec]:
    """The counterpart of `image_spec` for small data."""
    if scale is SMOKE:
        base = base.model_copy(update={"epochs": 2, "evaluate_every": 1})

    def make(
        *, fold: int = 1, members: int = 1, times_the_batch: int = 1, recipe: dict[str, Any] | None = None,
        as_cheap_as: dict[str, Any] | None = None, **net: Any,
    ) -> RunSpec:  # fmt: skip
        if as_cheap_as is not None:
            net["width"] = narrow_width(data, network, options | as_cheap_as)
        changes: dict[str, Any] = {
            "epochs": base.epochs * times_the_batch, "batch_size": base.batch_size * times_the_batch,
            "evaluate_every": base.evaluate_every * times_the_batch, **(recipe or {}),
        }  # fmt: skip
        return RunSpec(
            data=data, network=network, fold=fold, members=members, net={**options, **net},
            recipe=Recipe(**base.model_dump() | changes), **held_out,
        )  # fmt: skip

    return make


def _block(
    block: str, make: Callable[..., RunSpec], join: dict[str, Any], place_of_stack: dict[str, Any], *,
    cheap: bool = False,
) -> list[Row]:  # fmt: skip
    """Fold 1, its controls, and the folds in their ways.

    Args:
        make: the run with some settings.
        join: options of the join that mixed folds are compared with.
        cheap: whether its Batched prediction costs less than fold 1.
    """

    def row(label: str, part: Part = "beyond", **settings: Any) -> Row:
        return Row(block, label, make(**settings), part=part)

    rows = [row("fold 1", "paper")]
    for fold in (2, 4):
        if cheap:
            as_cheap_as = {"fold": fold, **join}
            rows.append(
                row(f"fold 1, as cheap as fold {fold}", "control", times_the_batch=fold, as_cheap_as=as_cheap_as)
            )
        rows += [
            row(equal_objects(fold), "control", times_the_batch=fold),
            row(ensemble_of(fold), "control", members=fold),
            row(f"fold {fold}", fold=fold, **join),
            row(f"fold {fold}, repetition {_SHARE}", fold=fold, recipe={"repetition": _SHARE}, **join),
            row(
                f"fold {fold}, mixed folds {_SHARE}", fold=fold,
                recipe={"repetition": _SHARE, "repetition_of": "batches"}, **join,
            ),
            row(f"fold {fold}, stacked", fold=fold, join="stack", **place_of_stack),
        ]  # fmt: skip
    return rows
