"""Critics γ(x, y) for estimation, in two stages, so that what depends on x or y alone is computed once."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from agrlearn.errors import ShapeError

_PAIRS_AT_ONCE = 2**16


class PairCritic(nn.Module, ABC):
    """Scores of matched pairs and of all pairs, from parts that depend on x alone and on y alone."""

    @abstractmethod
    def parts(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """(samples, ...) and (samples, ...) -> what x and y each contribute, one row per sample."""

    @abstractmethod
    def pairs(self, x_part: Tensor, y_part: Tensor) -> Tensor:
        """Scores of matching rows: (samples,)."""

    @abstractmethod
    def matrix(self, x_part: Tensor, y_part: Tensor) -> Tensor:
        """Scores of every x with every y: (samples of x, samples of y)."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.pairs(*self.parts(x, y))

    def parameter_groups(self, learning_rate: float) -> list[dict[str, object]]:
        """Parameter groups for the optimizer."""
        return [{"params": list(self.parameters()), "lr": learning_rate}]


class SeparableCritic(PairCritic):
    """γ(x, y) = a(x) + b(y) − ½‖f(x) − g(y)‖²: an inner product, so that all pairs take one matrix product.

    f and g are linear maps plus small networks, with a learned scale for each feature. For a strong dependence the
    log-ratio is a narrow ridge, whose width is one scale here, while the weights of a plain inner product would grow
    without bound. The linear maps learn faster than the networks, so that the networks do not fit noise around what a
    linear critic already explains.

    >>> critic = SeparableCritic(3, 2)
    >>> critic.matrix(*critic.parts(torch.randn(5, 3), torch.randn(7, 2))).shape
    torch.Size([5, 7])
    """

    def __init__(self, x_features: int, y_features: int, *, width: int = 64, rank: int = 32) -> None:
        super().__init__()
        self.x_side = _Side(x_features, width, rank)
        self.y_side = _Side(y_features, width, rank)
        self.log_scale = nn.Parameter(torch.zeros(rank))

    def parts(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        scale = torch.exp(10 * self.log_scale)  # times 10, since the steps of Adam have the same size for all
        (f, a), (g, b) = self.x_side(x, scale), self.y_side(y, scale)
        return torch.cat([f, a, torch.ones_like(a)], dim=1), torch.cat([g, torch.ones_like(b), b], dim=1)

    def pairs(self, x_part: Tensor, y_part: Tensor) -> Tensor:
        return (x_part * y_part).sum(dim=1)

    def matrix(self, x_part: Tensor, y_part: Tensor) -> Tensor:
        return x_part @ y_part.T

    def parameter_groups(self, learning_rate: float) -> list[dict[str, object]]:
        named = list(self.named_parameters())
        slow = [parameter for name, parameter in named if ".network." in name]
        fast = [parameter for name, parameter in named if ".network." not in name]
        return [
            {"params": slow, "lr": learning_rate / 2, "weight_decay": 1.0},
            {"params": fast, "lr": 4 * learning_rate, "weight_decay": 1.0},
        ]


class _Side(nn.Module):
    """f(x) and a(x) of a separable critic."""

    def __init__(self, features: int, width: int, rank: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, rank, bias=False)
        nn.init.normal_(self.linear.weight, std=0.5 / math.sqrt(rank))
        self.squares = nn.Linear(features, 1, bias=False)
        nn.init.zeros_(self.squares.weight)
        last = nn.Linear(width, rank + 1)
        nn.init.uniform_(last.weight, -0.1 / math.sqrt(width), 0.1 / math.sqrt(width))
        nn.init.zeros_(last.bias)
        self.network = nn.Sequential(
            nn.Linear(features, width), nn.ReLU(inplace=True), nn.Linear(width, width), nn.ReLU(inplace=True), last
        )

    def forward(self, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        from_network = self.network(x)
        features = (from_network[:, :-1] + self.linear(x)) * scale
        alone = from_network[:, -1:] + self.squares(x * x) - 0.5 * (features * features).sum(dim=1, keepdim=True)
        return features, alone


class ConcatenatedCritic(PairCritic):
    """γ(x, y) = MLP(W_x·x + W_y·y): a network on the concatenation, its first layer split so that nothing is copied.

    >>> critic = ConcatenatedCritic(3, 2)
    >>> critic(torch.randn(5, 3), torch.randn(5, 2)).shape
    torch.Size([5])
    """

    def __init__(self, x_features: int, y_features: int, *, width: int = 128, depth: int = 2) -> None:
        super().__init__()
        self.x_layer = nn.Linear(x_features, width, bias=False)
        self.y_layer = nn.Linear(y_features, width)
        hidden = [layer for _ in range(depth - 1) for layer in (nn.Linear(width, width), nn.ReLU(inplace=True))]
        self.score = nn.Sequential(*hidden, nn.Linear(width, 1))

    def parts(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.x_layer(x), self.y_layer(y)

    def pairs(self, x_part: Tensor, y_part: Tensor) -> Tensor:
        return self.score(F.relu(x_part + y_part)).squeeze(-1)

    def matrix(self, x_part: Tensor, y_part: Tensor) -> Tensor:
        return _in_slabs(lambda x, y: self.pairs(x.unsqueeze(1), y.unsqueeze(0)), x_part, y_part)


class CallableCritic(PairCritic):
    """A function or module from the user: (samples, ...) and (samples, ...) -> (samples,) scores of matching rows."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def parts(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x, y

    def pairs(self, x_part: Tensor, y_part: Tensor) -> Tensor:
        scores = self.function(x_part, y_part)
        if scores.shape != (len(x_part),):
            raise ShapeError(
                f"expected a critic to return one score for each of {len(x_part)} pairs, got {tuple(scores.shape)}"
            )
        return scores

    def matrix(self, x_part: Tensor, y_part: Tensor) -> Tensor:
        def score(x: Tensor, y: Tensor) -> Tensor:
            every_x = x.repeat_interleave(len(y), dim=0)
            return self.pairs(every_x, y.repeat(len(x), *[1] * (y.ndim - 1))).view(len(x), len(y))

        return _in_slabs(score, x_part, y_part)


def _in_slabs(score: Callable[[Tensor, Tensor], Tensor], x_part: Tensor, y_part: Tensor) -> Tensor:
    rows = max(1, _PAIRS_AT_ONCE // len(y_part))
    return torch.cat([score(slab, y_part) for slab in x_part.split(rows)])


CRITICS: dict[str, Callable[[int, int], PairCritic]] = {
    "separable": SeparableCritic,
    "concatenated": ConcatenatedCritic,
}
"""Critics by name; each takes the number of columns of x and of y."""
