"""The dial: objects a second and test error of one trained network under every protocol, as a table and a picture."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from agrlearn.data.datasets import open_source
from agrlearn.drawing import INK, save_picture
from agrlearn.evaluation.evaluate import evaluate
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.prediction.cost import multiply_adds_per_object, width_as_cheap
from agrlearn.prediction.predict import predict
from agrlearn.prediction.protocols import Batched, Contextual, PredictionProtocol, Replicated
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from benchmarks.timing import Ratio, heading, ratio, take_turns, verdict

PICTURE = Path(__file__).parents[1] / "results" / "dial.png"
JOINS = {
    "channels": {"join": "channels", "join_after": 0},
    "width": {"join": "width", "join_after": 0},
    "depth": {"join": "channels", "join_after": 1},
}
_EPOCHS, _WIDTH, _ORDINARY = 15, 32, "fold 1"
_AS_CHEAP = "fold 1, as cheap"


@dataclass(frozen=True)
class Point:
    """One network under one protocol."""

    join: str
    fold: int
    """That of the join; also of the ordinary network that is as cheap as it."""
    protocol: str
    speed: Ratio
    """Objects a second over those of fold 1."""
    allowed: float
    """The same ratio of multiply-adds."""
    error: float


def _train(fold: int, times_the_batch: int = 1, width: int = _WIDTH, **options: object) -> AggregatedClassifier:
    digits = open_source("digits")
    train = digits.labelled(digits.train)
    torch.manual_seed(0)
    network = build_network(
        "small-cnn", object_shape=(1, 8, 8), num_classes=10, fold=fold, objects=train.objects, width=width, **options
    )
    recipe = Recipe(epochs=_EPOCHS * times_the_batch, batch_size=64 * times_the_batch, schedule="cosine")
    fit(network, train, recipe)
    return network


def _train_as_cheap(join: str, fold: int) -> AggregatedClassifier | None:
    """An ordinary network as cheap as Batched prediction with one draw, on as many objects; None if fold 1 is."""
    options = (("width", _WIDTH), *JOINS[join].items())
    width = width_as_cheap("small-cnn", (1, 8, 8), 10, fold, options)
    return None if width is None else _train(1, times_the_batch=fold, width=width)


def measure() -> list[Point]:
    digits = open_source("digits")
    train, test = digits.labelled(digits.train), digits.labelled(digits.test)
    assert isinstance(test.objects, torch.Tensor)
    many = test.objects.repeat(4, 1, 1, 1)
    networks = {(_ORDINARY, 1): _train(1, times_the_batch=4)}
    for join, options in JOINS.items():
        networks |= {(join, fold): _train(fold, **options) for fold in (2, 4)}
    settings: dict[str, tuple[str, int, AggregatedClassifier, str, PredictionProtocol]] = {}
    for (join, fold), network in networks.items():
        protocols: dict[str, PredictionProtocol] = {"Replicated": Replicated()}
        if fold > 1:
            protocols |= {f"Batched, {draws}": Batched(draws) for draws in (1, 2, 4)}
            protocols["Contextual, 1"] = Contextual(train.objects)
        for name, protocol in protocols.items():
            settings[f"{join}/{fold}/{name}"] = (join, fold, network, name, protocol)
        if fold > 1 and (cheap := _train_as_cheap(join, fold)) is not None:
            settings[f"{join}/{fold}/{_AS_CHEAP}"] = (join, fold, cheap, _AS_CHEAP, Replicated())
    actions: dict[str, Callable[[], object]] = {
        key: lambda network=network, protocol=protocol: predict(network, many, protocol)
        for key, (_, _, network, _, protocol) in settings.items()
    }
    times = take_turns(actions, rounds=9, warm_up=1)
    base = f"{_ORDINARY}/1/Replicated"
    ordinary = multiply_adds_per_object(networks[_ORDINARY, 1], test.objects[:1], Replicated())
    return [
        Point(
            join, fold, name, ratio(times, base, key),
            ordinary / multiply_adds_per_object(network, test.objects[:1], protocol),
            evaluate(network, test, protocol).error,
        )
        for key, (join, fold, network, name, protocol) in settings.items()
    ]  # fmt: skip


def dial() -> list[str]:
    """One network, every protocol: objects a second over fold 1 (which saw as many objects as fold 4), and test error.

    The small CNN (width 32) on scikit-learn's digits, one seed, joined at the input by channels or by width, or after
    its first layer. *fold 1, as cheap*: an ordinary network so narrow that it costs no more than Batched with one draw,
    which saw as many objects as that fold. Aim: Replicated and Batched with one draw reach 0.9 of what the
    multiply-adds allow.
    """
    points = measure()
    draw(points)
    lines = heading(
        "join", "prediction", "fold", "objects/s over fold 1", "quartiles", "allowed", "of it", "error %", "", text=2
    )
    for point in points:
        share = point.speed.middle / point.allowed
        judged = point.protocol in ("Replicated", "Batched, 1") and point.fold > 1
        lines.append(
            f"| {point.join} | {point.protocol} | {point.fold} | {point.speed} | {point.allowed:.2f} | {share:.2f} "
            f"| {100 * point.error:.2f} | {verdict(share >= 0.9) if judged else ''} |"
        )
    return [*lines, "", f"![error against objects a second]({PICTURE.name})"]


def draw(points: list[Point]) -> None:
    """A panel for each join: error against speed, with each network's front as a line."""
    from matplotlib.figure import Figure

    marks = {
        _AS_CHEAP: "*",
        "Replicated": "o",
        "Batched, 1": ">",
        "Batched, 2": "s",
        "Batched, 4": "D",
        "Contextual, 1": "x",
    }
    colours = {2: "#0072b2", 4: "#d55e00"}
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    panels = figure.subplots(1, len(JOINS), sharey=True, sharex=True)
    ordinary = next(point for point in points if point.fold == 1)
    for panel, join in zip(panels, JOINS, strict=True):
        panel.axvline(1, color="0.85", linewidth=1, zorder=0)
        panel.plot(1, 100 * ordinary.error, "*", color=INK, markersize=13, label="fold 1")
        for fold, colour in colours.items():
            mine = [point for point in points if (point.join, point.fold) == (join, fold)]
            own = [point for point in mine if point.protocol != _AS_CHEAP]
            front = sorted((point.speed.middle, 100 * point.error) for point in own if _is_on_front(point, own))
            panel.plot(*zip(*front, strict=True), color=colour, linewidth=1.2, alpha=0.6)
            for point in mine:
                panel.plot(
                    point.speed.middle, 100 * point.error, marks[point.protocol], color=colour, markersize=7,
                    label=f"{point.protocol} as fold {fold}" if point.protocol == _AS_CHEAP
                    else f"fold {fold}, {point.protocol}",
                )  # fmt: skip
        panel.set(xscale="log", yscale="log", title=f"joined: {join}", xlabel="objects a second over fold 1")
        panel.set_xticks([0.5, 1, 2, 3], ["0.5", "1", "2", "3"], minor=False)
        panel.xaxis.set_minor_formatter("")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("test error, %")
    panels[0].set_yticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
    panels[0].yaxis.set_minor_formatter("")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)
    PICTURE.parent.mkdir(exist_ok=True)
    save_picture(figure, PICTURE, dpi=110)


def _is_on_front(point: Point, others: list[Point]) -> bool:
    """Whether no other point is both faster and better."""
    return not any(other.speed.middle > point.speed.middle and other.error < point.error for other in others)
