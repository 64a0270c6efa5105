"""python -m benchmarks [NAME ...]: print tables of ratios; all but the long one by default."""

import sys

import torch

from agrlearn.errors import AgrLearnError, look_up
from benchmarks.core import BENCHMARKS as CORE
from benchmarks.critic import critic
from benchmarks.growth import growth
from benchmarks.information import information

BENCHMARKS = {**CORE, "critic": critic, "growth": growth}
LONG = {"information": information}


def main() -> None:
    torch.set_num_threads(1)
    try:
        chosen = {name: look_up(BENCHMARKS | LONG, name, "benchmark") for name in sys.argv[1:] or BENCHMARKS}
    except AgrLearnError as error:
        sys.exit(f"benchmarks: {error}")
    print("One thread, float32; every ratio is the median over rounds in which the two took turns.")
    for name, benchmark in chosen.items():
        print(f"\n## {name}\n")
        print("\n".join(benchmark()), flush=True)


if __name__ == "__main__":
    main()
