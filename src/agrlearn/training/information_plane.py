"""A network's place in the information plane, measured on objects that it was not trained on."""

from dataclasses import dataclass

import torch
from torch.utils.data import Dataset

from agrlearn.data.batches import fetch
from agrlearn.errors import RecipeError
from agrlearn.grouping import group
from agrlearn.information import plane
from agrlearn.modes import eval_view
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.seeding import generator

_GROUPS_AT_MOST = 2048
_BATCH = 256


@dataclass(frozen=True)
class InformationPlane:
    """In nats, of groups X, their bottleneck T and their `fold` labels Y."""

    x_information_lower: float
    """At most I(X;T), and at most log m for m groups."""
    x_information_upper: float
    """At least I(X;T)."""
    y_information: float
    """At most I(Y;T): what the known p(t|x) of other groups says about the labels."""
    y_information_bound: float
    """Theorem 3: at most I(Y;T), by the network's own heads, H(Y) − cross-entropy."""


def check_trackable(network: AggregatedClassifier, held_out: Dataset | None) -> None:
    """Refuse a network whose I(X;T) is not finite, and missing or too few held-out objects."""
    if not network.noise > 0:
        raise RecipeError(
            "track_information needs a stochastic bottleneck: a deterministic encoder has no finite I(X;T); build the "
            "network with noise=0.1 or so, or leave track_information out"
        )
    if held_out is None:
        raise RecipeError("track_information is measured on held-out objects; pass a validation set")
    if len(held_out) < 2 * network.fold:  # type: ignore[arg-type]
        raise RecipeError(f"track_information needs at least {2 * network.fold} held-out objects")


@torch.no_grad()
def measure_information(network: AggregatedClassifier, held_out: Dataset, seed: int = 0) -> InformationPlane:
    """Draw T once for each of up to 2,048 groups of held-out objects, the same groups and noise for the same seed.

    Every slot passes through a random order of its own, so that no two groups share an object in the same slot.
    """
    check_trackable(network, held_out)
    total = len(held_out)  # type: ignore[arg-type]
    count = min(total, _GROUPS_AT_MOST)
    random = generator(seed)
    chosen = torch.stack([torch.randperm(total, generator=random)[:count] for _ in range(network.fold)], dim=1)
    device = network.weight.device
    means, labels = [], []
    network = eval_view(network)
    for indices in chosen.split(_BATCH):
        objects, answers = fetch(held_out, indices.flatten())
        means.append(network.bottleneck(group(network.to_device(objects), network.fold)))
        labels.append(answers.to(device).view(-1, network.fold))
    mean, y = torch.cat(means), torch.cat(labels)
    t = network.perturb(mean, random)
    logits = network.heads(t)
    if device.type == "mps":  # MPS has no double precision
        mean, y, t, logits = (tensor.cpu() for tensor in (mean, y, t, logits))
    heads = torch.log_softmax(logits.double(), dim=-1)
    scores = plane.gaussian_scores(t, mean, network.noise)
    lower, upper = plane.leave_one_out_bounds(scores)
    y_information = plane.leave_one_out_label_information(scores, y, network.num_classes)
    return InformationPlane(lower, upper, y_information, plane.label_bound(heads, y))
