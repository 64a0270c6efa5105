"""Lower bounds of mutual information, each a function of a critic's scores."""

import math
from collections.abc import Callable

import torch
from torch import Tensor


def donsker_varadhan(joint_scores: Tensor, marginal_scores: Tensor) -> Tensor:
    """J of the paper: mean γ(x, t) over the joint pairs − log mean exp γ(x, t) over independent ones.

    In expectation over independent samples it is at most I(X;T) for every critic γ, and reaches it for
    γ = log p(x, t) / p(x)p(t) + constant (Donsker and Varadhan 1983; Belghazi et al. 2018). The logarithm of a sample
    mean biases a batch's value upwards, and its variance grows with exp I(X;T).

    Args:
        joint_scores: (pairs,) scores of samples of p(x, t).
        marginal_scores: (pairs,) scores of samples of p(x)p(t).

    >>> donsker_varadhan(torch.tensor([2.0, 2.0]), torch.tensor([0.0, 0.0]))
    tensor(2.)
    """
    log_mean_exp = torch.logsumexp(marginal_scores, dim=0) - math.log(len(marginal_scores))
    return joint_scores.mean() - log_mean_exp


BOUNDS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"dv": donsker_varadhan}
