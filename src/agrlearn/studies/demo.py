"""The demonstration: fold 1, 2 and 4 on scikit-learn's digits, by every protocol."""

from dataclasses import asdict, dataclass
from pathlib import Path

from agrlearn.data.datasets import open_source
from agrlearn.data.labelled import LabelledSet
from agrlearn.evaluation.evaluate import evaluate
from agrlearn.evaluation.statistics import Mean, mean_over_runs
from agrlearn.evaluation.throughput import objects_per_second
from agrlearn.files import make_own_folder, markdown_table, to_json, write_atomically
from agrlearn.grouping import first_tensor
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.networks.cost import count_parameters
from agrlearn.prediction.cost import multiply_adds_per_object
from agrlearn.prediction.protocols import Batched, Contextual, PredictionProtocol, Replicated
from agrlearn.training.checkpoint import clear_run
from agrlearn.training.history import History
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe


@dataclass(frozen=True)
class Setting:
    """One kind of training run."""

    name: str
    fold: int
    times_the_batch: int = 1
    """Objects in a step over those of an ordinary one: how fold 1 sees as many objects in as many steps as fold n."""


@dataclass(frozen=True)
class Row:
    """One line of the table: a setting under a protocol, over all seeds."""

    setting: str
    protocol: str
    error: Mean
    nll: Mean
    ece: Mean
    parameters: int
    multiply_adds: float
    """Per predicted object."""
    objects_seen: int
    """In one training run."""
    training_seconds: float
    objects_per_second: float


SETTINGS = (
    Setting("fold 1", fold=1),
    Setting("fold 1, objects as fold 4", fold=1, times_the_batch=4),
    Setting("fold 2", fold=2),
    Setting("fold 4", fold=4),
)


@dataclass(frozen=True)
class Trained:
    """The runs of one setting."""

    setting: Setting
    networks: list[AggregatedClassifier]
    histories: list[History]


def run_demo(
    run_dir: Path, *, seeds: int = 3, epochs: int = 25, fresh: bool = False, progress: bool | None = None
) -> list[Row]:
    """Train every setting with every seed (those that are done are kept), and write the table into `run_dir`."""
    source = open_source("digits")
    train_set, test_set = source.labelled(source.train), source.labelled(source.unseen)
    trained = [
        _train(setting, train_set, test_set, run_dir, seeds=seeds, epochs=epochs, fresh=fresh, progress=progress)
        for setting in SETTINGS
    ]
    rows = _rows(trained, train_set, test_set)
    write_atomically(run_dir / "table.md", as_markdown(rows))
    write_atomically(run_dir / "results.json", to_json([asdict(row) for row in rows]))
    return rows


def run_directories(run_dir: Path, seeds: int) -> list[Path]:
    """Where the demo keeps its runs, setting by setting."""
    return [_run_directory(run_dir, setting, seed) for setting in SETTINGS for seed in range(seeds)]


HEADER = (
    "network", "prediction", "error %", "NLL", "ECE", "parameters", "multiply-adds / object", "objects seen",
    "training s", "objects/s",
)  # fmt: skip


def as_cells(row: Row) -> tuple[str, ...]:
    """A row as text, in the order of `HEADER`."""
    return (
        row.setting, row.protocol, row.error.text(scale=100), row.nll.text(digits=3), row.ece.text(digits=3),
        f"{row.parameters:,}", f"{row.multiply_adds:,.0f}", f"{row.objects_seen:,}", f"{row.training_seconds:.1f}",
        f"{row.objects_per_second:,.0f}",
    )  # fmt: skip


def as_markdown(rows: list[Row]) -> str:
    return markdown_table(HEADER, map(as_cells, rows), texts=2)


def _run_directory(run_dir: Path, setting: Setting, seed: int) -> Path:
    return run_dir / f"{setting.name.replace(', ', '-').replace(' ', '-')}-seed{seed}"


def _train(
    setting: Setting, train_set: LabelledSet, test_set: LabelledSet, run_dir: Path,
    *, seeds: int, epochs: int, fresh: bool, progress: bool | None,
) -> Trained:  # fmt: skip
    trained = Trained(setting, [], [])
    images = first_tensor(train_set.objects)
    for seed in range(seeds):
        folder = _run_directory(run_dir, setting, seed)
        make_own_folder(folder)
        if fresh:
            clear_run(folder)
        network = build_network(
            "small-cnn", object_shape=tuple(images.shape[1:]), num_classes=train_set.num_classes, fold=setting.fold,
            seed=seed, objects=images, width=24,
        )  # fmt: skip
        recipe = Recipe(
            epochs=epochs * setting.times_the_batch,
            batch_size=64 * setting.times_the_batch,
            seed=seed,
            evaluate_every=5 * setting.times_the_batch,
            # In so short a run the paper's steps come too early for the higher folds; all settings get the same.
            schedule="cosine",
        )
        label = f"{setting.name}, seed {seed + 1} of {seeds}"
        trained.histories.append(fit(network, train_set, recipe, test_set, folder, progress=progress, label=label))
        trained.networks.append(network)
    return trained


def _protocols(fold: int, train_set: LabelledSet) -> dict[str, PredictionProtocol]:
    if fold == 1:
        return {"ordinary": Replicated()}
    return {
        "Replicated": Replicated(),
        "Contextual, 4 draws": Contextual(train_set.objects, draws=4),
        "Batched, 4 draws": Batched(draws=4),
        "Batched, 1 draw": Batched(draws=1),
    }


def _rows(trained: list[Trained], train_set: LabelledSet, test_set: LabelledSet) -> list[Row]:
    lines = [(runs, *item) for runs in trained for item in _protocols(runs.setting.fold, train_set).items()]
    speeds = objects_per_second([(runs.networks[0], protocol) for runs, _, protocol in lines], test_set.objects)
    rows = []
    for (runs, name, protocol), speed in zip(lines, speeds, strict=True):
        network = runs.networks[0]
        evaluations = [evaluate(network, test_set, protocol) for network in runs.networks]
        rows.append(
            Row(
                setting=runs.setting.name,
                protocol=name,
                error=mean_over_runs([evaluation.error for evaluation in evaluations]),
                nll=mean_over_runs([evaluation.nll for evaluation in evaluations]),
                ece=mean_over_runs([evaluation.ece for evaluation in evaluations]),
                parameters=count_parameters(network),
                multiply_adds=multiply_adds_per_object(network, first_tensor(test_set.objects)[:1], protocol),
                objects_seen=runs.histories[0].records[-1].objects_seen,
                training_seconds=mean_over_runs([history.seconds for history in runs.histories]).value,
                objects_per_second=speed,
            )
        )
    return rows
