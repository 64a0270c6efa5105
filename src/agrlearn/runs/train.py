"""One training run from its specification: open the data, build the network, train it."""

import functools
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from lightning_fabric import Fabric
from torch import nn

from agrlearn.data.augmentation import crop_and_flip
from agrlearn.data.datasets import open_source
from agrlearn.data.labelled import LabelledSet
from agrlearn.data.sources import BAD_FILE, Source
from agrlearn.data.text import Vocabulary
from agrlearn.grouping import first_tensor
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network, default_network
from agrlearn.networks.outside import build_outside, is_outside
from agrlearn.runs.spec import RunSpec
from agrlearn.seeding import generator
from agrlearn.training.checkpoint import update_run
from agrlearn.training.history import History
from agrlearn.training.identity import LONGEST_TEXT
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
    """What the recipe's patience looks at, where that is not the test part."""

    @property
    def object_shape(self) -> tuple[int, ...]:
        return tuple(first_tensor(self.train.objects).shape[1:])

    @property
    def vocabulary(self) -> int:
        """Different tokens; 0 for data that are not sentences."""
        preparation = self.source.preparation
        return Vocabulary(tuple(preparation["words"]), preparation["length"]).size if "words" in preparation else 0


def open_data(spec: RunSpec, data_dir: Path | None = None) -> RunData:
    """The data of a run. Runs with the same seed share the test part and, at equal `share`, the training part."""
    source = _open(
        spec.data, data_dir, spec.image_size, spec.text_column, spec.label_column, spec.skip_bad, data_stamp(spec.data)
    )
    train: LabelledSet
    test: LabelledSet | None
    if spec.test_fraction > 0:
        everything = _all_objects(source)
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
    if spec.stopping_fraction > 0:
        chosen = train.draw(spec.stopping_fraction, generator(spec.seed, _STOPPING))
        train, stopping = train.without(chosen), train.subset(chosen)
    if spec.label_noise > 0:
        train = _with_noise(train, spec.label_noise, generator(spec.seed, _NOISE))
    return RunData(source, train, test, stopping)


def _with_noise(train: LabelledSet, share: float, random: torch.Generator) -> LabelledSet:
    """The same objects with a share of the labels replaced by another class."""
    changed = torch.randperm(len(train), generator=random)[: round(share * len(train))]
    shift = torch.randint(1, train.num_classes, (len(changed),), generator=random)
    labels = train.labels.clone()
    labels[changed] = (labels[changed] + shift) % train.num_classes
    return replace(train, labels=labels, origin=None)


# The runs of a study read the same few data again and again.
@functools.lru_cache(maxsize=2)
def _open(
    data: str, data_dir: Path | None, image_size: int | None, text_column: str | None, label_column: str | None,
    skip_bad: bool, stamp: str,
) -> Source:  # fmt: skip
    return open_source(
        data, data_dir=data_dir, image_size=image_size, text_column=text_column, label_column=label_column,
        skip_bad=skip_bad,
    )  # fmt: skip


def data_stamp(data: str) -> str:
    """A fingerprint of the files' names, sizes and times: cheap to compare, and changed by every change."""
    path = Path(data)
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    facts = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.is_file()]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _all_objects(source: Source) -> LabelledSet:
    """The training and the test part as one."""
    train = source.labelled(source.train)
    if source.test is None:
        return train
    test = source.labelled(source.test, train.class_names)
    return LabelledSet(
        torch.cat([first_tensor(train.objects), first_tensor(test.objects)]),
        torch.cat([train.labels, test.labels]),
        train.class_names,
    )


def make_network(spec: RunSpec, data: RunData) -> AggregatedClassifier:
    """The network for the training objects, from the catalogue or from outside."""
    objects = first_tensor(data.train.objects)
    options: dict[str, Any] = {name.replace("-", "_"): value for name, value in spec.net.items()}
    name = network_name(spec, data)
    if not is_outside(name) and data.vocabulary:
        options["vocabulary"] = data.vocabulary
    network = (build_outside if is_outside(name) else build_network)(
        name, object_shape=data.object_shape, num_classes=data.train.num_classes, fold=spec.fold, seed=spec.seed,
        objects=objects, **options,
    )  # fmt: skip
    return network if spec.layout == "contiguous" else _channels_last(network)


def network_name(spec: RunSpec, data: RunData) -> str:
    """The network's name, where the spec leaves it open the one that fits the data."""
    tokens = first_tensor(data.train.objects).dtype == torch.int64
    return spec.network or default_network(data.object_shape, tokens=tokens)


def _channels_last(network: AggregatedClassifier) -> AggregatedClassifier:
    """The same network with channels last in memory: narrow ResNets are a quarter to a third faster on a CPU.

    Values change by rounding only. Left as it is where torch 2.13 crashes: in the backward pass of a 1×1 convolution
    of stride 2 that reads 8 channels of large images.
    """
    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    if any(layer.kernel_size == (1, 1) and layer.stride == (2, 2) and layer.in_channels < 16 for layer in convolutions):
        return network
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def train_run(
    spec: RunSpec,
    run_dir: Path | None,
    data: RunData,
    network: AggregatedClassifier,
    *,
    fabric: Fabric | None = None,
    progress: bool | Literal["lines"] | None = False,
    command: str | None = None,
) -> History:
    """Train the network, with a directory where a stopped run goes on."""

    def on_claim(folder: Path) -> None:
        changes = {"spec": spec.model_dump(mode="json"), "data_stamp": data_stamp(spec.data)}
        update_run(folder, **changes, **({"command": command[:LONGEST_TEXT]} if command else {}))
        data.source.list_bad(folder / BAD_FILE)

    return fit(
        network, data.train, spec.recipe, data.stopping or data.test, run_dir, fabric=fabric, progress=progress,
        augment=crop_and_flip if spec.augment else None, label=f"fold {spec.fold}", on_claim=on_claim,
    )  # fmt: skip
