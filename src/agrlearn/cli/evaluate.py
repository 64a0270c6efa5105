"""agrlearn evaluate"""

import math
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agrlearn.cli.options import PredictionOptions

_DEFAULTS = PredictionOptions()

_OBJECTS_TIMED = 2048


def evaluate(
    run: Path,
    data: str,
    /,
    *,
    protocol: str | None = None,
    options: Annotated[PredictionOptions, Parameter(name="*")] = _DEFAULTS,
) -> None:
    """Compare the predictions of RUN's network with the labels of DATA, and tell how fast it predicts.

    Parameters
    ----------
    run
        The directory of a finished run.
    data
        A data set by name (its test part is used), an .npz file with arrays x and y, a table, or a folder of class
        folders of images. Of the data that RUN was trained on, what it held out is used, unless they have changed.
    protocol
        replicated, batched or contextual; by default all that the network can answer.
    """
    from rich.console import Console
    from rich.table import Table

    from agrlearn.cli.engine import announce_device, is_main_process, print_remarks, start_predicting
    from agrlearn.errors import RunError
    from agrlearn.evaluation.evaluate import evaluate as evaluate_network
    from agrlearn.evaluation.metrics import METRICS
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
    names = [protocol] if protocol else ["replicated"] if built.fold == 1 or built.slot_blind else list(PROTOCOLS)

    protocols = {}
    for name in names:
        try:
            protocols[name] = opened.protocol(name, context=options.context, draws=options.draws, seed=options.seed)
        except RunError as error:  # the training objects are not to be had
            if protocol or options.context:
                raise
            if is_main_process():
                print(f"{name} is left out: {error}")
    engine = start_predicting(options.device)
    built.to(engine.device)
    results = {
        name: evaluate_network(
            built,
            test_set,
            chosen,
            batch_size=options.batch_size,
            samples=options.samples,
            seed=options.seed,
            sharded=True,
        )
        for name, chosen in protocols.items()
    }
    if not engine.is_global_zero:
        return
    some = map_objects(lambda tensor: tensor[:_OBJECTS_TIMED], test_set.objects)
    speeds = objects_per_second(
        [(built, chosen) for chosen in protocols.values()], some, batch_size=options.batch_size, samples=options.samples
    )

    samples = f", samples: {options.samples}" if options.samples and built.noise > 0 else ""
    table = Table(title=f"{run} on {origin}; fold {built.fold}, draws: {options.draws}{samples}")
    labels = [metric.label for metric in METRICS.values()]
    for column in ("prediction", *labels, "heads' errors %", "heads disagree %"):
        table.add_column(column, justify="left" if column == "prediction" else "right")
    table.add_column("multiply-adds / object", justify="right")
    table.add_column("objects/s", justify="right")
    one_object = first_tensor(test_set.objects)[:1]
    for (name, result), chosen, speed in zip(results.items(), protocols.values(), speeds, strict=True):
        heads = ["–" if math.isnan(error) else f"{100 * error:.1f}" for error in result.head_errors[:8]]
        table.add_row(
            name,
            *(metric.text(getattr(result, name)) for name, metric in METRICS.items()),
            " ".join(heads) + (" …" if len(result.head_errors) > 8 else ""),
            f"{100 * result.head_disagreement:.1f}",
            f"{multiply_adds_per_object(built, one_object, chosen, samples=options.samples):,.0f}",
            f"{speed:,.0f}",
        )
    console = Console(markup=False)
    # Piped into a file there is no width to fit: keep every cell whole.
    console.print(table) if console.is_terminal else Console(width=200, markup=False).print(table)
