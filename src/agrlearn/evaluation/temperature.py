"""One temperature for all label distributions, fitted on held-out objects (Guo et al. 2017).

It changes how sure a network is, and never which class it names first.
"""

import torch
from torch import Tensor

from agrlearn.errors import DataError

_COLDEST, _HOTTEST = 0.01, 100.0  # where all answers are right, or none says anything, there is no best temperature
_HALVINGS = 60


def fit_temperature(probabilities: Tensor, labels: Tensor) -> float:
    """The temperature at which the labels are most likely; above 1 for a network that is too sure.

    Args:
        probabilities: (objects, classes), of objects that the network was not trained on.
        labels: (objects,) class numbers.

    >>> sure = torch.tensor([[0.99, 0.01]] * 4)  # and right three times of four
    >>> temperature = fit_temperature(sure, torch.tensor([0, 0, 0, 1]))
    >>> at_temperature(sure, temperature)[0]
    tensor([0.7500, 0.2500])
    """
    if len(probabilities) == 0 or len(probabilities) != len(labels):
        raise DataError(f"expected a label for each of some objects, got {len(labels)} for {len(probabilities)}")
    scores = _scores(probabilities.double())
    wanted = scores.gather(1, labels[:, None]).mean()
    # The likelihood is concave in 1 / temperature, so its slope changes its sign once.
    cold, hot = 1 / _COLDEST, 1 / _HOTTEST
    for _ in range(_HALVINGS):
        middle = (cold * hot) ** 0.5
        expected = ((scores * middle).softmax(dim=1) * scores).sum(dim=1).mean()
        cold, hot = (middle, hot) if expected > wanted else (cold, middle)
    return 1 / middle


def at_temperature(probabilities: Tensor, temperature: float) -> Tensor:
    """(objects, classes): the distributions whose logits are divided by the temperature."""
    return (_scores(probabilities) / temperature).softmax(dim=1)


def _scores(probabilities: Tensor) -> Tensor:
    return probabilities.clamp(min=torch.finfo(torch.float32).tiny).log()
