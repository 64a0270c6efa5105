"""Does the information penalty help? On the tables of the evidence, with noise, beside VIB's penalty.

python -m benchmarks.penalty run FOLDER [DATA ...]   train what is not done, into results/penalty/DATA.json
python -m benchmarks.penalty write                   results/penalty.md from what is done

FOLDER holds the tables, as for benchmarks.evidence.
"""

import os
import sys
from pathlib import Path

from agrlearn.errors import look_up
from agrlearn.evaluation.metrics import METRICS
from agrlearn.files import markdown_table
from agrlearn.studies.compare import Method, groups_of, with_settings
from agrlearn.training.defaults import DEFAULT_GROUPS
from benchmarks.evidence.methods import DATA_SETS, SECTIONS
from benchmarks.evidence.page import Lines, short_name, summary
from benchmarks.evidence.store import lines_of, run_methods

RESULTS = Path(__file__).parent.parent / "results" / "penalty"
SPLITS = 5
TABLES = [name for name in SECTIONS["Tables"] if name != "spam.npz"]
ALPHAS = (0.001, 0.01, 0.1, 1.0)
NOISE = 1.0
PENALTIES = {"J": {}, "VIB": {"bound": "vib"}}
_INTRODUCTION = f"""# Does the penalty help?

Made by `python -m benchmarks.penalty run FOLDER` and `python -m benchmarks.penalty write` from the runs in
`results/penalty`. The estimator's network (dropout 0.1), fold 1 and fold 2 by the mean, without and with Gaussian noise
of standard deviation {NOISE:g} on the bottleneck T, and with a penalty of weight α on what T keeps of X. *J*: the
default critic's. *VIB*: the divergence of p(t|x) from a standard normal. α is chosen from
{", ".join(f"{alpha:g}" for alpha in ALPHAS)} on a fifth of the training part, for each split.

Mean ± standard error over {SPLITS} splits. Over all tables, *error* and *NLL* are the geometric means of the ratio to
*fold 1*; *wins / losses*: by the paired t test at 5 % with Holm's correction.
"""


def methods_for(data: str) -> list[Method]:
    """Fold 1 and 2, without noise, with it, and with each penalty."""
    ordinary = with_settings(DATA_SETS[data].spec, dropout=0.1)
    found = []
    for title, spec in (("fold 1", ordinary), ("fold 2", groups_of(ordinary, **DEFAULT_GROUPS))):
        noisy = with_settings(spec, noise=NOISE)
        found += [Method(title, (spec,)), Method(f"{title}, noise", (noisy,))]
        for name, bound in PENALTIES.items():
            tries = tuple(with_settings(noisy, alpha=alpha, **bound) for alpha in ALPHAS)
            found.append(Method(f"{title}, {name}", tries))
    return found


def page() -> str:
    """The page, from what is done."""
    found: Lines = {}
    for data in TABLES:
        lines = lines_of(RESULTS / f"{data}.json", methods_for(data), SPLITS, "fold 1")
        if lines is not None and len(lines) == len(methods_for(data)):
            found[data] = lines
    text = [_INTRODUCTION]
    if found:
        names = list(next(iter(found.values())))
        text += [f"## Over {len(found)} tables\n", summary(found, names, "fold 1")]
        for metric in ("error", "nll", "ece"):
            about = METRICS[metric]
            rows = [
                (short_name(data), *(about.mean_text(lines[name].scores[metric]) for name in names))
                for data, lines in found.items()
            ]
            text += [f"## {about.label}\n", markdown_table(("", *names), rows)]
    return "\n".join(text)


def main(arguments: list[str]) -> None:
    match arguments:
        case ["run", folder, *names]:
            for name in names:
                look_up(dict.fromkeys(TABLES), name, "table")
            if not Path(folder).is_dir():
                sys.exit(f"there is no folder {folder}; name the one with the data")
            os.chdir(folder)
            for name in names or TABLES:
                run_methods(name, methods_for(name), SPLITS, RESULTS, Path())
        case ["write"]:
            RESULTS.with_suffix(".md").write_text(page())
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
