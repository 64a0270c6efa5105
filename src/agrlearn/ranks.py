"""What the processes of one run (ranks) tell each other. On a single process nothing is sent and nothing changes."""

import functools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from agrlearn.errors import RunError

_WORDS_OF_BACKENDS = ("gloo", "nccl", "connection", "peer", "socket", "timed out")


def world_size() -> int:
    """How many processes train together: those of torch.distributed, or this one alone."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def rank() -> int:
    """The number of this process among them; 0 writes the files and is_main_process."""
    return distributed.get_rank() if world_size() > 1 else 0


def sum_over_ranks(values: Tensor) -> Tensor:
    """The sum of every rank's values, in place and without a gradient."""
    if world_size() > 1:
        distributed.all_reduce(values)
    return values


def any_rank(flag: bool, device: torch.device) -> bool:
    """Whether one of the ranks says so; all of them must ask."""
    return bool(sum_over_ranks(torch.tensor(float(flag), device=device)) > 0)


def broadcast(value: Any) -> Any:
    """Rank 0's value, on every rank; an exception is raised on all of them."""
    if world_size() > 1:
        box = [value]
        distributed.broadcast_object_list(box, src=0)
        value = box[0]
    if isinstance(value, Exception):
        raise value
    return value


def on_rank_zero(action: Callable[[], Any]) -> Any:
    """What `action` gave on rank 0, on every rank; if it failed there, it fails everywhere."""
    if rank() > 0:
        return broadcast(None)
    try:
        value = action()
    except Exception as error:
        if world_size() > 1:
            broadcast(error)
        raise
    return broadcast(value)


def row_counts(count: int, device: torch.device) -> list[int]:
    """How many rows each rank has; this one has `count`."""
    if world_size() == 1:
        return [count]
    mine = torch.tensor([count], device=device)
    counts = [torch.zeros_like(mine) for _ in range(world_size())]
    distributed.all_gather(counts, mine)
    return [int(count) for count in counts]


def gather_rows(rows: Tensor, counts: list[int]) -> Tensor:
    """Every rank's rows, in the order of the ranks, with a gradient that comes back from all of them.

    Args:
        rows: (rows, ...).
        counts: what `row_counts` says.
    """
    return rows if len(counts) == 1 else _GatherRows.apply(rows, counts)


def gather_own(rows: Tensor, counts: list[int]) -> Tensor:
    """Every rank's rows, for a value that all ranks compute alike: only this rank's own rows have a gradient."""
    if len(counts) == 1:
        return rows
    before = sum(counts[: rank()])
    everything = _gathered(rows.detach(), counts)
    return torch.cat([everything[:before], rows, everything[before + len(rows) :]])


def _gathered(rows: Tensor, counts: list[int]) -> Tensor:
    # Equal shapes, which not every backend can do without.
    padded = F.pad(rows, (0, 0) * (rows.ndim - 1) + (0, max(counts) - len(rows))).contiguous()
    parts = [torch.empty_like(padded) for _ in counts]
    distributed.all_gather(parts, padded)
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rows: Tensor, counts: list[int]) -> Tensor:
        before = sum(counts[: rank()])
        context.mine = slice(before, before + len(rows))
        return _gathered(rows, counts)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return sum_over_ranks(gradient.contiguous())[context.mine], None


class _SumOverRanks(torch.autograd.Function):
    """A sum whose gradient is the sum of the ranks' gradients."""

    @staticmethod
    def forward(context: Any, values: Tensor) -> Tensor:
        return sum_over_ranks(values.clone())

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return sum_over_ranks(gradient.clone())


@contextmanager
def explain_lost_ranks(kept: bool) -> Iterator[None]:
    """Within this block, a rank that died is told in a sentence; `kept` says whether there are checkpoints."""
    if world_size() == 1:
        yield
        return
    goes_on = "it goes on from the last checkpoint" if kept else "it starts over"
    lost = RunError(
        f"a process of this run has died, was stopped or cannot be reached; start the same command again and {goes_on}"
    )

    def stop(number: int, frame: FrameType | None) -> None:
        raise lost

    # A launcher ends the other ranks by this signal, often before they have missed the one that died.
    by_default = threading.current_thread() is threading.main_thread() and (
        signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if by_default:
        signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except RuntimeError as error:
        if error is not lost and any(word in str(error).lower() for word in _WORDS_OF_BACKENDS):
            raise lost from error
        raise
    finally:
        if by_default:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def synchronized_batch_norm(network: nn.Module) -> Iterator[None]:
    """Within this block, batch normalisation takes mean and variance over the batches of all ranks.

    torch's own SyncBatchNorm does not run on CPUs; this does, and the network keeps its layers, with whatever else they
    do (timm's hold their activation as well).
    """
    layers = [layer for layer in network.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    if world_size() == 1:
        layers = []
    own = [vars(layer).get("forward") for layer in layers]  # of the layer itself, which its user may have given it
    for layer in layers:
        layer.forward = functools.partial(_over_ranks, layer.forward)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer, forward in zip(layers, own, strict=True):
            if forward is None:
                del layer.forward
            else:
                layer.forward = forward  # type: ignore[method-assign]


def _over_ranks(forward: Callable[..., Any], *inputs: Any) -> Any:
    with _BatchNormOverRanks():
        return forward(*inputs)


class _BatchNormOverRanks(TorchFunctionMode):
    """Within this block, torch's `batch_norm` is the one over all ranks."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (_batch_norm if function is F.batch_norm else function)(*args, **(kwargs or {}))


def _batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """`torch.nn.functional.batch_norm`, over the batches of all ranks in training."""
    if not training:
        return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    values = input.to(torch.promote_types(input.dtype, torch.float32))  # half precision cannot hold the sums
    dimensions = [dimension for dimension in range(input.ndim) if dimension != 1]
    shape = (1, -1, *[1] * (input.ndim - 2))
    count = sum_over_ranks(torch.tensor(input.numel() / input.shape[1], device=input.device))
    mean = _SumOverRanks.apply(values.sum(dim=dimensions)) / count
    centred = values - mean.view(shape)
    variance = _SumOverRanks.apply(centred.square().sum(dim=dimensions)) / count
    if running_mean is not None and running_var is not None:
        running_mean.lerp_(mean.detach().to(running_mean.dtype), momentum)
        running_var.lerp_((variance.detach() * count / (count - 1)).to(running_var.dtype), momentum)
    scaled = centred * (variance + eps).rsqrt().view(shape)
    if weight is not None:
        scaled = scaled * weight.view(shape)
    return (scaled if bias is None else scaled + bias.view(shape)).to(input.dtype)
