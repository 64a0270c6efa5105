"""Read-outs of fixed critics."""

import pytest
import torch

from agrlearn.information.bounds import BOUNDS
from agrlearn.information.pair_critics import CallableCritic
from agrlearn.information.read_out import read_out
from tests.information.test_estimator import log_ratio


def test_the_correction_takes_away_what_learning_costs():
    """Critics γ* + independent errors: the average's bound is too low, the corrected figure is not."""
    x, noise = torch.randn(2, 4000, 1, generator=torch.Generator().manual_seed(1))
    y = 0.8 * x + 0.6 * noise
    tilts = (lambda x, y: 0.3 * torch.sin(3 * x).squeeze(1), lambda x, y: 0.3 * torch.cos(3 * x).squeeze(1))
    critics = [CallableCritic(lambda x, y, tilt=tilt: log_ratio(x, y) + tilt(x, y)) for tilt in tilts]
    best = read_out([CallableCritic(log_ratio)], x, y, BOUNDS["dv"])
    result = read_out(critics, x, y, BOUNDS["dv"])
    assert result.of_average < best.of_average - 0.008
    assert result.corrected == pytest.approx(best.corrected, abs=0.004)
