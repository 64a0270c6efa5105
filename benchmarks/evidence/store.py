"""Runs of a data set: done, and kept in one file under results/evidence."""

import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agrlearn.networks.catalogue import NETWORKS, network_defaults
from agrlearn.runs.jobs import Resources, run_jobs
from agrlearn.runs.many import Job, bundles_of
from agrlearn.runs.result import FinishedRun
from agrlearn.runs.spec import RunSpec
from agrlearn.studies.compare import ORDINARY, Method, cell_name, compare_methods, for_choosing
from agrlearn.studies.comparison import Line
from benchmarks.evidence.methods import DATA_SETS, candidates, methods_for
from benchmarks.evidence.tabm_rival import do_runs_or_tabm

RESULTS = Path(__file__).parent.parent.parent / "results" / "evidence"


def run(data: str, data_dir: Path | None = None) -> None:
    """Train what is not done of a data set's methods."""
    run_methods(data, methods_for(data), DATA_SETS[data].splits, RESULTS, data_dir)


def run_methods(data: str, methods: Sequence[Method], splits: int, results: Path, data_dir: Path | None = None) -> None:
    """Train what is not done; all results of a data set end up in one file."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        unpack(results / f"{data}.json", folder)

        def do(jobs: Sequence[Job]) -> None:
            print(f"{data}: {len(jobs)} runs", flush=True)
            failed: list[str] = []
            count = 0

            def on_done(bundle: Sequence[Job], outcome: Any) -> None:
                nonlocal count
                outcomes = outcome if isinstance(outcome, list) else [outcome] * len(bundle)
                for job, own in zip(bundle, outcomes, strict=True):
                    if isinstance(own, Exception):
                        failed.append(f"{job.label}, seed {job.spec.seed}: {own}")
                count += len(bundle)
                if count // 10 > (count - len(bundle)) // 10:
                    pack(data, folder, results)  # a stopped command goes on from here

            run_jobs(bundles_of(jobs, Resources()), do_runs_or_tabm, Resources(), on_done=on_done)
            pack(data, folder, results)
            for sentence in failed:
                print(f"failed: {sentence}", flush=True)

        compare_methods(methods, folder, seeds=splits, data_dir=data_dir, run=do)


def pack(data: str, folder: Path, results: Path) -> None:
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
    results.mkdir(parents=True, exist_ok=True)
    head = ",\n ".join(f'"{name}": {json.dumps(value)}' for name, value in shared.items())
    draft = results / f".{data}.json"
    draft.write_text(f'{{{head},\n "runs": [\n  {lines}\n ]}}\n')
    draft.replace(results / f"{data}.json")


def unpack(file: Path, folder: Path) -> None:
    """The small files again, for `compare_methods` to find."""
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


def finished(data: str, base: str = ORDINARY) -> dict[str, Line] | None:
    """A line for each method that is done on all splits of a data set, by name; None where the base is not.

    Args:
        base: the method that the others are compared with.
    """
    return lines_of(RESULTS / f"{data}.json", methods_for(data), DATA_SETS[data].splits, base)


def lines_of(file: Path, methods: Sequence[Method], splits: int, base: str) -> dict[str, Line] | None:
    """The same from any file of runs."""
    if not file.exists():
        return None
    missing: list[Job] = []
    methods = sorted(methods, key=lambda method: method.name != base)
    with tempfile.TemporaryDirectory() as scratch:
        unpack(file, Path(scratch))
        lines = compare_methods(methods, Path(scratch), seeds=splits, run=missing.extend)
    left = {job.label.removesuffix(", choosing") for job in missing}
    # Methods may share a run, which is missing under the name of one of them.
    done = {line.name: line for line in lines if line.name not in left and line.scores["error"].runs == splits}
    return done if base in done else None


def on_validation_parts(data: str) -> dict[str, dict[str, float]]:
    """Each candidate's mean error and NLL on the validation parts; empty unless all of them are done."""
    file = RESULTS / f"{data}.json"
    runs = {one["file"]: one["scores"] for one in json.loads(file.read_text())["runs"]} if file.exists() else {}
    found = {}
    for name, spec in candidates(DATA_SETS[data].spec).items():
        names = [cell_name(for_choosing(spec.with_seed(seed))) for seed in range(DATA_SETS[data].splits)]
        if not runs.keys() >= set(names):
            return {}
        found[name] = {metric: statistics.fmean(runs[n][metric] for n in names) for metric in ("error", "nll")}
    return found
