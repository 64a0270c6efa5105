"""Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): four gzipped IDX files."""

import zlib
from pathlib import Path

import numpy

from agrlearn.data.archives import LimitedGzip, check_content
from agrlearn.data.arrays import objects_from_array
from agrlearn.data.download import download
from agrlearn.data.sources import Part, Source
from agrlearn.errors import DataError

_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
# Of the unpacked files: Debian compressed them again, and both unpack to the same bytes.
FASHION_MNIST = {
    "train-images-idx3-ubyte.gz": "sha256:c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte.gz": "sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte.gz": "sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte.gz": "sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def fashion_mnist(folder: Path) -> Source:
    """28×28 grey images of clothes, also from Debian's package dataset-fashion-mnist: 60,000 and 10,000."""
    own = folder / "fashion-mnist"
    packaged = all((_DEBIAN_FOLDER / name).is_file() for name in FASHION_MNIST)
    return read_fashion_mnist(_DEBIAN_FOLDER if packaged and not own.is_dir() else own)


def read_fashion_mnist(folder: Path, checksums: dict[str, str] = FASHION_MNIST, url: str = _URL) -> Source:
    """Read the set from the folder with its four files; missing ones are downloaded."""

    def read(name: str) -> numpy.ndarray:
        file, checksum = folder / name, checksums[name]
        unpacked = folder / name.removesuffix(".gz")
        if unpacked.is_file():
            return _from_idx(unpacked.read_bytes(), checksum, unpacked)
        if not file.is_file():
            download(f"{url}/{name}", file, lambda fetched: read_idx(fetched, checksum))
        return read_idx(file, checksum)

    def part(prefix: str) -> Part:
        images, labels = read(f"{prefix}-images-idx3-ubyte.gz"), read(f"{prefix}-labels-idx1-ubyte.gz")
        return Part(objects_from_array(images, origin="fashion-mnist"), numpy.array(_CLASSES)[labels])

    return Source("fashion-mnist", part("train"), part("t10k"), _CLASSES)


def read_idx(file: Path, checksum: str) -> numpy.ndarray:
    """Read a gzipped IDX file (a magic number, the lengths, the values); `checksum` is that of the unpacked file."""
    try:
        with LimitedGzip(file) as unpacked:
            content = unpacked.read()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file} cannot be read ({error}); remove it, and it is downloaded again") from error
    return _from_idx(content, checksum, file)


def _from_idx(content: bytes, checksum: str, file: Path) -> numpy.ndarray:
    check_content(content, checksum, file)
    dimensions = content[3] if len(content) > 3 else 0
    lengths = numpy.frombuffer(content[4 : 4 + 4 * dimensions], dtype=">u4")
    if content[:3] != b"\0\0\x08" or len(content) != 4 + 4 * dimensions + int(lengths.prod()):
        raise DataError(f"{file} is not a complete IDX file of bytes; remove it, and it is downloaded again")
    return numpy.frombuffer(content, dtype=numpy.uint8, offset=4 + 4 * dimensions).reshape(lengths).copy()
