"""Small networks of one shape that train together: each to the weights that `fit` gives it alone, up to rounding.

A step of a small network is mostly calls of Python and torch. Together, a step of all networks takes as many calls as a
step of one.
"""

import math
import time
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import AgrLearnError, TrainingError
from agrlearn.grouping import TOKEN_TYPES, GroupBatchSampler, first_tensor
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.cost import count_parameters
from agrlearn.networks.many_mlps import FeatureMixing, ManyMlps, Targets, shape_of
from agrlearn.seeding import derive_seed, generator
from agrlearn.training.checks import check_fit
from agrlearn.training.epoch import end_epoch
from agrlearn.training.history import History
from agrlearn.training.loop import MIXUP_STREAM, one_device
from agrlearn.training.microbatches import mean_log_groups
from agrlearn.training.mixup import draw_partners
from agrlearn.training.recipe import Recipe
from agrlearn.training.setup import learning_rate_at, make_optimizer_of, set_learning_rate
from agrlearn.training.state import EpochTotals, TrainingState

# Beyond these, the weights and what Adam keeps of them leave the processor's caches, and little or nothing is gained.
_MOST_NETWORKS, _MOST_WEIGHTS = 10, 750_000
_MOST_COPIED = 2**26  # numbers of the training objects


class Trainee(NamedTuple):
    """A network, and what `fit` would be given to train it."""

    network: AggregatedClassifier
    train_set: LabelledSet
    recipe: Recipe
    validation_set: LabelledSet | None = None

    @property
    def kind(self) -> Hashable | None:
        """Those of one kind can be trained together; None for what only `fit` can train.

        They have networks of `mlp` of one shape, as many training objects, and one recipe except for the seed.
        """
        recipe, data, shape = self.recipe, self.train_set, shape_of(self.network)
        known = (
            shape is not None
            and type(data) is LabelledSet
            and isinstance(data.objects, Tensor)
            and data.objects.ndim == 2
            and data.objects.dtype not in TOKEN_TYPES
            and (data.weights is None or data.weights.dtype == torch.float32)
            and all(part.device.type == "cpu" for part in (data.objects, data.labels))
            and recipe.alpha == 0
            and recipe.accumulate == 1
            and recipe.average_from is None
            and recipe.compile != "on"
            and not recipe.track_information
            and min(recipe.batch_size, len(data)) > 1
        )
        if not known:
            return None
        same = recipe.model_copy(update={"seed": 0}).model_dump_json()
        return shape, same, tuple(first_tensor(data.objects).shape), data.weights is None


def fit_together(trainees: Sequence[Trainee]) -> list[History | None]:
    """Train those networks in place that can be trained together, as `fit` does one by one.

    Returns:
        The records of each, with its share of the time; or None, and the network is as it was: nothing else was of its
        `kind`, or one of those that were diverged. `fit` trains it, or says what is wrong.
    """
    alike: dict[Hashable, list[int]] = {}
    for number, trainee in enumerate(trainees):
        if (kind := trainee.kind) is not None:
            alike.setdefault(kind, []).append(number)
    histories: list[History | None] = [None] * len(trainees)
    for numbers in alike.values():
        network, data, *_ = trainees[numbers[0]]
        copied = first_tensor(data.objects).numel()
        most = min(_MOST_NETWORKS, _MOST_WEIGHTS // count_parameters(network), _MOST_COPIED // max(1, copied))
        stacks = math.ceil(len(numbers) / max(1, most))
        for some in (numbers[first::stacks] for first in range(stacks)):
            found = _fit_stack([trainees[number] for number in some]) if len(some) > 1 else None
            for number, history in zip(some, found or [], strict=found is not None):
                histories[number] = history
    return histories


def _fit_stack(trainees: Sequence[Trainee]) -> list[History] | None:
    """Train networks of one kind; None if one of them cannot be trained or diverged, and then all are as they were."""
    before = [{name: value.clone() for name, value in one.network.state_dict().items()} for one in trainees]
    modes = [trainee.network.training for trainee in trainees]
    try:
        for network, data, recipe, validation_set in trainees:
            check_fit(network, data, validation_set, recipe, one_device(), None)
        with torch.no_grad():
            return _train(trainees)
    except AgrLearnError:
        for trainee, weights, training in zip(trainees, before, modes, strict=True):
            trainee.network.load_state_dict(weights)
            trainee.network.train(training)
        return None


def _train(trainees: Sequence[Trainee]) -> list[History]:
    recipe = trainees[0].recipe
    for trainee in trainees:
        trainee.network.train()
    states = [TrainingState(one.network, None, None, EpochTotals.zero(torch.device("cpu"))) for one in trainees]  # type: ignore[arg-type]
    log_groups = mean_log_groups(_sampler(trainees[0]), recipe)
    going = list(range(len(trainees)))
    stack = _Stack(trainees)
    try:
        while going:
            started = time.perf_counter()
            stack.train_epoch(states[going[0]].epoch)
            share = (time.perf_counter() - started) / len(going)
            stack.check_finite()
            for place, number in enumerate(going):
                state = states[number]
                state.seconds += share
                totals = stack.totals(place)
                end_epoch(state, recipe, log_groups, trainees[number].validation_set, workers=0, totals=totals)
                if recipe.patience is not None:
                    state.note_best(recipe.patience)
            kept = [
                place for place, number in enumerate(going)
                if states[number].epoch < recipe.epochs and not states[number].out_of_patience
            ]  # fmt: skip
            if 0 < len(kept) < len(going):
                stack = stack.without_the_stopped(kept)
            going = [going[place] for place in kept]
    finally:
        stack.mlps.release()
    for state in states:
        if state.best_weights is not None:
            state.network.load_state_dict(state.best_weights)
    return [History(tuple(state.records), state.seconds, False) for state in states]


def _sampler(trainee: Trainee) -> GroupBatchSampler:
    recipe = trainee.recipe
    return GroupBatchSampler(
        len(trainee.train_set), trainee.network.fold, recipe.batch_size, seed=recipe.seed,
        repetition=recipe.repetition, repetition_of=recipe.repetition_of,
    )  # fmt: skip


class _Stack:
    """Networks with their data and their optimizer, while they train."""

    def __init__(self, trainees: Sequence[Trainee]) -> None:
        self.trainees, self.recipe = trainees, trainees[0].recipe
        self.mlps = ManyMlps([trainee.network for trainee in trainees])
        self.optimizer = make_optimizer_of(self.mlps.trained, self.mlps.heads, self.recipe)
        self.samplers = [_sampler(trainee) for trainee in trainees]
        sets = [trainee.train_set for trainee in trainees]
        self.objects = torch.cat([data.objects.to(torch.float32) for data in sets])  # type: ignore[union-attr]
        self.labels = torch.cat([data.labels for data in sets])
        self.weights = None if sets[0].weights is None else torch.cat([data.weights for data in sets])  # type: ignore[misc]
        self.losses, self.wrong = torch.zeros(2, len(trainees), dtype=torch.float64)

    def without_the_stopped(self, kept: Sequence[int]) -> "_Stack":
        """The same with these networks alone."""
        self.mlps.release()
        smaller = _Stack([self.trainees[place] for place in kept])
        for old, new in zip(self.mlps.trained, smaller.mlps.trained, strict=True):
            # An optimizer's averages have the shape of their tensor; the number of steps is a single value.
            smaller.optimizer.state[new] = {
                name: value[kept] if isinstance(value, Tensor) and value.ndim else value
                for name, value in self.optimizer.state[old].items()
            }
        return smaller

    def check_finite(self) -> None:
        """Stop if a network has diverged; `fit` finds out which."""
        numbers = [self.losses, *(tensor for tensor in self.mlps.tensors.values() if tensor.is_floating_point())]
        if not all(torch.isfinite(values).all() for values in numbers):
            raise TrainingError("one of several networks that train together diverged")

    def totals(self, place: int) -> EpochTotals:
        """What an epoch summed up for a network."""
        return EpochTotals(
            self.losses[place], self.wrong[place], torch.zeros(()), groups=len(self.trainees[place].train_set)
        )

    def train_epoch(self, epoch: int) -> None:
        """All steps of an epoch."""
        recipe, mlps, steps = self.recipe, self.mlps, len(self.samplers[0])
        size = len(self.trainees[0].train_set)
        for sampler in self.samplers:
            sampler.set_epoch(epoch)
        # (groups, fold, networks): each network's own objects lie behind each other.
        order = torch.stack([s.order() + number * size for number, s in enumerate(self.samplers)], dim=2)
        answers = order.permute(2, 0, 1)
        labels = self.labels[answers]
        weights = torch.ones(labels.shape) if self.weights is None else self.weights[answers]
        seeds = [trainee.recipe.seed for trainee in self.trainees]
        streams: list[list[int]] = [[]] * steps
        if mlps.layers[0].dropout > 0:
            streams = [[derive_seed(seed, epoch, step) for seed in seeds] for step in range(steps)]
        self.losses.zero_()
        self.wrong.zero_()
        for step in range(steps):
            first = step * recipe.batch_size
            here = slice(first, first + self.samplers[0].groups_at(step))
            objects = self._take(order[here])
            targets, mixing = Targets(labels[:, here], weights[:, here], recipe.label_smoothing), None
            shares = torch.ones(())
            if recipe.mixup > 0:
                objects, targets, mixing, shares = self._mix(order[here], objects, targets, (epoch, step))
            set_learning_rate(self.optimizer, learning_rate_at(recipe, epoch + step / steps))
            losses, logits = mlps.step(objects, targets, streams[step], mixing)
            self.optimizer.step()
            self.losses += losses
            wrong = logits.argmax(dim=2, keepdim=True) != targets.labels
            self.wrong += (wrong * shares).sum(dim=(1, 2))

    def _take(self, indices: Tensor) -> Tensor:
        """(groups, fold, networks) -> (groups * fold, networks, features)."""
        objects = self.objects.index_select(0, indices.flatten())
        return objects.view(-1, len(self.trainees), objects.shape[1])

    def _mix(
        self, indices: Tensor, objects: Tensor, targets: Targets, keys: tuple[int, int]
    ) -> tuple[Tensor, Targets, FeatureMixing, Tensor]:
        """A step with mixup, in which each network has its own partners and shares; and what each label counts."""
        recipe = self.recipe
        drawn = [
            draw_partners(len(indices), recipe.mixup, generator(one.recipe.seed, *keys, MIXUP_STREAM), recipe.mixup_at)
            for one in self.trainees
        ]
        partners = torch.stack([where for where, _, _ in drawn], dim=1)
        shares = torch.tensor([share for _, share, _ in drawn]).unsqueeze(1)
        at_features = torch.tensor([features for _, _, features in drawn]).unsqueeze(1)
        others = self._take(indices.gather(0, partners.unsqueeze(1).expand_as(indices)))
        objects = torch.lerp(others, objects, torch.where(at_features, 1.0, shares))
        labels, weights, smoothing = targets
        places = partners.t().unsqueeze(2).expand_as(labels)
        labels = torch.cat([labels, labels.gather(1, places)], dim=2)
        counts = torch.cat([shares.expand(-1, indices.shape[1]), (1 - shares).expand(-1, indices.shape[1])], dim=1)
        counts = counts.unsqueeze(1)
        weights = torch.cat([weights, weights.gather(1, places)], dim=2) * counts
        mixing = FeatureMixing(partners, torch.where(at_features, shares, 1.0))
        return objects, Targets(labels, weights, smoothing), mixing, counts
