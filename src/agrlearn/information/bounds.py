"""Lower bounds of mutual information, each a function of a critic's scores.

Every bound takes the scores of m samples of p(x, y), shape (m,), and the scores of independent pairs: (m,), or (m, k)
where row i holds x_i with k partners that are not its own. All pairs of a batch are the case k = m − 1, which
`pairs.split_diagonal` makes of the (m, m) matrix. All are 0 for a constant critic, and none overflows.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Bound = Callable[[Tensor, Tensor], Tensor]
_NEGLIGIBLE = 60.0  # exp(-60) adds nothing in float32, and its gradients would be denormal numbers, which are slow


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
    """J of the paper: mean γ(x, t) over the joint pairs − log mean exp γ(x, t) over independent ones.

    With expectations for means it is at most I(X;T) for every critic γ, and reaches it for
    γ = log p(x, t) / p(x)p(t) + constant (Donsker and Varadhan 1983; Belghazi et al. 2018). The logarithm of a sample
    mean biases a batch's value upwards, without limit where no independent pair is likely, so that it bounds nothing
    then; its variance grows with exp 2·I(X;T) over the number of independent pairs.

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

    A batch's own denominator biases the gradient of the logarithm; one averaged over many batches (`MovingAverage`)
    takes most of that bias away and lags behind the critic. The value is that of `donsker_varadhan`, bias and variance
    included.

    Args:
        log_average: log of the average of mean exp γ; without it the gradient is the ordinary one.
    """
    batch = log_mean_exp(marginal_scores)
    share = torch.exp(batch - (batch.detach() if log_average is None else log_average))
    return joint_scores.mean() - _with_gradient_of(batch, share)


def nguyen_wainwright_jordan(joint_scores: Tensor, marginal_scores: Tensor) -> Tensor:
    """1 + mean γ − mean exp γ: at most I(X;Y) for every critic, and unbiased on a sample.

    Reached by γ = log p(x, y) / p(x)p(y) alone, without a free constant (Nguyen, Wainwright and Jordan 2010, with the
    critic shifted by one; the f-divergence form of MINE). There is no logarithm to bias it, and the variance of the
    exponentials comes through in full, more than in Donsker-Varadhan. Past float32's range the exponential goes on
    as a straight line, so that a wild critic gives a very low value and no infinity.
    """
    log_mean = log_mean_exp(marginal_scores)
    capped = log_mean.clamp(max=_NEGLIGIBLE)
    return 1 + joint_scores.mean() - capped.exp() * (1 + log_mean - capped)


def info_nce(joint_scores: Tensor, marginal_scores: Tensor) -> Tensor:
    """The log probability of the right partner among k + 1, plus log(k + 1): at most I(X;Y), and at most log(k + 1).

    Low variance, and a bias that grows as I(X;Y) nears log(k + 1) (van den Oord et al. 2018; Poole et al. 2019). The
    best critic is log p(y|x)/p(y) plus anything that depends on x alone.

    >>> info_nce(torch.full((4,), 50.0), torch.zeros(4, 3))  # log 4
    tensor(1.3863)
    """
    others = marginal_scores.reshape(len(joint_scores), -1)
    both = torch.cat([joint_scores.unsqueeze(1), others], dim=1)
    return (joint_scores - torch.logsumexp(both, dim=1)).mean() + math.log(both.shape[1])


def jensen_shannon(joint_scores: Tensor, marginal_scores: Tensor) -> Tensor:
    """The Donsker-Varadhan value of a critic that is trained by the Jensen-Shannon divergence.

    The gradient is that of telling joint from independent pairs by logistic regression, which bounds nothing in nats
    but is steady where exponentials are not, and has its optimum at the same log-ratio (Nowozin et al. 2016; Hjelm et
    al. 2019; Poole et al. 2019). The value's bias and variance are `donsker_varadhan`'s.
    """
    return _with_gradient_of(
        donsker_varadhan(joint_scores, marginal_scores), _separation(joint_scores, marginal_scores)
    )


def smile(joint_scores: Tensor, marginal_scores: Tensor, *, clip: float = 5.0) -> Tensor:
    """Jensen-Shannon training, and a Donsker-Varadhan value whose exponentials are clipped to e^±clip.

    The clip bounds the variance by about e^clip and gives the guarantee away: with a critic far above the clip the
    value can pass I(X;Y), and it no longer forgives a constant added to all scores (Song and Ermon 2020).
    """
    value = joint_scores.mean() - log_mean_exp(marginal_scores.clamp(-clip, clip))
    return _with_gradient_of(value, _separation(joint_scores, marginal_scores))


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
    """`averaged_donsker_varadhan` with its one piece of state: the log of an average over the batches so far.

    The average is kept in log space, where a critic's output of 95 is 95 and not e^95.

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


def _separation(joint_scores: Tensor, marginal_scores: Tensor) -> Tensor:
    """The log likelihood of logistic regression between joint and independent pairs."""
    return -F.softplus(-joint_scores).mean() - F.softplus(marginal_scores).mean()


def _with_gradient_of(value: Tensor, source: Tensor) -> Tensor:
    return value.detach() + (source - source.detach())
