"""Which runs there are, and how one is done; all of them are kept in results/pretrained.json."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from lightning_fabric import Fabric

from agrlearn.evaluation.metrics import METRICS, outcomes_of, score
from agrlearn.evaluation.throughput import objects_per_second
from agrlearn.files import write_atomically
from agrlearn.grouping import first_tensor
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.convert import aggregate
from agrlearn.networks.single import single
from agrlearn.prediction.predict import predict
from agrlearn.prediction.protocols import Batched, Replicated
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from benchmarks.pretrained.models import Data, Parts, make_model, read_data

RESULTS = Path(__file__).parent.parent.parent / "results" / "pretrained.json"
SEEDS = 3
EPOCHS = 2
_OBJECTS_A_STEP = 32
_EVALUATED = 64  # objects in a pass of prediction
Done = dict[str, list[float]]
"""By the name of a run: error, NLL and ECE on what was measured, and the processor's seconds of training."""


@dataclass(frozen=True)
class DataSet:
    """What the methods are compared on."""

    title: str
    name: str
    kind: str
    count: int | None
    """Objects to train on; None for all."""


DATA_SETS = {
    "movie-review-1000": DataSet("Movie Review, 1,000 sentences", "movie-review", "sentences", 1000),
    "subjectivity-1000": DataSet("Subjectivity, 1,000 sentences", "subjectivity", "sentences", 1000),
    "fashion-mnist-2000": DataSet("Fashion-MNIST, 2,000 images", "fashion-mnist", "images", 2000),
    "cifar-10-2000": DataSet("CIFAR-10, 2,000 images", "cifar-10", "images", 2000),
    "movie-review": DataSet("Movie Review, all sentences", "movie-review", "sentences", None),
    "subjectivity": DataSet("Subjectivity, all sentences", "subjectivity", "sentences", None),
}
CHOSEN_ON = {"sentences": "movie-review-1000", "images": "fashion-mnist-2000"}
"""The data set on whose validation part the rates are chosen, for each model."""
RATES = {"sentences": (3e-5, 1e-4, 3e-4, 1e-3), "images": (1e-4, 3e-4, 1e-3, 3e-3)}
FACTORS = (10.0, 1.0, 30.0)
"""Of the class layer's rate: the first while the rate is chosen, then the others at the rate that was best."""


@dataclass(frozen=True)
class Method:
    """How a model is trained: all but the first one see as many objects in as many steps."""

    fold: int = 1
    join: str = "mean"
    times: int = 2
    """Objects seen, over those of the ordinary way."""
    mixup: float = 0.0
    label_smoothing: float = 0.0
    at: str | None = None
    """The module to join after, in place of the join before the class layer."""
    layers: int = 6
    """Of MiniLM."""
    masked: bool = True
    """Whether MiniLM leaves out padding."""


FIRST, TWICE = "fold 1", "fold 1, twice the objects"
METHODS = {
    FIRST: Method(times=1),
    TWICE: Method(),
    "fold 2, mean": Method(2, "mean"),
    "fold 2, max": Method(2, "max"),
    "fold 4, mean": Method(4, "mean"),
    "fold 4, max": Method(4, "max"),
    "mixup of features": Method(mixup=1.0),
    "label smoothing 0.1": Method(label_smoothing=0.1),
}
CHOSEN_FOR = (FIRST, TWICE, "fold 2, mean")
"""The methods that a rate is chosen for; the others have that of the one most like them."""
SPEED = "speed"
BATCHED = "Batched, fold 2, joined after layer 2"
FASTER = {
    "6 layers": Method(masked=False),
    "first 4 layers": Method(layers=4, masked=False),
    "first 3 layers": Method(layers=3, masked=False),
    BATCHED: Method(2, "channels", at="encoder.encoder.layer.1", masked=False),
}
"""Ways to predict faster with MiniLM, without a mask, which a join within the encoder cannot have."""
ORDER = ["movie-review-1000", "subjectivity-1000", SPEED, *list(DATA_SETS)[2:]]


@dataclass(frozen=True)
class Rate:
    """What is chosen on a validation part."""

    learning_rate: float
    factor: float

    def __str__(self) -> str:
        return f"{self.learning_rate:g} × {self.factor:g}"


def run(folder: Path, cifar_folder: Path, names: list[str]) -> None:
    """Train what is not done of these data sets; every run is stored when it is done."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    for name in names:
        if name == SPEED:
            _run_faster(read_data("movie-review", folder, cifar_folder))
            continue
        about = DATA_SETS[name]
        data = read_data(about.name, folder, cifar_folder)
        on = DATA_SETS[CHOSEN_ON[about.kind]]
        tuning = data if on.name == about.name else read_data(on.name, folder, cifar_folder)
        rates = {method: choose(about.kind, method, tuning) for method in CHOSEN_FOR}
        for seed in range(SEEDS):
            for method_name, method in METHODS.items():
                key = f"{name} | {method_name} | {seed}"
                if key not in finished():
                    parts = data.split(about.count, seed)
                    store(key, train_and_measure(about.kind, method, rates[chosen_for(method)], parts, seed))


def chosen_for(method: Method) -> str:
    """The method whose rate this one has."""
    return FIRST if method.times == 1 else TWICE if method.fold == 1 else "fold 2, mean"


def choose(kind: str, label: str, data: Data) -> Rate:
    """The rate with the least error on the validation part, of those that are tried one after the other."""
    on, method = DATA_SETS[CHOSEN_ON[kind]], {**METHODS, **FASTER}[label]
    for rate in tries(kind, label):
        key = f"choose {kind} | {label} | {rate}"
        if key not in finished():
            parts = data.for_choosing(on.count or 0)
            store(key, train_and_measure(kind, method, rate, parts, seed=0))
    found = chosen(kind, label)
    assert found is not None
    return found


def tries(kind: str, label: str) -> Iterator[Rate]:
    """Each rate with the first factor, then the other factors with the best of them."""
    rates = [Rate(rate, FACTORS[0]) for rate in RATES[kind]]
    yield from rates
    best = _best(kind, label, rates)
    yield from (replace(best, factor=factor) for factor in FACTORS[1:])


def chosen(kind: str, label: str) -> Rate | None:
    """The best rate of those that were tried; None while some were not."""
    done = finished()
    first = [f"choose {kind} | {label} | {Rate(rate, FACTORS[0])}" for rate in RATES[kind]]
    if not all(key in done for key in first):
        return None
    all_tries = list(tries(kind, label))
    return _best(kind, label, all_tries) if f"choose {kind} | {label} | {all_tries[-1]}" in done else None


def _best(kind: str, label: str, rates: list[Rate]) -> Rate:
    done = finished()
    return min(rates, key=lambda rate: done[f"choose {kind} | {label} | {rate}"][:2])


def train_and_measure(kind: str, method: Method, rate: Rate, parts: Parts, seed: int) -> list[float]:
    """Fine-tune a new model, and measure the ordinary model that comes out, or Batched prediction."""
    network, seconds = _train(kind, method, rate, parts, seed)
    probabilities = _probabilities(network, parts, batched=method.at is not None)
    scores = score(outcomes_of(probabilities, parts.test.labels))
    return [*(round(getattr(scores, name), 5) for name in list(METRICS)[:3]), round(seconds, 1)]


def _train(kind: str, method: Method, rate: Rate, parts: Parts, seed: int) -> tuple[AggregatedClassifier, float]:
    torch.manual_seed(seed)
    options = {"layers": method.layers, "masked": method.masked} if kind == "sentences" else {}
    model = make_model(kind, parts.train.num_classes, **options)
    example = first_tensor(parts.train.objects)[:2]
    network = aggregate(model, method.fold, example, join=method.join, at=method.at, verbose=False)
    recipe = Recipe(
        epochs=EPOCHS * method.times // method.fold, batch_size=_OBJECTS_A_STEP // method.fold, seed=seed,
        optimizer="adamw", learning_rate=rate.learning_rate, head_rate_factor=rate.factor, weight_decay=0.01,
        schedule="cosine", mixup=method.mixup, mixup_at="features", label_smoothing=method.label_smoothing,
    )  # fmt: skip
    engine = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed" if kind == "sentences" else "32-true")
    start = time.process_time()  # of this process alone: the machine may be busy with others
    fit(network, parts.train, recipe, fabric=engine)
    return network, time.process_time() - start


def _probabilities(network: AggregatedClassifier, parts: Parts, *, batched: bool) -> torch.Tensor:
    if batched:
        return predict(network, parts.test.objects, Batched(), batch_size=_EVALUATED)
    model, objects = single(network), first_tensor(parts.test.objects)
    with torch.inference_mode():
        return torch.cat([model(some).softmax(1) for some in objects.split(_EVALUATED)])


def _run_faster(data: Data) -> None:
    """Errors of the ways to predict faster, and their speeds, which are measured in turn on untrained networks."""
    batched = FASTER[BATCHED]
    own, ordinary = (choose("sentences", label, data) for label in (BATCHED, TWICE))
    for seed in range(SEEDS):
        for name, method in FASTER.items():
            key = f"{SPEED} | {name} | {seed}"
            if key not in finished():
                rate = own if method is batched else ordinary
                store(key, train_and_measure("sentences", method, rate, data.split(1000, seed), seed))
    if f"objects/s | {BATCHED}" not in finished():
        test = data.split(1000, 0).test.subset(torch.arange(256))
        predictors = []
        for method in FASTER.values():
            model = make_model("sentences", test.num_classes, layers=method.layers, masked=method.masked)
            network = aggregate(
                model, method.fold, first_tensor(test.objects)[:2], join=method.join, at=method.at, verbose=False
            )
            predictors.append((network, Batched() if method.at else Replicated()))
        speeds = objects_per_second(predictors, test.objects, batch_size=_EVALUATED, rounds=7)
        for name, speed in zip(FASTER, speeds, strict=True):
            store(f"objects/s | {name}", [round(speed, 1)])


def finished() -> Done:
    """The runs that are done."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def store(key: str, values: list[float]) -> None:
    """Add a run to those that are done."""
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(found)}" for name, found in {**finished(), key: values}.items()
    )
    write_atomically(RESULTS, f"{{\n{lines}\n}}\n")
    print(key, values, flush=True)
