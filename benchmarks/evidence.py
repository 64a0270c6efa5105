"""Do groups win? Every method on every data set, on the same splits: results/evidence.

    python -m benchmarks.evidence run TABLES [DATA ...]   train what is not done, into results/evidence/DATA.json
    python -m benchmarks.evidence write                   results/evidence.md from what is done

TABLES is a folder with vehicle.npz, vowel.npz and so on, each with arrays x and y. One file a data set holds all of its
runs: what is done is not run again.
"""

import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agrlearn.evaluation.metrics import METRICS
from agrlearn.evaluation.statistics import holm
from agrlearn.files import markdown_table
from agrlearn.networks.catalogue import NETWORKS, network_defaults
from agrlearn.runs.jobs import Resources
from agrlearn.runs.many import Job, run_many
from agrlearn.runs.result import FinishedRun
from agrlearn.runs.spec import RunSpec
from agrlearn.studies.compare import (
    DEFAULT_GROUPS,
    DEFAULT_RECIPE,
    TEST_FRACTION,
    Method,
    compare_methods,
    groups_of,
    make_methods,
    name_of,
    with_settings,
)
from agrlearn.studies.comparison import Line

RESULTS = Path(__file__).parent.parent / "results" / "evidence"
TABLES = (
    "vehicle.npz", "vowel.npz", "glass.npz", "sonar.npz", "pima.npz", "german.npz", "segmentation.npz",
    "ionosphere.npz", "digits-as-vectors", "breast-cancer", "wine", "spam.npz",
)  # fmt: skip
SEEDS = 10
GROUPS = tuple(
    {"fold": fold, "join": join, "repetition": repetition}
    for fold in (2, 4) for join in ("mean", "max") for repetition in (0.0, 0.2, 0.5)
)  # fmt: skip
CHOSEN = "groups, chosen"
"""Of three settings of groups, the one that a validation part chooses: as many tries as each remedy has."""
_TRIES = ({"fold": 2, "join": "mean"}, {"fold": 2, "join": "max", "repetition": 0.2}, {"fold": 4, "join": "mean"})


def methods_for(data: str) -> list[Method]:
    """All rivals and all settings of groups."""
    spec = RunSpec(data=data, network="mlp", fold=1, test_fraction=TEST_FRACTION, recipe=DEFAULT_RECIPE)
    also = [settings for settings in GROUPS if settings != DEFAULT_GROUPS]
    methods = make_methods(spec, also=also)
    controls = [Method(f"ordinary, objects as fold {fold}", (_seeing_more(spec, fold),)) for fold in (2, 4)]
    controls.append(Method("ordinary, rate as groups", (groups_of(spec, fold=1),)))
    chosen = Method(CHOSEN, tuple(groups_of(spec, **settings) for settings in _TRIES), "groups")
    return [methods[0], *controls, *methods[1:], chosen]


def _seeing_more(spec: RunSpec, times: int) -> RunSpec:
    """Fold 1 that sees as many objects in as many steps as that fold does."""
    recipe = spec.recipe
    return with_settings(spec, batch_size=recipe.batch_size * times, epochs=recipe.epochs * times)


def run(data: str) -> list[Line]:
    """Train what is not done; all results of a data set end up in one file."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        unpack(data, folder)

        def do(jobs: list[Job]) -> None:
            print(f"{data}: {len(jobs)} runs", flush=True)
            failed: list[str] = []
            count = 0

            def on_done(job: Job, outcome: Any) -> None:
                nonlocal count
                count += 1
                if isinstance(outcome, Exception):
                    failed.append(f"{job.label}, seed {job.spec.seed}: {outcome}")
                if count % 50 == 0:
                    pack(data, folder)  # a stopped command goes on from here

            run_many(jobs, Resources(), on_done=on_done)
            pack(data, folder)
            for sentence in failed:
                print(f"failed: {sentence}", flush=True)

        return compare_methods(methods_for(data), folder, seeds=SEEDS, run=do)


def pack(data: str, folder: Path) -> None:
    """Bring the small files of finished runs together into one, with the defaults that they share said once."""
    runs = []
    for file in sorted((folder / "cells").glob("*.json")):
        found = FinishedRun.model_validate_json(file.read_text())
        scores = {name: float(f"{value:.6g}") for name, value in vars(found.result.protocols["Replicated"]).items()}
        runs.append(
            {
                "file": file.stem, "spec": found.spec.model_dump(mode="json", exclude_defaults=True), "scores": scores,
                "seconds": round(found.result.seconds, 3), "parameters": found.result.parameters,
                "steps": found.result.steps, "objects_seen": found.result.objects_seen, "machine": found.result.machine,
            }
        )  # fmt: skip
    shared = {
        "data": data, "versions": found.versions, "format": found.format, "machine": found.result.machine,
        "defaults": RunSpec(data=data).model_dump(mode="json"), "networks": {n: network_defaults(n) for n in NETWORKS},
    }  # fmt: skip
    lines = ",\n  ".join(json.dumps({k: v for k, v in one.items() if k != "machine"}) for one in runs)
    RESULTS.mkdir(parents=True, exist_ok=True)
    head = ",\n ".join(f'"{name}": {json.dumps(value)}' for name, value in shared.items())
    draft = RESULTS / f".{data}.json"
    draft.write_text(f'{{{head},\n "runs": [\n  {lines}\n ]}}\n')
    draft.replace(RESULTS / f"{data}.json")


def unpack(data: str, folder: Path) -> None:
    """The small files again, for `compare_methods` to find."""
    file = RESULTS / f"{data}.json"
    if not file.exists():
        return
    about = json.loads(file.read_text())
    (folder / "cells").mkdir(parents=True)
    for one in about["runs"]:
        spec = {**about["defaults"], **one["spec"]}
        spec["recipe"] = {**about["defaults"]["recipe"], **one["spec"].get("recipe", {})}
        spec["net"] = {**about["networks"].get(spec["network"], {}), **spec["net"]}
        result = {
            "protocols": {"Replicated": one["scores"]}, "curve": [], "machine": about["machine"],
            **{name: one[name] for name in ("seconds", "parameters", "steps", "objects_seen")},
        }  # fmt: skip
        whole = {"format": about["format"], "versions": about["versions"], "spec": spec, "result": result}
        (folder / "cells" / f"{one['file']}.json").write_text(json.dumps(whole))


def finished(names: tuple[str, ...] = TABLES) -> Iterator[tuple[str, list[Line]]]:
    """The lines of every data set of which all runs are done."""
    for data in names:
        missing: list[Job] = []
        if (RESULTS / f"{data}.json").exists():
            with tempfile.TemporaryDirectory() as scratch:
                unpack(data, Path(scratch))
                lines = compare_methods(methods_for(data), Path(scratch), seeds=SEEDS, run=missing.extend)
                if not missing:
                    yield data, lines


def page() -> str:
    """results/evidence.md, from what is done."""
    found = {data: {line.name: line for line in lines} for data, lines in finished()}
    names = list(dict.fromkeys(name for lines in found.values() for name in lines))
    everywhere = [name for name in names if all(name in lines for lines in found.values())]
    settings = [name for name in everywhere if name.startswith("fold ")]
    rivals = [name for name in everywhere if name not in settings]
    default = name_of(DEFAULT_GROUPS)
    shown = [*rivals[: rivals.index("ensemble of 4") + 1], default, *rivals[rivals.index("ensemble of 4") + 1 :]]
    text = [
        "# Do groups win? Tables\n",
        "Made by `python -m benchmarks.evidence run TABLES` and `python -m benchmarks.evidence write`, from the runs "
        f"in `results/evidence`. {SEEDS} splits of each table (a quarter of every class to test on), the same for all "
        "methods; the strength of each remedy, of three, is chosen on a fifth of each training part. All networks are "
        "`mlp` by the estimator's recipe; at the end of the list are scikit-learn's classifiers with its defaults, for "
        "context. Mean ± standard error over splits.\n",
    ]
    for metric in ("error", "nll"):
        about = METRICS[metric]
        rows = [
            (data.removesuffix(".npz"), *(about.mean_text(lines[n].scores[metric]) for n in shown))
            for data, lines in found.items()
        ]
        text += [f"## {about.title}\n", markdown_table((about.label, *shown), rows)]
    text += [
        "## Over all tables\n",
        "*error*, *NLL*: geometric mean of the ratio to the ordinary network (errors below 0.1 % count as 0.1 %). "
        "*rank*: mean rank by error among the methods of the table. *wins/losses*: tables on which the error is "
        "significantly lower or higher than the ordinary network's, by the paired t test at 5 % with Holm's "
        "correction over the tables. *prediction*, *training*: multiply-adds and seconds over the ordinary network's; "
        "the seconds of remedies include choosing their strength.\n",
        _summary(found, shown), "Settings of groups:\n", _summary(found, ["ordinary network", *settings]),
    ]  # fmt: skip
    return "\n".join(text)


def _summary(found: dict[str, dict[str, Line]], names: list[str]) -> str:
    """A row for each method over all data sets."""

    def ratio(lines: dict[str, Line], name: str, metric: str) -> float:
        least = 0.001 if metric == "error" else 1e-6
        mine, base = (max(least, lines[n].scores[metric].value) for n in (name, "ordinary network"))
        return mine / base

    rows = []
    for name in names:
        ratios = {
            m: statistics.geometric_mean(ratio(lines, name, m) for lines in found.values()) for m in ("error", "nll")
        }
        ranks = [
            1 + sum(lines[o].scores["error"].value < lines[name].scores["error"].value for o in names)
            + 0.5 * sum(lines[o].scores["error"].value == lines[name].scores["error"].value for o in names if o != name)
            for lines in found.values()
        ]  # fmt: skip
        ps = holm([1.0 if math.isnan(lines[name].p) else lines[name].p for lines in found.values()])
        signs = [lines[name].differences["error"].value for lines in found.values()]
        wins = sum(p < 0.05 and sign < 0 for p, sign in zip(ps, signs, strict=True))
        losses = sum(p < 0.05 and sign > 0 for p, sign in zip(ps, signs, strict=True))
        first = next(iter(found.values()))
        costs = [
            (lines[name].multiply_adds or 0) / (lines["ordinary network"].multiply_adds or 1)
            for lines in found.values()
        ]
        seconds = [lines[name].seconds / lines["ordinary network"].seconds for lines in found.values()]
        cost = "" if first[name].multiply_adds is None else f"{statistics.fmean(costs):.2f}"
        rows.append((
            name, f"{ratios['error']:.3f}", f"{ratios['nll']:.3f}", f"{statistics.fmean(ranks):.2f}",
            f"{wins} / {losses}", cost, f"{statistics.median(seconds):.1f}",
        ))  # fmt: skip
    return markdown_table(("", "error", "NLL", "rank", "wins / losses", "prediction", "training"), rows)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("run", "write"):
        sys.exit(__doc__)
    if sys.argv[1] == "run":
        os.chdir(sys.argv[2])
        for table in sys.argv[3:] or TABLES:
            run(table)
    else:
        (RESULTS.parent / "evidence.md").write_text(page())
