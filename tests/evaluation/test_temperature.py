"""The temperature that fits held-out objects."""

import pytest
import torch

from agrlearn.errors import DataError
from agrlearn.evaluation.metrics import outcomes_of, score
from agrlearn.evaluation.temperature import at_temperature, fit_temperature


@pytest.fixture
def drawn():
    """Distributions, and labels that were drawn from them."""
    random = torch.Generator().manual_seed(0)
    probabilities = torch.randn(20_000, 5, generator=random, dtype=torch.float64).mul(2).softmax(dim=1)
    return probabilities, torch.multinomial(probabilities, 1, generator=random).squeeze(1)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_the_temperature_undoes_what_made_a_network_too_sure_or_not_sure_enough(drawn, temperature):
    probabilities, labels = drawn
    wrong = at_temperature(probabilities, temperature)
    assert fit_temperature(wrong, labels) == pytest.approx(1 / temperature, rel=0.03)


def test_no_other_temperature_makes_the_labels_more_likely_and_the_classes_stay(drawn):
    probabilities, labels = drawn
    wrong = at_temperature(probabilities, 0.4)[:500]
    best = fit_temperature(wrong, labels[:500])
    nll = {
        factor: score(outcomes_of(at_temperature(wrong, factor * best), labels[:500])).nll for factor in (0.98, 1, 1.02)
    }
    assert nll[1] < min(nll[0.98], nll[1.02])
    assert torch.equal(at_temperature(wrong, best).argmax(dim=1), wrong.argmax(dim=1))


def test_answers_that_are_all_right_or_all_alike_have_a_temperature_too():
    right = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    for probabilities in (right, right.flip(1), torch.full((2, 2), 0.5)):
        scaled = at_temperature(probabilities, fit_temperature(probabilities, torch.tensor([0, 1])))
        assert torch.isfinite(scaled).all()


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(DataError, match="got 1 for 2"):
        fit_temperature(torch.full((2, 2), 0.5), torch.tensor([0]))
