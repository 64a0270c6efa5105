"""Many MLPs of one shape as one: each product of matrices is a batch of products, one for each network.

The gradients are written by hand: what autograd does around each operation is part of what is saved.
"""

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.joins import JOINS
from agrlearn.networks.standardize import Standardize


class Targets(NamedTuple):
    """What a step of all networks learns, a slot's two labels under mixup being two of them."""

    labels: Tensor
    """(networks, groups, labels of a group)."""
    weights: Tensor
    """The same shape: what the loss of each is multiplied by."""
    smoothing: float


class FeatureMixing(NamedTuple):
    """The groups whose features are averaged."""

    partners: Tensor
    """(groups, networks)."""
    shares: Tensor
    """(networks, 1): a group's own share, 1 where nothing is mixed."""


@dataclass(frozen=True, eq=False)
class _Layer:
    """Of all networks: a linear map, batch normalisation, ReLU and dropout."""

    weight: Tensor
    """(networks, outputs, inputs)."""
    scale: Tensor
    """(networks, outputs), as are the other three."""
    shift: Tensor
    mean: Tensor
    variance: Tensor
    momentum: float
    epsilon: float
    dropout: float


class _Pass(NamedTuple):
    """What a layer read and made in a step, (objects, networks, ...), and the batch's mean and 1 / deviation."""

    read: Tensor
    linear: Tensor
    mean: Tensor
    spread: Tensor
    output: Tensor


class ManyMlps:
    """Networks of `mlp` of one shape that train as one; while they do, their tensors are views of those here.

    Activations are (objects, networks, features): batch normalisation then sees networks * features features.

    Args:
        networks: all with the same `shape_of`.
    """

    def __init__(self, networks: Sequence[AggregatedClassifier]) -> None:
        first = networks[0]
        self.networks = list(networks)
        self.fold, self.count = first.fold, len(networks)
        self._own = [[tensor.data for tensor in _tensors(network).values()] for network in networks]
        self.tensors = {
            name: torch.stack(same) for name, same in zip(_tensors(first), zip(*self._own, strict=True), strict=True)
        }
        for number, network in enumerate(networks):
            for name, tensor in _tensors(network).items():
                tensor.data = self.tensors[name][number]
        blocks = _blocks(first)
        assert blocks is not None
        names = {module: name for name, module in first.named_modules()}
        self.join = "max" if first.join is JOINS["max"] else "mean"
        self.joined_after = len(first.shared) - 1  # type: ignore[arg-type]
        self.layers = [
            _Layer(
                weight=self.tensors[f"{names[linear]}.weight"],
                scale=self.tensors[f"{names[norm]}.weight"],
                shift=self.tensors[f"{names[norm]}.bias"],
                mean=self.tensors[f"{names[norm]}.running_mean"],
                variance=self.tensors[f"{names[norm]}.running_var"],
                momentum=norm.momentum,
                epsilon=norm.eps,
                dropout=drop[0].p if drop else 0.0,
            )
            for linear, norm, _, *drop in blocks
        ]
        self.counters = [self.tensors[f"{names[norm]}.num_batches_tracked"] for _, norm, *_ in blocks]
        self.mean, self.spread = (self.tensors[f"shared.0.{name}"] for name in ("mean", "spread"))
        self.heads = [self.tensors[f"head.{name}"] for name in ("weight", "bias")]
        self.trained = [self.tensors[name] for name, _ in first.named_parameters()]

    def release(self) -> None:
        """Give the networks their own tensors back, with what was learned."""
        for network, own in zip(self.networks, self._own, strict=True):
            for tensor, values in zip(_tensors(network).values(), own, strict=True):
                tensor.data = values.copy_(tensor.data)

    def step(
        self, objects: Tensor, targets: Targets, streams: Sequence[int], mixing: FeatureMixing | None = None
    ) -> tuple[Tensor, Tensor]:
        """Set the gradients of all `trained` tensors, and move the running averages of batch normalisation.

        Args:
            objects: (groups * fold, networks, features), with a group's slots next to each other.
            streams: for each network the seed from which its dropout is drawn, as torch draws it.
            mixing: which bottlenecks are averaged.
        Returns:
            Each network's loss summed over groups, (networks,), and its logits, (networks, groups, classes).
        """
        features, passes = self._forward(objects, self._draw(len(objects), streams))
        if mixing is not None:
            places = mixing.partners.unsqueeze(2).expand_as(features)
            features = torch.lerp(features.gather(0, places), features, mixing.shares)
        weight, bias = self.heads
        logits = torch.baddbmm(bias.unsqueeze(1), features.transpose(0, 1), weight.mT)
        loss, gradient = _cross_entropy(logits, targets)
        weight.grad, bias.grad = gradient.mT @ features.transpose(0, 1), gradient.sum(dim=1)
        back = _times(gradient.transpose(0, 1), weight)
        if mixing is not None:
            back = (back * mixing.shares).scatter_add_(0, places, back * (1 - mixing.shares))
        self._backward(back, passes)
        return loss, logits

    def _forward(self, objects: Tensor, masks: list[Tensor]) -> tuple[Tensor, list[_Pass]]:
        """The bottlenecks, (groups, networks, features), and what each layer did."""
        current, passes = (objects - self.mean) / self.spread, []
        for number, layer in enumerate(self.layers):
            if number == self.joined_after:
                current = self._pool(current)
            linear = _times(current, layer.weight.mT)
            output, mean, spread = torch.native_batch_norm(
                linear.flatten(1), layer.scale.view(-1), layer.shift.view(-1), layer.mean.view(-1),
                layer.variance.view(-1), True, layer.momentum, layer.epsilon,
            )  # fmt: skip
            output = output.relu_().view_as(linear)
            if masks:
                output.mul_(masks[number].transpose(0, 1))
            passes.append(_Pass(current, linear, mean, spread, output))
            current = output
        torch._foreach_add_(self.counters, 1)
        return self._pool(current) if self.joined_after == len(self.layers) else current, passes

    def _backward(self, back: Tensor, passes: list[_Pass]) -> None:
        """Set the gradients of the layers from that of the bottlenecks."""
        for number in reversed(range(len(self.layers))):
            layer, done = self.layers[number], passes[number]
            if number + 1 == self.joined_after:
                back = self._unpool(back, done.output)
            # What ReLU or dropout set to zero passes no gradient.
            back = torch.ops.aten.threshold_backward(back, done.output, 0)
            if layer.dropout > 0:
                back.mul_(1 / (1 - layer.dropout))
            back, scale, shift = torch.ops.aten.native_batch_norm_backward(
                back.flatten(1), done.linear.flatten(1), layer.scale.view(-1), layer.mean.view(-1),
                layer.variance.view(-1), done.mean, done.spread, True, layer.epsilon, [True, True, True],
            )  # fmt: skip
            back = back.view_as(done.linear)
            layer.scale.grad, layer.shift.grad = scale.view_as(layer.scale), shift.view_as(layer.shift)
            layer.weight.grad = torch.bmm(back.permute(1, 2, 0), done.read.transpose(0, 1))
            if number > 0:
                back = _times(back, layer.weight)

    def _draw(self, objects: int, streams: Sequence[int]) -> list[Tensor]:
        """What each layer's outputs are multiplied by, (networks, objects, outputs); none without dropout."""
        if self.layers[0].dropout == 0:
            return []
        rows = [objects if number < self.joined_after else objects // self.fold for number in range(len(self.layers))]
        masks = [
            torch.empty(self.count, count, layer.weight.shape[1])
            for count, layer in zip(rows, self.layers, strict=True)
        ]
        random = torch.Generator()
        for number, stream in enumerate(streams):
            random.manual_seed(stream)
            for mask, layer in zip(masks, self.layers, strict=True):
                mask[number].bernoulli_(1 - layer.dropout, generator=random)
        for mask, layer in zip(masks, self.layers, strict=True):
            mask.div_(1 - layer.dropout)
        return masks

    def _pool(self, slots: Tensor) -> Tensor:
        """(groups * fold, networks, features) -> (groups, networks, features)."""
        if self.fold == 1:
            return slots
        groups = slots.unflatten(0, (-1, self.fold))
        return groups.amax(dim=1) if self.join == "max" else groups.mean(dim=1)

    def _unpool(self, gradient: Tensor, slots: Tensor) -> Tensor:
        """The gradient of the slots from that of what was pooled."""
        if self.fold == 1:
            return gradient
        groups = slots.unflatten(0, (-1, self.fold))
        if self.join == "mean":
            return (gradient / self.fold).unsqueeze(1).expand_as(groups).flatten(0, 1)
        # As torch does it: equal slots share the gradient.
        largest = groups == groups.amax(dim=1, keepdim=True)
        return (largest * (gradient.unsqueeze(1) / largest.sum(dim=1, keepdim=True))).flatten(0, 1)


def shape_of(network: AggregatedClassifier) -> Hashable | None:
    """What networks must have in common to train as one; None for a network that cannot."""
    blocks = _blocks(network)
    modules = list(network.modules())
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    plain = (
        type(network) is AggregatedClassifier
        and network.noise == 0
        and network.join in (JOINS["mean"], JOINS["max"], *([JOINS["features"]] if network.fold == 1 else []))
        and (network.fold == 1 or network.shares_head)
        and type(network._modules.get("head")) is nn.Linear
        and network.head.bias is not None
        and all(tensor.device.type == "cpu" for tensor in _tensors(network).values())
        and all(p.requires_grad and p.dtype == torch.float32 for p in network.parameters())
        and not any(getattr(module, name) for module in modules for name in hooks)
        # `fit` puts a network that is in eval mode into train mode, and leaves single modules as they are.
        and (not network.training or all(module.training for module in modules))
    )
    if blocks is None or not plain:
        return None
    settings = tuple((norm.momentum, norm.eps, *(dropout.p for dropout in drop)) for _, norm, _, *drop in blocks)
    shapes = tuple((name, tensor.shape) for name, tensor in _tensors(network).items())
    return network.fold, network.join, len(network.shared), settings, shapes  # type: ignore[arg-type]


def _blocks(network: AggregatedClassifier) -> list[Any] | None:
    """The layers of a network that is built as `mlp` builds it: linear, normalised, ReLU, and all or none dropped."""
    shared, encoder = network.shared, network.encoder
    if type(shared) is not nn.Sequential or type(encoder) is not nn.Sequential:
        return None
    blocks: list[Any] = [*list(shared)[1:], *encoder]
    if len(shared) == 0 or type(shared[0]) is not Standardize or not blocks:
        return None
    for block in blocks:
        kinds = [type(layer) for layer in block] if type(block) is nn.Sequential else []
        if kinds[:3] != [nn.Linear, nn.BatchNorm1d, nn.ReLU] or kinds[3:] not in ([], [nn.Dropout]):
            return None
        linear, norm, _, *drop = block
        normal = norm.affine and norm.track_running_stats and norm.momentum is not None
        if linear.bias is not None or not normal or len(block) != len(blocks[0]) or any(not 0 < d.p < 1 for d in drop):
            return None
    return blocks


def _tensors(network: nn.Module) -> dict[str, Tensor]:
    return dict(itertools.chain(network.named_parameters(), network.named_buffers()))


def _times(rows: Tensor, matrices: Tensor) -> Tensor:
    """(rows, networks, features) times (networks, features, outputs): (rows, networks, outputs), contiguous."""
    product = rows.new_empty(len(rows), len(matrices), matrices.shape[2])
    torch.bmm(rows.transpose(0, 1), matrices, out=product.transpose(0, 1))
    return product


def _cross_entropy(logits: Tensor, targets: Targets) -> tuple[Tensor, Tensor]:
    """`objective.cross_entropy` of each network, summed over groups; and the gradient of its mean at the logits."""
    log_likelihood = logits.log_softmax(dim=2)
    wanted = torch.zeros_like(logits).scatter_add_(2, targets.labels, targets.weights)
    total = targets.weights.sum(dim=2, keepdim=True)
    if targets.smoothing > 0:
        wanted = wanted * (1 - targets.smoothing) + total * (targets.smoothing / logits.shape[2])
    loss = -(wanted * log_likelihood).sum(dim=(1, 2))
    return loss, (total * log_likelihood.exp() - wanted) / logits.shape[1]
