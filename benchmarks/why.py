"""When do groups help? Error over the number of objects, label noise, width, and the depth of the join, on digits.

python -m benchmarks.why run     train what is not done, into results/why.json
python -m benchmarks.why draw    docs/why-*.png from it
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from agrlearn.evaluation.statistics import mean_over_runs
from agrlearn.runs.jobs import Resources
from agrlearn.runs.many import Job, run_many
from agrlearn.runs.spec import RunSpec
from agrlearn.studies.compare import DEFAULT_RECIPE, TEST_FRACTION, with_settings

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "why.json"
SEEDS = 5
_OBJECTS = 1347  # digits to train on, of 1,797
METHODS: dict[str, dict[str, Any]] = {
    "ordinary network": {"fold": 1},
    "ordinary, objects as fold 2": {"fold": 1, "epochs": 120, "batch_size": 64},
    "mixup 0.5": {"fold": 1, "mixup": 0.5},
    "fold 2, mean": {"fold": 2, "join": "mean", "learning_rate": 0.003},
    "fold 2, max, repetition 0.2": {"fold": 2, "join": "max", "repetition": 0.2, "learning_rate": 0.003},
}
STUDIES: dict[str, tuple[str, dict[float, dict[str, Any]]]] = {
    "objects": (
        "training objects", {count: {"share": min(1.0, count / _OBJECTS)} for count in (50, 100, 200, 400, 800, 1347)},
    ),
    "noise": ("labels changed, %", {percent: {"label_noise": percent / 100} for percent in (0, 10, 20, 30, 40)}),
    "width": ("units of a hidden layer", {width: {"width": width} for width in (16, 32, 64, 128, 256, 512)}),
    "depth": ("hidden layers before the join", {depth: {"depth": 3, "join_after": depth} for depth in (0, 1, 2, 3)}),
}  # fmt: skip


def run() -> None:
    """Train what is not done; the file holds the error and the NLL of every run."""
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    base = RunSpec(data="digits-as-vectors", network="mlp", test_fraction=TEST_FRACTION, recipe=DEFAULT_RECIPE)
    with tempfile.TemporaryDirectory() as scratch:
        jobs = {}
        for study, (_, values) in STUDIES.items():
            for value, settings in values.items():
                for method, own in METHODS.items():
                    if study == "depth" and own["fold"] == 1 and value > 0:
                        continue  # nothing is joined
                    for seed in range(SEEDS):
                        key = f"{study} | {value} | {method} | {seed}"
                        spec = with_settings(base, **{**settings, **own}).with_seed(seed)
                        folder = Path(scratch)
                        jobs[key] = Job(key, spec, folder / "runs" / str(len(jobs)), folder / f"{len(jobs)}.json",
                                        keep_checkpoints=False)  # fmt: skip

        def on_done(job: Job, outcome: Any) -> None:
            if isinstance(outcome, Exception):
                print(f"failed: {job.label}: {outcome}", flush=True)
                return
            scores = outcome.result.protocols["Replicated"]
            done[job.label] = [round(scores.error, 6), round(scores.nll, 5)]
            RESULTS.write_text(json.dumps(done, indent=0) + "\n")

        run_many([job for key, job in jobs.items() if key not in done], Resources(), on_done=on_done)


def draw() -> None:
    """One picture for each study: the error over what is varied, mean and standard error over seeds."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    done = json.loads(RESULTS.read_text())
    colours = dict(zip(METHODS, ("#555555", "#999999", "#c9a66b", "#0072b2", "#d55e00"), strict=True))
    for study, (label, values) in STUDIES.items():
        figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
        for method, colour in colours.items():
            points = {}
            for value in values:
                runs = [done.get(f"{study} | {value} | {method} | {seed}") for seed in range(SEEDS)]
                errors = [100 * found[0] for found in runs if found is not None]
                if errors:
                    points[value] = mean_over_runs(errors)
            if len(points) == 1 and study == "depth":
                [mean] = points.values()
                axes.axhline(mean.value, color=colour, linestyle="--", label=method)
            elif points:
                axes.errorbar(
                    list(points), [mean.value for mean in points.values()],
                    yerr=[mean.standard_error for mean in points.values()], marker="o", capsize=3, color=colour,
                    label=method,
                )  # fmt: skip
        if study in ("objects", "width"):
            axes.set_xscale("log")
            axes.set_xticks(list(values), [f"{value:g}" for value in values])
            axes.minorticks_off()
        axes.set(xlabel=label, ylabel="test error, %")
        axes.legend(frameon=False)
        figure.savefig(ROOT / "docs" / f"why-{study}.png", dpi=120, metadata={"Software": None})
        pyplot.close(figure)


if __name__ == "__main__":
    if sys.argv[1:] not in (["run"], ["draw"]):
        sys.exit(__doc__)
    run() if sys.argv[1] == "run" else draw()
