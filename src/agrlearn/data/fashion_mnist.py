"""Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): four gzipped IDX files."""

import gzip
import zlib
from pathlib import Path

import numpy

from agrlearn.data.arrays import objects_from_array
from agrlearn.data.sources import Part, Source
from agrlearn.errors import DataError

_FOLDER = "fashion-mnist"
_DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def fashion_mnist(folder: Path) -> Source:
    """28×28 grey images of clothes, also from Debian's package dataset-fashion-mnist: 60,000 and 10,000."""
    own = folder / _FOLDER
    return read_fashion_mnist(own if own.is_dir() else _DEBIAN_FOLDER)


def read_fashion_mnist(folder: Path) -> Source:
    """The set from the folder that holds its four files."""
    if not folder.is_dir():
        raise DataError(
            f"Fashion-MNIST is not at {folder}; on Debian install it with: apt install dataset-fashion-mnist"
        )

    def part(prefix: str) -> Part:
        images = read_idx(folder / f"{prefix}-images-idx3-ubyte.gz")
        labels = read_idx(folder / f"{prefix}-labels-idx1-ubyte.gz")
        return Part(objects_from_array(images, origin="fashion-mnist"), numpy.array(_CLASSES)[labels])

    return Source("fashion-mnist", part("train"), part("t10k"), _CLASSES)


def read_idx(path: Path) -> numpy.ndarray:
    """The bytes of a gzipped IDX file, the format of MNIST: a magic number, the lengths, the values."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read ({error}); install its package again") from error
    dimensions = content[3] if len(content) > 3 else 0
    lengths = numpy.frombuffer(content[4 : 4 + 4 * dimensions], dtype=">u4")
    if content[:3] != b"\0\0\x08" or len(content) != 4 + 4 * dimensions + int(lengths.prod()):
        raise DataError(f"{path} is not a whole IDX file of bytes; install its package again")
    return numpy.frombuffer(content, dtype=numpy.uint8, offset=4 + 4 * dimensions).reshape(lengths).copy()
