"""Data sets by name, and the one door to all data: a name or a file."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy

from agrlearn.data.arrays import objects_from_array, read_npz
from agrlearn.data.sources import Part, Source
from agrlearn.errors import DataError, look_up

_FASHION_MNIST_FOLDER = Path("/usr/share/datasets/fashion-mnist")
_FASHION_MNIST_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def open_source(name_or_file: str) -> Source:
    """The data set called `name_or_file`, or the .npz file at that path."""
    path = Path(name_or_file)
    if name_or_file not in DATASETS and (path.suffix or path.exists() or len(path.parts) > 1):
        if not path.exists():
            raise DataError(
                f"there is no file {name_or_file}; give an existing .npz file or one of: {', '.join(DATASETS)}"
            )
        if path.suffix != ".npz":
            raise DataError(f"{name_or_file} is not an .npz file; give one with arrays x and y (numpy.savez writes it)")
        return Source(name_or_file, train=read_npz(path))
    return look_up(DATASETS, name_or_file, "data set")()


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


DATASETS: dict[str, Callable[[], Source]] = {"digits": digits, "fashion-mnist": fashion_mnist}
