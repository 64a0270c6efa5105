"""The main loss."""

import pytest
import torch

from agrlearn.training.objective import cross_entropy


def test_cross_entropy_is_summed_over_slots_and_averaged_over_groups():
    logits, labels = torch.randn(5, 3, 4), torch.randint(0, 4, (5, 3))
    expected = -sum(logits[g, s].log_softmax(0)[labels[g, s]] for g in range(5) for s in range(3)) / 5
    assert cross_entropy(logits, labels).item() == pytest.approx(expected.item(), rel=1e-5)
