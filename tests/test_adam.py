"""Adam is torch's."""

import pytest
import torch
from torch import nn

from agrlearn.adam import Adam


def descend(optimizer, weights, steps):
    for number in range(steps):
        optimizer.zero_grad()
        assert all(weight.grad is None for weight in weights)
        used = weights[: 2 + number % 2]  # the last one has a gradient at every second step only
        sum((number + 1.5) * weight.double().square().sum().sin() for weight in used).backward()
        optimizer.step()


def make_pair(decoupled):
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    starts = [torch.linspace(-1, 1, 40), torch.linspace(0, 3, 7).double(), torch.full((2, 3), 0.5)]
    ours, theirs = ([nn.Parameter(start.clone()) for start in starts] for _ in range(2))
    groups = [[{"params": made[:1]}, {"params": made[1:], "lr": 0.1}] for made in (ours, theirs)]
    options = {"lr": 0.01, "weight_decay": 0.2}
    return (ours, Adam(groups[0], decoupled=decoupled, **options)), (theirs, kind(groups[1], fused=True, **options))


@pytest.mark.parametrize("decoupled", [False, True])
def test_every_step_is_torchs_bit_for_bit(decoupled):
    (ours, optimizer), (theirs, reference) = make_pair(decoupled)
    descend(optimizer, ours, 5)
    descend(reference, theirs, 5)
    assert all(torch.equal(mine, other) for mine, other in zip(ours, theirs, strict=True))
    assert not torch.equal(ours[0], torch.linspace(-1, 1, 40))


@pytest.mark.parametrize("decoupled", [False, True])
def test_it_goes_on_from_torchs_state_and_torch_from_its(decoupled):
    whole, _ = make_pair(decoupled)
    descend(whole[1], whole[0], 3)
    descend(whole[1], whole[0], 3)
    for turned in (False, True):
        (first, before), (then, after) = make_pair(decoupled)[:: -1 if turned else 1]
        descend(before, first, 3)
        with torch.no_grad():
            for weight, value in zip(then, first, strict=True):
                weight.copy_(value)
        after.load_state_dict({**after.state_dict(), "state": before.state_dict()["state"]})
        descend(after, then, 3)
        assert all(torch.equal(mine, other) for mine, other in zip(whole[0], then, strict=True))
