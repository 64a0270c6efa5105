"""The information plane: I(X;T) and I(Y;T) of a stochastic bottleneck T = h(X) + Gaussian noise.

Since p(t|x) is known, no critic is needed: its mean over the other samples stands for p(t). X is the whole group, T its
bottleneck, and Y the `fold` labels of the group, assumed to be independent, so that H(Y) is a sum over the slots.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from agrlearn.errors import ShapeError
from agrlearn.information.bounds import info_nce
from agrlearn.information.pairs import split_diagonal


def gaussian_scores(t: Tensor, means: Tensor, noise: float) -> Tensor:
    """log p(t_i | x_j) up to a constant: (samples, features) draws and means -> (samples, samples).

    >>> gaussian_scores(torch.tensor([[1.0], [2.0]]), torch.zeros(2, 1), 0.5)
    tensor([[-2., -2.],
            [-8., -8.]], dtype=torch.float64)
    """
    if len(t) < 2:
        raise ShapeError(f"expected at least 2 samples to compare with each other, got {len(t)}")
    distances = torch.cdist(t.double(), means.double(), compute_mode="donot_use_mm_for_euclid_dist")
    return -distances.square() / (2 * noise**2)


def leave_one_out_bounds(scores: Tensor) -> tuple[float, float]:
    """A lower and an upper bound of I(X;T), in expectation over samples (Poole et al. 2019, eq. 12 and 13).

    The lower bound compares p(t|x) with the mean over all samples and is at most log m; the upper bound leaves x itself
    out of the mean. If they are far apart, the information is more than log m.

    Args:
        scores: (m, m) log p(t_i | x_j), up to a constant.
    """
    own, others = split_diagonal(scores)
    upper = (own - torch.logsumexp(others, dim=1)).mean() + math.log(len(scores) - 1)
    return float(info_nce(own, others)), float(upper)


def leave_one_out_label_information(scores: Tensor, labels: Tensor, num_classes: int) -> float:
    """A lower bound of I(Y;T): Theorem 3 with a classifier made of the known p(t|x) and the other samples.

    The classifier is q(y|t) = Σ_j p(t|x_j)·[y_j = y] / Σ_j p(t|x_j) over the other samples, which tends to p(y|t) with
    their number. It is mixed with 1/m of the label frequencies, so that no probability is 0.

    Args:
        scores: (m, m) log p(t_i | x_j), up to a constant.
        labels: (m, fold) class numbers.
    """
    weights = torch.softmax(scores.clone().fill_diagonal_(-math.inf), dim=1)
    indicators = F.one_hot(labels, num_classes).to(weights.dtype)  # (m, fold, classes)
    answers = torch.einsum("ij,jsc->isc", weights, indicators)
    mixed = answers.lerp(indicators.mean(dim=0), 1 / len(labels))
    return label_bound(mixed.log(), labels)


def label_bound(log_probabilities: Tensor, labels: Tensor) -> float:
    """Theorem 3 of the paper: I(Y;T) ≥ H(Y) − cross-entropy, both summed over the slots.

    H(Y) is the entropy of the label frequencies in this sample.

    Args:
        log_probabilities: (m, fold, classes) log q(y|t) for the label of every slot.
        labels: (m, fold) class numbers.
    """
    classes = log_probabilities.shape[-1]
    frequencies = F.one_hot(labels, classes).double().mean(dim=0)
    entropy = -torch.special.xlogy(frequencies, frequencies).sum()
    chosen = log_probabilities.double().gather(2, labels.unsqueeze(2)).squeeze(2)
    return float(entropy + chosen.sum(dim=1).mean())
