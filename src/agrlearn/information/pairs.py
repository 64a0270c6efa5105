"""Independent pairs, as samples of p(x)p(y): a permutation of the batch, cyclic shifts of it, or all its pairs."""

from collections.abc import Callable

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
    size = len(matrix)
    # Without its first entry, the flat matrix has the diagonal in the last of size + 1 columns.
    others = matrix.flatten()[1:].view(size - 1, size + 1)[:, :-1]
    return matrix.diagonal(), others.reshape(size, size - 1)


def permuted(critic: PairCritic, x_part: Tensor, y_part: Tensor, shifts: int = 1, random: Random = None) -> Scores:
    """One uniformly random permutation, as in the paper; its fixed points bias the bound down."""
    order = torch.randperm(len(y_part), generator=random).to(y_part.device)
    return critic.pairs(x_part, y_part), critic.pairs(x_part, y_part[order])


def shifted(critic: PairCritic, x_part: Tensor, y_part: Tensor, shifts: int = 1, random: Random = None) -> Scores:
    """Cyclic shifts by 1 to k: no fixed points, as estimation needs.

    Not for the regularizer: with a deterministic encoder, nothing would limit J.
    """
    steps = range(1, min(shifts, len(y_part) - 1) + 1)
    others = [critic.pairs(x_part, y_part.roll(-step, 0)) for step in steps]
    return critic.pairs(x_part, y_part), torch.stack(others, dim=1)


def all_pairs(critic: PairCritic, x_part: Tensor, y_part: Tensor, shifts: int = 1, random: Random = None) -> Scores:
    """Every x with the y of every other sample: the least variance, but cheap only for a separable critic."""
    return split_diagonal(critic.matrix(x_part, y_part))


MARGINALS: dict[str, Callable[[PairCritic, Tensor, Tensor, int, Random], Scores]] = {
    "permutation": permuted,
    "shifts": shifted,
    "all": all_pairs,
}
"""Ways to make independent pairs, by name."""
