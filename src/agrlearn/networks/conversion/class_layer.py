"""What makes a model's class scores, and what it reads."""

from dataclasses import KW_ONLY, dataclass

from torch import Tensor, nn

from agrlearn.networks.conversion.scores import Path

NORMALISATIONS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)


@dataclass(frozen=True)
class Reading:
    """What a layer that makes class scores reads in a pass."""

    name: str
    """Of the layer."""
    shape: tuple[int, ...]
    """Of what it reads of one object."""
    place: int
    """Which of its calls in a pass counts: from the first, or -1 for the last."""
    calls: int
    """How often it ran."""
    keyword: str | None
    """The name of the argument that it reads, where the model calls it so."""


@dataclass(frozen=True)
class ClassLayer:
    """The layer that makes a model's class scores, or the layers whose sum or mean they are."""

    readings: tuple[Reading, ...]
    scores: Tensor
    """(objects, classes), those of the example."""
    path: Path
    """Where the model returns its scores."""
    _: KW_ONLY
    picks: bool = False
    """Whether it scores every position of an object, of which the model picks one."""
    share: float = 1.0
    """Of the sum of what several layers make."""
    left_out: bool = False
    """Whether the model does something else with the scores than to make probabilities of them, which is not wanted."""
    made: Tensor | None = None
    """What the layer made of the example, where the model goes on to make its class scores of that, as by a factor."""

    @property
    def name(self) -> str:
        return " and ".join(reading.name for reading in self.readings)


def is_linear(module: nn.Module) -> bool:
    """Whether a module is a linear layer, or a convolution that is one at every position."""
    pointwise = isinstance(module, nn.modules.conv._ConvNd) and set(module.kernel_size) == {1} and module.groups == 1
    return isinstance(module, nn.Linear) or pointwise
