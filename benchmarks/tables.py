"""`agrlearn predict` of a long table, over its network alone."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

from agrlearn.data.datasets import open_source
from agrlearn.networks.catalogue import build_network
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from benchmarks.timing import heading, verdict

COLUMNS = 20
SIZES = (100_000, 1_000_000)
_CHILD = """
import sys, time
from pathlib import Path
import torch
from agrlearn.cli.predict import predict as command
from agrlearn.prediction.predict import predict
from agrlearn.runs.run import Run
from benchmarks.growth import peak_megabytes
torch.set_num_threads(1)
run, table, rows = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
network = Run.open(run).network
objects = torch.randn(rows, network.description["object_shape"][0])
predict(network, objects[:1000])
start = time.perf_counter()
memory = peak_megabytes(lambda: command(run, table, output=Path(table).with_name("answers.csv")))
whole = time.perf_counter() - start
start = time.perf_counter()
predict(network, objects)
print(whole, time.perf_counter() - start, memory)
"""


def write_table(path: Path, rows: int) -> None:
    """Numbers and a label with three classes."""
    random = numpy.random.default_rng(0)
    with path.open("w") as file:
        file.write(",".join(f"x{place}" for place in range(COLUMNS)) + ",label\n")
        for start in range(0, rows, 10_000):
            values = random.normal(size=(min(10_000, rows - start), COLUMNS))
            labels = (values[:, 0] + values[:, 1] * values[:, 2] > 0).astype(int) + (values[:, 3] > 1)
            file.writelines(
                ",".join(f"{value:.6g}" for value in row) + f",{'abc'[label]}\n"
                for row, label in zip(values.tolist(), labels.tolist(), strict=True)
            )


def long_tables() -> list[str]:
    """A CSV file of 20 numbers and a label, read, prepared, predicted and written, over `predict` of as many objects.

    MLPs of two hidden layers at fold 2, pooled by the mean. Aim: at most 2. Memory: the most beside the imports.
    """
    lines = [*heading("hidden layers of", "rows", "seconds", "predict alone", "ratio", "", "memory, MB")]
    with tempfile.TemporaryDirectory() as folder:
        train, tables = Path(folder) / "train.csv", {rows: Path(folder) / f"{rows}.csv" for rows in SIZES}
        write_table(train, 2000)
        for rows, table in tables.items():
            write_table(table, rows)
        data, _ = open_source(str(train)).split(0.0)
        for width in (128, 512):
            network = build_network("mlp", object_shape=(COLUMNS,), num_classes=3, fold=2, width=width)
            fit(network, data, Recipe(epochs=1), run_dir=Path(folder) / str(width))
            for rows, table in tables.items():
                command = [sys.executable, "-c", _CHILD, str(Path(folder) / str(width)), str(table), str(rows)]
                said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                whole, alone, memory = map(float, said.splitlines()[-1].split())
                cells = (width, f"{rows:,}", f"{whole:.1f}", f"{alone:.1f}", f"{whole / alone:.2f}")
                lines.append(f"| {' | '.join(map(str, cells))} | {verdict(whole <= 2 * alone)} | {memory:.0f} |")
    return lines
