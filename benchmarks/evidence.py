"""Do groups win? Every method on every data set, on the same splits: results/evidence.

    python -m benchmarks.evidence run TABLES [DATA ...]   train what is not done, into results/evidence/DATA.json
    python -m benchmarks.evidence write                   results/evidence.md from what is done

TABLES is a folder with vehicle.npz, vowel.npz and so on, each with arrays x and y. One file a data set holds all of its
runs: what is done is not run again.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agrlearn.networks.catalogue import NETWORKS, network_defaults
from agrlearn.runs.jobs import Resources
from agrlearn.runs.many import Job, run_many
from agrlearn.runs.result import FinishedRun
from agrlearn.runs.spec import RunSpec
from agrlearn.studies.compare import Line, Method, base_spec, compare_methods, make_methods, with_settings

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
    spec, tokens, vectors = base_spec(data)
    also = [settings for settings in GROUPS if settings != {"fold": 2, "join": "mean", "repetition": 0.0}]
    methods = make_methods(spec, also=also, tokens=tokens, vectors=vectors)
    controls = [
        Method(f"ordinary, objects as fold {fold}", (_seeing_more(spec, fold),)) for fold in (2, 4)
    ]  # fmt: skip
    chosen = Method(CHOSEN, tuple(with_settings(spec, **settings) for settings in _TRIES), "groups")
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
    """The lines of every data set that has results."""
    for data in names:
        if (RESULTS / f"{data}.json").exists():
            with tempfile.TemporaryDirectory() as scratch:
                unpack(data, Path(scratch))
                yield data, compare_methods(methods_for(data), Path(scratch), seeds=SEEDS, run=lambda jobs: None)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("run", "write"):
        sys.exit(__doc__)
    if sys.argv[1] == "run":
        os.chdir(sys.argv[2])
        for name in sys.argv[3:] or TABLES:
            run(name)
