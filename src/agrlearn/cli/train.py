"""agrlearn train"""

import inspect
import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from agrlearn.errors import RecipeError, look_up
from agrlearn.training.recipe import Recipe

_DEFAULTS = Recipe()


def train(
    data: str,
    /,
    *,
    fold: int = 2,
    network: str | None = None,
    net: Annotated[dict[str, str] | None, Parameter(negative=())] = None,
    validation_fraction: float = 0.1,
    run_dir: Path | None = None,
    fresh: bool = False,
    recipe: Annotated[Recipe, Parameter(name="*")] = _DEFAULTS,
) -> None:
    """Train a network that classifies FOLD objects in one pass.

    Killed, crashed or stopped with Ctrl-C, the same command goes on where it was and ends with the same weights.

    Parameters
    ----------
    data
        A data set by name (agrlearn info lists them), or an .npz file with arrays x and y.
    fold
        Objects that one pass classifies together; 1 is an ordinary network.
    network
        A network by name (agrlearn info lists them); by default small-cnn for images and mlp for vectors.
    net
        Options of the network, such as --net.width 32 or --net.join width (agrlearn info lists them).
    validation_fraction
        Share of the objects to hold out and measure on, where the data set has no test part of its own.
    run_dir
        Where the run is kept; by default runs/ and a name made of the data, fold, alpha and seed.
    fresh
        Throw away what the run directory holds of an earlier run, and start over.
    """
    from rich.console import Console

    from agrlearn.cli.runs import remember_data, split_source
    from agrlearn.data.catalogue import open_source
    from agrlearn.evaluation.evaluate import evaluate
    from agrlearn.grouping import first_tensor
    from agrlearn.networks.catalogue import build_network
    from agrlearn.networks.cost import count_parameters
    from agrlearn.training.checkpoint import clear_run
    from agrlearn.training.loop import fit

    train_set, validation_set = split_source(open_source(data), validation_fraction)
    objects = first_tensor(train_set.objects)
    built = build_network(
        network or ("small-cnn" if objects.ndim == 4 else "mlp"),
        object_shape=tuple(objects.shape[1:]),
        num_classes=train_set.num_classes,
        fold=fold,
        seed=recipe.seed,
        objects=objects,
        **_network_options(network or ("small-cnn" if objects.ndim == 4 else "mlp"), net or {}),
    )
    folder = run_dir or Path("runs") / _run_name(data, fold, recipe)
    console = Console()
    if fresh:
        clear_run(folder)
    console.print(
        f"{len(train_set):,} objects of {train_set.num_classes} classes · fold {fold} · "
        f"{count_parameters(built):,} parameters · {folder}",
        soft_wrap=True,
    )
    try:
        history = fit(built, train_set, recipe, validation_set, folder, label=f"fold {fold}")
    except KeyboardInterrupt:
        console.print("\nStopped. The same command goes on from here.")
        raise SystemExit(130) from None
    remember_data(folder, data, validation_fraction)
    if history.was_finished:
        console.print("This run was finished already; --fresh trains it again.")
    last = history.records[-1]
    console.print(f"training loss {last.loss:.4f} · training error {last.train_error:.2%} · {history.seconds:.1f} s")
    if last.information is not None:
        console.print(f"penalty J {last.information:.3f} nats, beside log m = {last.log_groups:.3f}")
    if validation_set is not None:
        scores = evaluate(built, validation_set)
        console.print(
            f"held-out error {scores.error:.2%} · NLL {scores.nll:.4f} · ECE {scores.ece:.4f} "
            f"(Replicated, {scores.objects:,} objects)"
        )
    console.print(f"Next: agrlearn evaluate {folder} {data}", soft_wrap=True)


def _run_name(data: str, fold: int, recipe: Recipe) -> str:
    alpha = f"-alpha{recipe.alpha:g}" if recipe.alpha else ""
    return f"{Path(data).stem}-fold{fold}{alpha}-seed{recipe.seed}"


def _network_options(network: str, texts: dict[str, str]) -> dict[str, Any]:
    """The network's options, each as the type of its default value."""
    from agrlearn.networks.catalogue import NETWORKS

    builder = look_up(NETWORKS, network, "network")
    defaults = {
        name.replace("_", "-"): (name, value.default)
        for name, value in inspect.signature(builder).parameters.items()
        if value.kind is value.KEYWORD_ONLY
    }
    options = {}
    for option, text in texts.items():
        name, default = look_up(defaults, option.replace("_", "-"), f"option of {network}")
        options[name] = _as_type_of(default, text, option)
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
