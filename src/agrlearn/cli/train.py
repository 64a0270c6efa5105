"""agrlearn train"""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from agrlearn.cli.options import WholeNumber
from agrlearn.devices import DeviceName
from agrlearn.errors import RecipeError, look_up
from agrlearn.training.recipe import Recipe

if TYPE_CHECKING:
    from agrlearn.networks.aggregated import AggregatedClassifier
    from agrlearn.reporting.collect import Report
    from agrlearn.runs.spec import RunSpec
    from agrlearn.runs.train import RunData

_DEFAULTS = Recipe()


def train(
    data: str,
    /,
    *,
    fold: WholeNumber | None = None,
    network: str | None = None,
    net: Annotated[dict[str, str] | None, Parameter(negative=())] = None,
    data_dir: Path | None = None,
    validation_fraction: float = 0.1,
    image_size: WholeNumber | None = None,
    text_column: str | None = None,
    label_column: Annotated[str | None, Parameter(name=("--label", "--label-column"))] = None,
    columns: Annotated[list[str] | None, Parameter(negative=(), consume_multiple=True)] = None,
    ignore: Annotated[list[str] | None, Parameter(negative=(), consume_multiple=True)] = None,
    test: str | None = None,
    class_weight: Literal["balanced"] | None = None,
    skip_bad: bool = False,
    run_dir: Path | None = None,
    fresh: bool = False,
    precision: str = "32-true",
    device: DeviceName = "auto",
    report: bool = True,
    defaults: Annotated[Literal["agrlearn", "paper"], Parameter(name="--recipe")] = "agrlearn",
    recipe: Annotated[Recipe, Parameter(name="*")] = _DEFAULTS,
) -> None:
    """Train a network on DATA, in groups of FOLD objects; 1 is an ordinary network.

    Killed, crashed or stopped with Ctrl-C, the same command goes on where it was and ends with the same weights. With
    more --epochs, a run goes on from its last one, by the learning rates of the new number of epochs. Under torchrun it
    trains on all processes: torchrun --nproc-per-node 2 -m agrlearn train ...

    Parameters
    ----------
    data
        A data set by name (agrlearn info lists them), an .npz file with arrays x and y, a table (.csv, .tsv, .jsonl,
        .parquet) with a label column and text, numbers, words or dates, gaps or not, or a folder with a folder of
        images for each class.
    fold
        Objects that one pass classifies together; 1 is an ordinary network. By default 2 for tables of numbers and
        words, on which that errs less on average, and 1 for images and sentences.
    network
        A network by name (agrlearn info lists them), timm:NAME, or FILE.py:FUNCTION, which is run; by default small-cnn
        for images, mlp for vectors and sentence-cnn for text.
    net
        Options of the network, such as --net.width 32; for timm and your own, those of aggregate(), such as
        --net.at layer2 (agrlearn info lists them).
    data_dir
        The folder that holds data sets as they are published, or into which they are downloaded; by default that of
        the environment variable AGRLEARN_DATA, or ~/.cache/agrlearn.
    validation_fraction
        Share of every class to hold out and measure on, where the data have no test part of their own. With
        --patience, as much again is held out to choose the epoch by.
    image_size
        Pixels a side to which the images of a folder are brought; 32 by default.
    text_column
        The column of a table that holds sentences, which alone are then read; by default the only one there is.
    label_column
        The column of a table that holds the labels; guessed by default.
    columns
        Columns of a table to use, by name or as NAME=KIND (number, words, text, date, boolean); by default all except
        identifiers.
    ignore
        Columns of a table to leave out.
    test
        A file or folder to measure on, instead of a part of DATA.
    class_weight
        balanced gives the objects of a class as much more weight in training as it has fewer of them.
    skip_bad
        Leave out files and rows that cannot be read, and list them in the run directory.
    run_dir
        Where the run is kept; by default runs/ and a name made of the data, fold, alpha and seed.
    fresh
        Throw away what the run directory holds of an earlier run, and start over.
    precision
        32-true, 16-mixed, bf16-mixed or 64-true.
    device
        auto (a GPU if there is one), cpu, cuda or mps.
    report
        Write report.html into the run directory at the end.
    defaults
        What the settings are that you do not give: agrlearn's own, those of the estimator, chosen on public data
        (AdamW, a cosine, epochs by the number of objects); or the paper's (SGD by 0.1, 400 epochs, batches of 64).
    """
    from agrlearn.cli.finished import ALREADY, find_finished, scores_line

    folders = [run_dir or Path("runs") / _run_name(data, guess, recipe) for guess in ([fold] if fold else [1, 2])]
    # A network from a Python file may have changed with that file.
    own_network = ["--network", network] if network is not None and ".py:" in network else []
    following = [test or data, *(["--skip-bad"] if skip_bad else []), *own_network]
    done = None if fresh or own_network else find_finished(folders, data, test, report=report)
    if done is not None:
        _print_next(done, following)
        return

    from dataclasses import asdict

    from rich.console import Console

    from agrlearn.cli.engine import announce_device, command_line, print_remarks, start_engine
    from agrlearn.data.sources import BAD_FILE
    from agrlearn.files import REPORT_FILE, run_stamp
    from agrlearn.networks.cost import count_parameters
    from agrlearn.ranks import on_rank_zero
    from agrlearn.reporting.make import end_with_report
    from agrlearn.runs.result import REPLICATED, measure
    from agrlearn.runs.spec import RunSpec
    from agrlearn.runs.train import make_network, network_name, open_data, train_run
    from agrlearn.training.checkpoint import clear_run, update_run
    from agrlearn.training.defaults import complete_recipe, default_fold, default_options

    announce_device(device)
    more_epochs = "epochs" in recipe.model_fields_set  # a default is not what the user asks for
    spec = RunSpec(
        data=data, fold=1 if fold is None else fold, network=network, validation_fraction=validation_fraction,
        image_size=image_size, text_column=text_column, label_column=label_column, columns=tuple(columns or ()),
        ignore=tuple(ignore or ()), test=test, class_weight=class_weight, skip_bad=skip_bad, precision=precision,
        recipe=recipe,
    )  # fmt: skip
    found = open_data(spec, data_dir)
    if fold is None:
        fold = 2 if defaults == "paper" else default_fold(found.kind)
    folder = run_dir or Path("runs") / _run_name(data, fold, recipe)
    print_remarks(found.source, folder / BAD_FILE)
    options = {} if defaults == "paper" else default_options(network_name(spec, found))
    spec = spec.model_copy(update={"fold": fold, "net": options | _typed_options(spec, found, net or {})})
    built = make_network(spec, found)
    pooled = fold > 1 and built.slot_blind
    if defaults == "agrlearn":
        given = {name: getattr(recipe, name) for name in recipe.model_fields_set}
        recipe = complete_recipe(given, found.kind, objects=len(found.train), pooled=pooled)
        spec = spec.model_copy(update={"recipe": recipe})
    engine = start_engine(device, precision)
    console = Console(quiet=not engine.is_global_zero, markup=False)
    if fresh:
        on_rank_zero(lambda: clear_run(folder))
    console.print(
        f"{len(found.train):,} objects of {found.train.num_classes} classes · fold {fold} · "
        f"{count_parameters(built):,} parameters · {recipe.epochs} epochs of {recipe.optimizer} by "
        f"{recipe.learning_rate:g} · {folder}",
        soft_wrap=True,
    )
    if built.conversion is not None:
        console.print(str(built.conversion), soft_wrap=True)
    try:
        history = train_run(
            spec, folder, found, built, fabric=engine, progress="lines", command=command_line() or None,
            more_epochs=more_epochs,
        )  # fmt: skip
    except KeyboardInterrupt:
        console.print(f"\nStopped. The same command{' without --fresh' if fresh else ''} goes on from here.")
        raise SystemExit(130) from None
    if history.was_finished:
        console.print(ALREADY)
    last = history.records[-1]
    # Where slots are pooled, many answers in training are wrong by design.
    error = "" if pooled else f"training error {last.train_error:.2%} · "
    console.print(f"training loss {last.loss:.4f} · {error}{history.seconds:.1f} s")
    if last.information is not None:
        console.print(f"penalty J {last.information:.3f} nats, beside log m = {last.log_groups:.3f}")
    result = measure(spec, found, [built], history)
    for scores in result.protocols.values():
        line = scores_line(scores.error, scores.nll, scores.ece, test)
        console.print(f"{line} ({REPLICATED}, {len(found.test or ()):,} objects)")
    if report and engine.is_global_zero:
        end_with_report(folder / REPORT_FILE, lambda: _report(folder, built, found, test))
    on_rank_zero(lambda: update_run(folder, result=asdict(result), run_stamp=run_stamp(folder)))
    _print_next(folder, following)


def _print_next(folder: Path, following: list[str]) -> None:
    from agrlearn.cli.engine import is_main_process

    if is_main_process():
        print(f"Next: {shlex.join(['agrlearn', 'evaluate', str(folder), *following])}")


def _report(folder: Path, built: "AggregatedClassifier", data: "RunData", test: str | None) -> "Report":
    from agrlearn.reporting.make import Reporter
    from agrlearn.reporting.measure import Subject
    from agrlearn.runs.facts import read_facts

    subjects = {}
    source = data.source
    if data.test is not None:
        origin = f"{len(data.test):,} {'' if test else 'held-out '}objects of {test or source.name}"
        subjects[folder] = Subject(
            built, data.test, data.train.objects, origin, tuple(source.preparation.get("words", ()))
        )
    notes = [f"{source.left_out}."] if source.bad else []
    return Reporter().report([read_facts(folder)], folder.resolve().name, subjects=subjects, notes=notes)


def _run_name(data: str, fold: int, recipe: Recipe) -> str:
    alpha = f"-alpha{recipe.alpha:g}" if recipe.alpha else ""
    return f"{Path(data).stem}-fold{fold}{alpha}-seed{recipe.seed}"


def _typed_options(spec: "RunSpec", data: "RunData", texts: dict[str, str]) -> dict[str, Any]:
    """The network's options, each as the type of its default value."""
    from agrlearn.networks.catalogue import network_defaults
    from agrlearn.networks.outside import CONVERSION_OPTIONS, is_outside
    from agrlearn.runs.train import network_name

    network = network_name(spec, data)
    defaults = CONVERSION_OPTIONS if is_outside(network) else network_defaults(network)
    names = {name.replace("_", "-"): name for name in defaults}
    options = {}
    for option, text in texts.items():
        name = look_up(names, option.replace("_", "-"), f"option of {network}")
        options[name] = _as_type_of(defaults[name], text, option)
    return options


def _as_type_of(default: Any, text: str, option: str) -> Any:
    if isinstance(default, str):
        return text
    try:
        value = json.loads(text.lower())
    except ValueError:
        value = None
    if isinstance(default, float) and type(value) is int:
        value = float(value)
    if type(value) is not type(default):
        raise RecipeError(f"--net.{option} takes a value like {str(default).lower()}, got {text!r}")
    return value
