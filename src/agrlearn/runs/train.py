"""One training run from its specification: open the data, build the network, train it."""

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from lightning_fabric import Fabric

from agrlearn.data.augmentation import crop_and_flip
from agrlearn.data.datasets import open_source
from agrlearn.data.labelled import LabelledSet
from agrlearn.data.sources import BAD_FILE, Source
from agrlearn.data.text import Vocabulary
from agrlearn.errors import DataError
from agrlearn.files import data_stamp
from agrlearn.grouping import first_tensor
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network, default_network
from agrlearn.networks.outside import build_outside, comes_from_file, file_of, is_outside
from agrlearn.runs.spec import RunSpec
from agrlearn.seeding import generator
from agrlearn.training.checkpoint import update_run
from agrlearn.training.defaults import ObjectKind
from agrlearn.training.history import History
from agrlearn.training.identity import LONGEST_TEXT, note_data
from agrlearn.training.loop import fit

_SHARE, _TEST, _STOPPING, _TUNING, _NOISE = 11, 12, 13, 14, 15  # random streams of a run beside those of training


@dataclass(frozen=True)
class RunData:
    """The data of one run."""

    source: Source
    train: LabelledSet
    test: LabelledSet | None
    """What the network is measured on; None where nothing was held out."""
    stopping: LabelledSet | None = None
    """What the recipe's patience looks at, which is never the test part; None if it has none."""

    @property
    def object_shape(self) -> tuple[int, ...]:
        return tuple(first_tensor(self.train.objects).shape[1:])

    @property
    def kind(self) -> ObjectKind:
        """What the objects are, which decides the defaults."""
        if first_tensor(self.train.objects).dtype == torch.int64:
            return "sentences"
        return "vectors" if len(self.object_shape) == 1 else "images"

    @property
    def vocabulary(self) -> int:
        """Different tokens; 0 for data that are not sentences."""
        preparation = self.source.preparation
        return Vocabulary.of_preparation(preparation).size if "words" in preparation else 0


def open_data(spec: RunSpec, data_dir: Path | None = None) -> RunData:
    """The data of a run. Runs with the same seed share the test part and, at equal `share`, the training part.

    What the preparation of a table learns, such as medians, it learns from the training objects alone.
    """
    source = _open(_opening(spec), data_dir, data_stamp(spec.data))
    try:
        data = _parts(spec, source)
        if source.table is not None and data.train.origin is not None:
            rows = data.train.origin.rows
            data = _parts(spec, source if rows is None else source.prepared_on(rows))
        if spec.test is not None:
            data = replace(data, test=_test_file(spec, data, data_dir))
    except DataError as error:
        if source.columns:
            error.add_note(f"{source.name}:\n{source.summary}")
        raise
    return replace(data, train=_changed(spec, data.train))


def _parts(spec: RunSpec, source: Source) -> RunData:
    """The parts of a source that the spec asks for."""
    train: LabelledSet
    test: LabelledSet | None
    if spec.test is not None:
        train, test = source.split(0.0)[0], None
    elif spec.test_fraction > 0:
        everything = source.everything()
        random = generator(spec.seed, _TEST)
        if spec.test_draw == "plain":
            order = torch.randperm(len(everything), generator=random)
            drawn = order[: round(spec.test_fraction * len(everything))]
            train, test = everything.subset(order[len(drawn) :]), everything.subset(drawn)
        else:
            drawn = everything.draw(spec.test_fraction, random)
            train, test = everything.without(drawn), everything.subset(drawn)
    else:
        train, test = source.split(spec.validation_fraction)
    if spec.share < 1:
        train = train.subset(train.draw(spec.share, generator(spec.seed, _SHARE)))
    if spec.tuning_fraction > 0:
        chosen = train.draw(spec.tuning_fraction, generator(spec.seed, _TUNING))
        train, test = train.without(chosen), train.subset(chosen)
    stopping = None
    if spec.patience_fraction > 0:
        chosen = train.draw(spec.patience_fraction, generator(spec.seed, _STOPPING))
        train, stopping = train.without(chosen), train.subset(chosen)
    return RunData(source, train, test, stopping)


def _test_file(spec: RunSpec, data: RunData, data_dir: Path | None) -> LabelledSet:
    """The objects of the file that the spec names to measure on, prepared as the training data are."""
    assert spec.test is not None
    source = open_source(
        spec.test, data_dir=data_dir, label_column=spec.label_column, skip_bad=spec.skip_bad,
        preparation=data.source.preparation,
    )  # fmt: skip
    test = source.labelled(source.unseen, data.train.class_names)
    expected, came = (tuple(first_tensor(part.objects).shape[1:]) for part in (data.train, test))
    if expected != came:
        raise DataError(f"{spec.test} holds objects of shape {came}, the training data objects of shape {expected}")
    return test


def _changed(spec: RunSpec, train: LabelledSet) -> LabelledSet:
    """The training objects with other labels or weights, if the spec asks for them."""
    if spec.label_noise > 0:
        train = _with_noise(train, spec.label_noise, generator(spec.seed, _NOISE))
    if spec.class_weight is not None:
        counts = train.labels.bincount(minlength=train.num_classes)
        weights = len(train) / (int((counts > 0).sum()) * counts.clamp(min=1))
        train = replace(train, weights=weights[train.labels])
    return train


def _with_noise(train: LabelledSet, share: float, random: torch.Generator) -> LabelledSet:
    """The same objects with a share of the labels replaced by another class."""
    changed = torch.randperm(len(train), generator=random)[: round(share * len(train))]
    shift = torch.randint(1, train.num_classes, (len(changed),), generator=random)
    labels = train.labels.clone()
    labels[changed] = (labels[changed] + shift) % train.num_classes
    return replace(train, labels=labels, origin=None)


# The runs of a study read the same few data again and again.
@functools.lru_cache(maxsize=2)
def _open(opening: tuple[tuple[str, Any], ...], data_dir: Path | None, stamp: str) -> Source:
    options = dict(opening)
    return open_source(options.pop("data"), data_dir=data_dir, **options)


def files_of(spec: RunSpec) -> list[str]:
    """What may be files of the user's that decide the run: its data, its test file, its network's code."""
    network = spec.network or ""
    return [spec.data, *([spec.test] if spec.test else []), *([file_of(network)] if comes_from_file(network) else [])]


def _opening(spec: RunSpec) -> tuple[tuple[str, Any], ...]:
    """How `open_source` is called for a spec."""
    names = ("data", "image_size", "text_column", "label_column", "columns", "ignore", "skip_bad")
    return tuple((name, getattr(spec, name)) for name in names)


def make_network(spec: RunSpec, data: RunData) -> AggregatedClassifier:
    """The network for the training objects, from the catalogue or from outside."""
    objects = first_tensor(data.train.objects)
    options: dict[str, Any] = {name.replace("-", "_"): value for name, value in spec.net.items()}
    name = network_name(spec, data)
    if not is_outside(name) and data.vocabulary:
        options["vocabulary"] = data.vocabulary
    return (build_outside if is_outside(name) else build_network)(
        name, object_shape=data.object_shape, num_classes=data.train.num_classes, fold=spec.fold, seed=spec.seed,
        objects=objects, **options,
    )  # fmt: skip


def network_name(spec: RunSpec, data: RunData) -> str:
    """The network's name, where the spec leaves it open the one that fits the data."""
    tokens = first_tensor(data.train.objects).dtype == torch.int64
    return spec.network or default_network(data.object_shape, tokens=tokens)


def train_run(
    spec: RunSpec,
    run_dir: Path | None,
    data: RunData,
    network: AggregatedClassifier,
    *,
    fabric: Fabric | None = None,
    progress: bool | Literal["lines"] | None = False,
    command: str | None = None,
    more_epochs: bool = False,
) -> History:
    """Train the network, with a directory where a stopped run goes on.

    Args:
        command: what the user typed.
        more_epochs: as for `fit`.
    """

    def on_claim(folder: Path) -> None:
        changes: dict[str, Any] = {"spec": spec.model_dump(mode="json"), "data_stamp": data_stamp(*files_of(spec))}
        if data.stopping is not None:  # what chose the epoch is not what to measure on
            changes["data"] = note_data(data.train, data.test)
        update_run(folder, **changes, **({"command": command[:LONGEST_TEXT]} if command else {}))
        data.source.list_bad(folder / BAD_FILE)

    return fit(
        network, data.train, spec.recipe, watched_part(spec, data), run_dir, fabric=fabric, progress=progress,
        augment=crop_and_flip if spec.augment else None, label=f"fold {spec.fold}", on_claim=on_claim,
        more_epochs=more_epochs,
    )  # fmt: skip


def watched_part(spec: RunSpec, data: RunData) -> LabelledSet | None:
    """What is evaluated while the network trains.

    What is measured in the end must not choose the epoch: with patience and no part for it, `fit` says so.
    """
    return data.stopping or (data.test if spec.recipe.patience is None else None)
