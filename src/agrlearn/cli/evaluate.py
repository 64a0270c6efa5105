"""agrlearn evaluate"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from agrlearn.cli.options import PredictionOptions

if TYPE_CHECKING:
    from rich.table import Table

    from agrlearn.evaluation.evaluate import Evaluation
    from agrlearn.evaluation.metrics import ClassScores

_DEFAULTS = PredictionOptions()

_OBJECTS_TIMED = 2048
_MOST_CLASSES, _WORST, _MOST_HEADS = 20, 10, 8  # to show
_WIDTH = 80  # where no terminal tells its own


def evaluate(
    run: Path,
    data: str,
    /,
    *,
    protocols: Literal["replicated", "batched", "contextual", "all"] = "replicated",
    options: Annotated[PredictionOptions, Parameter(name="*")] = _DEFAULTS,
) -> None:
    """Compare the predictions of RUN's network with the labels of DATA, in all and class by class.

    Parameters
    ----------
    run
        The directory of a run. Of one that is not finished, the best epoch so far is used.
    data
        A data set by name (its test part is used), an .npz file with arrays x and y, a table, or a folder of class
        folders of images. Of the data that RUN was trained on, what it held out is used, unless they have changed.
    protocols
        replicated (each object in every slot: an ensemble), batched (other objects in the slots: fast), contextual
        (beside random training objects); or all that the network can answer, with their costs and speeds.
    """
    from rich.console import Console

    from agrlearn.cli.engine import announce_device, is_main_process, print_remarks, start_predicting
    from agrlearn.errors import RunError
    from agrlearn.evaluation.evaluate import evaluate as evaluate_network
    from agrlearn.evaluation.throughput import objects_per_second
    from agrlearn.grouping import first_tensor, map_objects
    from agrlearn.prediction.cost import multiply_adds_per_object
    from agrlearn.prediction.protocols import PROTOCOLS
    from agrlearn.runs.run import Run

    announce_device(options.device)
    opened = Run.open(run, model=options.network, data_dir=options.data_dir)
    built = opened.network
    source = opened.read(data, skip_bad=options.skip_bad)
    print_remarks(source)
    test_set, origin = opened.to_measure(source)
    everything = protocols == "all"
    names: list[str] = [protocols]
    if everything:
        names = ["replicated"] if built.fold == 1 or built.slot_blind else list(PROTOCOLS)

    chosen = {}
    for name in names:
        try:
            chosen[name] = opened.protocol(name, context=options.context, draws=options.draws, seed=options.seed)
        except RunError as error:  # the training objects are not to be had
            if not everything or options.context:
                raise
            if is_main_process():
                print(f"{name} is left out: {error}")
    engine = start_predicting(options.device)
    built.to(engine.device)
    results = {
        name: evaluate_network(
            built, test_set, protocol, batch_size=options.batch_size, samples=options.samples, seed=options.seed,
            sharded=True,
        )
        for name, protocol in chosen.items()
    }  # fmt: skip
    if not engine.is_global_zero:
        return

    rows = _quality(list(results.values()))
    if everything:
        some = map_objects(lambda tensor: tensor[:_OBJECTS_TIMED], test_set.objects)
        one_object = first_tensor(some)[:1]
        speeds = objects_per_second(
            [(built, each) for each in chosen.values()], some, batch_size=options.batch_size, samples=options.samples
        )
        costs = [multiply_adds_per_object(built, one_object, each, samples=options.samples) for each in chosen.values()]
        rows += _heads(list(results.values()))
        rows.append(["multiply-adds / object", *(f"{cost:,.0f}" for cost in costs)])
        rows.append(["objects/s", *(f"{speed:,.0f}" for speed in speeds)])

    facts = [f"fold {built.fold}"]
    if names != ["replicated"]:
        facts.append(f"draws: {options.draws}")
    if options.samples and built.noise > 0:
        facts.append(f"samples: {options.samples}")
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console = Console(markup=False, highlight=False, width=_WIDTH)
    print(f"{run} on {origin}; {', '.join(facts)}\n")
    console.print(_table(["", *results], rows, with_header=protocols != "replicated"))
    scores = next(iter(results.values())).classes
    shown = _worst(scores) if len(scores) > _MOST_CLASSES else range(len(scores))
    print(f"\nThe {_WORST} of {len(scores)} classes with the lowest F1:" if len(shown) < len(scores) else "")
    console.print(
        _table(
            ["class", "objects", "precision %", "recall %", "F1 %"],
            [[opened.class_names[number], *_class_cells(scores[number])] for number in shown],
        )
    )


def _quality(results: "Sequence[Evaluation]") -> list[list[str]]:
    """How good the predictions are: a row for each metric."""
    from agrlearn.evaluation.metrics import METRICS

    error, *others = [
        [metric.label, *(metric.text(getattr(each, name)) for each in results)] for name, metric in METRICS.items()
    ]
    share = METRICS["error"]
    accuracy = ["accuracy %", *(share.text(each.accuracy) for each in results)]
    return [accuracy, error, ["macro F1 %", *(share.text(each.macro_f1) for each in results)], *others]


def _heads(results: "Sequence[Evaluation]") -> list[list[str]]:
    """How far the heads agree."""

    def errors(found: Sequence[float]) -> str:
        return " ".join(map(_percent, found[:_MOST_HEADS])) + (" …" if len(found) > _MOST_HEADS else "")

    return [
        ["heads' errors %", *(errors(each.head_errors) for each in results)],
        ["heads disagree %", *(_percent(each.head_disagreement) for each in results)],
    ]


def _worst(scores: "Sequence[ClassScores]") -> list[int]:
    """The numbers of the classes with the lowest F1; classes that do not occur have none, and come last."""
    order = sorted(range(len(scores)), key=lambda number: (math.isnan(scores[number].f1), scores[number].f1))
    return order[:_WORST]


def _class_cells(scores: "ClassScores") -> list[str]:
    return [f"{scores.objects:,}", *map(_percent, (scores.precision, scores.recall, scores.f1))]


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], *, with_header: bool = True) -> "Table":
    """Names, which may be long, on the left, and numbers on the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=with_header, header_style="")
    for place, name in enumerate(header):
        table.add_column(name, justify="right" if place else "left", overflow="fold", max_width=None if place else 32)
    for row in rows:
        table.add_row(*row)
    return table
