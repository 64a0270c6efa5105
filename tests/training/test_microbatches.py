"""The microbatches of a batch, and the log m with which J is compared."""

import math

import pytest
import torch

from agrlearn.grouping import GroupBatchSampler
from agrlearn.training import loop, setup
from agrlearn.training import step as one_step
from agrlearn.training.loop import fit
from agrlearn.training.microbatches import count_microbatches, mean_log_groups, microbatch_bounds
from agrlearn.training.recipe import Recipe
from agrlearn.training.state import EpochTotals, TrainingState

# objects, batch size, microbatches of a batch
SIZES = [(120, 40, 5), (20, 64, 1), (20, 64, 2), (96, 64, 1), (65, 16, 3), (33, 8, 8), (5, 2, 1)]


@pytest.fixture
def groups_seen(monkeypatch):
    """How many groups each J was computed over."""
    seen = []
    original = setup.InformationRegularizer.penalty

    def remember(self, groups, t, random=None):
        seen.append(len(t))
        return original(self, groups, t, random)

    monkeypatch.setattr(setup.InformationRegularizer, "penalty", remember)
    return seen


def train(vectors, make_mlp, objects, batch_size, accumulate):
    data = vectors.subset(torch.arange(objects))
    recipe = Recipe(epochs=1, batch_size=batch_size, accumulate=accumulate, alpha=0.1, bound="dv")
    return fit(make_mlp(2), data, recipe)


def mean_log(sizes):
    """Over the groups, not over the microbatches, as J is averaged."""
    return sum(size * math.log(size) for size in sizes) / sum(sizes)


@pytest.mark.parametrize(("objects", "batch_size", "accumulate"), SIZES)
def test_the_records_log_m_is_that_of_the_groups_that_j_sees(
    vectors, make_mlp, groups_seen, objects, batch_size, accumulate
):
    history = train(vectors, make_mlp, objects, batch_size, accumulate)
    assert sum(groups_seen) == objects
    assert history.records[-1].log_groups == pytest.approx(mean_log(groups_seen))


def test_the_progress_bar_shows_the_records_log_m(vectors, make_mlp, monkeypatch):
    shown = []
    monkeypatch.setattr(loop, "_SECONDS_BETWEEN_LOOKS", -1)
    monkeypatch.setattr(loop.TrainingProgress, "show", lambda self, steps, figures: shown.append(figures))
    train(vectors, make_mlp, 120, 40, 5)
    assert shown
    assert all(f"of log m {math.log(8):.2f}" in figures for figures in shown)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(("objects", "batch_size", "accumulate"), SIZES)
def test_over_several_processes_m_counts_the_groups_of_all_of_them(objects, batch_size, accumulate, ranks):
    samplers = [GroupBatchSampler(objects, 2, batch_size, rank=rank, world_size=ranks) for rank in range(ranks)]
    sizes = []
    for step, batches in enumerate(zip(*(sampler.batches() for sampler in samplers), strict=True)):
        shares = [len(batch) // 2 for batch in batches]
        count = count_microbatches(samplers[0].groups_at(step), accumulate, ranks)
        cuts = [microbatch_bounds(share, count) for share in shares]
        sizes += [sum(cut[number + 1] - cut[number] for cut in cuts) for number in range(count)]
    for sampler in samplers:
        assert mean_log_groups(sampler, Recipe(accumulate=accumulate, bound="dv")) == pytest.approx(mean_log(sizes))


@pytest.mark.parametrize("here", [9, 8])
def test_uneven_shares_of_two_processes_weigh_j_by_the_groups_of_all(here, make_mlp, monkeypatch):
    monkeypatch.setattr(one_step, "world_size", lambda: 2)
    monkeypatch.setattr(one_step, "_information", lambda *_: torch.ones(()))
    monkeypatch.setattr(one_step, "cross_entropy", lambda *_, **__: torch.zeros((), requires_grad=True))
    network, weighed = make_mlp(2), []
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    state = TrainingState(network, optimizer, object(), EpochTotals.zero(torch.device("cpu")))
    groups = torch.rand(here, 2, network.description["object_shape"][0])
    one_step.train_step(
        network, state, groups, torch.zeros(here, 2, dtype=torch.int64), Recipe(accumulate=2, alpha=1.0),
        torch.Generator(), lambda objective: weighed.append(objective.item()), total=17,
    )  # fmt: skip
    # Cut into 4 + 4 and 5 + 4 groups; the engine's mean over two processes takes back the factor 2.
    assert weighed == pytest.approx([2 * 8 / 17, 2 * 9 / 17])
