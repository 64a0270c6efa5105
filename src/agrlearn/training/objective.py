"""The main loss of the paper."""

import functools

from torch import Tensor
from torch.nn import functional as F


def cross_entropy(
    logits: Tensor, labels: Tensor, weights: Tensor | None = None, *, label_smoothing: float = 0.0
) -> Tensor:
    """Negative log likelihood of a group's labels, summed over its slots and averaged over the groups.

    The paper's ℓ; its Algorithm 1 prints it without the minus sign.

    Args:
        logits: (groups, fold, classes).
        labels: (groups, fold) class numbers.
        weights: (groups, fold), what each slot's loss is multiplied by.
        label_smoothing: the share of a label's probability that is spread over all classes.

    >>> import torch
    >>> cross_entropy(torch.zeros(3, 2, 4), torch.zeros(3, 2, dtype=torch.int64))  # 2 log 4
    tensor(2.7726)
    """
    loss = functools.partial(
        F.cross_entropy, logits.flatten(0, 1), labels.flatten(), label_smoothing=label_smoothing
    )  # fmt: skip
    if weights is not None:
        return (loss(reduction="none") * weights.flatten()).sum() / len(logits)
    # A mean times fold, not a sum over groups: at fold 1 this is bit for bit what ordinary training computes.
    return times(logits.shape[1], loss())


def times(factor: float, value: Tensor) -> Tensor:
    """The product, without an operation, and one more in the backward pass, where the factor is 1.

    >>> import torch
    >>> times(2, torch.tensor(1.5))
    tensor(3.)
    """
    return value if factor == 1 else factor * value
