"""The critic γ(x, t): a network that scores how well a group x and a bottleneck t belong together.

The paper does not describe its critic. These have one or more hidden layers, the first of them split into
W_x·x + W_t·t: the products are computed once and shared by the joint pairs and the shuffled ones, and nothing is
concatenated.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from agrlearn.errors import DataError
from agrlearn.grouping import TOKEN_TYPES, Objects, first_tensor
from agrlearn.ranks import gather_rows


class Critic(nn.Module):
    """γ(x, t) = MLP(features(x) + W_t·t).

    Args:
        group_features: maps groups to (groups, width), linear in its last layer: the W_x·x part.
        bottleneck_features: the width of T.
        width: hidden units.
        depth: hidden layers.
    """

    def __init__(
        self, group_features: nn.Module, bottleneck_features: int, *, width: int = 128, depth: int = 1
    ) -> None:
        super().__init__()
        self.group_features = group_features
        self.bottleneck_part = nn.Linear(bottleneck_features, width)
        hidden = [layer for _ in range(depth - 1) for layer in (nn.Linear(width, width), nn.ReLU(inplace=True))]
        # No bias: J does not change when a constant is added to every score, so its gradient would be rounding noise.
        self.score = nn.Sequential(*hidden, nn.Linear(width, 1, bias=False))

    def forward(self, groups: Objects, t: Tensor) -> Tensor:
        """Scores of matching pairs: (groups, fold, ...) and (groups, features) -> (groups,)."""
        return self._combine(self.group_features(groups), self._from_bottleneck(t))

    def joint_and_shuffled(
        self, groups: Objects, t: Tensor, permutation: Tensor, counts: list[int]
    ) -> tuple[Tensor, Tensor]:
        """Scores of the pairs (x_i, t_i) and of (x_i, t_τ(i)), with the first layer computed once for both.

        Args:
            permutation: (groups,) τ(i) for this process's groups, among the bottlenecks of all processes.
            counts: how many groups each process has. W_t·t travels between them, the groups never do.
        """
        from_groups = self.group_features(groups)
        from_bottleneck = self._from_bottleneck(t)
        shuffled = gather_rows(from_bottleneck, counts).index_select(0, permutation)
        return self._combine(from_groups, from_bottleneck), self._combine(from_groups, shuffled)

    def _from_bottleneck(self, t: Tensor) -> Tensor:
        return self.bottleneck_part(t.to(self.bottleneck_part.weight.dtype))

    def _combine(self, from_groups: Tensor, from_bottleneck: Tensor) -> Tensor:
        return self.score(F.relu(from_groups + from_bottleneck)).squeeze(-1)


def _as_numbers(objects: Tensor, dtype: torch.dtype) -> Tensor:
    """Objects in the critic's own type; bytes from 0 to 1, since its J stays below 0 on numbers in the hundreds."""
    return objects.to(dtype) / 255 if objects.dtype == torch.uint8 else objects.to(dtype)


class VectorGroups(nn.Module):
    """The linear part for groups of vectors, or of anything read as one: (groups, fold, ...) -> (groups, width).

    Args:
        features: numbers in an object.
        prepare: what raw objects pass first, in their own shape.
    """

    def __init__(self, fold: int, features: int, width: int, prepare: nn.Module | None = None) -> None:
        super().__init__()
        self.prepare = nn.Identity() if prepare is None else prepare
        self.linear = nn.Linear(fold * features, width, bias=False)

    def forward(self, groups: Tensor) -> Tensor:
        objects = _as_numbers(self.prepare(groups.flatten(0, 1)), self.linear.weight.dtype)
        return self.linear(objects.reshape(len(groups), -1))


class ImageGroups(nn.Module):
    """The linear part for groups of images, seen at no more than `resolution` pixels a side."""

    def __init__(
        self, fold: int, object_shape: tuple[int, int, int], width: int, prepare: nn.Module | None = None,
        *, resolution: int = 32,
    ) -> None:  # fmt: skip
        super().__init__()
        channels, height, breadth = object_shape
        self.prepare = nn.Identity() if prepare is None else prepare
        self.size = (min(height, resolution), min(breadth, resolution))
        self.shrinks = self.size != (height, breadth)
        self.linear = nn.Linear(fold * channels * self.size[0] * self.size[1], width, bias=False)

    def forward(self, groups: Tensor) -> Tensor:
        images = _as_numbers(self.prepare(groups.flatten(0, 1)), self.linear.weight.dtype)
        if self.shrinks:
            images = F.adaptive_avg_pool2d(images, self.size)
        return self.linear(images.reshape(len(groups), -1))


class TokenGroups(nn.Module):
    """The linear part for groups of sentences, on each slot's mean word embedding.

    (groups, fold, length) tokens -> (groups, width). Tokens fall into `buckets` by their remainder, so that no
    vocabulary is needed; token 0 is padding.
    """

    def __init__(self, fold: int, width: int, *, buckets: int = 2**14, embedding: int = 64) -> None:
        super().__init__()
        self.buckets = buckets
        self.embed = nn.EmbeddingBag(buckets + 1, embedding, mode="mean", padding_idx=0)
        self.linear = nn.Linear(fold * embedding, width, bias=False)

    def forward(self, groups: Objects) -> Tensor:
        tokens = groups if isinstance(groups, Tensor) else groups["input_ids"]
        hashed = torch.where(tokens > 0, tokens.remainder(self.buckets) + 1, 0)
        return self.linear(self.embed(hashed.flatten(0, 1)).view(len(tokens), -1))


def critic_for(
    example: Objects, bottleneck_features: int, *, width: int = 128, depth: int = 1, prepare: nn.Module | None = None
) -> Critic:
    """A critic that fits a batch of groups: of images, tokens or vectors, as which it reads tensors of any other shape.

    Args:
        example: (groups, fold, ...) as in training.
        prepare: what raw objects pass first, such as the network's own standardization.
    """
    if not isinstance(example, Tensor) and "input_ids" not in example:
        raise DataError(
            "alpha > 0 needs objects that are one tensor, or a mapping with its tokens under 'input_ids'; got a "
            f"mapping of {', '.join(example)}: put its tensors into one, or train with alpha=0"
        )
    shape = first_tensor(example).shape
    fold, object_shape = shape[1], shape[2:]
    if not isinstance(example, Tensor) or (len(object_shape) == 1 and example.dtype in TOKEN_TYPES):
        part: nn.Module = TokenGroups(fold, width)
    elif len(object_shape) == 3:
        channels, height, breadth = object_shape
        part = ImageGroups(fold, (channels, height, breadth), width, prepare)
    else:
        part = VectorGroups(fold, math.prod(object_shape), width, prepare)
    return Critic(part, bottleneck_features, width=width, depth=depth)
