"""How a run's steps are computed: the layout of images in memory, and torch.compile. Values change by rounding only.

Neither choice depends on the clock: the layout follows from the network's layers and the objects' shape, compilation
from the multiply-adds of the whole run. So equal runs, and a run that is resumed, compute the same bits.
"""

import os
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import nn
from torch.utils.data import Dataset

from agrlearn.data.batches import fetch
from agrlearn.errors import AgrLearnWarning
from agrlearn.grouping import GroupBatchSampler, Objects, first_tensor, group
from agrlearn.modes import evaluating
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.cost import count_multiply_adds
from agrlearn.networks.layout import set_channels_last, why_contiguous
from agrlearn.seeding import generator, seeded
from agrlearn.training.microbatches import microbatch_sizes
from agrlearn.training.recipe import Recipe

# Some minutes of a narrow ResNet on one core: compiled code saves an eighth of them, and to compile takes 20 seconds
# the first time. torch keeps the code on disk for later runs.
_WORTH_COMPILING = 2e13
_PASSES = 3  # of multiply-adds in a step: forward, and back to the inputs and to the weights
_LONGEST_REASON = 200


def sample_group(
    network: AggregatedClassifier, train_set: Dataset, recipe: Recipe,
    augment: Callable[[Objects, torch.Generator], Objects] | None,
) -> Objects | None:  # fmt: skip
    """(1, fold, ...): a group to try a network of convolutions on; None for other networks, which are not tried."""
    if not any(isinstance(layer, nn.Conv2d) for layer in network.modules()):
        return None
    count: int = len(train_set)  # type: ignore[arg-type]
    with seeded(0):
        objects, _ = fetch(train_set, torch.arange(network.fold) % count)
        if augment is not None:  # it may change the objects' size
            objects = augment(objects, generator(recipe.seed))
    return group(objects, network.fold)


def lay_out(network: AggregatedClassifier, recipe: Recipe, sample: Objects | None, device: torch.device) -> None:
    """Give the weights the recipe's layout, in place; without a safe way to have channels last, the other."""
    if sample is None:
        return
    reason = "" if recipe.layout == "contiguous" else why_contiguous(network, sample, device)
    set_channels_last(network, reason is None)
    if reason and recipe.layout == "channels-last":
        _warn(f"the network is not laid out with channels last: {reason}")


def make_forward(
    module: nn.Module, network: AggregatedClassifier, recipe: Recipe, sample: Objects | None,
    sampler: GroupBatchSampler, engine: Fabric,
) -> Callable[..., Any]:  # fmt: skip
    """What a step calls: the module, or one that is compiled if the recipe says so, or the run is long enough.

    Args:
        module: the network, as the engine wrapped it.
    """
    on_cpu, processes = engine.device.type == "cpu", engine.world_size
    if recipe.compile == "off":
        return module
    if recipe.compile == "auto":
        groups = recipe.epochs * sampler.num_objects
        if sample is None or not on_cpu or processes > 1 or _multiply_adds(network, sample, groups) < _WORTH_COMPILING:
            return module
    compiler = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    if processes > 1:
        _warn(f"the run is not compiled: that works in one process, and it has {processes}")
    elif on_cpu and sys.platform != "win32" and shutil.which(compiler) is None:
        _warn(f"the run would be faster if it were compiled, but there is no C++ compiler ({compiler}); install one")
    else:
        size = microbatch_sizes(sampler.groups_at(0), recipe.accumulate, 1)[0]
        return CompiledForward(module, network, size, wrap=None if module is network else engine.setup_module)
    return module


def _multiply_adds(network: AggregatedClassifier, sample: Objects, groups: int) -> float:
    """Of a training run with this number of groups."""
    with evaluating(network.modules()), seeded(0, network.weight.device):
        return _PASSES * groups * count_multiply_adds(network, network.to_device(sample))


class CompiledForward:
    """A network that is compiled for batches of one size, and called as it is for all others.

    Each other size, such as that of an epoch's last batch, and each mixture at the features would be compiled anew. The
    network is not changed: it is saved, copied and evaluated as ever.

    Args:
        module: what to call for other batches, and if torch cannot compile the network.
        size: groups of a batch to compile for.
        wrap: puts the compiled network into the engine's wrappers.
        backend: of torch.compile.
    """

    def __init__(
        self, module: nn.Module, network: nn.Module, size: int, *,
        wrap: Callable[[Any], Callable[..., Any]] | None = None, backend: str = "inductor",
    ) -> None:  # fmt: skip
        self._module, self._network, self._size, self._wrap, self._backend = module, network, size, wrap, backend
        self._compiled: Callable[..., Any] | None = None
        self._shape: torch.Size | None = None
        self._failed = False

    def __call__(self, groups: Objects, *, mix: Any = None, **options: Any) -> Any:
        shape = first_tensor(groups).shape
        if self._shape is None and shape[0] == self._size:
            self._shape = shape
        if self._failed or mix is not None or shape != self._shape:
            return self._module(groups, mix=mix, **options)
        try:
            if self._compiled is None:
                self._compiled = self._compile()
            return self._compiled(groups, **options)
        except Exception as error:  # of the compiler, which may raise anything, or of the network
            self._failed = True
            # It is one graph, so nothing of it has run. If the network has raised the error, it does so again.
            result = self._module(groups, **options)
            reason = textwrap.shorten(str(error) or type(error).__name__, _LONGEST_REASON, placeholder=" …")
            _warn(f"the run goes on uncompiled, since torch cannot compile its network ({reason})")
            return result

    def _compile(self) -> Callable[..., Any]:
        # With fallback_random, dropout and noise draw what they would draw uncompiled.
        options = {"fallback_random": True} if self._backend == "inductor" else None
        compiled = torch.compile(
            self._network, fullgraph=True, dynamic=False, backend=self._backend, options=options  # type: ignore[arg-type]
        )  # fmt: skip
        return compiled if self._wrap is None else self._wrap(compiled)


def _warn(message: str) -> None:
    warnings.warn(message, AgrLearnWarning, stacklevel=2)
