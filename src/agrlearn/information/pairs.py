"""Which pairs stand for p(x)p(y): a permutation of the batch, cyclic shifts of it, or all pairs in it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from agrlearn.information.pair_critics import PairCritic

Random = torch.Generator | None
Scores = tuple[Tensor, Tensor]
"""Joint scores (m,), and marginal scores (m,) or (m, k), as the bounds take them."""


def split_diagonal(matrix: Tensor) -> Scores:
    """The (m, m) scores of all pairs as joint scores (m,) and marginal scores (m, m − 1).

    >>> split_diagonal(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    (tensor([1., 4.]), tensor([[2.],
            [3.]]))
    """
    return _SplitDiagonal.apply(matrix)


class _SplitDiagonal(torch.autograd.Function):
    """Written out because the gradient of the slices would fill and add three matrices."""

    @staticmethod
    def forward(context: Any, matrix: Tensor) -> Scores:
        return matrix.diagonal().clone(), _beside_diagonal(matrix).reshape(len(matrix), -1)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        diagonal, beside = gradients
        whole = beside.new_empty(len(diagonal), len(diagonal))
        _beside_diagonal(whole).copy_(beside.reshape(len(diagonal) - 1, -1))
        whole.diagonal().copy_(diagonal)
        return whole


def _beside_diagonal(matrix: Tensor) -> Tensor:
    """A view (m − 1, m) of what is not on the diagonal, in row order."""
    size = len(matrix)
    return matrix.contiguous().view(-1)[1:].view(size - 1, size + 1)[:, :-1]


def permuted(critic: PairCritic, x_part: Tensor, y_part: Tensor, shifts: int = 1, random: Random = None) -> Scores:
    """One uniformly random permutation, as in the paper; its fixed points bias the bound down."""
    order = torch.randperm(len(y_part), generator=random).to(y_part.device)
    return critic.pairs(x_part, y_part), critic.pairs(x_part, y_part[order])


def shifted(critic: PairCritic, x_part: Tensor, y_part: Tensor, shifts: int = 1, random: Random = None) -> Scores:
    """Cyclic shifts by 1 to k: no fixed points, right for estimation.

    Wrong for the regularizer of a deterministic encoder, whose J would have nothing to hold it down.
    """
    steps = range(1, min(shifts, len(y_part) - 1) + 1)
    others = [critic.pairs(x_part, y_part.roll(-step, 0)) for step in steps]
    return critic.pairs(x_part, y_part), torch.stack(others, dim=1)


def all_pairs(critic: PairCritic, x_part: Tensor, y_part: Tensor, shifts: int = 1, random: Random = None) -> Scores:
    """Every x with every y of another sample: the steadiest, and cheap for a separable critic alone."""
    return split_diagonal(critic.matrix(x_part, y_part))


MARGINALS: dict[str, Callable[[PairCritic, Tensor, Tensor, int, Random], Scores]] = {
    "permutation": permuted,
    "shifts": shifted,
    "all": all_pairs,
}
"""Ways to make independent pairs, by name."""
