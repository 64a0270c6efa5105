"""Every critic: its matrix of all pairs holds the scores of its pairs."""

import pytest
import torch

from agrlearn.information.pair_critics import CallableCritic, ConcatenatedCritic, SeparableCritic

CRITICS = {
    "separable": lambda: SeparableCritic(3, 2, width=8, rank=4),
    "concatenated": lambda: ConcatenatedCritic(3, 2, width=8),
    "callable": lambda: CallableCritic(lambda x, y: x[:, 0] * y[:, 1]),
}


@pytest.mark.parametrize("name", CRITICS)
def test_a_critics_matrix_holds_the_scores_of_its_pairs(name):
    critic = CRITICS[name]()
    x, y = torch.randn(5, 3), torch.randn(7, 2)
    matrix = critic.matrix(*critic.parts(x, y))
    for i in range(5):
        assert torch.allclose(matrix[i], critic(x[i].expand(7, 3), y), atol=1e-5)
