"""The training loop: the epochs of Algorithm 1 and their checkpoints. A single step is in `step`."""

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Literal

import torch
from lightning_fabric import Fabric
from torch import nn
from torch.utils.data import Dataset

from agrlearn.data.batches import batches, explain_lost_workers
from agrlearn.data.labelled import LabelledSet, check_range
from agrlearn.data.pairs import checked_dataset
from agrlearn.grouping import GroupBatchSampler, Objects, group
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import save
from agrlearn.ranks import any_rank, explain_lost_ranks, on_rank_zero, synchronized_batch_norm
from agrlearn.seeding import derive_seed, generator, keep_streams, seed_torch, seeded
from agrlearn.training.averaging import add_to_average, averages_after, use_average
from agrlearn.training.checkpoint import NETWORK_FILE, RunDirectory
from agrlearn.training.checks import check_fit, check_types
from agrlearn.training.epoch import end_epoch, figures
from agrlearn.training.execution import lay_out, make_forward, sample_group
from agrlearn.training.history import History
from agrlearn.training.identity import identity_of, note_data
from agrlearn.training.interrupt import deferred_interrupt
from agrlearn.training.microbatches import mean_log_groups
from agrlearn.training.mixup import mix_groups
from agrlearn.training.progress import TrainingProgress
from agrlearn.training.recipe import Recipe
from agrlearn.training.setup import (
    explain_single_groups,
    learning_rate_at,
    make_optimizer,
    make_regularizer,
    set_learning_rate,
    wrap,
)
from agrlearn.training.state import EpochTotals, TrainingState
from agrlearn.training.step import train_step

Augment = Callable[[Objects, torch.Generator], Objects]
"""Changes a batch of objects at random: (objects, generator) -> objects."""

_SECONDS_BETWEEN_LOOKS = 0.25
_STEPS_BETWEEN_AGREEMENTS = 10
# Keys of the random streams of a step other than the network's own, and of the ranks.
_PERMUTATIONS, _AUGMENTATION, MIXUP_STREAM, _RANK = 1, 2, 4, 5


def fit(
    network: AggregatedClassifier,
    train_set: Dataset,
    recipe: Recipe | None = None,
    validation_set: Dataset | None = None,
    run_dir: str | Path | None = None,
    *,
    augment: Augment | None = None,
    critic: nn.Module | None = None,
    workers: int = 0,
    fabric: Fabric | None = None,
    progress: bool | Literal["lines"] | None = None,
    label: str = "training",
    checkpoint_seconds: float = 60.0,
    more_epochs: bool = False,
    on_claim: Callable[[Path], None] | None = None,
) -> History:
    """Train `network` in place.

    If the network is in train mode, modules within it that are in eval mode stay so, such as frozen normalisations.

    Args:
        train_set: any map-style Dataset of (object, label); a `LabelledSet` is fastest.
        recipe: the hyperparameters; the paper's by default.
        validation_set: evaluated after every epoch by Replicated prediction; it influences training only if the recipe
            has patience.
        run_dir: where checkpoints and records go. A run that was stopped is resumed there with the same results, bit
            for bit; with a Dataset other than a `LabelledSet`, from the start of the epoch.
        augment: changes each batch of training objects at random, each slot's copy by itself.
        critic: a module that scores pairs for the penalty J if the recipe's alpha is above 0, and is trained too:
            (h, t) -> (groups,). h is the bottleneck before its noise, or the groups if the recipe has critic="input".
        workers: processes that load a Dataset other than a `LabelledSet`.
        fabric: devices, processes and precision, as a launched Lightning Fabric; one device by default. A batch is
            shared by all processes, and J and batch normalisation are computed over all of it.
        progress: show a progress bar; by default on a terminal only. True and "lines" also say how long it will take,
            and print a line now and then if there is no terminal.
        checkpoint_seconds: time between checkpoints within an epoch.
        more_epochs: go on with the run in `run_dir` if the recipe has more epochs than it had, by the learning rates of
            the new number of epochs from there on; otherwise such a run is refused.
        on_claim: called by one process with the run directory once it is locked for this run, before training.
    """
    check_types(network, recipe)
    recipe = recipe or Recipe()
    train_set = checked_dataset(train_set)
    validation_set = None if validation_set is None else checked_dataset(validation_set)
    engine = fabric or one_device()
    sampler = GroupBatchSampler(
        len(train_set), network.fold, recipe.batch_size, seed=recipe.seed, repetition=recipe.repetition,  # type: ignore[arg-type]
        repetition_of=recipe.repetition_of, rank=engine.global_rank,
        world_size=engine.world_size,
    )  # fmt: skip
    check_fit(network, train_set, validation_set, recipe, engine, critic)
    with ExitStack() as held:
        run, checkpoint = None, None
        if run_dir is not None:
            run = RunDirectory(
                run_dir,
                lambda: identity_of(network, train_set, validation_set, recipe, engine, augment, critic),
                lambda: note_data(train_set, validation_set),
                getattr(train_set, "class_names", ()),
                more_epochs=more_epochs,
            )
            held.enter_context(closing(run))
            checkpoint = on_rank_zero(functools.partial(run.open, on_claim))
        return _train(
            network, train_set, recipe, validation_set, sampler, engine, run, checkpoint, augment=augment,
            critic=critic, workers=workers, progress=progress, label=label, checkpoint_seconds=checkpoint_seconds,
        )  # fmt: skip


@functools.cache
def one_device() -> Fabric:
    """The default engine. To make one takes longer than many steps: Lightning looks through all installed packages."""
    return Fabric(devices=1)


def _train(
    network: AggregatedClassifier, train_set: Dataset, recipe: Recipe, validation_set: Dataset | None,
    sampler: GroupBatchSampler, engine: Fabric, run: RunDirectory | None, checkpoint: dict[str, Any] | None,
    *, augment: Augment | None, critic: nn.Module | None, workers: int, progress: bool | Literal["lines"] | None,
    label: str, checkpoint_seconds: float,
) -> History:  # fmt: skip
    """Train the remaining epochs."""
    if not network.training:
        network.train()
    sample = sample_group(network, train_set, recipe, augment)
    lay_out(network, recipe, sample, engine.device)
    module, optimizer, backward, unsynchronized = wrap(engine, network, make_optimizer(network, recipe))
    regularizer = None
    if recipe.alpha > 0:
        regularizer = make_regularizer(network, train_set, recipe, engine.device, augment, critic)
    totals = EpochTotals.zero(engine.device)
    state = TrainingState(network, optimizer, regularizer, totals, engine.strategy.precision)
    if checkpoint is not None:
        state.load_state_dict(checkpoint, epochs=recipe.epochs, steps=len(sampler))
        if engine.global_rank > 0:  # the totals are kept by rank 0
            state.totals = EpochTotals.zero(engine.device)
    if run is not None:
        run.write_records(state.records)
    was_finished = state.epoch == recipe.epochs or state.out_of_patience
    forward = module if was_finished else make_forward(module, network, recipe, sample, sampler, engine)

    steps, log_groups = len(sampler), mean_log_groups(sampler, recipe)
    shown = progress if engine.is_global_zero else False
    bar = TrainingProgress(
        recipe.epochs * steps, state.epoch * steps + state.step, epochs=recipe.epochs,
        may_stop=recipe.patience is not None, label=label, shown=shown,
    )  # fmt: skip
    exact = isinstance(train_set, LabelledSet)
    own = () if engine.is_global_zero else (_RANK, engine.global_rank)
    looked = time.perf_counter()
    with (
        keep_streams(engine.device), deferred_interrupt() as interrupt, bar, synchronized_batch_norm(network),
        explain_lost_ranks(run is not None), explain_lost_workers(), explain_single_groups(),
    ):  # fmt: skip
        while state.epoch < recipe.epochs and not state.out_of_patience:
            started = saved = time.perf_counter()
            before, earlier = state.seconds, state.epoch_seconds
            sampler.set_epoch(state.epoch)
            epoch_seed = derive_seed(recipe.seed, state.epoch, *own)
            # All at once: between the operations of a small network, a seed would take as long to derive as a layer.
            seeds = [derive_seed(recipe.seed, state.epoch, step, *own) for step in range(steps)]
            seed_torch(epoch_seed, engine.device)
            for objects, labels, weights in batches(train_set, sampler, start=state.step, workers=workers):
                if not exact and labels.device.type == "cpu":  # on a GPU, this would wait for the device
                    check_range(labels, network.num_classes)
                keys = (recipe.seed, state.epoch, state.step)
                set_learning_rate(optimizer, learning_rate_at(recipe, state.epoch + state.step / steps))
                # A LabelledSet draws nothing between two steps; another Dataset must find its stream as it left it.
                with seeded(seeds[state.step], engine.device, restore=not exact):
                    if augment is not None:
                        objects = augment(objects, generator(*keys, _AUGMENTATION, *own))
                    groups = group(network.to_device(objects), network.fold)
                    mixture = None
                    if recipe.mixup > 0:
                        mixture = mix_groups(
                            groups, recipe.mixup, generator(*keys, MIXUP_STREAM, *own), recipe.mixup_at
                        )
                    train_step(
                        forward, state, groups, labels.to(engine.device).view(-1, network.fold), recipe,
                        None if regularizer is None else generator(*keys, _PERMUTATIONS), backward,
                        None if weights is None else weights.to(engine.device).view(-1, network.fold),
                        mixture=mixture, total=sampler.groups_at(state.step), unsynchronized=unsynchronized,
                    )  # fmt: skip
                state.step += 1
                if averages_after(recipe, state.epoch + state.step / steps):
                    add_to_average(state)

                now = time.perf_counter()
                state.seconds, state.epoch_seconds = before + now - started, earlier + now - started
                if now - looked > _SECONDS_BETWEEN_LOOKS:
                    looked = now
                    bar.show(state.epoch * steps + state.step, figures(state, recipe, log_groups, now - started))
                due = run is not None and exact and now - saved > checkpoint_seconds
                due, stopped = _agree(due, interrupt.is_set(), state.step, engine)
                if run is not None and exact and (due or stopped):
                    state.gather_totals()
                    run.save(state.state_dict)
                    saved = time.perf_counter()
                if stopped:
                    raise KeyboardInterrupt
            if state.average is not None and state.epoch + 1 == recipe.epochs:
                use_average(state, module, _one_more_epoch(network, train_set, sampler, recipe, augment, workers, own))
                more = time.perf_counter() - started
                state.seconds, state.epoch_seconds = before + more, earlier + more
            seconds = state.epoch_seconds
            if exact:
                seed_torch(epoch_seed, engine.device)  # also where a run was resumed with no step left
            record = end_epoch(state, recipe, log_groups, validation_set, workers)
            if recipe.patience is not None:
                state.note_best(recipe.patience)
            if run is not None:
                run.save(state.state_dict)
                run.append_record(record, seconds)
    if state.best_weights is not None:
        network.load_state_dict(state.best_weights)
    if run is not None and engine.is_global_zero:
        save(network, run.path / NETWORK_FILE, class_names=getattr(train_set, "class_names", ()))
    if _agree(False, interrupt.is_set(), 0, engine)[1]:  # during the last evaluation
        raise KeyboardInterrupt
    return History(tuple(state.records), state.seconds, was_finished)


def _one_more_epoch(
    network: AggregatedClassifier, train_set: Dataset, sampler: GroupBatchSampler, recipe: Recipe,
    augment: Augment | None, workers: int, own: tuple[int, ...],
) -> Iterator[Objects]:  # fmt: skip
    """Batches of groups as the epoch after the last would have them."""
    sampler.set_epoch(recipe.epochs)
    seed_torch(derive_seed(recipe.seed, recipe.epochs, *own), network.weight.device)
    for step, batch in enumerate(batches(train_set, sampler, workers=workers)):
        objects = batch.objects
        if augment is not None:
            objects = augment(objects, generator(recipe.seed, recipe.epochs, step, _AUGMENTATION, *own))
        yield group(network.to_device(objects), sampler.fold)


def _agree(due: bool, stopped: bool, step: int, engine: Fabric) -> tuple[bool, bool]:
    """Whether to save, and whether to stop: at the same step in all processes, which rarely communicate about it."""
    if engine.world_size == 1:
        return due, stopped
    if step % _STEPS_BETWEEN_AGREEMENTS:
        return False, False
    return any_rank(due, engine.device), any_rank(stopped, engine.device)
