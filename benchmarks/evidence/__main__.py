"""Do groups win? Every method on every data set, on the same splits.

python -m benchmarks.evidence run FOLDER [DATA ...]   train what is not done, into results/evidence/DATA.json
python -m benchmarks.evidence fresh FOLDER            write tables that had no part in choosing the default, for run
python -m benchmarks.evidence embed FOLDER            MiniLM's embeddings of the reviews in FOLDER, for run
python -m benchmarks.evidence write                   results/evidence.md and its pictures from what is done

FOLDER holds the data: tables vehicle.npz, vowel.npz and so on, each with arrays x and y, and the published files of
Movie Review, Subjectivity and Fashion-MNIST. What is done is not run again.
"""

import os
import sys
from pathlib import Path

from agrlearn.errors import AgrLearnError, look_up
from benchmarks.evidence.embeddings import embed
from benchmarks.evidence.fresh import write_fresh
from benchmarks.evidence.methods import DATA_SETS
from benchmarks.evidence.page import draw_gains, draw_ranks, page
from benchmarks.evidence.store import RESULTS, run


def main(arguments: list[str]) -> None:
    match arguments:
        case ["run", folder, *names]:
            for name in names:
                look_up(DATA_SETS, name, "data set")
            os.chdir(_existing(folder))
            for name in names or DATA_SETS:
                run(name, Path())
        case ["fresh", folder]:
            write_fresh(_existing(folder))
        case ["embed", folder]:
            embed(_existing(folder))
        case ["write"]:
            RESULTS.with_suffix(".md").write_text(page())
            draw_ranks(RESULTS.parent / "evidence-ranks.png")
            draw_gains(RESULTS.parent / "evidence-gains.svg")
        case _:
            sys.exit(__doc__)


def _existing(folder: str) -> Path:
    if not Path(folder).is_dir():
        sys.exit(f"there is no folder {folder}; name the one with the data")
    return Path(folder)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except AgrLearnError as error:
        sys.exit(str(error))
