"""python -m benchmarks [NAME ...]: print tables of ratios, and write them to results/benchmarks.md.

Without a name, all but the long one; a name's table replaces the one that the file had of it.
"""

import inspect
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from agrlearn.errors import AgrLearnError, look_up
from agrlearn.files import write_atomically
from benchmarks.critic import regularizer
from benchmarks.data import data
from benchmarks.dial import dial
from benchmarks.growth import growth
from benchmarks.information import beside_mist, information
from benchmarks.layout import layout
from benchmarks.loop import fit_over_a_loop
from benchmarks.mimo import mimo
from benchmarks.prediction import prediction
from benchmarks.reports import many_runs
from benchmarks.seeds import many_seeds
from benchmarks.sentences import sentence_cnn
from benchmarks.small import small_networks
from benchmarks.startup import start_up
from benchmarks.steps import training_steps
from benchmarks.tables import long_tables
from benchmarks.theory import bottleneck_curves

RESULTS = Path(__file__).parents[1] / "results" / "benchmarks.md"
BENCHMARKS: dict[str, tuple[str, Callable[[], list[str]]]] = {
    "steps": ("Training step", training_steps),
    "regularizer": ("Regularizer", regularizer),
    "loop": ("Library over a hand-written loop", fit_over_a_loop),
    "small": ("Small networks", small_networks),
    "seeds": ("Many seeds", many_seeds),
    "data": ("Data", data),
    "prediction": ("Prediction", prediction),
    "dial": ("Prediction dial", dial),
    "tables": ("Long tables", long_tables),
    "sentences": ("Sentence CNN", sentence_cnn),
    "theory": ("Theory", bottleneck_curves),
    "mist": ("Information", beside_mist),
    "start-up": ("Start-up", start_up),
    "mimo": ("Neighbours", mimo),
    "layout": ("Memory layout and compilation", layout),
    "growth": ("Growth", growth),
    "reports": ("Reports", many_runs),
}
LONG = {"information": ("Estimates of mutual information", information)}


def main() -> None:
    torch.set_num_threads(1)
    try:
        chosen = {name: look_up(BENCHMARKS | LONG, name, "benchmark") for name in sys.argv[1:] or BENCHMARKS}
    except AgrLearnError as error:
        sys.exit(f"benchmarks: {error}")
    if len(chosen) > 1:  # each in a process of its own, so that none leaves memory or threads to the next
        for name in chosen:
            subprocess.run([sys.executable, "-m", "benchmarks", name], check=True)
        return
    for name, (title, benchmark) in chosen.items():
        print(f"\n## {title}\n", flush=True)
        start = time.perf_counter()
        lines = [inspect.getdoc(benchmark) or "", "", f"`python -m benchmarks {name}`:", "", *benchmark()]
        print("\n".join(lines), f"\n({time.perf_counter() - start:.0f} s)", flush=True)
        if name in BENCHMARKS:
            write_section(title, "\n".join(lines))


def write_section(title: str, text: str) -> None:
    """Put a table into the file, in place of the one with the same title."""
    before = RESULTS.read_text() if RESULTS.exists() else ""
    parts = re.split(r"^## (.+)\n", before, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True)) | {title: text}
    known = [name for name, _ in BENCHMARKS.values()]
    head = (
        "# Speed, as ratios\n\n"
        "Made by `./run bench`. One thread, float32; the things compared take turns, every ratio is the median over\n"
        "rounds with its quartiles beside it. Where two ways to do one thing are compared, they give equal values,\n"
        "or the benchmark fails.\n"
        f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}, a shared machine.\n\n"
    )
    body = "".join(f"## {name}\n\n{sections[name].strip()}\n\n" for name in known if name in sections)
    RESULTS.parent.mkdir(exist_ok=True)
    write_atomically(RESULTS, (head + body).rstrip() + "\n")


if __name__ == "__main__":
    main()
