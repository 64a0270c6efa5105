"""Critics for groups of every kind of object."""

import pytest
import torch

from agrlearn.errors import DataError
from agrlearn.information.critics import Critic, TokenGroups, VectorGroups, critic_for
from agrlearn.information.regularizer import InformationRegularizer

EXAMPLES = {
    "images": torch.rand(9, 2, 3, 40, 36),
    "bytes": torch.randint(0, 255, (9, 2, 1, 8, 8), dtype=torch.uint8),
    "standardized bytes": torch.randint(0, 255, (9, 2, 1, 8, 8), dtype=torch.uint8),
    "large bytes": torch.randint(0, 255, (9, 2, 3, 40, 36), dtype=torch.uint8),
    "vectors": torch.randn(9, 2, 5),
    "double vectors": torch.randn(9, 2, 5, dtype=torch.float64),
    "numbers": torch.randn(9, 2),
    "series": torch.randn(9, 2, 3, 20),
    "standardized series": torch.randn(9, 2, 1, 20),
    "volumes": torch.randn(9, 2, 1, 4, 4, 4),
    "tokens": torch.randint(0, 50, (9, 2, 12)),
    "short tokens": torch.randint(0, 50, (9, 2, 12), dtype=torch.int32),
}


def test_a_critic_learns_as_much_of_bytes_as_of_the_same_numbers_from_0_to_1():
    numbers = torch.randint(0, 255, (64, 2, 1, 8, 8), dtype=torch.uint8)
    t = numbers.float().flatten(1)[:, :4] / 255
    ends = []
    for groups in (numbers, numbers.float() / 255):
        torch.manual_seed(0)
        regularizer = InformationRegularizer(critic_for(groups, 4))
        ends.append([regularizer.ascend(groups, t, torch.Generator().manual_seed(s)).item() for s in range(300)][-1])
    assert ends[0] == pytest.approx(ends[1], abs=1e-3)
    assert ends[0] > 0.1


def test_tokens_are_words_in_short_numbers_too():
    kinds = [type(critic_for(EXAMPLES[kind], 4).group_features) for kind in ("tokens", "short tokens")]
    assert kinds == [TokenGroups, TokenGroups]


def test_a_mapping_that_no_critic_reads_is_refused_with_what_to_do():
    groups = {"image": torch.rand(4, 2, 3, 8, 8), "about": torch.rand(4, 2, 5)}
    with pytest.raises(DataError, match=r"'input_ids'; got a mapping of image, about: .*alpha=0"):
        critic_for(groups, 4)


def test_the_split_first_layer_equals_a_layer_on_the_concatenation():
    critic = Critic(VectorGroups(2, 5, 16), 4, width=16)
    groups, t = torch.randn(6, 2, 5), torch.randn(6, 4)
    whole = torch.cat([critic.group_features.linear.weight, critic.bottleneck_part.weight], dim=1)
    concatenated = torch.cat([groups.flatten(1), t], dim=1) @ whole.T + critic.bottleneck_part.bias
    assert torch.allclose(critic(groups, t), critic.score(concatenated.relu()).squeeze(1), atol=1e-5)


def test_tokens_beyond_padding_count_and_padding_does_not():
    critic = critic_for(EXAMPLES["tokens"], 4)
    t = torch.randn(9, 4)
    longer = torch.cat([EXAMPLES["tokens"], torch.zeros(9, 2, 5, dtype=torch.int64)], dim=2)
    assert torch.allclose(critic(longer, t), critic(EXAMPLES["tokens"], t), atol=1e-6)
    changed = EXAMPLES["tokens"].clone()
    changed[:, :, 0] = 49
    assert not torch.allclose(critic(changed, t), critic(EXAMPLES["tokens"], t))
