"""Mutual information between two samples, by critics that are judged only on samples they have not seen."""

import copy
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from torch import Tensor, nn

from agrlearn.errors import DataError, RecipeError, look_up
from agrlearn.information.bounds import BOUNDS, Bound, MovingAverage
from agrlearn.information.pair_critics import CRITICS, CallableCritic, PairCritic
from agrlearn.information.pairs import MARGINALS
from agrlearn.information.read_out import read_out, validation_value
from agrlearn.information.samples import as_sample_pair, first_copies, is_constant, spread_out
from agrlearn.information.summary import LOOK_EVERY, Estimate, Training, summarise
from agrlearn.seeding import derive_seed, generator, seeded

_FEWEST_SAMPLES = 20  # in each part
_VALIDATION_SHARE = 8  # one in eight samples of a part decides when its critic stops
_AVERAGING = 0.98  # the critic that is kept is an average over about the last 50 steps
_VALIDATION_AT_MOST = 1024
_WARM_UP = 20
_ORDER, _CRITIC, _BATCHES, _LAYERS = range(4)  # random streams


def estimate(
    x: Any,
    y: Any,
    bound: str = "dv",
    critic: str | Callable[[Tensor, Tensor], Tensor] = "separable",
    *,
    marginals: str = "all",
    shifts: int = 8,
    parts: int = 3,
    batch_size: int = 512,
    learning_rate: float = 1e-3,
    steps: int = 300,
    patience: int = 40,
    seed: int = 0,
    progress: bool | None = None,
) -> Estimate:
    """Estimate I(X;Y) from samples.

    The sample is cut into `parts`. Each part trains a critic of its own, and is read out by the average of the other
    parts' critics, with one log-sum-exp over the whole part: every sample is read out, none by a critic that saw it.
    Critics learned from disjoint samples err independently, so what averaging them gains tells what their errors cost:
    with p critics, DV(average) + (DV(average) − mean DV) / (p − 1) takes the cost of learning away to second order.
    That is `nats`. `lower_bound` is the average's InfoNCE on the same pairs, whatever `bound` is (`ReadOut`).

    Args:
        x: (samples, ...) numbers or booleans, as an array, a tensor or a list.
        y: (samples, ...) likewise.
        bound: a name in `BOUNDS`.
        critic: a name in `CRITICS`, which sees each column's normal scores or indicators (`samples.spread_out`); or a
            function or module of yours (samples, ...), (samples, ...) -> (samples,) that sees tensors of x and y as
            they are. A module is copied and trained for each part; a function is only read out.
        marginals: where independent pairs come from in training, a name in `MARGINALS`.
        shifts: how many, for marginals="shifts".
        parts: how many critics; at least 3.
        batch_size: samples per step. Training is out of its depth past about log(batch_size) nats.
        steps: of each critic, at most.
        patience: steps without a better bound on a part's validation samples before its critic stops.
        seed: decides the parts, the critics' beginnings and the batches.
        progress: show a progress bar; on a terminal by default.

    >>> random = torch.Generator().manual_seed(0)
    >>> x = torch.randn(600, 1, generator=random)
    >>> y = x + torch.randn(600, 1, generator=random)  # ½ log 2 = 0.347 nats
    >>> 0.2 < estimate(x, y, steps=100).nats < 0.5
    True
    """
    training = Training(bound, marginals, shifts, batch_size, learning_rate, steps, patience)
    _check(training, parts)
    x_columns, y_columns = as_sample_pair(x, y, _FEWEST_SAMPLES * parts)
    for name, columns in (("x", x_columns), ("y", y_columns)):
        if is_constant(columns):
            return Estimate(0.0, 0.0, 0.0, (), (f"{name} is constant, so there is no information",))
    kept = first_copies(x_columns, y_columns)
    if len(kept) < _FEWEST_SAMPLES * parts:
        raise DataError(f"expected at least {_FEWEST_SAMPLES * parts} samples, got {len(kept)} beside their copies")
    if callable(critic):
        _refuse_batch_norm(critic)
        xs, ys = (_as_tensor(values)[torch.from_numpy(kept)] for values in (x, y))
    else:
        look_up(CRITICS, critic, "critic")
        xs, ys = spread_out(x_columns[kept]), spread_out(y_columns[kept])
    order = torch.randperm(len(xs), generator=generator(seed, _ORDER)).chunk(parts)
    critics = [_fresh_critic(critic, xs, ys, derive_seed(seed, _CRITIC, number)) for number in range(parts)]
    curves = []
    with _progress_bar(progress) as bar:
        for number, part in enumerate(order):
            task = bar.add_task(f"critic {number + 1} of {parts}", total=steps)
            advance = partial(bar.advance, task, LOOK_EVERY)
            random = generator(seed, _BATCHES, number)
            with seeded(derive_seed(seed, _LAYERS, number)):
                curves.append(tuple(_train(critics[number], xs[part], ys[part], training, random, advance)))
            bar.update(task, completed=steps)
    outs = [
        read_out([c for other, c in enumerate(critics) if other != number], xs[part], ys[part], BOUNDS[bound])
        for number, part in enumerate(order)
    ]
    return summarise(outs, tuple(curves), training, len(x_columns) - len(kept))


def _check(training: Training, parts: int) -> None:
    look_up(BOUNDS, training.bound, "bound")
    look_up(MARGINALS, training.marginals, "way to make independent pairs")
    counts = (training.shifts, training.steps, training.patience)
    if parts < 3 or training.batch_size < 2 or min(counts) < 1 or not 0 < training.learning_rate < math.inf:
        raise RecipeError(
            "expected parts of at least 3, a batch_size of at least 2, and shifts, steps, patience and learning_rate "
            f"above 0, got {parts}, {training.batch_size}, {', '.join(map(str, counts))} and {training.learning_rate}"
        )


def _refuse_batch_norm(critic: Callable[[Tensor, Tensor], Tensor]) -> None:
    layers = critic.modules() if isinstance(critic, nn.Module) else ()
    if any(isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training for layer in layers):
        raise RecipeError(
            "the critic normalises over batches, and matching pairs pass it in other batches than independent ones, so "
            "it would tell them apart by that; use LayerNorm instead, or put the layers into eval mode"
        )


def _progress_bar(shown: bool | None) -> Progress:
    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not (console.is_terminal if shown is None else shown))


def _as_tensor(values: Any) -> Tensor:
    tensor = torch.as_tensor(values).detach().cpu()
    return tensor.float() if tensor.is_floating_point() else tensor


def _fresh_critic(critic: str | Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, seed: int) -> PairCritic:
    if callable(critic):
        return CallableCritic(copy.deepcopy(critic) if isinstance(critic, nn.Module) else critic)
    with seeded(seed):
        return CRITICS[critic](x.shape[1], y.shape[1])


def _train(
    critic: PairCritic, x: Tensor, y: Tensor, training: Training, random: torch.Generator, advance: Callable[[], None]
) -> list[float]:
    """Ascend the bound on most of the samples; keep the averaged weights that do best on the rest."""
    if not any(parameter.requires_grad for parameter in critic.parameters()):
        return []
    held_out = min(len(x) // _VALIDATION_SHARE, _VALIDATION_AT_MOST)
    objective: Bound = MovingAverage() if training.bound == "dv-average" else BOUNDS[training.bound]
    scores = MARGINALS[training.marginals]
    optimizer = torch.optim.AdamW(critic.parameter_groups(training.learning_rate), weight_decay=0.0, fused=True)
    full_speed = [settings["lr"] for settings in optimizer.param_groups]
    parameters = list(critic.parameters())
    averages = [parameter.detach().clone() for parameter in parameters]
    best, best_averages, best_step = -math.inf, averages, 0
    curve: list[float] = []
    batches = _batches(held_out, len(x), training.batch_size, random)
    for step in range(1, training.steps + 1):
        for settings, speed in zip(optimizer.param_groups, full_speed, strict=True):
            settings["lr"] = speed * min(1.0, step / _WARM_UP)
        batch = next(batches)
        value = objective(*scores(critic, *critic.parts(x[batch], y[batch]), training.shifts, random))
        if torch.isfinite(value):
            optimizer.zero_grad(set_to_none=True)
            (-value).backward()
            optimizer.step()
        torch._foreach_lerp_(averages, [p.detach() for p in parameters], 1 - min(_AVERAGING, step / (step + 10)))
        if step % LOOK_EVERY and step < training.steps:
            continue
        current = [parameter.detach().clone() for parameter in parameters]
        _assign(parameters, averages)
        curve.append(validation_value(critic, x[:held_out], y[:held_out], BOUNDS[training.bound]))
        _assign(parameters, current)
        advance()
        if curve[-1] > best:
            best, best_averages, best_step = curve[-1], [average.clone() for average in averages], step
        elif step - best_step >= training.patience:
            break
    _assign(parameters, best_averages)
    return curve


def _batches(first: int, last: int, batch_size: int, random: torch.Generator) -> Iterator[Tensor]:
    """Batches of the numbers from `first` to `last`, without end; each pass in a new order, its remainder left out."""
    batch_size = min(batch_size, last - first)
    while True:
        order = first + torch.randperm(last - first, generator=random)
        yield from order[: len(order) // batch_size * batch_size].split(batch_size)


def _assign(parameters: list[nn.Parameter], values: list[Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(value)
