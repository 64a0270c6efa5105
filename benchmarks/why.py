"""When do groups help? Error over the number of objects, label noise, width, and the depth of the join, on digits.

And what they do to the last features of test objects: how many are zero, and how much two classes have in common.

python -m benchmarks.why run     train what is not done, into results/why.json
python -m benchmarks.why write   results/why.md and docs/why-*.png from it
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from agrlearn.drawing import INK, save_picture
from agrlearn.evaluation.statistics import mean_over_runs
from agrlearn.files import markdown_table
from agrlearn.grouping import first_tensor
from agrlearn.networks.single import single
from agrlearn.runs.jobs import Resources
from agrlearn.runs.many import Job, run_many
from agrlearn.runs.spec import RunSpec
from agrlearn.runs.train import make_network, open_data, train_run
from agrlearn.studies.compare import TEST_FRACTION, with_settings
from agrlearn.training.defaults import DEFAULT_RECIPE

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "why.json"
SEEDS = 5
_OBJECTS = 1347  # digits to train on, of 1,797
METHODS: dict[str, dict[str, Any]] = {
    "ordinary network": {"fold": 1},
    "ordinary, objects as fold 2": {"fold": 1, "epochs": 120, "batch_size": 64},
    "mixup 0.5": {"fold": 1, "mixup": 0.5},
    "mixup of features, halves": {
        "fold": 1, "mixup": 1000.0, "mixup_at": "features", "epochs": 120, "batch_size": 64, "learning_rate": 0.003,
    },
    "fold 2, mean": {"fold": 2, "join": "mean", "learning_rate": 0.003},
    "fold 2, max, repetition 0.2": {"fold": 2, "join": "max", "repetition": 0.2, "learning_rate": 0.003},
}  # fmt: skip
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
    for method, own in METHODS.items():
        for seed in range(SEEDS):
            key = f"features | {method} | {seed}"
            if key not in done:
                done[key] = _about_features(with_settings(base, **own).with_seed(seed))
                RESULTS.write_text(json.dumps(done, indent=0) + "\n")


def _about_features(spec: RunSpec) -> list[float]:
    """The share of zeros among the last features, and the mean cosine between the mean features of two classes."""
    data = open_data(spec)
    network = make_network(spec, data)
    train_run(spec, None, data, network)
    ordinary = single(network)
    class_layer = [module for module in ordinary.modules() if isinstance(module, nn.Linear)][-1]
    seen: list[torch.Tensor] = []
    class_layer.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    with torch.inference_mode():
        ordinary(first_tensor(data.test.objects))  # type: ignore[union-attr]
    [features], labels = seen, data.test.labels  # type: ignore[union-attr]
    zeros = (features == 0).float().mean().item()
    means = torch.stack([features[labels == label].mean(0) for label in range(data.train.num_classes)])
    cosines = functional.cosine_similarity(means[:, None], means[None], dim=-1)
    between = (cosines.sum() - len(means)) / (len(means) * (len(means) - 1))
    return [round(zeros, 4), round(between.item(), 4)]


def page() -> str:
    """results/why.md: a table for each study, and one about the features."""
    done = json.loads(RESULTS.read_text())
    text = [
        "# When do groups help?\n",
        "Made by `python -m benchmarks.why run` and `python -m benchmarks.why write`. The `mlp` by the estimator's "
        f"recipe on digits as 64 numbers, a quarter to test on; mean ± standard error over {SEEDS} splits, few. "
        "*mixup of features, halves*: manifold mixup of the last features with the proportion fixed at a half, at the "
        "rate of groups, as many objects in as many steps.\n",
    ]
    for study, (label, values) in STUDIES.items():
        rows = [(method, *(_text(done, study, value, method) for value in values)) for method in METHODS]
        text += [f"## Test error, %, over {label.removesuffix(', %')}\n"]
        text += [markdown_table((label, *(f"{value:g}" for value in values)), rows)]
    rows = []
    for method in METHODS:
        zeros, cosines = zip(*(done[f"features | {method} | {seed}"] for seed in range(SEEDS)), strict=True)
        rows.append((method, mean_over_runs(zeros).text(scale=100, digits=0), mean_over_runs(cosines).text()))
    text += ["## Last features\n", markdown_table(("", "zeros in %", "cosine between two classes"), rows)]
    return "\n".join(text)


def _errors(done: dict[str, list[float]], study: str, value: float, method: str) -> list[float]:
    runs = [done.get(f"{study} | {value} | {method} | {seed}") for seed in range(SEEDS)]
    return [100 * found[0] for found in runs if found is not None]


def _text(done: dict[str, list[float]], study: str, value: float, method: str) -> str:
    errors = _errors(done, study, value, method)
    return mean_over_runs(errors).text() if errors else ""


def draw() -> None:
    """One picture for each study: the error over what is varied, mean and standard error over seeds."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    done = json.loads(RESULTS.read_text())
    colours = dict(zip(METHODS, (INK, "#aaaaaa", "#c9a66b", "#cc79a7", "#0072b2", "#d55e00"), strict=True))
    for study, (label, values) in STUDIES.items():
        figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
        for method, colour in colours.items():
            points = {}
            for value in values:
                if errors := _errors(done, study, value, method):
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
        if study == "objects":
            axes.set_yscale("log")
            axes.set_yticks((2, 5, 10, 20), ("2", "5", "10", "20"))
        if study == "depth":
            axes.set_xticks(list(values))
        if study in ("objects", "width"):
            axes.set_xscale("log")
            axes.set_xticks(list(values), [f"{value:g}" for value in values])
            axes.minorticks_off()
        axes.set(xlabel=label, ylabel="test error, %")
        axes.legend(frameon=False)
        save_picture(figure, ROOT / "docs" / f"why-{study}.png", dpi=120, metadata={"Software": None})
        pyplot.close(figure)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run"]:
            run()
        case ["write"]:
            RESULTS.with_suffix(".md").write_text(page())
            draw()
        case _:
            sys.exit(__doc__)
