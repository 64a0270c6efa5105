"""The main loss."""

import pytest
import torch

from agrlearn.training.objective import cross_entropy


def test_cross_entropy_is_summed_over_slots_and_averaged_over_groups():
    logits, labels = torch.randn(5, 3, 4), torch.randint(0, 4, (5, 3))
    expected = -sum(logits[g, s].log_softmax(0)[labels[g, s]] for g in range(5) for s in range(3)) / 5
    assert cross_entropy(logits, labels).item() == pytest.approx(expected.item(), rel=1e-5)


def test_label_smoothing_spreads_a_share_of_each_label_over_all_classes():
    logits, labels = torch.randn(5, 3, 4), torch.randint(0, 4, (5, 3))
    targets = 0.9 * torch.nn.functional.one_hot(labels, 4) + 0.1 / 4
    expected = -(targets * logits.log_softmax(dim=-1)).sum() / 5
    weights = torch.ones(5, 3)
    for given in (None, weights):
        found = cross_entropy(logits, labels, given, label_smoothing=0.1)
        assert found.item() == pytest.approx(expected.item(), rel=1e-5)
