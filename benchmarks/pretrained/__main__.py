"""Do groups help a pretrained model? MiniLM on sentences, EfficientNet-lite0 on images, beside what a user would pick.

python -m benchmarks.pretrained run FOLDER CIFAR_FOLDER [NAME ...]  train what is not done, into results/pretrained.json
python -m benchmarks.pretrained write                               results/pretrained.md from what is done

FOLDER holds the published files of Movie Review, Subjectivity and Fashion-MNIST, CIFAR_FOLDER those of CIFAR-10. A NAME
is a data set, or speed. The weights come with the packages in neighbours.txt.
"""

import sys
from pathlib import Path

from agrlearn.errors import AgrLearnError, look_up
from benchmarks.pretrained.models import missing_packages
from benchmarks.pretrained.page import page
from benchmarks.pretrained.runs import DATA_SETS, ORDER, RESULTS, SPEED, run


def main(arguments: list[str]) -> None:
    match arguments:
        case ["run", folder, cifar_folder, *names]:
            for name in names:
                look_up({**DATA_SETS, SPEED: None}, name, "data set")
            if missing := missing_packages():
                sys.exit(f"install {', '.join(missing)}, as ./run bench does from benchmarks/neighbours.txt")
            run(Path(folder), Path(cifar_folder), names or ORDER)
        case ["write"]:
            RESULTS.with_suffix(".md").write_text(page())
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except AgrLearnError as error:
        sys.exit(str(error))
