"""Train one cell with one seed, and measure it."""

import functools
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor, nn

from agrlearn.data.augmentation import crop_and_flip
from agrlearn.data.datasets import open_source
from agrlearn.data.labelled import LabelledSet
from agrlearn.data.sources import Part, Source
from agrlearn.data.text import Vocabulary
from agrlearn.evaluation.evaluate import evaluate
from agrlearn.files import make_own_folder
from agrlearn.grouping import GroupBatchSampler, first_tensor
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.networks.cost import count_parameters
from agrlearn.prediction.cost import multiply_adds_per_object
from agrlearn.prediction.protocols import Batched, Contextual, PredictionProtocol, Replicated
from agrlearn.seeding import generator
from agrlearn.studies.paper.cells import Cell, CellResult, Point, ProtocolScores
from agrlearn.training.history import EpochRecord
from agrlearn.training.loop import fit

DIGITS_AS_WORDS = "digits-as-words"
"""A stand-in for sentences that needs no files: the 64 pixels of a digit as words."""
_RANDOM_TEST_PART = ("movie-review", "subjectivity")
_TEST_SHARE = _HELD_OUT_SHARE = 0.1
_SUBSET, _TEST, _HELD_OUT = 11, 12, 13  # random streams of a run beside those of training


@dataclass(frozen=True)
class Parts:
    """The data of one run."""

    train: LabelledSet
    held_out: LabelledSet | None
    """Part of the training data on which an early stop is decided."""
    test: LabelledSet
    vocabulary: int
    """Different tokens; 0 for images."""

    @property
    def object_shape(self) -> tuple[int, ...]:
        return tuple(first_tensor(self.train.objects).shape[1:])


def run_cell(cell: Cell, seed: int, runs: Path, data_dir: Path | None = None) -> CellResult:
    """Train `cell` with `seed` in its directory of `runs`, where a stopped run goes on, and measure it."""
    parts = open_parts(cell, seed, data_dir)
    network = make_network(cell, seed, parts)
    recipe = cell.recipe.model_copy(update={"seed": seed})
    run_dir = run_directory(runs, cell, seed)
    make_own_folder(run_dir)
    augment = crop_and_flip if cell.augment else None
    history = fit(
        network, parts.train, recipe, parts.held_out or parts.test, run_dir, augment=augment, progress=False
    )  # fmt: skip
    protocols = {name: _scores(network, parts, protocol) for name, protocol in protocols_of(cell, parts).items()}
    curve = tuple(_point(record) for record in history.records if record.validation_error is not None)
    last = [protocols["Replicated"].error] if cell.stop_early else [point.error for point in curve[-cell.final :]]
    return CellResult(
        cell=cell.settings(),
        seed=seed,
        test_errors=tuple(last),
        protocols=protocols,
        curve=curve,
        parameters=count_parameters(network),
        steps=len(history.records) * steps_per_epoch(cell, parts),
        objects_seen=history.records[-1].objects_seen,
        seconds=history.seconds,
        versions={package: version(package) for package in ("agrlearn", "torch", "numpy")},
        machine=describe_machine(),
    )


def run_directory(runs: Path, cell: Cell, seed: int) -> Path:
    return runs / f"{cell.key()}-seed{seed}"


def steps_per_epoch(cell: Cell, parts: Parts) -> int:
    return len(GroupBatchSampler(len(parts.train), cell.fold, cell.recipe.batch_size))


def open_parts(cell: Cell, seed: int, data_dir: Path | None = None) -> Parts:
    """The cell's data: all cells with the same seed share the test part and, at equal `share`, the training part."""
    source = _open(cell.dataset, data_dir)
    train = source.labelled(source.train)
    test = source.labelled(source.unseen, train.class_names)
    if cell.dataset in _RANDOM_TEST_PART:
        everything = LabelledSet(
            torch.cat([first_tensor(train.objects), first_tensor(test.objects)]),
            torch.cat([train.labels, test.labels]),
            train.class_names,
        )
        order = torch.randperm(len(everything), generator=generator(seed, _TEST))
        count = round(_TEST_SHARE * len(everything))
        train, test = everything.subset(order[count:]), everything.subset(order[:count])
    if cell.share < 1:
        train = train.subset(_share_of_every_class(train, cell.share, generator(seed, _SUBSET)))
    held_out = None
    if cell.stop_early:
        chosen = _share_of_every_class(train, _HELD_OUT_SHARE, generator(seed, _HELD_OUT))
        rest = torch.ones(len(train), dtype=torch.bool).index_fill(0, chosen, False).nonzero().squeeze(1)
        train, held_out = train.subset(rest), train.subset(chosen)
    words = source.preparation.get("words")
    vocabulary = Vocabulary(tuple(words), source.preparation["length"]).size if words else 0
    return Parts(train, held_out, test, vocabulary)


def make_network(cell: Cell, seed: int, parts: Parts) -> AggregatedClassifier:
    vocabulary = {"vocabulary": parts.vocabulary} if parts.vocabulary else {}
    network = build_network(
        cell.network, object_shape=parts.object_shape, num_classes=parts.train.num_classes, fold=cell.fold, seed=seed,
        objects=None if vocabulary else first_tensor(parts.train.objects), **vocabulary, **cell.options,
    )  # fmt: skip
    return _in_fast_layout(network)


def _in_fast_layout(network: AggregatedClassifier) -> AggregatedClassifier:
    """The same network with channels last in memory: narrow ResNets are a quarter to a third faster on a CPU.

    Values change by rounding only. Left as it is where torch 2.13 crashes: in the backward pass of a 1×1 convolution
    of stride 2 that reads 8 channels of large images.
    """
    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    if any(layer.kernel_size == (1, 1) and layer.stride == (2, 2) and layer.in_channels < 16 for layer in convolutions):
        return network
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def protocols_of(cell: Cell, parts: Parts) -> dict[str, PredictionProtocol]:
    """The ways to predict that tell something of the cell."""
    if cell.fold == 1:
        return {"Replicated": Replicated()}
    return {
        "Replicated": Replicated(),
        "Contextual, 4 draws": Contextual(parts.train.objects, draws=4),
        "Batched, 4 draws": Batched(draws=4),
        "Batched, 1 draw": Batched(draws=1),
    }


def describe_machine() -> str:
    """The GPU's name, or the processor's, as far as the system tells it."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {torch.get_num_threads()} thread"


@functools.lru_cache(maxsize=2)
def _open(dataset: str, data_dir: Path | None) -> Source:
    if dataset != DIGITS_AS_WORDS:
        return open_source(dataset, data_dir=data_dir)
    digits = open_source("digits")

    def as_words(part: Part) -> Part:
        return Part(first_tensor(part.objects).flatten(1).long() + 2, part.labels)

    words = [str(grey) for grey in range(17)]
    about = {"kind": "text", "text": "text", "label": "label", "words": words, "length": 64, "cleaning": "kim"}
    train, test = as_words(digits.train), as_words(digits.unseen)
    return Source(dataset, train, test, digits.class_names, preparation=about, is_file=False)


def _share_of_every_class(labelled: LabelledSet, share: float, random: torch.Generator) -> Tensor:
    order = torch.randperm(len(labelled), generator=random)
    chosen = []
    for number in range(labelled.num_classes):
        members = order[labelled.labels[order] == number]
        chosen.append(members[: max(1, round(share * len(members)))])
    return torch.cat(chosen).sort().values


def _longest_object(parts: Parts) -> Tensor:
    """(1, ...): an image, or a sentence of as many words as the longest has, since some networks pass over padding."""
    first = first_tensor(parts.test.objects)[:1]
    return torch.ones_like(first) if parts.vocabulary else first


def _scores(network: AggregatedClassifier, parts: Parts, protocol: PredictionProtocol) -> ProtocolScores:
    found = evaluate(network, parts.test, protocol, allow_slot_blind=True)
    cost = multiply_adds_per_object(network, _longest_object(parts), protocol)
    return ProtocolScores(found.error, found.nll, found.ece, found.brier, found.head_disagreement, cost)


def _point(record: EpochRecord) -> Point:
    assert record.validation_error is not None and record.validation_nll is not None
    return Point(
        record.epoch, record.objects_seen, record.loss, record.train_error, record.validation_error,
        record.validation_nll, record.information,
    )  # fmt: skip
