"""Every figure that a page quotes from a table is the one in the row and column that the page names.

Below the text that quotes them, a page names the cells in reading order, in a comment that readers do not see:

    <!-- figures
    table6-small | Movie Review, CNN | fold 1: ours; fold 2: ours, − fold 1
    table5-small | CIFAR-10 | fold 4 / Batched, 1 draw: test error %; fold 1: multiply-adds ≈ 8.8
    demo | Digits | fold 4, slots apart / Replicated: error %
    -->

That is a file (results/NAME.md), a heading in it, and rows with their columns. A row of a table with a
column *prediction* is named by both, with a slash between. The page quotes the cell as it is ("77.00 ± 0.42"), its mean
alone ("77.00"), or what stands after ≈: the mean rounded, in millions, or as per cent above 1.
"""

import re
from dataclasses import dataclass, replace
from functools import cache

import pytest

from tests.pages import DOCUMENTS, PROJECT_FILES, ROOT, name_of

COMMENT = re.compile(r"<!-- figures\n(.*?)-->", re.DOTALL)
FIGURE = re.compile(r"[+−]?\d[\d.,]* ± [\d.]*\d")
PAGES = [*DOCUMENTS, *PROJECT_FILES]
QUOTING = [page for page in PAGES if COMMENT.search(page.read_text())]


@cache
def read_tables(name: str) -> dict[tuple[str, str, str], str]:
    """The cells of a file's tables by heading, row and column; those that a name is not enough for are left out."""
    cells, ambiguous, heading, header = {}, set(), "", []
    for line in (ROOT / "results" / f"{name}.md").read_text().splitlines():
        words = [re.sub(r"^\*\w+:\* ", "", word.strip()) for word in line.strip("|").split("|")]
        if line.startswith("## "):
            heading = line[3:]
        elif not line.startswith("|"):
            header = []
        elif not header:
            header = words
        else:
            row = " / ".join(words[: 1 + (header[1] == "prediction")])
            places = [(heading, row, column) for column in header]
            ambiguous |= cells.keys() & places
            cells |= zip(places, words, strict=True)
    return {place: cell for place, cell in cells.items() if cell and place not in ambiguous}


@dataclass(frozen=True)
class Source:
    """The cell that a figure is quoted from, and how it is quoted if it is rounded."""

    file: str
    heading: str
    row: str
    column: str
    rounded: str = ""

    @property
    def cell(self) -> str:
        return read_tables(self.file)[self.heading, self.row, self.column]

    @property
    def mean(self) -> str:
        return self.cell.split(" ± ")[0]

    def find(self, text: str, start: int) -> re.Match[str] | None:
        """The first place from `start` on where the text quotes this cell."""
        quoted = "|".join(map(re.escape, [self.rounded] if self.rounded else [self.cell, self.mean]))
        return re.compile(rf"(?<![\w.,+−])(?:{quoted})(?!\d|[.,]\d| ±)").search(text, start)

    def is_rounded_rightly(self) -> bool:
        mean = float(self.mean.replace(",", "").replace("−", "-"))
        decimals = len(self.rounded.partition(".")[2])
        readings = (mean, mean / 1e6, 100 * (mean - 1))
        return not self.rounded or any(f"{reading:.{decimals}f}" == self.rounded for reading in readings)


def read_sources(comment: str) -> list[Source]:
    sources = []
    for line in comment.splitlines():
        file, heading, rows = (part.strip() for part in line.split("|"))
        for row, columns in (entry.split(":") for entry in rows.split(";")):
            for column in columns.split(","):
                name, _, rounded = column.partition("≈")
                sources.append(Source(file, heading, row.strip(), name.strip(), rounded.strip()))
    return sources


def read_passages(text: str) -> list[tuple[str, list[Source]]]:
    """The text of a page up to each comment, with the sources that the comment names, and the rest, which has none."""
    *parts, rest = COMMENT.split(text)
    passages = [(passage, read_sources(comment)) for passage, comment in zip(parts[::2], parts[1::2], strict=True)]
    return [(" ".join(passage.split()), sources) for passage, sources in [*passages, (rest, [])]]


def find_quotes(passage: str, sources: list[Source]) -> tuple[list[re.Match[str]], list[str]]:
    """Where a passage quotes its sources, in their order; and what is wrong with it."""
    quotes, faults, position = [], [], 0
    for source in sources:
        if not source.is_rounded_rightly():
            faults.append(f"{source} has {source.cell}")
        elif quote := source.find(passage, position):
            quotes.append(quote)
            position = quote.end()
        else:
            faults.append(f"{source} has {source.cell}, which the page does not quote here")
    known = {quote.start() for quote in quotes}
    faults += [f"{found[0]} has no source" for found in FIGURE.finditer(passage) if found.start() not in known]
    return quotes, faults


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_figure_of_a_page_stands_in_the_row_and_column_that_it_names(page):
    for passage, sources in read_passages(page.read_text()):
        assert find_quotes(passage, sources)[1] == []


@pytest.mark.parametrize("page", QUOTING, ids=name_of)
def test_a_figure_from_any_other_row_is_noticed(page):
    for passage, sources in read_passages(page.read_text()):
        for source, quote in zip(sources, find_quotes(passage, sources)[0], strict=True):
            rows = {row for heading, row, column in read_tables(source.file)
                    if (heading, column) == (source.heading, source.column)}  # fmt: skip
            same_column = [replace(source, row=row) for row in rows]
            others = {other.cell for other in same_column if other.mean != source.mean}
            assert others, source
            for other in others:
                changed = passage[: quote.start()] + other + passage[quote.end() :]
                assert find_quotes(changed, sources)[1], f"{other} in place of {quote[0]}"


def test_a_figure_without_a_source_and_a_source_without_a_figure_are_noticed():
    comment = "<!-- figures\ndemo | Digits | ordinary network / ordinary: error %\n-->"
    cell = read_tables("demo")["Digits", "ordinary network / ordinary", "error %"]
    mean = cell.split()[0]
    rounded = round(float(mean))
    for text, fault in (
        (f"It is {cell} %.\n{comment}", ""),
        (f"It is {mean} %.\n{comment}", ""),
        (f"It is {cell} %, not 33.15 ± 0.29.\n{comment}", "33.15 ± 0.29 has no source"),
        (f"{comment}It is {cell} %.", f"{cell} has no source"),
        (f"It is {mean[:-1]} %.\n{comment}", "does not quote"),
        (f"It is {rounded + 1} %.\n{comment.replace('%', f'% ≈ {rounded + 1}')}", f"has {cell}"),
        (f"It is {rounded} %.\n{comment.replace('%', f'% ≈ {rounded}')}", ""),
    ):
        faults = [fault for passage in read_passages(text) for fault in find_quotes(*passage)[1]]
        assert bool(faults) == bool(fault)
        assert fault in " ".join(faults)
