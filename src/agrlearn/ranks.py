"""Communication between the processes of one run (ranks). With a single process nothing is sent or changed."""

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

_BACKEND_ERROR_WORDS = ("gloo", "nccl", "connection", "peer", "socket", "timed out")


def world_size() -> int:
    """The number of processes of torch.distributed; 1 if it is not used."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def rank() -> int:
    """The number of this process; 0 writes the files."""
    return distributed.get_rank() if world_size() > 1 else 0


def sum_over_ranks(values: Tensor) -> Tensor:
    """The sum of every rank's values, in place and without a gradient."""
    if world_size() > 1:
        distributed.all_reduce(values)
    return values


def any_rank(flag: bool, device: torch.device) -> bool:
    """Whether the flag is set on any rank; all ranks must call this."""
    return bool(sum_over_ranks(torch.tensor(float(flag), device=device)) > 0)


def on_rank_zero(action: Callable[[], Any]) -> Any:
    """Run `action` on rank 0 and return its result on every rank; if it fails there, it fails everywhere."""
    if world_size() == 1:
        return action()
    result: list[Any] = [None]
    if rank() == 0:
        try:
            result = [action()]
        except Exception as error:
            result = [error]
    distributed.broadcast_object_list(result, src=0)
    if isinstance(result[0], Exception):
        raise result[0]
    return result[0]


def row_counts(count: int, device: torch.device) -> list[int]:
    """The number of rows on each rank; this one has `count`."""
    if world_size() == 1:
        return [count]
    counts = torch.zeros(world_size(), dtype=torch.int64, device=device)
    counts[rank()] = count
    return sum_over_ranks(counts).tolist()


def gather_rows(rows: Tensor, counts: list[int]) -> Tensor:
    """Every rank's (rows, ...), in the order of the ranks, with the gradients of all ranks; `counts`: `row_counts`."""
    if len(counts) == 1:
        return rows
    before, after = sum(counts[: rank()]), sum(counts[rank() + 1 :])
    # The other ranks' rows are zeros here, so that the sum over the ranks gathers all rows.
    return _SumOverRanks.apply(F.pad(rows, (0, 0) * (rows.ndim - 1) + (before, after)))


def gather_own(rows: Tensor, counts: list[int]) -> Tensor:
    """Every rank's rows, for a value that all ranks compute alike: only this rank's own rows have a gradient."""
    if len(counts) == 1:
        return rows
    before = sum(counts[: rank()])
    everything = gather_rows(rows.detach(), counts)
    return torch.cat([everything[:before], rows, everything[before + len(rows) :]])


class _SumOverRanks(torch.autograd.Function):
    """A sum over the ranks whose gradient is the sum of the ranks' gradients."""

    @staticmethod
    def forward(context: Any, values: Tensor) -> Tensor:
        return sum_over_ranks(values.clone())

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return sum_over_ranks(gradient.clone())


@contextmanager
def explain_lost_ranks(kept: bool) -> Iterator[None]:
    """Within this block, raise a `RunError` if another rank dies; `kept` says whether there are checkpoints."""
    if world_size() == 1:
        yield
        return
    then = "resume from the last checkpoint" if kept else "start over"
    lost = RunError(
        f"a process of this run died, was stopped or cannot be reached; run the same command again to {then}"
    )

    def stop(number: int, frame: FrameType | None) -> None:
        raise lost

    # A launcher stops the other ranks by this signal, often before they notice the one that died.
    in_main_thread = threading.current_thread() is threading.main_thread()
    handles_signal = in_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if handles_signal:
        signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except RuntimeError as error:
        if error is not lost and any(word in str(error).lower() for word in _BACKEND_ERROR_WORDS):
            raise lost from error
        raise
    finally:
        if handles_signal:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def synchronized_batch_norm(network: nn.Module) -> Iterator[None]:
    """Within this block, batch normalisation computes mean and variance over the batches of all ranks.

    torch's SyncBatchNorm does not run on CPUs. This does, and keeps the network's layers, some of which do more than
    normalise (timm's include their activation).
    """
    layers = [layer for layer in network.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    if world_size() == 1:
        layers = []
    own = [vars(layer).get("forward") for layer in layers]  # set on the layer itself
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
