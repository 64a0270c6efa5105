"""Fashion-MNIST: its four files, in small."""

import gzip
import hashlib

import numpy
import pytest

from agrlearn.data.datasets import open_source
from agrlearn.data.download import DownloadError
from agrlearn.data.fashion_mnist import FASHION_MNIST, read_fashion_mnist, read_idx
from agrlearn.errors import DataError
from tests.data.server import Files, serving


def idx(values):
    """The bytes of an IDX file."""
    header = b"\0\0\x08" + bytes([values.ndim]) + b"".join(length.to_bytes(4, "big") for length in values.shape)
    return header + values.astype(numpy.uint8).tobytes()


def checksum(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@pytest.fixture
def small_files():
    """The four files, not compressed, by name."""
    files = {}
    for prefix, count in (("train", 20), ("t10k", 10)):
        pixels = numpy.arange(count * 784).reshape(count, 28, 28) % 256
        files[f"{prefix}-images-idx3-ubyte.gz"] = idx(pixels)
        files[f"{prefix}-labels-idx1-ubyte.gz"] = idx(numpy.arange(count) % 10)
    return files


def test_the_four_files_are_read_however_they_are_compressed(small_files, tmp_path):
    checksums = {name: checksum(content) for name, content in small_files.items()}
    for level in (1, 9):
        for name, content in small_files.items():
            (tmp_path / name).write_bytes(gzip.compress(content, level))
        source = read_fashion_mnist(tmp_path, checksums)
        test = source.labelled(source.test)
        assert test.objects.shape == (10, 1, 28, 28)
        assert test.class_names[9] == "Ankle boot"
        assert test.labels.tolist() == list(range(10))
        assert test.objects[1, 0, 0, :3].tolist() == [16, 17, 18]
        assert len(source.train.objects) == 20


def test_unpacked_files_are_read(small_files, tmp_path):
    checksums = {name: checksum(content) for name, content in small_files.items()}
    for name, content in small_files.items():
        (tmp_path / name.removesuffix(".gz")).write_bytes(content)
    assert len(read_fashion_mnist(tmp_path, checksums, "http://127.0.0.1:9").train.objects) == 20
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(b"other")
    with pytest.raises(DataError, match="t10k-labels-idx1-ubyte is not the published file"):
        read_fashion_mnist(tmp_path, checksums, "http://127.0.0.1:9")


def test_missing_files_are_downloaded_and_altered_ones_are_not_kept(small_files, tmp_path):
    checksums = {name: checksum(content) for name, content in small_files.items()}
    served = {f"/{name}": gzip.compress(content) for name, content in small_files.items()}
    last = "/t10k-labels-idx1-ubyte.gz"
    folder = tmp_path / "fashion-mnist"
    with serving(Files({**served, last: gzip.compress(b"other")})) as files:
        with pytest.raises(DownloadError, match=r"t10k-labels-idx1-ubyte\.gz cannot be downloaded"):
            read_fashion_mnist(folder, checksums, files.url)
        assert not (folder / last[1:]).exists()
        files.content = served
        read_fashion_mnist(folder, checksums, files.url)
    assert sorted(file.name for file in folder.iterdir()) == sorted(FASHION_MNIST)
    assert len(files.requests) == 5


def test_altered_files_in_the_data_folder_get_a_sentence(small_files, tmp_path):
    (tmp_path / "fashion-mnist").mkdir()
    for name, content in small_files.items():
        (tmp_path / "fashion-mnist" / name).write_bytes(gzip.compress(content))
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz is not the published file"):
        open_source("fashion-mnist", data_dir=tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"nonsense",
        gzip.compress(b"\0\0\x08\x01\0\0\0\x05abc"),
        gzip.compress(b""),
        gzip.compress(idx(numpy.arange(5)))[:-9],
        gzip.compress(b"abcdefgh")[:12] + b"\xff" * 8,
    ],
    ids=["no gzip", "too short", "empty", "truncated", "altered"],
)
def test_broken_files_get_a_sentence_that_names_them(tmp_path, content):
    file = tmp_path / "file.gz"
    file.write_bytes(content)
    inner = (b"\0\0\x08\x01\0\0\0\x05abc", b"")
    for expected in inner:
        with pytest.raises(DataError, match=r"file\.gz .* remove it, and it is downloaded again"):
            read_idx(file, checksum(expected))
