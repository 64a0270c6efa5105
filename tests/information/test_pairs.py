"""Independent pairs: every way to make them, and the diagonal of all pairs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agrlearn.information.pairs import MARGINALS, split_diagonal
from tests.information.test_pair_critics import CRITICS


@given(size=st.integers(2, 7))
@settings(max_examples=6, deadline=None)
def test_splitting_the_diagonal_keeps_rows_values_and_gradients(size):
    matrix = torch.randn(size, size, requires_grad=True)
    joint, marginal = split_diagonal(matrix)
    for row in range(size):
        others = torch.cat([matrix[row, :row], matrix[row, row + 1 :]])
        assert torch.equal(joint[row], matrix[row, row])
        assert torch.equal(marginal[row], others)
    weights = torch.randn(size, size - 1)
    (joint.square().sum() + (weights * marginal).sum()).backward()
    expected = torch.diag(2 * matrix.detach().diagonal())
    expected[~torch.eye(size, dtype=torch.bool)] = weights.flatten()
    assert torch.allclose(matrix.grad, expected)


@pytest.mark.parametrize("name", CRITICS)
@pytest.mark.parametrize("marginals", MARGINALS)
def test_independent_pairs_are_pairs_of_the_batch_and_shifts_have_no_fixed_points(name, marginals):
    critic = CRITICS[name]()
    x_part, y_part = critic.parts(torch.randn(6, 3), torch.randn(6, 2))
    joint, marginal = MARGINALS[marginals](critic, x_part, y_part, 3, torch.Generator().manual_seed(0))
    matrix = critic.matrix(x_part, y_part)
    assert torch.allclose(joint, matrix.diagonal(), atol=1e-5)
    assert marginal.shape == {"permutation": (6,), "shifts": (6, 3), "all": (6, 5)}[marginals]
    for i, row in enumerate(marginal.view(6, -1)):
        columns = [column for column in range(6) if marginals == "permutation" or column != i]
        assert all(torch.isclose(matrix[i, columns], score, atol=1e-5).any() for score in row)
