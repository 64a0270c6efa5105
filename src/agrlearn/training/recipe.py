"""Every hyperparameter of a training run, and no logic. Importing this module does not import torch."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agrlearn.errors import RecipeError, hint

# Beyond these, torch's own numbers overflow.
Count = Annotated[int, Field(ge=1, lt=2**31)]
Positive = Annotated[float, Field(gt=0, le=1e30)]
NotNegative = Annotated[float, Field(ge=0, le=1e30)]


EXECUTION = ("layout", "compile")
"""Settings of a `Recipe` that say how its steps are computed, not what they compute."""


class Settings(BaseModel):
    """Values from outside: unknown names and values that cannot work are refused in a sentence."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise RecipeError(self._sentence(error)) from None

    @classmethod
    def _sentence(cls, error: ValidationError) -> str:
        first = error.errors()[0]
        where = ".".join(str(name) for name in first["loc"])
        if first["type"] == "extra_forbidden":
            known = cls.model_fields
            return f"there is no setting {where!r}; {hint(where, known)} settings are: {', '.join(known)}"
        if first["type"] == "value_error":
            return str(first["ctx"]["error"])
        given = "" if first["type"] == "missing" else f", got {first['input']!r}"
        return f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}{given}"


def complete_saved(recipe: dict[str, Any]) -> dict[str, Any]:
    """A recipe as it was saved, with what is newer than it: before there was a choice, the critic read objects."""
    if "critic" in recipe:
        return recipe
    bound = None if recipe.get("bound") == "dv" else recipe.get("bound")
    return recipe | {"critic": "input" if recipe.get("alpha") else "bottleneck", "bound": bound}


class Recipe(Settings):
    """How to train; the defaults are the paper's where it gives them.

    >>> Recipe(alpha=0.3).learning_rate
    0.1
    >>> Recipe(alpha=-1)
    Traceback (most recent call last):
    agrlearn.errors.RecipeError: alpha: input should be greater than or equal to 0, got -1
    """

    epochs: Count = 400
    """Passes of N groups, N being the number of training objects (paper: 400)."""
    batch_size: Count = 64
    """Groups per step, m in the paper (64)."""
    accumulate: Count = 1
    """Microbatches into which a batch is cut to save memory; one step is taken for all of them. J and batch
    normalisation see one microbatch at a time."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Decides the groups and every other random choice of training, and on the command line the initial weights."""

    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    """Of the main network. Adam and AdamW usually want a learning rate near 0.001."""
    learning_rate: Positive = 0.1
    """Of the main network at the start, λ_out in the paper (0.1)."""
    head_rate_factor: Positive = 1.0
    """What the learning rate is multiplied by for the heads and for the layers that `aggregate` added: the mixer of a
    join after a module, and the layer of widen=True. Around pretrained layers, compare 1 and 10."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Nesterov momentum of SGD. The paper does not give it; 0.9 is what its reference implementations use."""
    weight_decay: NotNegative = 1e-4
    """(paper: 0.0001)."""
    schedule: Literal["steps", "cosine", "constant"] = "steps"
    """How the learning rate falls: by `decay` at the `milestones`, along a cosine to zero, or not at all."""
    milestones: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = (0.25, 0.375, 0.625)
    """Where the steps are, as shares of the epochs (paper: 100, 150 and 250 of 400)."""
    decay: Annotated[float, Field(gt=0, le=1)] = 0.1
    """What the learning rate is multiplied by at a milestone (paper: a tenth)."""

    average_from: Annotated[float, Field(ge=0, lt=1)] | None = None
    """The share of training after which weights are averaged: the network ends with the mean of its weights after every
    later step (stochastic weight averaging, Izmailov et al. 2018), and batch normalisation is measured anew for it by
    one more pass over the training objects. Epochs before the last are evaluated without the average."""

    repetition: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The probability that a group holds one object in every slot (paper: 0)."""
    repetition_of: Literal["groups", "batches"] = "groups"
    """Whether that is drawn for each group, or for each batch: mixed folds, which train one network for single objects
    and for groups, each with batches of its own (MIMONets, Menet et al. 2023)."""

    mixup: NotNegative = 0.0
    """Mix pairs of training groups in proportions drawn from Beta(mixup, mixup), and their labels with them (Zhang et
    al. 2018), for comparison. 0 mixes nothing."""
    mixup_at: Literal["input", "features", "random"] = "input"
    """Where groups are mixed: the objects themselves, not for tokens; the features before the heads; or one of the two,
    drawn for every batch (manifold mixup, Verma et al. 2019)."""
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The share of a label's probability that is spread over all classes (Szegedy et al. 2016)."""

    alpha: NotNegative = 0.0
    """Weight of the information penalty J (paper: 0 to 4). At 0 no critic is built."""
    ascent_steps: Count = 1
    """Steps of the critic per step of the network, K in the paper, which does not give it."""
    critic: Literal["bottleneck", "input"] = "bottleneck"
    """What the critic reads beside T: the bottleneck before its noise, which knows as much of T as the objects do; or
    the objects themselves, as in the paper."""
    bound: Literal["leave-one-out", "vib", "dv", "dv-average", "nwj", "infonce", "smile", "js"] | None = None
    """The bound of the information that J is. leave-one-out, the default of the critic that reads the bottleneck, needs
    no network. The names in `agrlearn.information.BOUNDS` train one; the paper's is dv (Donsker-Varadhan), the default
    of the critic that reads objects. vib is the penalty of the variational bottleneck, for comparison."""
    critic_learning_rate: Positive = 1e-3
    """Of the critic, by Adam where it is a network; λ_in in the paper, which does not give it."""
    critic_width: Count = 128
    """Hidden units of the critic, where it is a network. The paper does not give them."""
    critic_depth: Count = 1
    """Hidden layers of the critic, where it is a network. The paper does not give them."""
    clip_penalty: Positive | None = None
    """The largest norm of the gradient of alpha · J at a batch's bottlenecks; none by default."""

    evaluate_every: Count = 1
    """Epochs between two evaluations on the validation set; the last epoch is always evaluated."""

    track_information: bool = False
    """Record I(X;T) and I(Y;T) on the validation set after every evaluated epoch; needs a network with noise > 0."""

    patience: Count | None = None
    """Stop after this number of epochs without a better likelihood on the validation set, and keep the best epoch's
    weights; without it, all epochs are trained and the last weights kept (as in the paper)."""

    layout: Literal["auto", "contiguous", "channels-last"] = "auto"
    """How convolutions keep images in memory. auto is channels last, which is faster, where the network allows it. Like
    `compile`, it changes values by rounding only and is no part of what identifies a run."""
    compile: Literal["auto", "off", "on"] = "auto"
    """Whether torch.compile makes the steps faster. auto compiles convolutional networks on a CPU if the whole run is
    long enough to pay for it and a C++ compiler is installed."""

    def apart_from_execution(self) -> "Recipe":
        """The same without how its steps are computed: what identifies a run.

        >>> Recipe(alpha=1, layout="contiguous").apart_from_execution() == Recipe(alpha=1)
        True
        """
        return self.model_copy(update={name: Recipe.model_fields[name].default for name in EXECUTION})

    @property
    def bound_of_j(self) -> str:
        """The bound that is used where none is named.

        >>> Recipe().bound_of_j, Recipe(critic="input").bound_of_j
        ('leave-one-out', 'dv')
        """
        return self.bound or ("leave-one-out" if self.critic == "bottleneck" else "dv")

    @model_validator(mode="after")
    def _keeps_one_kind_of_weights(self) -> "Recipe":
        if self.patience is not None and self.average_from is not None:
            raise ValueError("patience keeps the best epoch's weights and average_from a mean of weights; pass one")
        return self

    @model_validator(mode="after")
    def _mixes_whole_batches(self) -> "Recipe":
        if self.mixup > 0 and self.mixup_at != "input" and self.accumulate > 1:
            raise ValueError(f"mixup at the features needs accumulate=1, got {self.accumulate}")
        return self

    @model_validator(mode="after")
    def _bound_has_its_critic(self) -> "Recipe":
        if self.critic == "input" and self.bound in ("leave-one-out", "vib"):
            raise ValueError(f"bound={self.bound!r} is of the bottleneck; pass critic='bottleneck' with it")
        return self

    @model_validator(mode="after")
    def _milestones_rise(self) -> "Recipe":
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError(f"milestones should rise, got {self.milestones}")
        return self
