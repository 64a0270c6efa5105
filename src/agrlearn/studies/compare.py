"""Is it worth it on this data? An ordinary network, its usual remedies and groups, on the same splits."""

import itertools
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress

from agrlearn.data.kept import keep_objects
from agrlearn.data.labelled import check_class_count
from agrlearn.errors import RecipeError, look_up
from agrlearn.evaluation.metrics import METRICS
from agrlearn.evaluation.statistics import mean_over_runs, p_value, paired_difference
from agrlearn.files import make_own_folder
from agrlearn.networks.catalogue import NETWORKS, network_defaults
from agrlearn.runs.jobs import Resources, one_thread
from agrlearn.runs.many import Job, bundles_of, do_runs, run_many
from agrlearn.runs.result import REPLICATED, FinishedRun, ProtocolScores
from agrlearn.runs.rivals import RIVALS
from agrlearn.runs.spec import RunSpec
from agrlearn.runs.train import network_name, open_data
from agrlearn.studies.comparison import Comparison, Kind, Line, write_comparison
from agrlearn.training.defaults import DEFAULT_GROUPS, DEFAULT_RECIPE, GROUPS_RATE, default_epochs, default_options
from agrlearn.training.recipe import Recipe

ORDINARY = "ordinary network"
"""The method that the others are compared with: fold 1."""
TEST_FRACTION, _TUNING_FRACTION = 0.25, 0.2
_MEMBERS = 4


@dataclass(frozen=True)
class Method:
    """A way to get a classifier: one setting, or several of which each split's validation part chooses one."""

    name: str
    tries: tuple[RunSpec, ...]
    kind: Kind = "remedy"


def make_methods(
    spec: RunSpec, *, also: Sequence[Mapping[str, Any]] = (), tokens: bool = False, vectors: bool = True
) -> list[Method]:
    """What is compared: fold 1, its remedies, the aggregated default, and for tables classifiers of scikit-learn.

    Args:
        spec: of the ordinary network.
        also: further settings of groups, each with fold, join, repetition or other settings of network and recipe.
        tokens: whether objects are sentences, which cannot be mixed.
        vectors: whether they are rows of a table.
    """
    options = network_defaults(spec.network) if spec.network in NETWORKS else {}
    methods = [Method(ORDINARY, (spec,), "ordinary")]
    if "dropout" in options:
        own = spec.net.get("dropout", options["dropout"])
        shares = [share for share in (0.1, 0.3, 0.5, 0.0) if share != own][:3]
        methods.append(Method("dropout", tuple(with_settings(spec, dropout=share) for share in shares)))
    methods.append(Method("fewer epochs", tuple(with_fewer_epochs(spec))))
    smoothed = (with_settings(spec, label_smoothing=share) for share in (0.05, 0.1, 0.2))
    methods.append(Method("label smoothing", tuple(smoothed)))
    if not tokens:
        methods.append(Method("mixup", tuple(with_settings(spec, mixup=strength) for strength in (0.2, 0.5, 1.0))))
    where = "features" if tokens else "random"
    manifold = (with_settings(spec, mixup=strength, mixup_at=where) for strength in (0.2, 0.5, 1.0))
    methods.append(Method("manifold mixup", tuple(manifold)))
    methods.append(Method(f"ensemble of {_MEMBERS}", (spec.model_copy(update={"members": _MEMBERS}),)))
    for settings in (DEFAULT_GROUPS, *also):
        methods.append(Method(name_of(settings), (groups_of(spec, **settings),), "groups"))
    if vectors:
        for rival in RIVALS:
            rival_spec = spec.model_copy(update={"network": rival, "net": {}, "recipe": Recipe(seed=spec.seed)})
            methods.append(Method(rival.removeprefix("sklearn:").replace("-", " "), (rival_spec,), "context"))
    return methods


def groups_of(spec: RunSpec, **settings: Any) -> RunSpec:
    """The ordinary network's spec with settings of groups, which learn by `GROUPS_RATE` unless a rate is given."""
    return with_settings(spec, **{"learning_rate": GROUPS_RATE * spec.recipe.learning_rate, **settings})


def with_fewer_epochs(spec: RunSpec) -> list[RunSpec]:
    """The same run with a sixth, a third and two thirds of its epochs, as far as these differ."""
    counts = sorted({max(1, round(spec.recipe.epochs * share)) for share in (1 / 6, 1 / 3, 2 / 3)})
    return [with_settings(spec, epochs=count, evaluate_every=count) for count in counts]


def seeing_as_many(spec: RunSpec, fold: int) -> RunSpec:
    """An ordinary network's spec with as many objects in as many steps as that fold sees."""
    recipe = spec.recipe
    return with_settings(spec, batch_size=recipe.batch_size * fold, epochs=recipe.epochs * fold)


def with_settings(spec: RunSpec, **settings: Any) -> RunSpec:
    """The spec with other settings, of its own, of its recipe or of its network, whichever has them."""
    own = {name: value for name, value in settings.items() if name in RunSpec.model_fields and name != "net"}
    recipe = {name: value for name, value in settings.items() if name in Recipe.model_fields}
    net = {name: value for name, value in settings.items() if name not in own and name not in recipe}
    if spec.network in NETWORKS:
        known = network_defaults(spec.network)
        for name in net:
            look_up(
                {**known, **RunSpec.model_fields, **Recipe.model_fields}, name, f"setting of a run of {spec.network}"
            )
    values = spec.model_dump()
    values |= own | {"recipe": Recipe(**{**values["recipe"], **recipe}), "net": {**values["net"], **net}}
    return RunSpec(**values)


def compare_methods(
    methods: Sequence[Method], folder: Path, *, seeds: int = 10, data_dir: Path | None = None,
    run: Callable[[Sequence[Job]], Any] = lambda jobs: run_many(jobs, Resources()),
) -> list[Line]:  # fmt: skip
    """Run every method on every split and put them side by side; what is done already is not run again.

    Args:
        folder: where the results are kept, a small file each.
        run: does the runs that are not done.
    """
    if seeds < 2:
        raise RecipeError(
            f"seeds is the number of splits and at least 2, so that differences have an error, got {seeds}"
        )
    make_own_folder(folder)

    def job(method: Method, number: int, seed: int, *, tuning: bool) -> Job:
        spec = method.tries[number].with_seed(seed)
        if tuning:
            spec = for_choosing(spec)
        name = cell_name(spec)
        label = f"{method.name}, choosing" if tuning else method.name
        runs, cells = folder / "runs" / name, folder / "cells" / f"{name}.json"
        return Job(label, spec, runs, cells, data_dir, keep_checkpoints=False)

    def do(jobs: Iterable[Job]) -> dict[Path | None, FinishedRun]:
        wanted = {job.cell: job for job in jobs}
        missing = [job for job in wanted.values() if job.finished() is None]
        if missing:
            run(missing)
        return {cell: found for cell, job in wanted.items() if (found := job.finished()) is not None}

    several = [(method, range(len(method.tries))) for method in methods if len(method.tries) > 1]
    tuned = do(
        job(m, number, seed, tuning=True) for seed in range(seeds) for m, numbers in several for number in numbers
    )
    finals: dict[tuple[str, int], Job] = {}
    spent: dict[tuple[str, int], float] = {}
    for seed, method in itertools.product(range(seeds), methods):
        numbers = range(len(method.tries) if len(method.tries) > 1 else 0)
        cells = {number: job(method, number, seed, tuning=True).cell for number in numbers}
        known = {number: tuned[cell] for number, cell in cells.items() if cell in tuned}
        best = min(known, key=lambda number: _order(known[number]), default=0)
        finals[method.name, seed] = job(method, best, seed, tuning=False)
        spent[method.name, seed] = sum(tried.result.seconds for tried in known.values())
    done = do(finals.values())
    outcomes: dict[str, dict[int, FinishedRun]] = {method.name: {} for method in methods}
    for (name, seed), final in finals.items():
        if final.cell in done:
            outcomes[name][seed] = done[final.cell]
    base = {name: _values(outcomes[methods[0].name], name) for name in METRICS}
    return [_line(method, outcomes[method.name], base, spent) for method in methods if outcomes[method.name]]


def for_choosing(spec: RunSpec) -> RunSpec:
    """The same run, measured on a fifth of its training part instead of the test part."""
    return spec.model_copy(update={"tuning_fraction": _TUNING_FRACTION})


def cell_name(spec: RunSpec) -> str:
    """The name of the file that keeps the result of a run."""
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', spec.key())}-seed{spec.seed}"


def _order(run: FinishedRun) -> tuple[float, float]:
    """Which of several tries is better on the validation part: fewer errors, then a higher likelihood."""
    scores = run.result.protocols[REPLICATED]
    return scores.error, scores.nll


def _values(runs: Mapping[int, FinishedRun], metric: str) -> dict[int, float]:
    return {seed: getattr(run.result.protocols[REPLICATED], metric) for seed, run in runs.items()}


def _line(
    method: Method, runs: Mapping[int, FinishedRun], base: Mapping[str, Mapping[int, float]],
    spent: Mapping[tuple[str, int], float],
) -> Line:  # fmt: skip
    values = {name: _values(runs, name) for name in METRICS}
    differences = {name: paired_difference(values[name], base[name]) for name in METRICS}
    first: ProtocolScores = next(iter(runs.values())).result.protocols[REPLICATED]
    seconds = [run.result.seconds + spent[method.name, seed] for seed, run in runs.items()]
    return Line(
        name=method.name,
        kind=method.kind,
        scores={name: mean_over_runs(list(found.values())) for name, found in values.items()},
        differences=differences,
        p=p_value(differences["error"]),
        multiply_adds=None if method.kind == "context" else first.multiply_adds,
        seconds=mean_over_runs(seconds).value,
    )


def name_of(settings: Mapping[str, Any]) -> str:
    """What a setting of groups is called.

    >>> name_of({"fold": 2, "join": "mean", "repetition": 0.2})
    'fold 2, mean, repetition 0.2'
    """
    rest = {name: value for name, value in settings.items() if name not in ("fold", "join") and value}
    parts = [f"fold {settings.get('fold', 2)}", str(settings.get("join", "")), *(f"{n} {v}" for n, v in rest.items())]
    return ", ".join(part.replace("_", " ") for part in parts if part)


def compare(
    data: Any, labels: Any = None, *, seeds: int = 10, network: str | None = None,
    also: Sequence[Mapping[str, Any]] = (), run_dir: str | Path = "runs/compare",
    data_dir: str | Path | None = None, workers: int = 1,
) -> Comparison:  # fmt: skip
    """Find out whether groups are worth it on some data, as `agrlearn compare` does.

    Args:
        data: a data set by name, the path of a file or folder, or what the estimator takes: an array of vectors or
            images, a table as a frame or in rows, or sentences.
        labels: one for each object in memory.
        seeds: splits into training and test part, the same for all methods.
        network: a name in `NETWORKS`, timm:NAME or FILE.py:FUNCTION; by default the one that fits the data.
        also: further settings of groups, such as {"fold": 4, "join": "max", "repetition": 0.2}.
        run_dir: where the results, the table and the picture go; what is done there is not run again.
        workers: runs at the same time, in processes of their own; a script that asks for several calls this under
            `if __name__ == "__main__":`. One runs in this process.
    """
    folder = Path(run_dir).resolve()
    make_own_folder(folder)
    reading: dict[str, Any] = {}
    if not isinstance(data, str | Path):
        data, reading = keep_objects(data, labels, folder)
    where = None if data_dir is None else Path(data_dir)
    spec, tokens, vectors = base_spec(str(data), network=network, data_dir=where, **reading)
    methods = make_methods(spec, also=also, tokens=tokens, vectors=vectors)

    def run(jobs: Sequence[Job]) -> None:
        if workers == 1:
            with one_thread(), Progress(transient=True, disable=not sys.stderr.isatty()) as progress:
                task = progress.add_task("comparing", total=len(jobs))
                for bundle in bundles_of(jobs, Resources()):
                    for outcome in do_runs(bundle):
                        if isinstance(outcome, Exception):
                            raise outcome
                        progress.advance(task)
            return
        failures: list[Exception] = []
        keep = lambda job, outcome: failures.append(outcome) if isinstance(outcome, Exception) else None  # noqa: E731
        run_many(jobs, Resources(workers=workers), on_done=keep)
        if failures:
            raise failures[0]

    lines = compare_methods(methods, folder, seeds=seeds, data_dir=where, run=run)
    found = Comparison(Path(data).name, seeds, tuple(lines))
    write_comparison(found, folder, f"agrlearn.compare(..., seeds={seeds})")
    return found


def base_spec(
    data: str, *, network: str | None = None, data_dir: Path | None = None, **settings: Any
) -> tuple[RunSpec, bool, bool]:
    """The ordinary network for some data by the estimator's recipe; and whether these are sentences, or vectors."""
    ways = ("label_column", "text_column", "columns", "ignore")
    reading = {name: settings.pop(name) for name in ways if name in settings}
    spec = RunSpec(data=data, network=network, fold=1, test_fraction=TEST_FRACTION, recipe=DEFAULT_RECIPE, **reading)
    found = open_data(spec, data_dir)
    check_class_count(found.train, origin=data)
    name, epochs = network_name(spec, found), default_epochs(found.kind, len(found.train))
    chosen = {"epochs": epochs, "evaluate_every": epochs, **default_options(name), **settings}
    spec = with_settings(spec.model_copy(update={"network": name}), **chosen)
    return spec, found.kind == "sentences", found.kind == "vectors"
