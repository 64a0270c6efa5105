"""A table that is read block by block gives what it gives as a whole: objects, labels, names, bad rows, errors."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from agrlearn.data import table_blocks
from agrlearn.data.streamed import stream_table
from agrlearn.data.tables import read_table
from agrlearn.errors import DataError

CLASSES = ("no", "yes")


def rows(count=60):
    random = np.random.default_rng(0)
    numbers, words = random.normal(size=(count, 3)) * [1, 100, 1e-2], random.choice(["red", "green", "blue"], count)
    return [
        [f"{a:.6g}", f"{b:.3f}", f"{c:.6f}", word, f"2024-0{1 + i % 9}-1{i % 10}", CLASSES[i % 2]]
        for i, ((a, b, c), word) in enumerate(zip(numbers.tolist(), words, strict=True))
    ]


HEADER = ["size", "mass", "speed", "colour", "day", "label"]


@pytest.fixture
def preparation(tmp_path):
    file = tmp_path / "train.csv"
    file.write_text("\n".join(",".join(row) for row in [HEADER, *rows(200)]))
    return read_table(file).preparation


@pytest.fixture(autouse=True)
def few_rows_in_a_block(monkeypatch):
    monkeypatch.setattr(table_blocks, "_ROWS", 7)


def changed(*cells):
    """The table with some cells replaced: (row, column, cell)."""
    table = [HEADER, *rows()]
    for row, column, cell in cells:
        table[row][HEADER.index(column)] = cell
    return table


def text(table, delimiter=",", end="\n"):
    return end.join(delimiter.join(row) for row in table) + end


def with_column(name, cells, place=0):
    return [[*row[:place], cell, *row[place:]] for row, cell in zip(changed(), [name, *cells], strict=True)]


PLAIN = text(changed())
LINES = PLAIN.splitlines(keepends=True)
TABLES = {
    "plain": PLAIN,
    "lines of Windows": text(changed(), end="\r\n"),
    "no end of the last line": PLAIN[:-1],
    "spaces after commas": PLAIN.replace(",", ", "),
    "semicolons and decimal commas": PLAIN.replace(",", ";").replace(".", ","),
    "bars": PLAIN.replace(",", "|"),
    "blank lines": "".join(f"{line}{'  ' if i % 11 == 5 else ''}".replace("  ", "\n") for i, line in enumerate(LINES)),
    "gaps": text(changed((3, "size", ""), (20, "mass", "NA"), (40, "day", "?"), (41, "colour", ""))),
    "numbers as only Python reads them": text(changed((9, "mass", "1_000"), (30, "size", "  7 "), (31, "size", "٣"))),
    "a cell with a line in it": text(changed((14, "colour", '"re\nd"'), (28, "colour", '"a,b"'))),
    "a label in quotes": text(changed((14, "label", '"yes"'))),
    "labels with blanks": text(changed((14, "label", ""), (15, "label", " yes "))),
    "strange labels": text(changed(*((row, "label", "maybe") for row in range(1, 61)))),
    "no labels at all": text(changed(*((row, "label", "") for row in range(1, 61)))),
    "no column of labels": text([row[:-1] for row in changed()]),
    "identifiers": text(with_column("who", [f"p{i}x" for i in range(60)])),
    "numbers that name the rows": text(with_column("patient id", [str(1000 + 3 * i) for i in range(60)], place=2)),
    "identifiers with a blank": text(with_column("who", [f"p{i}x" if i != 30 else "" for i in range(60)])),
    "a column of no use": text(with_column("notes", ["fine"] * 60, place=6)),
    "columns in another order": text([row[::-1] for row in changed()]),
}
BAD = {
    "a word in a number": text(changed((10, "mass", "heavy"), (33, "speed", "inf"))),
    "too large a number": text(changed((10, "mass", "1e39"))),
    "a wrong date": text(changed((50, "day", "yesterday"))),
    "too many cells": "".join([*LINES[:20], LINES[20].replace("\n", ",more\n"), *LINES[21:]]),
    "too few cells": "".join([*LINES[:61][:-1], "1,2\n"]),
    "a line that is no UTF-8": "".join([*LINES[:30], LINES[30].replace(",", ",\udcff", 1), *LINES[31:]]),
    "bad identified rows": text(
        [[*row, f"p{i}x" if i else "who"] for i, row in enumerate(changed((10, "mass", "heavy")))]
    ),
}


def whole(file, preparation, **options):
    source = read_table(file, labels=False, preparation=preparation, **options)
    part, labels = source.train, source.train.labels
    known = labels is not None and not set(labels).isdisjoint(CLASSES)
    return part.objects, labels if known else None, part.names, source.bad, source.remarks


def streamed(file, preparation, size=13, **options):
    found = stream_table(file, preparation, CLASSES, **options)
    parts = list(found.parts(size))
    assert len(found) == sum(len(part) for part in parts)
    labels = None if parts[0].labels is None else [label for part in parts for label in part.labels]
    names = (parts[0].names.column, [name for part in parts for name in part.names.values])
    return torch.cat([part.objects for part in parts]), labels, names, found.source.bad, found.source.remarks


@pytest.mark.parametrize("name", TABLES)
def test_a_table_in_blocks_is_the_table_as_a_whole(name, preparation, tmp_path):
    file = tmp_path / "new.csv"
    file.write_bytes(TABLES[name].encode())
    objects, *others = whole(file, preparation)
    in_blocks, *its_others = streamed(file, preparation)
    assert torch.equal(in_blocks, objects)
    assert its_others == others


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_named_and_left_out_as_in_a_table_as_a_whole(name, preparation, tmp_path):
    file = tmp_path / "new.csv"
    file.write_bytes(BAD[name].encode(errors="surrogateescape"))
    errors = []
    for read in (whole, streamed):
        with pytest.raises(DataError, match="row ") as error:
            read(file, preparation)
        errors.append(str(error.value))
    assert errors[0] == errors[1]
    objects, *others = whole(file, preparation, skip_bad=True)
    in_blocks, *its_others = streamed(file, preparation, skip_bad=True)
    assert torch.equal(in_blocks, objects)
    assert its_others == others
    assert its_others[2]  # bad rows


@pytest.mark.parametrize("content", ["", "size,mass\n", "1,2.5\n3,4.5\n", PLAIN.replace("mass", "weight"), "x" * 1001])
def test_a_table_that_is_none_gets_the_sentence_of_a_table_as_a_whole(content, preparation, tmp_path):
    file = tmp_path / "new.csv"
    file.write_text(content)
    sentences = []
    for read in (whole, streamed):
        with pytest.raises(DataError) as error:
            read(file, preparation, skip_bad=True)
        sentences.append(str(error.value))
    assert sentences[0] == sentences[1]


def test_other_kinds_of_tables_come_in_blocks_too(preparation, tmp_path):
    tabs, packed, lines = tmp_path / "new.tsv", tmp_path / "new.csv.gz", tmp_path / "new.jsonl"
    tabs.write_text(text(changed(), "\t"))
    packed.write_bytes(gzip.compress(PLAIN.encode("utf-16")))
    lines.write_text("".join(json.dumps(dict(zip(HEADER, row, strict=True))) + "\n" for row in changed()[1:]))
    for file in (tabs, packed, lines):
        objects, *others = whole(file, preparation)
        in_blocks, *its_others = streamed(file, preparation)
        assert torch.equal(in_blocks, objects)
        assert its_others == others


def test_plain_numbers_are_read_by_numpy_and_only_odd_lines_by_hand(preparation, tmp_path, monkeypatch):
    parsed = []

    def parse(path, lines, *others):
        found = real(path, lines, *others)
        return (row for row in found if parsed.append(row[0]) is None)

    real = table_blocks.parse_cells
    monkeypatch.setattr(table_blocks, "parse_cells", parse)
    file = tmp_path / "new.csv"
    file.write_text(text(changed((30, "colour", '"red"'))))
    stream_table(file, preparation, CLASSES)
    assert parsed == list(range(30, 37))  # the block of seven that row 31 is in


_MEASURE = """
import sys
from pathlib import Path
from agrlearn.data.streamed import stream_table
from agrlearn.data.tables import read_table

def memory(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))

preparation = read_table(Path(sys.argv[1])).preparation
before = memory("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the high-water mark falls to what is used now
for part in stream_table(Path(sys.argv[2]), preparation, ("no", "yes")).parts(4096):
    pass
print(memory("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the memory is read from /proc")
def test_a_long_table_takes_no_more_memory_than_a_short_one(tmp_path):
    short, long = tmp_path / "short.csv", tmp_path / "long.csv"
    header = ",".join(f"x{i}" for i in range(20)) + ",label\n"
    lines = [
        ",".join(f"{(i * (place + 1)) % 97 / 7:.5f}" for place in range(20)) + f",{CLASSES[i % 2]}\n"
        for i in range(10_000)
    ]
    short.write_text(header + "".join(lines))
    long.write_text(header + "".join(lines * 8))
    found = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(short), str(long)], capture_output=True, text=True, check=True
    )
    # As a list of rows, 80,000 rows of 21 cells would take 100 MB.
    assert int(found.stdout) < 10_000
