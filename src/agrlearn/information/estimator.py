"""Mutual information between two samples, from critics that are evaluated only on samples they have not seen."""

import copy
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from torch import Tensor, nn

from agrlearn.adam import Adam
from agrlearn.errors import DataError, RecipeError, look_up
from agrlearn.information.bounds import BOUNDS, Bound, MovingAverage
from agrlearn.information.estimate_result import STEPS_PER_LOOK, Estimate, Training, combine
from agrlearn.information.pair_critics import CRITICS, CallableCritic, PairCritic
from agrlearn.information.pairs import MARGINALS
from agrlearn.information.read_out import read_out, validation_value
from agrlearn.information.samples import as_sample_pair, first_copies, is_constant, spread_out
from agrlearn.modes import view
from agrlearn.seeding import derive_seed, generator, seeded

_FEWEST_SAMPLES = 20  # in each part
_VALIDATION_SHARE = 8  # one in eight samples of a part decides when its critic stops
_MOST_VALIDATION_SAMPLES = 1024
_AVERAGING = 0.98  # weights are averaged over about the last 50 steps
_WARM_UP_STEPS = 20
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

    The sample is cut into `parts`. Each part trains its own critic, and is evaluated by the average of the critics of
    the other parts, with one log-sum-exp over the whole part: every sample is used, none by a critic that saw it.
    The errors of critics from disjoint samples are independent, so the gain from averaging shows what they cost: with
    p critics, DV(average) + (DV(average) − mean DV) / (p − 1) removes the cost of learning to second order. That is
    `nats`. `lower_bound` is the InfoNCE of the average on the same pairs, whatever `bound` is.

    Args:
        x, y: (samples, ...) numbers or booleans, as arrays, tensors or lists.
        bound: a name in `BOUNDS`.
        critic: a name in `CRITICS`, which gets the normal scores or indicators of each column (`samples.spread_out`);
            or your own function or module (samples, ...), (samples, ...) -> (samples,), which gets x and y as tensors,
            unchanged. A module is copied and trained for each part; a function is only evaluated.
        marginals: where independent pairs come from in training, a name in `MARGINALS`.
        shifts: the number of shifts for marginals="shifts".
        parts: the number of critics, at least 3.
        batch_size: samples per step. Training cannot learn much more than log(batch_size) nats.
        steps: the most steps per critic.
        patience: steps without a better bound on the validation samples of a part before its critic stops.
        seed: decides the parts, the initial weights and the batches.
        progress: show a progress bar; by default only on a terminal.

    >>> random = torch.Generator().manual_seed(0)
    >>> x = torch.randn(600, 1, generator=random)
    >>> y = x + torch.randn(600, 1, generator=random)  # ½ log 2 = 0.347 nats
    >>> 0.2 < estimate(x, y, steps=100).nats < 0.5
    True
    """
    training = Training(bound, marginals, shifts, batch_size, learning_rate, steps, patience)
    look_up(BOUNDS, bound, "bound")
    look_up(MARGINALS, marginals, "way to make independent pairs")
    if parts < 3 or batch_size < 2 or min(shifts, steps, patience) < 1 or not 0 < learning_rate < math.inf:
        raise RecipeError(
            "expected parts of at least 3, a batch_size of at least 2, and shifts, steps, patience and learning_rate "
            f"above 0, got {parts}, {batch_size}, {shifts}, {steps}, {patience} and {learning_rate}"
        )
    x_columns, y_columns = as_sample_pair(x, y, _FEWEST_SAMPLES * parts)
    for name, columns in (("x", x_columns), ("y", y_columns)):
        if is_constant(columns):
            return Estimate(0.0, 0.0, 0.0, (), (f"{name} is constant, so there is no information",))
    kept = first_copies(x_columns, y_columns)
    if len(kept) < _FEWEST_SAMPLES * parts:
        raise DataError(f"expected at least {_FEWEST_SAMPLES * parts} different samples, got {len(kept)}; collect more")
    if callable(critic):
        _refuse_batch_norm(critic)
        xs, ys = (torch.as_tensor(values).detach().cpu()[torch.from_numpy(kept)] for values in (x, y))
        xs, ys = (values.float() if values.is_floating_point() else values for values in (xs, ys))
    else:
        look_up(CRITICS, critic, "critic")
        xs, ys = spread_out(x_columns[kept]), spread_out(y_columns[kept])
    order = torch.randperm(len(xs), generator=generator(seed, _ORDER)).chunk(parts)
    critics = [_fresh_critic(critic, xs, ys, derive_seed(seed, _CRITIC, number)) for number in range(parts)]
    curves = []
    console = Console(stderr=True)
    is_shown = console.is_terminal if progress is None else progress
    with Progress(console=console, transient=True, disable=not is_shown) as bar:
        for number, part in enumerate(order):
            task = bar.add_task(f"critic {number + 1} of {parts}", total=steps)
            advance = partial(bar.advance, task, STEPS_PER_LOOK)
            random = generator(seed, _BATCHES, number)
            with seeded(derive_seed(seed, _LAYERS, number)):
                curves.append(tuple(_train(critics[number], xs[part], ys[part], training, random, advance)))
            bar.update(task, completed=steps)
    read_outs = [
        read_out(critics[:number] + critics[number + 1 :], xs[part], ys[part], BOUNDS[bound])
        for number, part in enumerate(order)
    ]
    return combine(read_outs, tuple(curves), training, len(x_columns) - len(kept))


def _refuse_batch_norm(critic: Callable[[Tensor, Tensor], Tensor]) -> None:
    layers = critic.modules() if isinstance(critic, nn.Module) else ()
    if any(isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training for layer in layers):
        raise RecipeError(
            "expected a critic without batch normalisation, which would tell joint pairs from independent ones by "
            "their batches; use LayerNorm instead, or put those layers into eval mode"
        )


def _fresh_critic(critic: str | Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, seed: int) -> PairCritic:
    if callable(critic):
        return CallableCritic(copy.deepcopy(critic) if isinstance(critic, nn.Module) else critic)
    with seeded(seed):
        return CRITICS[critic](x.shape[1], y.shape[1])


def _train(
    critic: PairCritic, x: Tensor, y: Tensor, training: Training, random: torch.Generator, advance: Callable[[], None]
) -> list[float]:
    """Maximize the bound on most of the samples; keep the averaged weights that are best on the rest."""
    if not any(parameter.requires_grad for parameter in critic.parameters()):
        return []
    held_out = min(len(x) // _VALIDATION_SHARE, _MOST_VALIDATION_SAMPLES)
    objective: Bound = MovingAverage() if training.bound == "dv-average" else BOUNDS[training.bound]
    scores = MARGINALS[training.marginals]
    optimizer = Adam(critic.parameter_groups(training.learning_rate), lr=training.learning_rate, decoupled=True)
    learning_rates = [group["lr"] for group in optimizer.param_groups]
    parameters: list[Tensor] = list(critic.parameters())
    averages = [parameter.detach().clone() for parameter in parameters]
    best, best_averages, best_step = -math.inf, averages, 0
    curve: list[float] = []
    batches = _batches(held_out, len(x), training.batch_size, random)
    for step in range(1, training.steps + 1):
        for group, learning_rate in zip(optimizer.param_groups, learning_rates, strict=True):
            group["lr"] = learning_rate * min(1.0, step / _WARM_UP_STEPS)
        batch = next(batches)
        value = objective(*scores(critic, *critic.parts(x[batch], y[batch]), training.shifts, random))
        if torch.isfinite(value):
            optimizer.zero_grad(set_to_none=True)
            (-value).backward()
            optimizer.step()
        torch._foreach_lerp_(averages, [p.detach() for p in parameters], 1 - min(_AVERAGING, step / (step + 10)))
        if step % STEPS_PER_LOOK and step < training.steps:
            continue
        averaged = view(critic, dict(zip(parameters, averages, strict=True)))
        curve.append(validation_value(averaged, x[:held_out], y[:held_out], BOUNDS[training.bound]))
        advance()
        if curve[-1] > best:
            best, best_averages, best_step = curve[-1], [average.clone() for average in averages], step
        elif step - best_step >= training.patience:
            break
    with torch.no_grad():
        torch._foreach_copy_(parameters, best_averages)
    return curve


def _batches(first: int, last: int, batch_size: int, random: torch.Generator) -> Iterator[Tensor]:
    """Endless batches of the numbers from `first` to `last`; each pass in a new order, without its remainder."""
    batch_size = min(batch_size, last - first)
    while True:
        order = first + torch.randperm(last - first, generator=random)
        yield from order[: len(order) // batch_size * batch_size].split(batch_size)
