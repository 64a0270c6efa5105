"""Lower bounds of mutual information, each a function of the scores of a critic.

Every bound takes the scores of m samples of p(x, y), shape (m,), and the scores of independent pairs: (m,), or (m, k)
where row i holds x_i with k partners that are not its own. For all pairs of a batch, k = m − 1
(`pairs.split_diagonal`). All bounds are 0 for a constant critic, and none overflows.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Bound = Callable[[Tensor, Tensor], Tensor]
_NEGLIGIBLE = 60.0  # exp(-60) adds nothing in float32, and its gradients would be subnormal numbers, which are slow


def log_mean_exp(scores: Tensor) -> Tensor:
    """log mean exp over all of `scores`; a score of 95 or 1e4 does not overflow.

    >>> log_mean_exp(torch.tensor([95.0, 95.0]))
    tensor(95.)
    """
    flat = scores.flatten()
    if scores.ndim > 1:
        flat = flat.clamp(min=flat.detach().max() - _NEGLIGIBLE)
    return torch.logsumexp(flat, dim=0) - math.log(len(flat))


def donsker_varadhan(joint_scores: Tensor, marginal_scores: Tensor) -> Tensor:
    """J of the paper: mean γ(x, t) over the joint pairs − log mean exp γ(x, t) over independent pairs.

    With expectations instead of means it is at most I(X;T) for every critic γ, with equality for
    γ = log p(x, t) / p(x)p(t) + constant (Donsker and Varadhan 1983; Belghazi et al. 2018). On a batch, the logarithm
    of the mean is biased upwards, without limit if no independent pair is likely, and is then not a bound. The
    variance grows with exp 2·I(X;T) over the number of independent pairs.

    Args:
        joint_scores: (pairs,) scores of samples of p(x, t).
        marginal_scores: (pairs,) or (pairs, k) scores of samples of p(x)p(t).

    >>> donsker_varadhan(torch.tensor([2.0, 2.0]), torch.tensor([0.0, 0.0]))
    tensor(2.)
    """
    return joint_scores.mean() - log_mean_exp(marginal_scores)


def averaged_donsker_varadhan(
    joint_scores: Tensor, marginal_scores: Tensor, log_average: Tensor | None = None
) -> Tensor:
    """The Donsker-Varadhan value, with the gradient of mean γ − mean exp γ / average (Belghazi et al. 2018, eq. 12).

    The denominator of a single batch biases the gradient of the logarithm; an average over many batches
    (`MovingAverage`) removes most of that bias, but lags behind the critic. The value is that of `donsker_varadhan`.

    Args:
        log_average: log of the average of mean exp γ; without it the gradient is that of `donsker_varadhan`.
    """
    batch = log_mean_exp(marginal_scores)
    share = torch.exp(batch - (batch.detach() if log_average is None else log_average))
    return joint_scores.mean() - _with_gradient_of(batch, share)


def nguyen_wainwright_jordan(joint_scores: Tensor, marginal_scores: Tensor) -> Tensor:
    """1 + mean γ − mean exp γ: at most I(X;Y) for every critic, and unbiased on a sample.

    Equality only for γ = log p(x, y) / p(x)p(y), without a free constant (Nguyen, Wainwright and Jordan 2010, with the
    critic shifted by one; the f-divergence form of MINE). Without a logarithm there is no bias, but more variance than
    in Donsker-Varadhan. Beyond the range of float32 the exponential continues as a straight line, so that extreme
    scores give a very low value instead of infinity.
    """
    log_mean = log_mean_exp(marginal_scores)
    capped = log_mean.clamp(max=_NEGLIGIBLE)
    return 1 + joint_scores.mean() - capped.exp() * (1 + log_mean - capped)


def info_nce(joint_scores: Tensor, marginal_scores: Tensor) -> Tensor:
    """The log probability of the right partner among k + 1, plus log(k + 1): at most I(X;Y), and at most log(k + 1).

    Low variance, with a bias that grows as I(X;Y) approaches log(k + 1) (van den Oord et al. 2018; Poole et al. 2019).
    The best critic is log p(y|x)/p(y) plus any function of x.

    >>> info_nce(torch.full((4,), 50.0), torch.zeros(4, 3))  # log 4
    tensor(1.3863)
    """
    others = marginal_scores.reshape(len(joint_scores), -1)
    both = torch.cat([joint_scores.unsqueeze(1), others], dim=1)
    return (joint_scores - torch.logsumexp(both, dim=1)).mean() + math.log(both.shape[1])


def jensen_shannon(joint_scores: Tensor, marginal_scores: Tensor) -> Tensor:
    """The Donsker-Varadhan value of a critic that is trained by the Jensen-Shannon divergence.

    The gradient is that of logistic regression between joint and independent pairs, which is not a bound in nats, but
    is steadier than exponentials and has its optimum at the same log-ratio (Nowozin et al. 2016; Hjelm et al. 2019;
    Poole et al. 2019). The value has the bias and variance of `donsker_varadhan`.
    """
    return smile(joint_scores, marginal_scores, clip=math.inf)


def smile(joint_scores: Tensor, marginal_scores: Tensor, *, clip: float = 5.0) -> Tensor:
    """Jensen-Shannon training, and a Donsker-Varadhan value whose exponentials are clipped to e^±clip.

    The clip bounds the variance by about e^clip, but the guarantee is lost: with scores far above the clip the value
    can exceed I(X;Y), and a constant added to all scores changes it (Song and Ermon 2020).
    """
    value = donsker_varadhan(joint_scores, marginal_scores.clamp(-clip, clip))
    log_likelihood = F.logsigmoid(joint_scores).mean() + F.logsigmoid(-marginal_scores).mean()
    return _with_gradient_of(value, log_likelihood)


BOUNDS: dict[str, Bound] = {
    "dv": donsker_varadhan,
    "dv-average": averaged_donsker_varadhan,
    "nwj": nguyen_wainwright_jordan,
    "infonce": info_nce,
    "smile": smile,
    "js": jensen_shannon,
}
"""Bounds by name."""


class MovingAverage:
    """`averaged_donsker_varadhan` with its state: the log of a moving average over the batches so far.

    Args:
        decay: the weight of the past in every new average.
    """

    def __init__(self, decay: float = 0.99) -> None:
        self.decay = decay
        self.log_average: Tensor | None = None

    def __call__(self, joint_scores: Tensor, marginal_scores: Tensor) -> Tensor:
        batch = log_mean_exp(marginal_scores.detach())
        if self.log_average is None:
            self.log_average = batch
        elif torch.isfinite(batch):
            past, present = math.log(self.decay), math.log(1 - self.decay)
            self.log_average = torch.logaddexp(self.log_average + past, batch + present)
        return averaged_donsker_varadhan(joint_scores, marginal_scores, self.log_average)


def _with_gradient_of(value: Tensor, source: Tensor) -> Tensor:
    return value.detach() + (source - source.detach())
