"""The run of each kind of row, at every scale."""

import math
from typing import Any

from agrlearn.errors import RecipeError
from agrlearn.prediction.cost import width_as_cheap
from agrlearn.runs.spec import RunSpec
from agrlearn.studies.paper.scales import MEDIUM, PAPER, SMALL, SMOKE, Scale
from agrlearn.training.recipe import Recipe

_IMAGES = {"cifar-10": ((3, 32, 32), 10), "cifar-100": ((3, 32, 32), 100), "digits": ((1, 8, 8), 10)}
"""The shape of an object, and the number of classes."""
_TRAINING_IMAGES = 50_000
_TEST_FRACTION, _STOPPING_FRACTION = 0.1, 0.1


def image_spec(
    scale: Scale, dataset: str, network: str = "preact-resnet", *, fold: int = 1, times_the_batch: int = 1,
    share: float = 1.0, converge: bool = False, stop_early: bool = False, recipe: dict[str, Any] | None = None,
    width_times: float = 1, members: int = 1, calibrate: bool = False,
    as_cheap_as: dict[str, Any] | None = None, **options: Any,
) -> RunSpec:  # fmt: skip
    """A run on images.

    Args:
        times_the_batch: sees as many objects in as many steps as that fold does.
        converge: train to convergence at small scale too, where the tables stop long before.
        as_cheap_as: fold and options of a network; the ordinary one is made so narrow that it costs no more than that
            one by Batched prediction with one draw.
    """
    full_width = 64 if network == "preact-resnet" else 10
    changes: dict[str, Any] = dict(recipe or {})
    if scale is PAPER:
        epochs, every, width = round(400 / share), round(1 / share), full_width
    elif scale is SMOKE:
        dataset, share, epochs, every, width = "digits", 0.2, 2, 1, 4 if full_width == 64 else 1
    else:
        epochs = 30 if scale is MEDIUM else 3
        if converge:
            epochs = round(3000 * math.sqrt(share / 0.025) * 64 / (_TRAINING_IMAGES * share))
        every, width = max(1, epochs // 15), 16 if full_width == 64 else 1
        options["stem_stride"] = 2
    if scale is not PAPER:
        changes["schedule"] = "cosine"
    if stop_early:
        changes["patience"] = epochs
    if width * width_times != full_width:
        options["width"] = round(width * width_times)
    if as_cheap_as is not None:
        options["width"] = narrow_width(dataset, network, options | as_cheap_as)
    if fold > 1:
        options.setdefault("join", "width")
    return RunSpec(
        data=dataset, network=network, fold=fold, members=members, net=options, share=share,
        augment=scale is not SMOKE, stopping_fraction=_STOPPING_FRACTION if stop_early or calibrate else 0.0,
        calibrate=calibrate,
        recipe=Recipe(
            epochs=epochs * times_the_batch, batch_size=64 * times_the_batch, evaluate_every=every * times_the_batch,
            layout="auto" if scale is SMOKE else "channels-last", **changes,
        ),
    )  # fmt: skip


def narrow_width(dataset: str, network: str, grouped: dict[str, Any]) -> int:
    """The width of the ordinary network that costs no more than Batched prediction with one draw.

    Args:
        grouped: fold and options of the network that it is compared with.
    """
    options = {name: value for name, value in grouped.items() if name != "fold"}
    width = width_as_cheap(network, *_IMAGES[dataset], grouped["fold"], tuple(sorted(options.items())))
    if width is None:
        raise RecipeError(f"no width of {network} makes an ordinary network as cheap as {grouped}; leave out that row")
    return width


def text_spec(
    scale: Scale, dataset: str, network: str, *, fold: int = 1, times_the_batch: int = 1, stop_early: bool = False,
    sgd: bool = False, members: int = 1, calibrate: bool = False, recipe: dict[str, Any] | None = None, **options: Any,
) -> RunSpec:  # fmt: skip
    """A run on sentences, at small scale by Adam or, with `sgd`, by the paper's SGD."""
    changes: dict[str, Any] = dict(recipe or {})
    share, test_fraction = 1.0, _TEST_FRACTION
    epochs = 400 if scale is PAPER else 2 if scale is SMOKE else 40 if sgd else 15
    if scale is not PAPER and not sgd:
        changes |= {"optimizer": "adam", "learning_rate": 0.001, "weight_decay": 0.0, "schedule": "constant"}
    if scale is SMOKE:
        dataset, share, test_fraction = "digits-as-words", 0.2, 0.0
        options = {"embedding": 8, **{name: 4 if type(value) is int else value for name, value in options.items()}}
    if stop_early:
        changes["patience"] = 3 if scale is SMALL else epochs
    return RunSpec(
        data=dataset, network=network, fold=fold, members=members, net=options, share=share,
        test_fraction=test_fraction,
        test_draw="plain" if test_fraction else "by class",
        stopping_fraction=_STOPPING_FRACTION if stop_early or calibrate else 0.0,
        calibrate=calibrate,
        recipe=Recipe(
            epochs=epochs * times_the_batch, batch_size=64 * times_the_batch, evaluate_every=times_the_batch, **changes
        ),
    )  # fmt: skip
