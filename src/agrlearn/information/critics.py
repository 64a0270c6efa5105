"""The critic γ(x, t): a network that scores how well a group x and a bottleneck t belong together.

The paper does not describe its critic. These have one or more hidden layers, the first of them split into
W_x·x + W_t·t: the products are computed once and shared by the joint pairs and the shuffled ones, and nothing is
concatenated.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from agrlearn.errors import ShapeError
from agrlearn.grouping import Objects, first_tensor
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
        return self._combine(self.group_features(groups), self.bottleneck_part(t))

    def joint_and_shuffled(
        self, groups: Objects, t: Tensor, permutation: Tensor, counts: list[int]
    ) -> tuple[Tensor, Tensor]:
        """Scores of the pairs (x_i, t_i) and of (x_i, t_τ(i)), with the first layer computed once for both.

        Args:
            permutation: (groups,) τ(i) for this process's groups, among the bottlenecks of all processes.
            counts: how many groups each process has. W_t·t travels between them, the groups never do.
        """
        from_groups = self.group_features(groups)
        from_bottleneck = self.bottleneck_part(t)
        shuffled = gather_rows(from_bottleneck, counts).index_select(0, permutation)
        return self._combine(from_groups, from_bottleneck), self._combine(from_groups, shuffled)

    def _combine(self, from_groups: Tensor, from_bottleneck: Tensor) -> Tensor:
        return self.score(F.relu(from_groups + from_bottleneck)).squeeze(-1)


class VectorGroups(nn.Module):
    """The linear part for groups of vectors: (groups, fold, features) -> (groups, width)."""

    def __init__(self, fold: int, features: int, width: int, prepare: nn.Module | None = None) -> None:
        super().__init__()
        self.prepare = nn.Identity() if prepare is None else prepare
        self.linear = nn.Linear(fold * features, width, bias=False)

    def forward(self, groups: Tensor) -> Tensor:
        return self.linear(self.prepare(groups.flatten(0, 1)).view(len(groups), -1))


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
        images = self.prepare(groups.flatten(0, 1))
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
    """A critic that fits a batch of groups: images, vectors or tokens.

    Args:
        example: (groups, fold, ...) as in training.
        prepare: what raw objects pass first, such as the network's own standardization.
    """
    shape = first_tensor(example).shape
    fold, object_shape = shape[1], shape[2:]
    if not isinstance(example, Tensor) or (example.ndim == 3 and example.dtype == torch.int64):
        return Critic(TokenGroups(fold, width), bottleneck_features, width=width, depth=depth)
    if len(object_shape) == 3:
        channels, height, breadth = object_shape
        part: nn.Module = ImageGroups(fold, (channels, height, breadth), width, prepare)
    elif len(object_shape) == 1:
        part = VectorGroups(fold, object_shape[0], width, prepare)
    else:
        raise ShapeError(f"there is no critic for objects of shape {tuple(object_shape)}; pass one of your own")
    return Critic(part, bottleneck_features, width=width, depth=depth)
