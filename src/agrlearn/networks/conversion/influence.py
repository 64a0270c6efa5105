"""What each slot does to the bottleneck T: how far it moves T, and whether it is read to its end."""

import copy
import math

import torch
from torch import Tensor

from agrlearn.errors import ConversionError
from agrlearn.grouping import Objects, count_objects, first_tensor, map_objects, take
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.conversion.examples import differ_more
from agrlearn.networks.conversion.tracing import FAILURES
from agrlearn.networks.joins import PADDING
from agrlearn.networks.tokens import TandemJoin
from agrlearn.seeding import seeded

_ATTEMPTS = 4
_ROUNDING = 1e-6
_FORGOTTEN = 1e-7


def slot_influence(network: AggregatedClassifier, objects: Objects) -> tuple[float, ...]:
    """How far T moves when the object in a slot is exchanged for another, relative to the slot that moves it most.

    Where a slot does not move T, as in a model that rounds, objects that differ more are tried. Nothing where no slot
    ever moves T by more than roundings, as in a model that does not look at its input.
    """
    influence: tuple[float, ...] = ()
    for attempt in range(_ATTEMPTS):
        try:
            moves = _moves(network, differ_more(objects, attempt) if attempt else objects)
        except Exception:  # the model's own code may raise anything at objects that it does not expect
            if attempt == 0:
                raise
            continue
        if 0 < max(moves) < math.inf:
            influence = tuple(move / max(moves) for move in moves)
            if min(moves) > 0:
                break
    return influence


def _moves(network: AggregatedClassifier, objects: Objects) -> list[float]:
    """How far each slot moves T, relative to its size; 0 for all of them where that is no more than roundings."""
    groups = _groups(network, objects)
    t, moves = _bottleneck(network, objects, groups), []
    for slot in range(network.fold):
        exchanged = groups.clone()
        exchanged[:, slot] = groups[:, slot].roll(1)
        moves.append(float((_bottleneck(network, objects, exchanged) - t).norm(dim=1).mean() / t.norm(dim=1).mean()))
    return moves if max(moves) > _ROUNDING else [0.0] * network.fold


def is_slot_blind(network: AggregatedClassifier, objects: Objects) -> bool:
    """Whether moving a group's objects on by a slot leaves T as it is."""
    groups = _groups(network, objects)
    t, moved = (_bottleneck(network, objects, places) for places in (groups, groups.roll(1, dims=1)))
    # Not turned around, as a group of three with two different objects may read the same from both ends.
    return bool((t - moved).abs().max() <= _ROUNDING * t.abs().max())


def refuse_unread_slots(network: AggregatedClassifier, objects: Objects, influence: tuple[float, ...]) -> None:
    """Refuse a network that does not read what stands in a slot, or does not read it to its end."""
    unread = next((slot for slot, share in enumerate(influence) if share == 0), None)
    if isinstance(network.join, TandemJoin):
        if unread is not None and _forgets(network, objects, unread):
            unread = None  # the warning of a weak slot says it, and training may change it
        if unread is None and _leaves_words_out(network, objects):
            unread = network.fold - 1
    if unread is not None:
        raise ConversionError(
            f"what stands in slot {unread + 1} does not reach T, or not to its end, as when the model cuts its input "
            "at a length, counts words but not the padding between them, or has a fixed number of columns; pass "
            "join='max' or 'mean' to join before the classifier, or at= with the name of a module to join after"
        )


def _forgets(network: AggregatedClassifier, objects: Objects, slot: int) -> bool:
    """Whether a slot does not move T only because the model forgets it, as a recurrent layer does over many words.

    Forgetting goes by a factor for every word: what moves T at half the length moves it by the square at the whole.
    """
    precise = copy.deepcopy(network).double()
    whole = length = first_tensor(objects).shape[1]
    while length > 0:
        try:
            moves = _moves(precise, objects)
        except FAILURES:
            return False
        if moves[slot] > 0:
            return length == whole or moves[slot] < _FORGOTTEN * max(moves)
        length //= 2
        objects = map_objects(lambda tensor: tensor[:, : tensor.shape[1] // 2], objects)
    return False


def _groups(network: AggregatedClassifier, objects: Objects) -> Tensor:
    """(groups, fold) places of the objects: every group starts with the next one, so that each is in every slot."""
    count = count_objects(objects)
    return (torch.arange(count)[:, None] + torch.arange(network.fold)) % count


@torch.no_grad()
def _bottleneck(network: AggregatedClassifier, objects: Objects, groups: Tensor) -> Tensor:
    with seeded(0, first_tensor(objects).device):  # for dropout that is always on
        return network.bottleneck(take(objects, groups)).double()


def _leaves_words_out(network: AggregatedClassifier, objects: Objects) -> bool:
    """Whether the last word of the last slot is not read, though the model reads that of an object alone."""
    sentences = _sentences(objects)
    full, other, short = torch.arange(count_objects(sentences)).view(3, -1)

    def moves(before: Tensor) -> bool:
        t, moved = (
            _bottleneck(network, sentences, torch.stack([*[before] * (network.fold - 1), last], dim=1))
            for last in (full, other)
        )
        return not torch.equal(t, moved)

    try:
        with torch.no_grad(), seeded(0, first_tensor(objects).device):
            alone = network.encoder(take(sentences, torch.cat([full, other]))).chunk(2)
        return not torch.equal(*alone) and not (moves(full) and moves(short))
    except FAILURES:  # sentences that the model does not take prove nothing
        return False


def _sentences(objects: Objects) -> Objects:
    """The sentences without padding, then with another last word, then with padding instead of their second half."""
    tokens = objects if isinstance(objects, Tensor) else objects["input_ids"]
    kept = tokens != PADDING if isinstance(objects, Tensor) else objects["attention_mask"] != 0
    full = torch.where(kept, tokens, tokens[:, :1].clamp(min=PADDING + 1))
    other, half = full.clone(), (tokens.shape[1] + 1) // 2
    other[:, -1] = torch.where(full[:, -1] == full.max(), full.min(), full.max())
    short = full.index_fill(1, torch.arange(half, tokens.shape[1], device=tokens.device), PADDING)
    words = torch.cat([full, other, short])
    if isinstance(objects, Tensor):
        return words
    others = {name: torch.cat([tensor, tensor, tensor]) for name, tensor in objects.items()}
    mask = torch.ones_like(others["attention_mask"])
    mask[-len(tokens) :, half:] = 0
    return {**others, "input_ids": words, "attention_mask": mask}
