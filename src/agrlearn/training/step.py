"""One step of Algorithm 1."""

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from agrlearn.errors import TrainingError
from agrlearn.grouping import Objects, map_objects
from agrlearn.information.bottleneck import Regularizer
from agrlearn.ranks import world_size
from agrlearn.training.microbatches import microbatch_bounds, microbatch_sizes
from agrlearn.training.mixup import Mixture
from agrlearn.training.objective import cross_entropy, times
from agrlearn.training.recipe import Recipe
from agrlearn.training.state import TrainingState

_SKIPS_TOLERATED = 20


def train_step(
    module: Callable[..., Any], state: TrainingState, groups: Objects, labels: Tensor, recipe: Recipe,
    random: torch.Generator | None, backward: Callable[[Tensor], None], weights: Tensor | None = None, *,
    mixture: Mixture | None = None, total: int | None = None,
    unsynchronized: Callable[[], AbstractContextManager] = nullcontext,
) -> None:  # fmt: skip
    """One pass of Algorithm 1's loop: K ascents of the critic, then one descent of the encoder and the heads.

    Args:
        module: the network, as the engine wrapped it, or compiled.
        groups: (groups, fold, ...).
        labels: (groups, fold).
        random: of the permutations for J; not used without a regularizer.
        weights: (groups, fold), or None for 1 everywhere.
        mixture: the groups as mixed by mixup.
        total: groups of all processes together; by default those of this one.
        unsynchronized: a block in which the processes do not exchange gradients, for all microbatches except the last.
    """
    targets = [(1.0, labels, weights)]
    if mixture is not None:
        groups, partners, share = mixture.groups, mixture.partners, mixture.share
        partner_weights = None if weights is None else weights[partners]
        targets = [(share, labels, weights), (1 - share, labels[partners], partner_weights)]
    mix = (mixture.partners, mixture.share) if mixture is not None and mixture.at_features else None
    total = total or len(labels)
    ranks = world_size()
    # Sizes over all processes, for J; the loss is that of this process's share of a microbatch.
    sizes = microbatch_sizes(total, recipe.accumulate, ranks)
    state.optimizer.zero_grad(set_to_none=True)
    bounds = itertools.pairwise(microbatch_bounds(len(labels), len(sizes)))
    for size, (first, end) in zip(sizes, bounds, strict=True):
        here = slice(first, end)
        microbatch = map_objects(lambda tensor, here=here: tensor[here], groups)  # type: ignore[misc]
        with nullcontext() if end == len(labels) else unsynchronized():
            logits, t, means = module(microbatch, with_bottleneck=True, mix=mix)
            losses = [
                times(
                    proportion,
                    cross_entropy(
                        logits,
                        target[here],
                        None if weight is None else weight[here],
                        label_smoothing=recipe.label_smoothing,
                    ),
                )
                for proportion, target, weight in targets
            ]
            loss = sum(losses[1:], start=losses[0])
            # The engine averages gradients over the processes; with the factor `ranks` they are summed.
            objective = times(ranks * (end - first) / total, loss)
            if state.regularizer is not None:
                seen = microbatch if recipe.critic == "input" else means.detach()
                information = _information(state, state.regularizer, seen, t, recipe, random)
                if information is not None:
                    objective = objective + (ranks * size / total * recipe.alpha) * information
            backward(objective)
        state.totals.loss.add_(loss.detach(), alpha=end - first)
        for proportion, target, _ in targets:
            state.note_answers(proportion, logits, target[here])
        state.totals.groups += end - first
    state.optimizer.step()


def _information(
    state: TrainingState, regularizer: Regularizer, seen: Objects, t: Tensor, recipe: Recipe,
    random: torch.Generator | None,
) -> Tensor | None:  # fmt: skip
    """The penalty J after K ascents of the critic; None if it is not finite and must be left out.

    Args:
        seen: what the critic reads beside t.
    """
    # The encoder does not move while the critic ascends, so t is computed once for all K steps.
    for _ in range(recipe.ascent_steps):
        regularizer.ascend(seen, t, random)
    information = regularizer.penalty(seen, t, random)
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
