"""What a report over many runs needs."""

import shutil
import tempfile
import time
from pathlib import Path

import numpy

from agrlearn.reporting.make import report
from agrlearn.runs.spec import RunSpec
from agrlearn.runs.train import make_network, open_data, train_run
from agrlearn.training.recipe import Recipe
from benchmarks.growth import peak_megabytes
from benchmarks.made import vectors

_SEEDS = 7


def many_runs() -> list[str]:
    """`agrlearn.report` over settings of 7 seeds each, with the dial.

    MLPs of width 512 on 12,000 rows of 64 numbers, a tenth of them held out. Aim: memory that does not grow
    with the runs.
    """
    lines = ["| settings | runs | memory, MB | seconds |", "|---:|---:|---:|---:|"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        data = vectors(12_000, features=64)
        numpy.savez(folder / "data.npz", x=data.objects.numpy(), y=data.labels.numpy())
        for settings in (1, 5, 20):
            runs = folder / str(settings)
            for seed in range(_SEEDS):
                trained = folder / f"seed{seed}"
                if not trained.exists():
                    _train(folder / "data.npz", seed, trained)
                for number in range(settings):
                    shutil.copytree(trained, runs / f"{number}-seed{seed}")
            start = time.perf_counter()
            peak = peak_megabytes(lambda runs=runs: report(runs, folder / "page.html", dial=True))
            lines.append(f"| {settings} | {settings * _SEEDS} | {peak:.0f} | {time.perf_counter() - start:.0f} |")
    return lines


def _train(data: Path, seed: int, run_dir: Path) -> None:
    net = {"width": 512, "join": "features"}
    recipe = Recipe(epochs=1, seed=seed)
    spec = RunSpec(data=str(data), network="mlp", net=net, fold=2, test_fraction=0.1, recipe=recipe)
    opened = open_data(spec)
    train_run(spec, run_dir, opened, make_network(spec, opened))
