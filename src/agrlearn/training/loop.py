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

from agrlearn.data.labelled import (
    LabelledSet,
    batches,
    check_class_count,
    check_range,
    explain_lost_workers,
)
from agrlearn.data.pairs import checked_dataset
from agrlearn.errors import DataError, NotFiniteError, RecipeError, TrainingError
from agrlearn.evaluation.evaluate import evaluate
from agrlearn.grouping import GroupBatchSampler, Objects, group, map_objects
from agrlearn.modes import evaluating
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import save
from agrlearn.ranks import any_rank, explain_lost_ranks, on_rank_zero, synchronized_batch_norm, world_size
from agrlearn.seeding import derive_seed, generator, keep_streams, seed_torch, seeded
from agrlearn.training.averaging import add_to_average, averages_after, use_average
from agrlearn.training.checkpoint import NETWORK_FILE, RunDirectory
from agrlearn.training.execution import lay_out, make_forward, sample_group
from agrlearn.training.history import EpochRecord, History
from agrlearn.training.identity import identity_of, note_data
from agrlearn.training.information_plane import check_trackable, measure_information
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
_PERMUTATIONS, _AUGMENTATION, _MIXUP, _RANK = 1, 2, 4, 5


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
    recipe = recipe or Recipe()
    train_set = checked_dataset(train_set)
    validation_set = None if validation_set is None else checked_dataset(validation_set)
    engine = fabric or _one_device()
    sampler = GroupBatchSampler(
        len(train_set), network.fold, recipe.batch_size, seed=recipe.seed, repetition=recipe.repetition,  # type: ignore[arg-type]
        repetition_of=recipe.repetition_of, rank=engine.global_rank,
        world_size=engine.world_size,
    )  # fmt: skip
    _check(network, train_set, validation_set, recipe, engine, critic)
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
def _one_device() -> Fabric:
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
                    groups = group(map_objects(lambda tensor: tensor.to(engine.device), objects), network.fold)
                    mixture = None
                    if recipe.mixup > 0:
                        mixture = mix_groups(groups, recipe.mixup, generator(*keys, _MIXUP, *own), recipe.mixup_at)
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
                    bar.show(state.epoch * steps + state.step, _figures(state, recipe, log_groups, now - started))
                due = run is not None and exact and now - saved > checkpoint_seconds
                due, stopped = _agree(due, interrupt.is_set(), state.step, engine)
                if run is not None and exact and (due or stopped):
                    state.gather_totals()
                    run.save(state.state_dict)
                    saved = time.perf_counter()
                if stopped:
                    raise KeyboardInterrupt
            if state.average is not None and state.epoch + 1 == recipe.epochs:
                use_average(state, module, _one_more_epoch(train_set, sampler, recipe, engine, augment, workers, own))
                more = time.perf_counter() - started
                state.seconds, state.epoch_seconds = before + more, earlier + more
            seconds = state.epoch_seconds
            if exact:
                seed_torch(epoch_seed, engine.device)  # also where a run was resumed with no step left
            record = _end_epoch(state, recipe, log_groups, validation_set, workers)
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
    train_set: Dataset, sampler: GroupBatchSampler, recipe: Recipe, engine: Fabric, augment: Augment | None,
    workers: int, own: tuple[int, ...],
) -> Iterator[Objects]:  # fmt: skip
    """Batches of groups as the epoch after the last would have them."""
    sampler.set_epoch(recipe.epochs)
    seed_torch(derive_seed(recipe.seed, recipe.epochs, *own), engine.device)
    for step, batch in enumerate(batches(train_set, sampler, workers=workers)):
        objects = batch.objects
        if augment is not None:
            objects = augment(objects, generator(recipe.seed, recipe.epochs, step, _AUGMENTATION, *own))
        yield group(map_objects(lambda tensor: tensor.to(engine.device), objects), sampler.fold)


def _end_epoch(
    state: TrainingState, recipe: Recipe, log_groups: float, validation_set: Dataset | None, workers: int
) -> EpochRecord:
    totals = state.gather_totals()
    answers = totals.groups * state.network.fold
    evaluation = plane = None
    last = state.epoch + 1 == recipe.epochs
    if validation_set is not None and (last or (state.epoch + 1) % recipe.evaluate_every == 0):
        with evaluating(state.network.modules()):
            try:
                evaluation = evaluate(state.network, validation_set, sharded=True, workers=workers)
            except NotFiniteError:
                raise state.diverged("network's answers are") from None
            if recipe.track_information:
                plane = measure_information(state.network, validation_set, recipe.seed)
    seen_before = state.records[-1].objects_seen if state.records else 0
    record = EpochRecord(
        epoch=state.epoch + 1,
        learning_rate=learning_rate_at(recipe, state.epoch),
        loss=float(totals.loss) / totals.groups,
        train_error=float(totals.wrong) / answers,
        information=float(totals.information) / totals.penalties if totals.penalties else None,
        log_groups=log_groups,
        skipped_penalties=totals.skipped,
        objects_seen=seen_before + answers,
        validation_error=evaluation.error if evaluation else None,
        validation_nll=evaluation.nll if evaluation else None,
        **(vars(plane) if plane else {}),
    )
    state.records.append(record)
    state.totals = EpochTotals.zero(totals.loss.device)
    state.epoch, state.step, state.epoch_seconds = state.epoch + 1, 0, 0.0
    return record


def _agree(due: bool, stopped: bool, step: int, engine: Fabric) -> tuple[bool, bool]:
    """Whether to save, and whether to stop: at the same step in all processes, which rarely communicate about it."""
    if engine.world_size == 1:
        return due, stopped
    if step % _STEPS_BETWEEN_AGREEMENTS:
        return False, False
    return any_rank(due, engine.device), any_rank(stopped, engine.device)


def _check(
    network: AggregatedClassifier, train_set: Dataset, validation_set: Dataset | None, recipe: Recipe, engine: Fabric,
    critic: nn.Module | None,
) -> None:  # fmt: skip
    if not torch.is_grad_enabled():
        raise TrainingError("fit was called under torch.no_grad() or inference_mode(), where nothing can be learned")
    if isinstance(train_set, LabelledSet):
        check_class_count(train_set)
        classes = train_set.num_classes
        if classes > network.num_classes:
            raise DataError(
                f"the data set has {classes} classes, the network {network.num_classes}; build it with "
                f"num_classes={classes}"
            )
        if isinstance(validation_set, LabelledSet) and validation_set.class_names != train_set.class_names:
            first, second = (", ".join(dataset.class_names[:10]) for dataset in (train_set, validation_set))
            raise DataError(
                f"the training and the validation set number their classes differently ({first}; {second}); make the "
                "validation set by LabelledSet.of(objects, labels, class_names=train_set.class_names)"
            )
    if validation_set is not None and len(validation_set) == 0:  # type: ignore[arg-type]
        raise DataError("the validation set is empty; pass at least one object, or None for no validation set")
    if recipe.patience is not None and validation_set is None:
        raise RecipeError("patience needs a validation set to judge the epochs by; pass one, or leave patience out")
    if critic is not None and recipe.alpha == 0:
        raise RecipeError("a critic is only used for the penalty J; pass a recipe with alpha above 0 as well")
    if recipe.track_information:
        check_trackable(network, validation_set)
    if engine.world_size != world_size():
        raise RecipeError(
            f"torch.distributed runs {world_size()} processes, the Fabric {engine.world_size}; pass the Fabric that "
            "launched them, after its launch()"
        )
    if recipe.batch_size < recipe.accumulate * engine.world_size:
        raise RecipeError(
            f"batch_size={recipe.batch_size} groups cannot be cut into accumulate={recipe.accumulate} microbatches on "
            f"each of {engine.world_size} processes; raise batch_size or lower accumulate"
        )


def _figures(state: TrainingState, recipe: Recipe, log_groups: float, seconds: float) -> str:
    """The figures of the current epoch so far, for the progress bar."""
    state.count_errors()
    totals = state.totals
    figures = [
        f"{state.epoch + 1}/{recipe.epochs}",
        f"loss {float(totals.loss) / totals.groups:.3f}",
        f"error {float(totals.wrong) / (totals.groups * state.network.fold):.1%}",
    ]
    if totals.penalties:
        figures.append(f"J {float(totals.information) / totals.penalties:.2f} of log m {log_groups:.2f}")
    if totals.skipped:
        figures.append(f"J left out {totals.skipped}×")
    errors = (record.validation_error for record in reversed(state.records))
    if (error := next((error for error in errors if error is not None), None)) is not None:
        figures.append(f"{'held out' if recipe.patience is None else 'validation'} {error:.1%}")
    figures.append(f"{totals.groups * state.network.fold / seconds:,.0f} objects/s")
    return " · ".join(figures)
