"""Data sets by name, and the one door to all data: a name or a file."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

from agrlearn.data.arrays import objects_from_array, read_npz
from agrlearn.data.images import DEFAULT_SIZE, is_image_folder, read_image_folder
from agrlearn.data.reviews import movie_review, subjectivity
from agrlearn.data.sources import Part, Source
from agrlearn.data.tables import READERS, read_table
from agrlearn.errors import DataError, look_up

_FASHION_MNIST_FOLDER = Path("/usr/share/datasets/fashion-mnist")
_FASHION_MNIST_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def open_source(
    name_or_path: str,
    *,
    image_size: int | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    skip_bad: bool = False,
    preparation: dict[str, Any] | None = None,
) -> Source:
    """A data set by name, or the user's own: an .npz file, a table, or a folder of class folders of images.

    Args:
        image_size: pixels a side to which a folder's images are brought; 32 by default.
        text_column, label_column: of a table, where they are not to be guessed.
        skip_bad: leave out what cannot be read instead of refusing the whole; `Source.bad` lists it.
        preparation: `Source.preparation` of the data a network was trained on, so that these become the same objects.
    """
    path = Path(name_or_path)
    if name_or_path in DATASETS:
        return DATASETS[name_or_path]()
    if not path.exists():
        if not path.suffix and len(path.parts) == 1:
            look_up(DATASETS, name_or_path, "data set")
        raise DataError(f"there is no file or folder {name_or_path}; give one, or a data set: {', '.join(DATASETS)}")
    before = preparation or {}
    if is_image_folder(path):
        size = image_size or before.get("size") or DEFAULT_SIZE
        return read_image_folder(path, size=size, skip_bad=skip_bad)
    if path.suffix in READERS:
        earlier = before if before.get("kind") in ("text", "table") else None
        return read_table(
            path, text_column=text_column, label_column=label_column, skip_bad=skip_bad, preparation=earlier
        )
    if path.suffix == ".npz":
        return Source(name_or_path, train=read_npz(path))
    raise DataError(
        f"{name_or_path} is none of the kinds that can be read: .npz, {', '.join(READERS)}, or a folder with a folder "
        "of images for each class"
    )


def digits() -> Source:
    """8×8 grey images of hand-written digits, from scikit-learn: 898 to train on, 899 to test on."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    images = objects_from_array(x.reshape(-1, 8, 8).astype(numpy.uint8), origin="digits")
    train, test = train_test_split(numpy.arange(len(y)), test_size=0.5, stratify=y, random_state=0)
    return Source(
        "digits", Part(images[train], y[train]), Part(images[test], y[test]), tuple(str(digit) for digit in range(10))
    )


def fashion_mnist(folder: Path = _FASHION_MNIST_FOLDER) -> Source:
    """28×28 grey images of clothes, from Debian's package dataset-fashion-mnist: 60,000 and 10,000."""
    if not folder.is_dir():
        raise DataError(
            f"Fashion-MNIST is not at {folder}; on Debian install it with: apt install dataset-fashion-mnist"
        )

    def part(prefix: str) -> Part:
        images = read_idx(folder / f"{prefix}-images-idx3-ubyte.gz")
        labels = read_idx(folder / f"{prefix}-labels-idx1-ubyte.gz")
        return Part(objects_from_array(images, origin="fashion-mnist"), numpy.array(_FASHION_MNIST_CLASSES)[labels])

    return Source("fashion-mnist", part("train"), part("t10k"), _FASHION_MNIST_CLASSES)


def read_idx(path: Path) -> numpy.ndarray:
    """The bytes of a gzipped IDX file, the format of MNIST: a magic number, the lengths, the values."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read ({error}); install its package again") from error
    dimensions = content[3] if len(content) > 3 else 0
    lengths = numpy.frombuffer(content[4 : 4 + 4 * dimensions], dtype=">u4")
    if content[:3] != b"\0\0\x08" or len(content) != 4 + 4 * dimensions + int(lengths.prod()):
        raise DataError(f"{path} is not a whole IDX file of bytes; install its package again")
    return numpy.frombuffer(content, dtype=numpy.uint8, offset=4 + 4 * dimensions).reshape(lengths).copy()


DATASETS: dict[str, Callable[[], Source]] = {
    "digits": digits,
    "fashion-mnist": fashion_mnist,
    "movie-review": movie_review,
    "subjectivity": subjectivity,
}
