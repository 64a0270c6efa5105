"""Files from strangers: each is refused with a sentence, within seconds and within 1 GiB of memory, or does no harm."""

import gzip
import hashlib
import io
import json
import os
import pickle
import shutil
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

import numpy
import pytest
import torch
from PIL import Image

from agrlearn.data.labelled import LabelledSet
from agrlearn.networks.catalogue import build_network
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from tests.faults.processes import agrlearn, refused

BLOCK = bytes(2**20)


def cases(kinds: dict, *heavy: str) -> list:
    """The kinds by name; those that are costly to make belong to the slow tests."""
    assert set(heavy) <= set(kinds)
    return [pytest.param(kind, marks=pytest.mark.slow if kind in heavy else ()) for kind in kinds]


def sparse(file: Path, size: int = 4 * 2**30, start: bytes = b"") -> None:
    """A file of zeros that takes no room."""
    file.write_bytes(start)
    os.truncate(file, size)


def zeros_in_gzip(size: int, start: bytes = b"") -> bytes:
    """A gzip file of `start` and `size` zeros, made in no time: a block of zeros, compressed once, again and again."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = squeeze.compress(start) + squeeze.flush(zlib.Z_FULL_FLUSH)
    block = squeeze.compress(bytes(2**24)) + squeeze.flush(zlib.Z_FULL_FLUSH)
    body = head + block * (size // 2**24) + squeeze.flush()
    return b"\x1f\x8b\x08" + bytes(7) + body + struct.pack("<II", 0, (len(start) + size) % 2**32)


# Tables


def many_columns(file):
    file.write_text(",".join(f"c{number}" for number in range(1_500_000)) + "\n1,2\n")


def cut_in_two(file):
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"x": list(range(1000)), "label": [0, 1] * 500}), file)
    file.write_bytes(file.read_bytes()[:-500] + b"PAR1")


def ten_million_rows(file):
    import pyarrow
    from pyarrow import parquet

    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array(numpy.zeros(10_000_000, "int8")), ["a rather long word"])
    parquet.write_table(pyarrow.table({"text": column, "label": column}), file)


def parquet_of(make):
    def write(file):
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"x": make(pyarrow), "label": ["a", "b"]}), file)

    return write


def packed_bomb(file):
    with gzip.open(file, "wb", compresslevel=1) as packed:
        packed.write(b"x,label\n")
        for _ in range(600):
            packed.write(b"1,a\n" * 2**18)


TABLES = {
    "rows without a name": ("t.jsonl", lambda file: file.write_text("{}\n{}\n"), "row 1"),
    "parquet with a date beyond all years": (
        "t.parquet", parquet_of(lambda arrow: arrow.array([2**61, 1], arrow.timestamp("ms"))), "parquet",
    ),
    "parquet with text that is not UTF-8": (
        "t.parquet", parquet_of(lambda arrow: arrow.array([b"\xff\xfe", b"a"]).view(arrow.string())), "parquet",
    ),
    "a single class": ("t.csv", lambda file: file.write_text("x,label\n1,a\n2,a\n"), "a single class, 'a'"),
    "a label with a NUL": (
        "t.jsonl", lambda file: file.write_text('{"x": 1, "label": "a\\u0000"}\n{"x": 2, "label": "a"}\n'), "not text",
    ),
    "a label that is half a character": (
        "t.jsonl", lambda file: file.write_text('{"x": 1, "label": "\\ud800"}\n{"x": 2, "label": "a"}\n'), "not text",
    ),
    "a label of a megabyte": ("t.csv", lambda file: file.write_text(f"x,label\n1,{'a' * 2**20}\n2,b\n"), "characters"),
    "a billion columns": ("t.csv", lambda file: sparse(file, start=b"a," * 2**20), "row 1 is longer than"),
    "a million and a half columns": ("t.csv", many_columns, "row 1 is longer than"),
    "one enormous line": ("t.csv", lambda file: sparse(file, start=b"x,label\n1,a\n"), "not a text file"),
    "one enormous line of letters": ("t.csv", lambda file: file.write_text("x,label\n1," + "a" * 2**24), "row 2 is"),
    "a packed bomb": ("t.csv.gz", packed_bomb, "unpacks to more than 100 times its size"),
    "a packed file that is none": ("t.csv.gz", lambda file: file.write_bytes(b"x,label\n1,a\n"), "cannot be unpacked"),
    "a header of one enormous cell": ("t.csv", lambda file: file.write_text("x" * 2**23 + ",label\n1,2\n"), "row 1"),
    "NULs": ("t.csv", lambda file: file.write_bytes(b"x,label\n\0\0,a\n2,b\n"), "not a text file"),
    "a quote that is never closed": (
        "t.csv", lambda file: file.write_text('x,label\n"' + "1,a\n" * 100_000), "row",
    ),
    "deeply nested JSON": ("t.jsonl", lambda file: file.write_text("[" * 200_000 + "\n"), "row 1"),
    "deeply nested JSON in a cell": (
        "t.jsonl", lambda file: file.write_text('{"x": ' + "[" * 200_000 + "]" * 200_000 + ', "label": 1}\n'), "row 1",
    ),
    "JSON that is no object": ("t.jsonl", lambda file: file.write_text("5\n"), "row 1"),
    "JSON of lists of lists": ("t.jsonl", lambda file: file.write_text("[[1]]\n"), "row 1"),
    "JSON with too large a number": (
        "t.jsonl",
        lambda file: file.write_text("".join(f'{{"x": {x}, "label": 1}}\n' for x in (1, 2, 10**400))),
        "row 3",
    ),
    "one enormous line of JSON": ("t.jsonl", sparse, "not a text file"),
    "garbage called parquet": ("t.parquet", lambda file: file.write_bytes(b"PAR1" + bytes(1000) + b"PAR1"), "parquet"),
    "parquet cut in two": ("t.parquet", cut_in_two, "parquet"),
    "parquet with far more rows than bytes": ("t.parquet", ten_million_rows, "parquet"),
    "a pipe": ("t.csv", lambda file: os.mkfifo(file), "not a file"),
}  # fmt: skip


@pytest.mark.parametrize("kind", cases(TABLES, "a million and a half columns", "parquet with far more rows than bytes"))
def test_a_hostile_table_is_refused(kind, tmp_path):
    name, write, words = TABLES[kind]
    write(tmp_path / name)
    refused(agrlearn("train", name, "--epochs", 1, folder=tmp_path), name, words)


# Arrays


def npy_header(shape: str, kind: str = "<f4") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def npz_of(**members: bytes):
    def write(file):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(f"{name}.npy", content)

    return write


def npz_of_zeros(file, blocks=800):
    packed = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with packed as archive, archive.open("x.npy", "w", force_zip64=True) as member:
        member.write(npy_header(f"({blocks}, {2**18})"))
        for _ in range(blocks):
            member.write(BLOCK)


class Bomb:
    """Leaves a file behind if it is ever unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self):
        return (Path.touch, (self.file,))


def npz_packed(method: int):
    """The first member in a compression that is told wrongly, so that its bytes are garbage in it."""

    def write(file):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("x.npy", npy_header("(4, 4)") + bytes(64))
        content = file.read_bytes()
        central = content.index(b"PK\x01\x02")
        told = struct.pack("<H", method)
        file.write_bytes(content[:8] + told + content[10 : central + 10] + told + content[central + 12 :])

    return write


def npz_encrypted(file):
    npz_packed(0)(file)
    content = bytearray(file.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    file.write_bytes(content)


ARRAYS = {
    "a shape of truths": npz_of(x=npy_header("(True, 3)") + bytes(64)),
    "an encrypted member": npz_encrypted,
    "garbage for LZMA": npz_packed(zipfile.ZIP_LZMA),
    "a compression that nobody knows": npz_packed(99),
    "a zip bomb": npz_of_zeros,
    "a shape that lies": npz_of(x=npy_header("(1000000, 1000000)") + b"1234"),
    "a shape beyond all numbers": npz_of(x=npy_header("(10000000000, 10000000000, 10000000000)")),
    "a negative shape": npz_of(x=npy_header("(-5, 3)") + bytes(64)),
    "a header that lies about its length": npz_of(x=b"\x93NUMPY\x02\x00\xff\xff\xff\xff"),
    "a header that is code": npz_of(x=npy_header("(__import__('os').system('touch ran'),)")),
    "names for numbers": npz_of(x=npy_header("(1, 1)", "<U1000000000")),
    "no zip file": lambda file: file.write_bytes(b"PK\x03\x04" + bytes(100)),
    "an enormous nothing": sparse,
    "pickles": lambda file: numpy.savez(file, x=numpy.array([Bomb(file.with_name("ran")), 1], dtype=object)),
}


@pytest.mark.parametrize("kind", cases(ARRAYS, "a zip bomb"))
def test_a_hostile_array_file_is_refused(kind, tmp_path):
    ARRAYS[kind](tmp_path / "x.npz")
    refused(agrlearn("train", "x.npz", "--epochs", 1, folder=tmp_path), "x.npz")
    assert not (tmp_path / "ran").exists()


# Images


def png_of_any_size(width: int, height: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(BLOCK)) + chunk(b"IEND", b"")


def cut(ending: str) -> bytes:
    content = io.BytesIO()
    Image.fromarray(numpy.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype="uint8")).save(content, ending)
    return content.getvalue()[: len(content.getvalue()) // 2]


def image_bytes(ending: str, mode: str = "RGB") -> bytes:
    content = io.BytesIO()
    Image.new(mode, (64, 64)).save(content, ending)
    return content.getvalue()


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"
PICTURES = {
    "PostScript": ("a.png", POSTSCRIPT),
    "a TIFF of fractions": ("a.png", image_bytes("tiff", "F")),
    "a GIF": ("a.jpg", image_bytes("gif")),
    "65,500 × 65,500 pixels": ("a.png", png_of_any_size(65_500, 65_500)),
    "2³¹ pixels a side": ("a.png", png_of_any_size(2**31 - 1, 2**31 - 1)),
    "fewer pixels than it says": ("a.png", png_of_any_size(9_000, 9_000)),
    "a PNG cut short": ("a.png", cut("png")),
    "a JPEG cut short": ("a.jpg", cut("jpeg")),
    "a WebP cut short": ("a.webp", cut("webp")),
    "nothing": ("a.png", b""),
    "a web page": ("a.jpg", b"<html>"),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_a_hostile_picture_is_refused(kind, tmp_path, monkeypatch):
    name, content = PICTURES[kind]
    for animal in ("cat", "dog"):
        (tmp_path / "pets" / animal).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "pets" / animal / "good.png")
    (tmp_path / "pets" / "cat" / name).write_bytes(content)
    # What Pillow would start for PostScript.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "bin" / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    refused(agrlearn("train", "pets", "--epochs", 1, folder=tmp_path), name, "cannot be read as an image")
    assert not (tmp_path / "ran").exists()


# Archives of published data


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for member, data in members:
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()


def member(name: str, size: int = 0, **about) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.size = size
    for key, value in about.items():
        setattr(made, key, value)
    return made


def long_header() -> bytes:
    """A header that says its own extension has 8 GiB."""
    return member("././@PaxHeader", 2**33 - 1, type=b"x").tobuf(tarfile.USTAR_FORMAT)


ARCHIVES = {
    "a bomb before the file": lambda: zeros_in_gzip(8 * 2**30, member("other", 8 * 2**30).tobuf()),
    "a bomb as the file": lambda: zeros_in_gzip(8 * 2**30, member("rt-polarity.neg", 8 * 2**30).tobuf()),
    "a bomb as a header": lambda: zeros_in_gzip(8 * 2**30, long_header()),
    "half a million members": lambda: gzip.compress(member("nothing").tobuf() * 500_000, 1),
    "../, absolute paths and links": lambda: gzip.compress(
        tar_of(
            (member("../../outside"), b""), (member("/absolute"), b""),
            (member("rt-polarity.neg", type=tarfile.SYMTYPE, linkname="/etc/passwd"), b""),
            (member("rt-polarity.pos", type=tarfile.LNKTYPE, linkname="../../etc/passwd"), b""),
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", cases(ARCHIVES, "a bomb as a header", "half a million members"))
def test_a_hostile_archive_is_refused_and_writes_nothing(kind, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rt-polaritydata.tar.gz").write_bytes(ARCHIVES[kind]())
    refused(agrlearn("train", "movie-review", "--data-dir", "data", folder=tmp_path), "rt-polaritydata.tar.gz")
    assert {path.name for path in tmp_path.rglob("*") if path.suffix != ".txt"} == {"data", "rt-polaritydata.tar.gz"}


@pytest.mark.slow
def test_a_bomb_in_place_of_a_published_file_is_refused(tmp_path):
    (tmp_path / "fashion-mnist").mkdir()
    (tmp_path / "fashion-mnist" / "train-images-idx3-ubyte.gz").write_bytes(zeros_in_gzip(8 * 2**30))
    refused(agrlearn("train", "fashion-mnist", "--data-dir", ".", folder=tmp_path), "train-images-idx3-ubyte.gz")
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(zeros_in_gzip(8 * 2**30))
    refused(agrlearn("train", "cifar-10", "--data-dir", ".", folder=tmp_path), "is not the published file")


# Runs and networks


@pytest.fixture(scope="module")
def good_run(tmp_path_factory) -> Path:
    """A folder with a table and a finished run on it."""
    folder = tmp_path_factory.mktemp("good")
    table = "x,z,label\n" + "".join(f"{number % 7},{number % 5},{'ab'[number % 2]}\n" for number in range(40))
    (folder / "t.csv").write_text(table)
    outcome = agrlearn("train", "t.csv", "--run-dir", "run", "--epochs", 2, "--net.width", 8, folder=folder)
    assert outcome.code == 0, outcome
    return folder


@pytest.fixture
def run(good_run, tmp_path) -> Path:
    """A copy of it, to be tampered with."""
    shutil.copytree(good_run, tmp_path, dirs_exist_ok=True)
    return tmp_path / "run"


def safetensors(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(first: int, end: int, shape=(4,), kind="F32") -> dict:
    return {"dtype": kind, "shape": list(shape), "data_offsets": [first, end]}


NETWORKS = {
    "a header of 2⁶³ bytes": safetensors({}, length=2**63),
    "a header of 90 MB that is not there": safetensors({}, length=90_000_000),
    "offsets beyond the end": safetensors({"w": tensor(0, 2**40, [2**38])}, bytes(16)),
    "overlapping offsets": safetensors({"v": tensor(0, 16), "w": tensor(8, 24)}, bytes(24)),
    "a shape beyond its bytes": safetensors({"w": tensor(0, 16, [10**6, 10**6])}, bytes(16)),
    "a shape beyond all numbers": safetensors({"w": tensor(0, 16, [2**63, 2**63])}, bytes(16)),
    "an unknown type": safetensors({"w": tensor(0, 16, kind="P99")}, bytes(16)),
    "giant metadata": lambda: safetensors({"__metadata__": {"format": "agrlearn-network-1", "x": "a" * 60_000_000}}),
    "metadata of 300,000 names": lambda: safetensors({"__metadata__": {str(number): "" for number in range(300_000)}}),
    "deeply nested JSON": safetensors(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "a pickle": pickle.dumps(Bomb(Path("ran"))),
    "nothing": b"",
}


@pytest.mark.parametrize("kind", cases(NETWORKS, "giant metadata", "metadata of 300,000 names"))
def test_a_hostile_network_file_is_refused(kind, run):
    content = NETWORKS[kind]
    (run / "network.safetensors").write_bytes(content() if callable(content) else content)
    refused(agrlearn("predict", "run", "t.csv", folder=run.parent), "network.safetensors")
    assert not (run.parent / "ran").exists()


def test_an_enormous_network_file_is_refused(run):
    sparse(run / "network.safetensors", start=safetensors({}, length=10_000_000))
    refused(agrlearn("predict", "run", "t.csv", folder=run.parent), "network.safetensors")


GOOD_DESCRIPTION = {"network": "mlp", "object_shape": [2], "num_classes": 2, "fold": 2, "width": 8}
DESCRIPTIONS = {
    "a network of terabytes": {**GOOD_DESCRIPTION, "width": 1_000_000},
    "a network of 7 GB": {**GOOD_DESCRIPTION, "width": 30_000},
    "a billion layers": {**GOOD_DESCRIPTION, "depth": 10**9},
    "a billion classes": {**GOOD_DESCRIPTION, "num_classes": 10**9},
    "a fold beyond all numbers": {**GOOD_DESCRIPTION, "fold": 10**30},
    "a negative width": {**GOOD_DESCRIPTION, "width": -8},
    "texts for numbers": {**GOOD_DESCRIPTION, "width": "8"},
    "a list for a network": {**GOOD_DESCRIPTION, "network": ["mlp"]},
    "a number for a shape": {**GOOD_DESCRIPTION, "object_shape": 2},
    "no shape": {"network": "mlp"},
    "another network": {**GOOD_DESCRIPTION, "network": "small-cnn", "object_shape": [3, 8, 8]},
    "an unknown network": {**GOOD_DESCRIPTION, "network": "../../evil"},
    "someone's code": {**GOOD_DESCRIPTION, "network": "evil.py:make"},
    "unknown options": {**GOOD_DESCRIPTION, "colour": 3},
    "a list": [1, 2],
    "nothing": None,
}


def retell(file: Path, **changes: str | None) -> None:
    """Change the texts in a network's header."""
    content = file.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    told = {**header["__metadata__"], **changes}
    header["__metadata__"] = {key: value for key, value in told.items() if value is not None}
    file.write_bytes(safetensors(header, content[8 + length :]))


@pytest.mark.parametrize("kind", DESCRIPTIONS)
def test_a_network_that_is_described_wrongly_is_refused(kind, run):
    (run.parent / "evil.py").write_text("import pathlib; pathlib.Path('ran').touch()")
    retell(run / "network.safetensors", description=json.dumps(DESCRIPTIONS[kind]))
    refused(agrlearn("predict", "run", "t.csv", folder=run.parent))
    assert not (run.parent / "ran").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"description": None}, {"description": "["}, {"description": "[" * 100_000}, {"class_names": None},
        {"class_names": "5"}, {"class_names": '["a"]'}, {"class_names": "[1, 2]"}, {"class_names": "[" * 100_000},
    ],
    ids=lambda changes: str(changes)[:40],
)  # fmt: skip
def test_a_network_with_a_broken_header_is_refused(changes, run):
    retell(run / "network.safetensors", **changes)
    refused(agrlearn("predict", "run", "t.csv", folder=run.parent), "network.safetensors")


def good(run: Path, name: str) -> dict:
    return json.loads((run / name).read_text())


RUN_FILES = {
    "an enormous nothing": None,
    "deeply nested JSON": "[" * 200_000,
    "a list": "[]",
    "another format": '{"format": "agrlearn-run-9", "identity": {}}',
    "an earlier format": {"format": "agrlearn-run-1"},
    "no recipe": {"identity": {}},
    "a list for a recipe": {"identity": {"recipe": [], "network": 5}},
    "texts for versions": {"versions": "old"},
    "not UTF-8": b"\xff\xfe",
}


@pytest.mark.parametrize("kind", RUN_FILES)
def test_a_run_file_that_lies_is_refused(kind, run):
    content = RUN_FILES[kind]
    if content is None:
        sparse(run / "run.json")
    elif isinstance(content, dict):
        (run / "run.json").write_text(json.dumps({**good(run, "run.json"), **content}))
    else:
        (run / "run.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(agrlearn("info", "run", folder=run.parent), "run.json")
    command = ("train", "t.csv", "--run-dir", "run", "--epochs", 2, "--net.width", 8)
    before = (run / "checkpoint.pt").read_bytes()
    assert agrlearn(*command, folder=run.parent).code in (0, 2)
    assert (run / "checkpoint.pt").read_bytes() == before


TAIL = {"low": 0.0, "high": 1.0, "center": 0.0, "scale": 1.0, "power": 1.0}


def column(**facts):
    """A note of a table with this column and another."""
    other = {"column": "z", "kind": "number", "median": 0.0, "gaps": False, "tail": None}
    return {"preparation": {"kind": "table", "columns": [{"column": "x", **facts}, other], "label": "label"}}


DATA_NOTES = {
    "a list": [],
    "a number for a source": {"source": 5},
    "a source that is a folder above": {"source": "../../../../etc"},
    "a source that is a device": {"source": "/dev/zero"},
    "a source with a NUL": {"source": "a\0b"},
    "a text for a fraction": {"validation_fraction": "half"},
    "a list for a preparation": {"preparation": [1]},
    "numbers for words": {"preparation": {"kind": "text", "text": "x", "label": "label", "words": 5, "length": 3}},
    "sentences of a billion words": {
        "preparation": {"kind": "text", "text": "x", "label": "label", "words": ["a"], "length": 10**9},
    },
    "no length": {"preparation": {"kind": "text", "text": "x", "label": "label", "words": ["a"]}},
    "numbers for columns": {"preparation": {"kind": "table", "columns": [1, 2], "label": "label"}},
    "names for columns, as once": {"preparation": {"kind": "table", "columns": ["x", "z"], "label": "label"}},
    "no columns": {"preparation": {"kind": "table", "columns": [], "label": "label"}},
    "a median that is no number": column(kind="number", median=float("nan"), gaps=False),
    "a kind of column that there is not": column(kind="code", run="evil.py"),
    "a scale of zero": column(kind="number", median=0.0, gaps=False, tail=dict(TAIL, scale=0.0)),
    "a million hashed places": column(kind="words", words=["a"], others=10**6, text=False),
    "a word that is there twice": column(kind="words", words=["a", "a"], others=0, text=False),
    "a thousand words": column(kind="words", words=[str(word) for word in range(1000)], others=0, text=False),
    "a word of a million letters": column(kind="words", words=["a" * 10**6], others=0, text=False),
    "a form of dates that there is not": column(kind="date", form="__import__", medians=[1.0] * 4, gaps=False),
    "images of a million pixels a side": {"preparation": {"kind": "images", "size": 10**6}},
    "a kind that there is not": {"preparation": {"kind": "code", "run": "evil.py"}},
}  # fmt: skip


@pytest.mark.parametrize("kind", DATA_NOTES)
def test_a_note_about_the_data_that_lies_is_refused(kind, run):
    about = good(run, "run.json")
    content = DATA_NOTES[kind]
    about["data"] = {**about["data"], **content} if isinstance(content, dict) else content
    (run / "run.json").write_text(json.dumps(about))
    refused(agrlearn("predict", "run", "t.csv", "--protocol", "contextual", folder=run.parent))


@pytest.mark.parametrize(
    "content", ["garbage\n", "[1]\n", '{"epoch": "x"}\n', "[" * 200_000 + "\n", None, '{"epoch": 1, "loss": "much"}\n'],
    ids=["garbage", "list", "types", "nested", "enormous", "missing"],
)  # fmt: skip
def test_records_that_are_garbage_are_told_and_a_resumed_run_writes_them_anew(content, run):
    whole = (run / "metrics.jsonl").read_bytes()
    sparse(run / "metrics.jsonl") if content is None else (run / "metrics.jsonl").write_text(content)
    refused(agrlearn("info", "run", folder=run.parent), "metrics.jsonl")
    command = ("train", "t.csv", "--run-dir", "run", "--epochs", 2, "--net.width", 8)
    assert agrlearn(*command, folder=run.parent).code == 0
    assert (run / "metrics.jsonl").read_bytes() == whole


# Checkpoints


def signed(content: bytes) -> bytes:
    """With the checksum that a checkpoint of ours begins with: a stranger can compute it too."""
    return hashlib.sha256(content).digest() + content


def saved(state: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def squeezed(content: bytes, more: int) -> bytes:
    """The zip file that torch wrote, with its first record grown by `more` zeros and compressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as before, zipfile.ZipFile(buffer, "w", 8, compresslevel=1) as after:
        for info in before.infolist():
            with after.open(info.filename, "w", force_zip64=True) as record:
                record.write(before.read(info))
                for _ in range(more // len(BLOCK) if info.filename.endswith("data/0") else 0):
                    record.write(BLOCK)
    return buffer.getvalue()


CHECKPOINTS = {
    "a pickle bomb": lambda folder: signed(pickle.dumps(Bomb(folder / "ran"))),
    "a pickle bomb as torch saves it": lambda folder: signed(saved({"network": Bomb(folder / "ran")})),
    "a zip bomb": lambda folder: signed(squeezed(saved({"network": torch.zeros(100)}), 800 * 2**20)),
    "a state of texts": lambda folder: signed(saved({"network": "none"})),
    "a list": lambda folder: signed(saved([1, 2, 3])),
    "an enormous nothing": None,
}


@pytest.mark.parametrize("kind", cases(CHECKPOINTS, "a zip bomb"))
def test_a_hostile_checkpoint_is_refused_and_not_run(kind, run):
    make = CHECKPOINTS[kind]
    sparse(run / "checkpoint.pt") if make is None else (run / "checkpoint.pt").write_bytes(make(run.parent))
    (run / "checkpoint.previous.pt").unlink()
    command = ("train", "t.csv", "--run-dir", "run", "--epochs", 2, "--net.width", 8)
    refused(agrlearn(*command, folder=run.parent), "checkpoint", "--fresh")
    assert not (run.parent / "ran").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": "1"}, {"epoch": -1}, {"epoch": 10**9}, {"step": None}, {"step": -3}, {"step": 10**9},
        {"seconds": "x"}, {"epoch_seconds": "x"}, {"records": 5}, {"records": [{"epoch": 1}]}, {"records": []},
        {"totals": []}, {"totals": {"loss": 0}},
        {"optimizer": {}}, {"optimizer": None}, {"network": {}}, {"best_weights": {"x": 1}}, {"best_epoch": "x"},
        {"skipped_in_a_row": "x"}, {"averaged": 3}, {"averaged": -1}, {"average": {"x": torch.zeros(2)}},
        {"average": [1], "averaged": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_checkpoint_with_values_that_cannot_be_is_refused(change, tmp_path):
    from agrlearn.errors import RunError

    data = LabelledSet(torch.randn(20, 3), torch.arange(20) % 2, ("a", "b"))
    recipe = Recipe(epochs=2, batch_size=8)

    def network():
        return build_network("mlp", object_shape=(3,), num_classes=2, fold=2, width=4)

    fit(network(), data, recipe, run_dir=tmp_path)
    file = tmp_path / "checkpoint.pt"
    state = torch.load(io.BytesIO(file.read_bytes()[32:]), weights_only=True)
    file.write_bytes(signed(saved({**state, **change})))
    with pytest.raises(RunError, match="does not fit this run") as caught:
        fit(network(), data, recipe, run_dir=tmp_path)
    assert "\n" not in str(caught.value)
