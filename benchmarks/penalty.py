"""Does the information penalty help? On tables and sentences of the evidence, with noise, beside VIB's penalty.

python -m benchmarks.penalty run FOLDER [DATA ...]   train what is not done, into results/penalty/DATA.json
python -m benchmarks.penalty see FOLDER CIFAR_FOLDER  what J sees and α does, into results/penalty/seen.json
python -m benchmarks.penalty write                   results/penalty.md from what is done

FOLDER holds the tables, the embeddings and Movie Review, as for benchmarks.evidence, CIFAR_FOLDER the published files
of CIFAR-10.
"""

import itertools
import json
import os
import statistics
import sys
from dataclasses import asdict
from pathlib import Path

import torch

from agrlearn.data.batches import batches
from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import AgrLearnError, look_up
from agrlearn.evaluation.metrics import METRICS
from agrlearn.files import markdown_table, write_atomically
from agrlearn.grouping import GroupBatchSampler, group
from agrlearn.information.bottleneck import BottleneckRegularizer, memory_for
from agrlearn.modes import evaluating
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.runs.train import make_network, open_data
from agrlearn.studies.compare import Method, groups_of, with_settings
from agrlearn.studies.comparison import Comparison
from agrlearn.studies.paper.experiments import EXPERIMENTS
from agrlearn.studies.paper.scales import SMALL
from agrlearn.training.defaults import DEFAULT_GROUPS
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from benchmarks.evidence.methods import DATA_SETS, SECTIONS
from benchmarks.evidence.page import Lines, short_name, summary
from benchmarks.evidence.store import lines_of, run_methods

_SENTENCES = DATA_SETS["movie-review"].spec
SEEN = {
    "digits, MLP": with_settings(DATA_SETS["digits-as-vectors"].spec, fold=2, join="mean", epochs=20, batch_size=64),
    "Movie Review, sentence CNN": with_settings(_SENTENCES, fold=2, batch_size=64),
    "CIFAR-10, ResNet-18": EXPERIMENTS["table1"].rows(SMALL)[0].spec.model_copy(update={"fold": 2, "share": 0.2}),
}
SEEN_ALPHAS = (0.0, 0.001, 0.01, 0.1)
_SEEN = """J beside the bounds of I(X;T) that follow from the known noise, on held-out groups: J as recorded, a
mean over the last epoch, in which T changes; and J at the end, on training groups without learning. The aim, for it:
within 10 % of the bounds, or within 0.3 nats of log m, the most that J can show. Beside it what T tells about the two
labels of a group, at least: by the known noise, and by the heads, as the paper's third theorem has it. One seed.
"""
RESULTS = Path(__file__).parent.parent / "results" / "penalty"
SPLITS = 5
TABLES = [name for name in SECTIONS["Tables"] if name != "spam.npz"]
SENTENCES = list(SECTIONS["Sentences as embeddings"])
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


def see(folders: dict[str, Path]) -> None:
    """Train each setting once, and keep J and the known bounds after every epoch."""
    file = RESULTS / "seen.json"
    done = json.loads(file.read_text()) if file.exists() else {}
    for (name, spec), alpha in itertools.product(SEEN.items(), SEEN_ALPHAS):
        key = f"{name}, α = {alpha:g}"
        if key in done:
            continue
        spec = with_settings(spec, alpha=alpha, noise=NOISE, track_information=True, evaluate_every=1)
        data = open_data(spec, folders.get(spec.data))
        network = make_network(spec, data)
        last = fit(network, data.train, spec.recipe, data.test, progress=False).records[-1]
        at_the_end = _at_the_end(network, data.train, spec.recipe) if alpha else None
        done[key] = {"at_the_end": at_the_end, **asdict(last)}
        write_atomically(file, json.dumps(done, indent=1) + "\n")
        print(key, done[key], flush=True)


@torch.no_grad()
def _at_the_end(network: AggregatedClassifier, train_set: LabelledSet, recipe: Recipe) -> float:
    """J over an epoch in which the network does not learn."""
    regularizer = BottleneckRegularizer(network.noise, memory=memory_for(len(train_set)))
    sampler, values = GroupBatchSampler(len(train_set), network.fold, recipe.batch_size, seed=1), []
    with evaluating(network.modules()):
        for objects, _, _ in itertools.islice(batches(train_set, sampler), 60):
            means = network.bottleneck(group(objects, network.fold))
            values.append(float(regularizer.penalty(means, network.perturb(means))))
    return statistics.fmean(values[10:] if len(values) > 20 else values)  # once the memory is full


def _seen() -> list[str]:
    file = RESULTS / "seen.json"
    if not file.exists():
        return []
    rows = []
    for key, seen in json.loads(file.read_text()).items():
        lower, upper, most, j = (
            seen[name] for name in ("x_information_lower", "x_information_upper", "log_groups", "at_the_end")
        )
        good = j is not None and (0.9 * lower <= j <= 1.1 * upper or j >= most - 0.3)
        of_j = ("", "", "") if j is None else (f"{seen['information']:.2f}", f"{j:.2f}", "yes" if good else "no")
        of_y = (f"{seen[name]:.2f}".replace("-", "−") for name in ("y_information", "y_information_bound"))
        error = METRICS["error"].text(seen["validation_error"])
        rows.append((key, *of_j, f"{lower:.2f} to {upper:.2f}", f"{most:.2f}", *of_y, error))
    header = (
        "fold 2, noise 1", "J, last epoch", "J, end", "within the aim", "I(X;T)", "log m", "I(Y;T)", "by the heads",
        "error %",
    )  # fmt: skip
    return ["## What J sees, and what α does\n", _SEEN, markdown_table(header, rows)]


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
    tables, sentences = _done(TABLES), _done(SENTENCES)
    text = [_INTRODUCTION]
    if tables:
        names = list(next(iter(tables.values())))
        text += [f"## Over {len(tables)} tables\n", summary(tables, names, "fold 1")]
        for metric in ("error", "nll", "ece"):
            about = METRICS[metric]
            rows = [
                (short_name(data), *(about.mean_text(lines[name].scores[metric]) for name in names))
                for data, lines in tables.items()
            ]
            text += [f"## {about.label}\n", markdown_table(("", *names), rows)]
    for data, lines in sentences.items():
        text += [f"## {short_name(data)}\n", Comparison(data, SPLITS, tuple(lines.values())).markdown()]
    return "\n".join([*text, *_seen()])


def _done(names: list[str]) -> Lines:
    """The data sets on which all methods are done."""
    found: Lines = {}
    for data in names:
        lines = lines_of(RESULTS / f"{data}.json", methods_for(data), SPLITS, "fold 1")
        if lines is not None and len(lines) == len(methods_for(data)):
            found[data] = lines
    return found


def main(arguments: list[str]) -> None:
    match arguments:
        case ["run", folder, *names]:
            for name in names:
                look_up(dict.fromkeys([*TABLES, *SENTENCES]), name, "data set")
            if not Path(folder).is_dir():
                sys.exit(f"there is no folder {folder}; name the one with the data")
            os.chdir(folder)
            for name in names or [*TABLES, *SENTENCES]:
                run_methods(name, methods_for(name), SPLITS, RESULTS, Path())
        case ["see", folder, cifar_folder]:
            see({"movie-review": Path(folder), "cifar-10": Path(cifar_folder)})
        case ["write"]:
            RESULTS.with_suffix(".md").write_text(page())
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except AgrLearnError as error:
        sys.exit(str(error))
