"""What decides a training run, as one value: its data, its network, and its recipe."""

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from agrlearn.networks.catalogue import NETWORKS, network_defaults
from agrlearn.training.recipe import EXECUTION, Recipe, Settings

Share = Annotated[float, Field(ge=0, lt=1)]


class RunSpec(Settings):
    """Everything that decides a training run; two runs of the same specification on the same data are equal.

    Where several train together (`fit_together`), they are so up to rounding.
    """

    data: str
    """A data set by name, or the path of a file or folder."""
    image_size: int | None = None
    text_column: str | None = None
    label_column: str | None = None
    columns: tuple[str, ...] = ()
    """Of a table, those to use, by name or as NAME=KIND; none takes all that say something about new rows."""
    ignore: tuple[str, ...] = ()
    """Columns of a table to leave out."""
    skip_bad: bool = False
    test: str | None = None
    """A file or folder of its own to measure on; nothing of `data` is then held out for that."""
    validation_fraction: float = 0.1
    """Of every class, held out to measure on, where the data have no test part of their own; and as large a part again
    for the recipe's patience, if it has one."""
    test_fraction: Share = 0.0
    """Draw the test part anew for every seed: this share of all objects. 0 takes the part above."""
    test_draw: Literal["by class", "plain"] = "by class"
    """Whether that share is drawn of every class, or of all objects together."""
    tuning_fraction: Share = 0.0
    """Leave the test part alone, and measure on this share of every class of the training objects instead, which are
    held out: for choosing settings."""
    stopping_fraction: Share = 0.0
    """Of every class of the training objects, held out for the recipe's patience, so that the part that is measured
    chooses nothing. 0 takes `validation_fraction` if the recipe has patience, and else none."""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Of every class of the training objects, drawn by the seed."""
    label_noise: Share = 0.0
    """Of the training labels, replaced by other classes at random: for studying what noise does."""
    class_weight: Literal["balanced"] | None = None
    """What an object's loss is multiplied by: 1, or as much more as its class has fewer training objects."""
    augment: bool = False
    """Crop and flip the training images."""
    network: str | None = None
    """A name in `NETWORKS`, timm:NAME or FILE.py:FUNCTION; by default the one that fits the data."""
    net: dict[str, str | int | float | bool] = Field(default={})
    """The network's own options, such as width."""
    fold: Annotated[int, Field(ge=1)] = 2
    members: Annotated[int, Field(ge=1)] = 1
    """Networks that are trained on the same objects from other seeds, and whose distributions are averaged."""
    calibrate: bool = False
    """Measure label distributions at the temperature that fits the held-out part of `stopping_fraction` best; the
    network is kept as it was trained."""
    precision: str = "32-true"
    recipe: Recipe = Recipe()

    @model_validator(mode="before")
    @classmethod
    def _layout_in_recipe(cls, values: Any) -> Any:
        """Files of earlier versions have the layout here."""
        if not isinstance(values, dict) or "layout" not in values:
            return values
        recipe = values.get("recipe", {})
        recipe = recipe.model_dump() if isinstance(recipe, Recipe) else recipe
        others = {name: value for name, value in values.items() if name != "layout"}
        return others | {"recipe": {**recipe, "layout": values["layout"]}}

    @model_validator(mode="after")
    def _has_a_part_to_calibrate_on(self) -> "RunSpec":
        if self.calibrate and self.patience_fraction == 0:
            raise ValueError("calibrate needs a held-out part; pass stopping_fraction=0.1 with it")
        return self

    @property
    def seed(self) -> int:
        return self.recipe.seed

    @property
    def patience_fraction(self) -> float:
        """The share of every class of the training objects that is held out for the recipe's patience."""
        return self.stopping_fraction or (self.validation_fraction if self.recipe.patience is not None else 0.0)

    def with_seed(self, seed: int) -> "RunSpec":
        """The same with another seed, of the recipe and so of everything that is random."""
        return self.model_copy(update={"recipe": self.recipe.model_copy(update={"seed": seed})})

    def settings(self) -> dict[str, Any]:
        """What identifies it, as JSON, without the seed, and with the defaults of the network's options."""
        values = self.model_dump(mode="json", exclude={"recipe": {"seed", *EXECUTION}})
        defaults = network_defaults(self.network) if self.network in NETWORKS else {}
        return values | {"net": {**defaults, **values["net"]}}

    def key(self) -> str:
        """A name for files, without the seed: readable, and another one for every other setting."""
        # Without defaults, so that a setting that is new to the library does not rename what was run before.
        recipe = self.with_seed(0).recipe.apart_from_execution()
        changed = self.model_copy(update={"recipe": recipe}).model_dump(mode="json", exclude_defaults=True)
        if self.recipe.layout == "channels-last":  # as the files of the paper's tables are named
            changed["layout"] = self.recipe.layout
        digest = hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()[:8]
        return f"{self.data}-{self.network}-fold{self.fold}-{digest}"
