"""One step of Algorithm 1."""

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from agrlearn.errors import TrainingError
from agrlearn.grouping import Objects, map_objects
from agrlearn.ranks import world_size
from agrlearn.training.mixup import Mixture
from agrlearn.training.objective import cross_entropy
from agrlearn.training.parts import part_bounds, part_sizes
from agrlearn.training.recipe import Recipe
from agrlearn.training.state import TrainingState

_SKIPS_TOLERATED = 20


def train_step(
    module: nn.Module,
    state: TrainingState,
    groups: Objects,
    labels: Tensor,
    recipe: Recipe,
    random: torch.Generator,
    backward: Callable[[Tensor], None],
    weights: Tensor | None = None,
    *,
    mixture: Mixture | None = None,
    total: int | None = None,
    unsynchronized: Callable[[], AbstractContextManager] = nullcontext,
) -> None:
    """One pass of Algorithm 1's loop: K ascents of the critic, then one descent of the encoder and the heads.

    Args:
        module: the network, as the engine wrapped it.
        groups: (groups, fold, ...).
        labels: (groups, fold).
        weights: (groups, fold), or None for 1 everywhere.
        mixture: what mixup made of the groups.
        total: groups of all processes together, where there are several.
        unsynchronized: a block in which the processes do not exchange gradients, for all parts of a batch but the last.
    """
    targets = [(1.0, labels, weights)]
    if mixture is not None:
        groups = mixture.groups
        theirs = None if weights is None else weights[mixture.partners]
        targets = [(mixture.share, labels, weights), (1 - mixture.share, labels[mixture.partners], theirs)]
    total = total or len(labels)
    ranks = world_size()
    # Of all processes; the loss is this process's own share of a part, J is that of the whole part.
    sizes = part_sizes(total, recipe.accumulate, ranks)
    state.optimizer.zero_grad(set_to_none=True)
    bounds = itertools.pairwise(part_bounds(len(labels), len(sizes)))
    for size, (first, end) in zip(sizes, bounds, strict=True):
        some = slice(first, end)
        part = map_objects(lambda tensor, some=some: tensor[some], groups)  # type: ignore[misc]
        with nullcontext() if end == len(labels) else unsynchronized():
            logits, t = module(part, with_bottleneck=True)
            losses = [
                proportion * cross_entropy(logits, target[some], None if weight is None else weight[some])
                for proportion, target, weight in targets
            ]
            loss = sum(losses[1:], start=losses[0])
            # The engine averages gradients over the processes; with the factor `ranks` they are summed.
            objective = (ranks * (end - first) / total) * loss
            if state.regularizer is not None:
                information = _information(state, part, t, recipe, random)
                if information is not None:
                    objective = objective + (ranks * size / total * recipe.alpha) * information
            backward(objective)
        state.totals.loss += loss.detach() * (end - first)
        chosen = logits.detach().argmax(dim=-1)
        for proportion, target, _ in targets:
            state.totals.wrong += proportion * (chosen != target[some]).sum()
        state.totals.groups += end - first
    state.optimizer.step()


def _information(
    state: TrainingState, groups: Objects, t: Tensor, recipe: Recipe, random: torch.Generator
) -> Tensor | None:
    """The penalty J after K ascents of the critic; None if it is not finite and has to be left out."""
    assert state.regularizer is not None
    # The encoder does not move while the critic ascends, so t is computed once for all K steps.
    for _ in range(recipe.ascent_steps):
        state.regularizer.ascend(groups, t, random)
    information = state.regularizer.penalty(groups, t, random)
    if torch.isfinite(information):
        state.totals.information += information.detach() * len(t)
        state.totals.penalties += len(t)
        state.skipped_in_a_row = 0
        return information
    state.totals.skipped += 1
    state.skipped_in_a_row += 1
    if state.skipped_in_a_row >= _SKIPS_TOLERATED:
        raise TrainingError(
            f"the information penalty J was not finite in {_SKIPS_TOLERATED} batches in a row (epoch "
            f"{state.epoch + 1}); lower critic_learning_rate or alpha, or set clip_penalty"
        )
    return None
