"""The paper's tables and figure, with the controls it does not have and what lies beyond it, at four scales.

The paper joins images without saying how. It also says that only the heads and the last layer differ from the ordinary
network, which the channels join contradicts (it changes the first layer) and the width join fulfils: so its rows are
joined by width here, and the channels join stands among the rows beyond the paper.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agrlearn.studies.paper.beyond import beyond_rows
from agrlearn.studies.paper.draw import Picture, draw_curves, draw_shares
from agrlearn.studies.paper.results import FOLD_1
from agrlearn.studies.paper.rows import Part, Row, ensemble_of, equal_objects
from agrlearn.studies.paper.scales import MEDIUM, PAPER, SMALL, SMOKE, Scale
from agrlearn.studies.paper.specs import image_spec, text_spec

_CIFAR = {"CIFAR-10": "cifar-10", "CIFAR-100": "cifar-100"}
_TEXT = {"Movie Review": "movie-review", "Subjectivity": "subjectivity"}
_CHEAP_JOINS: dict[str, dict[str, Any]] = {
    "joined after block 4": {"join": "channels", "join_after": 4},
    "joined by channels": {"join": "channels"},
}
"""Whose Batched prediction costs less than an ordinary network."""
_POOLED_FOLDS = (2, 4)
_AT_HALF_THE_RATE = {join: f"fold 2, {join} of the features, half the rate" for join in ("max", "mean")}
_AVERAGED, _AVERAGE_FROM = f"{FOLD_1}, weights averaged", 0.75
_AT_TEMPERATURE = f"{FOLD_1}, with a temperature"
_SHARES = (0.025, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True)
class Experiment:
    """A table or figure."""

    title: str
    rows: Callable[[Scale], list[Row]]
    measure: Literal["error", "accuracy"] = "error"
    picture: Picture | None = None
    kind: Literal["images", "converged", "text", "text_by_sgd", "beyond"] = "images"

    def remark(self, scale: Scale) -> str:
        """What `scale` means for this experiment; nothing where it has no such scale."""
        return str(getattr(scale, self.kind))


def _pooled() -> Iterator[tuple[str, int, str, float]]:
    """Label, fold, join and repetition of the rows whose slots are pooled behind the last features."""
    for fold, join, repetition in itertools.product(_POOLED_FOLDS, ("max", "mean"), (0.0, 0.2)):
        repeated = f", repetition {repetition}" if repetition else ""
        yield f"fold {fold}, {join} of the features{repeated}", fold, join, repetition


MakeRow = Callable[..., Row]
"""(label, part, **settings of `image_spec`) -> a row."""


def _image_rows(
    scale: Scale, block: str, dataset: str, published: dict[str, float], *, folds: Sequence[int] = (2,),
    alphas: dict[int, float] | None = None, beyond: bool = False, **network: Any,
) -> list[Row]:  # fmt: skip
    """The rows of one data set and network: the paper's, the controls, and those beyond."""
    alphas = {1: 0.7, 2: 0.3, 4: 4.0} if alphas is None else alphas

    def row(label: str, part: Part = "paper", **settings: Any) -> Row:
        spec = image_spec(scale, dataset, **network, **settings)
        return Row(block, label, spec, published.get(label), part, last=10 if scale is PAPER else 1)

    rows = []
    for fold in (1, *folds):
        rows.append(row(f"fold {fold}", fold=fold))
        if fold in alphas:
            alpha = alphas[fold]
            rows.append(row(f"fold {fold}, α = {alpha:g}", fold=fold, recipe={"alpha": alpha, "critic": "input"}))
    for fold in _POOLED_FOLDS:
        rows.append(row(equal_objects(fold), "control", times_the_batch=fold))
    for fold in folds:
        rows.append(row(ensemble_of(fold), "control", members=fold))
        rows.append(row(f"fold 1, last layer as fold {fold}", "control", widen=fold))
    rows.append(row("fold 1, stopped early", "control", stop_early=True))
    rows.append(row(_AVERAGED, "control", recipe={"average_from": _AVERAGE_FROM}))
    rows.append(row(_AT_TEMPERATURE, "control", calibrate=True))
    for (fold, alpha), noise in itertools.product(alphas.items(), (0, 1)):
        label = f"fold {fold}, α = {alpha:g}, critic of T" + (", noise 1" if noise else "")
        recipe = {"alpha": alpha}
        rows.append(row(label, "beyond", fold=fold, recipe=recipe, **({"noise": float(noise)} if noise else {})))
    for label, fold, join, repetition in _pooled():
        rows.append(row(label, "beyond", fold=fold, join=join, recipe={"repetition": repetition}))
    if beyond:
        rows += _further_rows(row, folds)
    # The loss is summed over the slots, which share one head here: at half the rate, a step is as long as at fold 1.
    for join, label in _AT_HALF_THE_RATE.items():
        rows.append(row(label, "beyond", fold=2, join=join, recipe={"learning_rate": 0.05}))
    return [row for row in rows if scale is not MEDIUM or row.label in _AT_MEDIUM_SCALE]


def _further_rows(row: MakeRow, folds: Sequence[int]) -> Iterator[Row]:
    """Other joins, with the ordinary networks that are as cheap, and mixup."""
    for fold, (where, options) in itertools.product(folds, _CHEAP_JOINS.items()):
        yield row(f"fold {fold}, {where}", "beyond", fold=fold, **options)
        cheap = {"fold": fold, **options}
        yield row(f"fold 1, as cheap as fold {fold} {where}", "control", times_the_batch=fold, as_cheap_as=cheap)
    if 4 in folds:
        yield row("fold 4, α = 0.4", "beyond", fold=4, recipe={"alpha": 0.4, "critic": "input"})
    yield row("fold 2, pooled by slot", "beyond", fold=2, slotwise=True)
    yield row("fold 2, by channels, repetition 0.5", "beyond", fold=2, join="channels", recipe={"repetition": 0.5})
    yield row("fold 1, mixup 1", "beyond", recipe={"mixup": 1.0})


def _resnet_table(
    published: dict[str, dict[str, float]], *, folds: Sequence[int] = (2,), beyond: bool = False, **network: Any
) -> Callable[[Scale], list[Row]]:
    def rows(scale: Scale) -> list[Row]:
        blocks = [
            _image_rows(scale, block, dataset, published[block], folds=folds, beyond=beyond, **network)
            for block, dataset in _CIFAR.items()
        ]
        return [row for block in blocks for row in block]

    return rows


def _complexity_rows(scale: Scale) -> list[Row]:
    published = {
        ("CIFAR-10", 18, 1): 4.73, ("CIFAR-10", 18, 2): 4.3, ("CIFAR-10", 34, 1): 4.65, ("CIFAR-10", 34, 2): 4.45,
        ("CIFAR-100", 18, 1): 22.94, ("CIFAR-100", 18, 2): 21.78, ("CIFAR-100", 34, 1): 22.25,
        ("CIFAR-100", 34, 2): 21.68,
    }  # fmt: skip
    rows = []
    for (data, depth, times), value in published.items():
        block = f"{data}, ResNet-{depth}{'+double layer' if times == 2 else ''}"
        options: dict[str, Any] = {} if depth == 18 else {"depth": depth}
        rows += _image_rows(
            scale, block, _CIFAR[data], {"fold 2, α = 0.3": value}, alphas={2: 0.3}, width_times=times, **options
        )
    return rows


def _text_rows(scale: Scale, *, sgd: bool = False) -> list[Row]:
    published = {
        ("Movie Review", "CNN"): (76.1, 79.3), ("Movie Review", "LSTM"): (76.2, 77.8),
        ("Subjectivity", "CNN"): (90.01, 93.5), ("Subjectivity", "LSTM"): (90.2, 92.1),
    }  # fmt: skip
    rows = []
    for (data, kind), (one, two) in published.items():
        block, dataset, network = f"{data}, {kind}", _TEXT[data], f"sentence-{kind.lower()}"
        make = functools.partial(text_spec, scale, dataset, network, sgd=sgd)
        wide: dict[str, Any] = {"maps": 200} if kind == "CNN" else {"hidden": 256}
        row = functools.partial(Row, block, last={PAPER: 10, SMALL: 5, SMOKE: 1}[scale])
        rows += [
            row(FOLD_1, make(), one),
            row("fold 2", make(fold=2), two),
            *(row(equal_objects(fold), make(times_the_batch=fold), part="control") for fold in _POOLED_FOLDS),
            row(ensemble_of(2), make(members=2), part="control"),
            row("fold 1, last layer as fold 2", make(**wide), part="control"),
            row("fold 1, stopped early", make(stop_early=True), part="control"),
            row(_AVERAGED, make(recipe={"average_from": _AVERAGE_FROM}), part="control"),
            row(_AT_TEMPERATURE, make(calibrate=True), part="control"),
        ]
        for label, fold, join, repetition in _pooled():
            rows.append(row(label, make(fold=fold, join=join, recipe={"repetition": repetition}), part="beyond"))
        if kind == "CNN":
            rows.append(row("fold 2, pooled by slot", make(fold=2, slotwise=True), part="beyond"))
    return rows


def _share_of_cifar(share: float) -> str:
    return f"{100 * share:g}% of CIFAR-10"


def _curve_rows(scale: Scale) -> list[Row]:
    # At small scale the training loss of fold 1 only reaches zero, as in the paper's figure, on a few images.
    share = 0.025 if scale is SMALL else 1.0
    rows = _image_rows(scale, _share_of_cifar(share), "cifar-10", {}, folds=(4,), alphas={}, share=share, converge=True)
    return [row for row in rows if row.label in (FOLD_1, "fold 4", equal_objects(4))]


def _sample_rows(scale: Scale) -> list[Row]:
    rows = []
    for share in _SHARES:
        block = _share_of_cifar(share)
        found = _image_rows(
            scale, block, "cifar-10", {}, folds=(2, 4), alphas={}, beyond=True, share=share, converge=True
        )
        left_out = ("α", "by channels, repetition")
        rows += [row for row in found if not any(word in row.label for word in left_out)]
    return rows


def _interaction_rows(scale: Scale) -> list[Row]:
    rows = []
    for share in (0.025, 0.1, 1.0):
        for times in (0.5, 1, 2):
            found = _image_rows(
                scale, f"{_share_of_cifar(share)}, width × {times:g}", "cifar-10", {}, folds=(2, 4), alphas={},
                beyond=True, share=share, converge=True, width_times=times,
            )  # fmt: skip
            rows += [row for row in found if row.label.startswith(FOLD_1) or "joined after" in row.label]
    left_out = ("mixup", "ensemble", "by channels", "averaged", "temperature")
    return [row for row in rows if not any(word in row.label for word in left_out)]


_AT_MEDIUM_SCALE = (
    FOLD_1, "fold 2", equal_objects(2), ensemble_of(2), "fold 2, max of the features", "fold 2, mean of the features",
    "fold 1, mixup 1", *_AT_HALF_THE_RATE.values(),
)  # fmt: skip
_TABLE_1 = {
    "CIFAR-10": {FOLD_1: 5.08, "fold 1, α = 0.7": 4.92, "fold 2": 4.89, "fold 2, α = 0.3": 4.73},
    "CIFAR-100": {FOLD_1: 23.7, "fold 1, α = 0.7": 23.7, "fold 2": 23.03, "fold 2, α = 0.3": 22.94},
}
_TABLE_2 = {
    "CIFAR-10": {FOLD_1: 4.3, "fold 1, α = 0.7": 4.23, "fold 2": 4.19, "fold 2, α = 0.3": 4.18},
    "CIFAR-100": {FOLD_1: 21.13, "fold 1, α = 0.7": 21.1, "fold 2": 20.3, "fold 2, α = 0.3": 20.28},
}
_TABLE_3 = {
    "CIFAR-10": {FOLD_1: 4.94, "fold 1, α = 0.7": 4.91, "fold 2": 4.68, "fold 2, α = 0.3": 4.65},
    "CIFAR-100": {FOLD_1: 23.86, "fold 1, α = 0.7": 23.82, "fold 2": 22.63, "fold 2, α = 0.3": 22.25},
}
_TABLE_5 = {
    "CIFAR-10": {**_TABLE_1["CIFAR-10"], "fold 4": 4.84, "fold 4, α = 4": 4.69},
    "CIFAR-100": {**_TABLE_1["CIFAR-100"], "fold 4": 22.49, "fold 4, α = 4": 22.32},
}

EXPERIMENTS: dict[str, Experiment] = {
    "table1": Experiment("Table 1: ResNet-18", _resnet_table(_TABLE_1, beyond=True)),
    "table2": Experiment("Table 2: WideResNet-22-10", _resnet_table(_TABLE_2, network="wide-resnet")),
    "table3": Experiment("Table 3: ResNet-34", _resnet_table(_TABLE_3, depth=34)),
    "table4": Experiment("Table 4: fold 2 and the complexity of the network", _complexity_rows),
    "table5": Experiment("Table 5: ResNet-18 and the fold", _resnet_table(_TABLE_5, folds=(2, 4), beyond=True)),
    "table6": Experiment("Table 6: sentences", _text_rows, measure="accuracy", kind="text"),
    "table6-sgd": Experiment(
        "Table 6 by the paper's SGD: sentences",
        functools.partial(_text_rows, sgd=True),
        measure="accuracy",
        kind="text_by_sgd",
    ),
    "figure3": Experiment(
        "Figure 3: training loss and test error of folds 1 and 4", _curve_rows, picture=draw_curves, kind="converged"
    ),
    "data-efficiency": Experiment(
        "Little data: shares of CIFAR-10", _sample_rows, picture=draw_shares, kind="converged"
    ),
    "interaction": Experiment("Width × fold × sample size", _interaction_rows, kind="converged"),
    "beyond": Experiment("Beyond the paper: mixed folds and stacked slots", beyond_rows, kind="beyond"),
}
