"""The rows of a table in blocks of columns; numbers in plain lines are read by numpy, all else cell by cell."""

from collections.abc import Container, Iterator
from itertools import chain, islice
from pathlib import Path

import numpy

from agrlearn.data.cells import LARGEST_NUMBER
from agrlearn.data.columns import Cells
from agrlearn.data.delimited import Layout, Refuse, lines_of, parse_cells, recognise_layout
from agrlearn.data.table_files import READERS, TEXT_ENDINGS, read_header, rows_by_name, table_ending, usual_delimiter
from agrlearn.errors import look_up

_ROWS = 4096

Block = tuple[list[int], dict[str, Cells]]
"""The numbers of some rows in the file, and their cells by column."""


def read_blocks(path: Path, refuse: Refuse, remarks: list[str], numbers: Container[str]) -> Iterator[Block]:
    """The rows that `READERS` give, in blocks.

    Args:
        numbers: the columns that are expected to be numbers. In blocks where all are, they come as arrays.
    """
    read = look_up(READERS, table_ending(path), "kind of table")
    if table_ending(path) not in TEXT_ENDINGS:
        rows = read(path, refuse, remarks)
        while block := list(islice(rows, _ROWS)):
            yield [number for number, _ in block], {name: [row[name] for _, row in block] for name in block[0][1]}
        return
    layout = recognise_layout(path, usual_delimiter(path))
    remarks += layout.remarks
    lines = lines_of(path, refuse, layout.encoding)
    before, header = read_header(path, lines, refuse, layout)
    while header and (chunk := list(islice(lines, _ROWS))):
        last = before + len(chunk)
        plain = _read_plain(chunk, layout, header, numbers)
        if plain is not None:
            yield list(range(before + 1, last + 1)), plain
            before = last
            continue
        found = []
        # A cell in quotes may go on below the chunk.
        for number, cells in parse_cells(path, chain(chunk, lines), refuse, layout, before):
            before = number
            found.append((number, cells))
            if number >= last:
                break
        if block := list(rows_by_name(found, header, refuse)):
            yield [number for number, _ in block], {name: [row[name] for _, row in block] for name in header}


def _read_plain(
    lines: list[str], layout: Layout, header: list[str], numbers: Container[str]
) -> dict[str, Cells] | None:
    """The cells of lines in which nothing needs care; None if something does."""
    text, delimiter = "".join(lines), layout.delimiter
    if '"' in text or "\0" in text or (delimiter == ";" and "," in text):
        return None
    if {line.count(delimiter) for line in lines} != {len(header) - 1}:
        return None
    places = {name: place for place, name in enumerate(header)}
    chosen = [name for name in header if name in numbers]
    found: dict[str, Cells] = {}
    if chosen:
        try:
            values = numpy.loadtxt(
                lines, delimiter=delimiter, comments=None, usecols=[places[name] for name in chosen], ndmin=2
            )
        except ValueError:
            return None
        # Also false for NaN.
        if len(values) != len(lines) or not (numpy.abs(values) <= LARGEST_NUMBER).all():
            return None
        found = dict(zip(chosen, numpy.ascontiguousarray(values.T), strict=True))
    others = [name for name in header if name not in found]
    if others:
        # The cells from the first that is needed on, in one list: a list for each row would keep the collector busy.
        first = places[others[0]]
        count = len(header) - first
        cells = [cell for line in lines for cell in line.rstrip("\r\n").rsplit(delimiter, count)[-count:]]
        for name in others:
            column = cells[places[name] - first :: count]
            found[name] = column if delimiter == "\t" else [cell.lstrip(" ") for cell in column]
    return {name: found[name] for name in header}
