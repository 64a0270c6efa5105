"""The main loss of the paper."""

from torch import Tensor
from torch.nn import functional as F


def cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    """Negative log likelihood of a group's labels, summed over its slots and averaged over the groups.

    The paper's ℓ; its Algorithm 1 prints it without the minus sign.

    Args:
        logits: (groups, fold, classes).
        labels: (groups, fold) class numbers.
        weights: (groups, fold), what each slot's loss is multiplied by.

    >>> import torch
    >>> cross_entropy(torch.zeros(3, 2, 4), torch.zeros(3, 2, dtype=torch.int64))  # 2 log 4
    tensor(2.7726)
    """
    if weights is not None:
        losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        return (losses * weights.flatten()).sum() / len(logits)
    # A mean times fold, not a sum over groups: at fold 1 this is bit for bit what ordinary training computes.
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten()) * logits.shape[1]
