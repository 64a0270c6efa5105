"""The critic γ(x, t): a network that scores how well a group x and a bottleneck t belong together.

The paper does not describe its critic. Ours has one or more hidden layers. The first is split into W_x·x + W_t·t, so
that joint and shuffled pairs share both products and nothing is concatenated.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from agrlearn.errors import DataError
from agrlearn.grouping import TOKEN_TYPES, Objects, first_tensor
from agrlearn.ranks import gather_rows

_RESOLUTION = 32  # the critic sees images at no more pixels a side


class Critic(nn.Module):
    """γ(x, t) = MLP(features(x) + W_t·t).

    Args:
        group_features: maps groups to (groups, width), linear in its last layer: the W_x·x part.
        bottleneck_features: the width of T.
        width: units per hidden layer.
        depth: the number of hidden layers.
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
            counts: the number of groups in each process. The processes exchange W_t·t, never the groups.
        """
        from_groups = self.group_features(groups)
        from_bottleneck = self._from_bottleneck(t)
        shuffled = gather_rows(from_bottleneck, counts).index_select(0, permutation)
        return self._combine(from_groups, from_bottleneck), self._combine(from_groups, shuffled)

    def _from_bottleneck(self, t: Tensor) -> Tensor:
        return self.bottleneck_part(t.to(self.bottleneck_part.weight.dtype))

    def _combine(self, from_groups: Tensor, from_bottleneck: Tensor) -> Tensor:
        return self.score(F.relu(from_groups + from_bottleneck)).squeeze(-1)


class VectorGroups(nn.Module):
    """The linear part for groups of vectors, or of objects read as vectors: (groups, fold, ...) -> (groups, width).

    Args:
        features: numbers per object, after `shrink`.
        prepare: applied to the raw objects first, in their own shape.
        shrink: applied next, to objects in the critic's dtype.
    """

    def __init__(
        self, fold: int, features: int, width: int, prepare: nn.Module | None = None, shrink: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.prepare = nn.Identity() if prepare is None else prepare
        self.shrink = nn.Identity() if shrink is None else shrink
        self.linear = nn.Linear(fold * features, width, bias=False)

    def forward(self, groups: Tensor) -> Tensor:
        prepared = self.prepare(groups.flatten(0, 1))
        objects = prepared.to(self.linear.weight.dtype)
        if prepared.dtype == torch.uint8:
            objects = objects / 255  # the critic does not learn from numbers in the hundreds: J stays below 0
        return self.linear(self.shrink(objects).reshape(len(groups), -1))


class Means(nn.Linear):
    """The linear part for a critic that reads bottlenecks before their noise: (groups, features) -> (groups, width)."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__(features, width, bias=False)

    def forward(self, means: Tensor) -> Tensor:
        return super().forward(means.to(self.weight.dtype))


class TokenGroups(nn.Module):
    """The linear part for groups of sentences, on the mean word embedding of each slot.

    (groups, fold, length) tokens -> (groups, width). Tokens are hashed into `buckets` by their remainder, so that no
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
    """A critic for groups of images, tokens or vectors; objects of any other shape are read as vectors.

    Args:
        example: (groups, fold, ...) as in training.
        prepare: applied to the raw objects first, such as the standardization of the network.
    """
    if not isinstance(example, Tensor) and "input_ids" not in example:
        raise DataError(
            "alpha > 0 needs objects that are one tensor, or a mapping with its tokens under 'input_ids'; got a "
            f"mapping of {', '.join(example)}: combine its tensors into one, or train with alpha=0"
        )
    shape = first_tensor(example).shape
    fold, object_shape = shape[1], shape[2:]
    if not isinstance(example, Tensor) or (len(object_shape) == 1 and example.dtype in TOKEN_TYPES):
        part: nn.Module = TokenGroups(fold, width)
    elif len(object_shape) == 3:
        channels, *sides = object_shape
        size = [min(side, _RESOLUTION) for side in sides]
        shrink = None if size == sides else nn.AdaptiveAvgPool2d(tuple(size))
        part = VectorGroups(fold, channels * math.prod(size), width, prepare, shrink)
    else:
        part = VectorGroups(fold, math.prod(object_shape), width, prepare)
    return Critic(part, bottleneck_features, width=width, depth=depth)
