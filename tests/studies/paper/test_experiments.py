"""The experiments: the paper's protocol to the letter, and controls that are what they are called."""

import re

import pytest
import torch

from agrlearn.networks.preact_resnet import preact_resnet
from agrlearn.prediction.cost import multiply_adds_per_object, width_as_cheap
from agrlearn.prediction.protocols import Batched, Replicated
from agrlearn.studies.paper.experiments import EXPERIMENTS
from agrlearn.studies.paper.results import FOLD_1
from agrlearn.studies.paper.rows import equal_objects
from agrlearn.studies.paper.scales import MEDIUM, PAPER, SCALES, SMALL
from agrlearn.training.recipe import Recipe

TABLES = [name for name in EXPERIMENTS if name != "beyond"]
SMALL_OR_PAPER = pytest.mark.parametrize("scale", [SMALL, PAPER], ids=lambda scale: scale.name)


def rows_of(name, scale):
    return {(row.block, row.label): row for row in EXPERIMENTS[name].rows(scale)}


THERE = [(name, scale) for name, found in EXPERIMENTS.items() for scale in SCALES.values() if found.remark(scale)]


@pytest.mark.parametrize(("name", "scale"), THERE, ids=lambda value: getattr(value, "name", value))
def test_every_row_of_a_table_is_named_once_and_has_a_fold_1_to_compare_with(name, scale):
    rows = EXPERIMENTS[name].rows(scale)
    named = rows_of(name, scale)
    assert len(named) == len(rows)
    for row in rows:
        assert (row.block, FOLD_1) in named
        assert (row.spec.fold == 1) == row.label.startswith(FOLD_1)


@SMALL_OR_PAPER
@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_the_controls(name, scale):
    rows = EXPERIMENTS[name].rows(scale)
    for block in {row.block for row in rows}:
        labels = {row.label for row in rows if row.block == block}
        assert any(label.startswith("fold 1, objects as fold") for label in labels)
        if name not in ("figure3", "interaction"):
            assert any(label.startswith("fold 1, ensemble of") for label in labels)
            assert {"fold 1, weights averaged", "fold 1, with a temperature"} <= labels
            pooled = {f"fold {fold}, {join} of the features" for fold in (2, 4) for join in ("max", "mean")}
            assert pooled | {f"{label}, repetition 0.2" for label in pooled} <= labels
            assert {"fold 1, objects as fold 2", "fold 1, objects as fold 4"} <= labels
        if name != "figure3":
            assert "fold 1, stopped early" in labels
            assert any(label.startswith("fold 1, last layer as fold") for label in labels)


@SMALL_OR_PAPER
@pytest.mark.parametrize("name", TABLES)
def test_the_equal_object_control_sees_as_many_objects_in_as_many_steps_as_the_fold(name, scale):
    rows = rows_of(name, scale)
    for (block, label), row in rows.items():
        if found := re.fullmatch(r"fold 1, objects as fold (\d)", label):
            named = [f"fold {found[1]}{where}" for where in ("", ", joined after block 4", ", max of the features")]
            fold = next(rows[block, name].spec for name in named if (block, name) in rows)
            mine, theirs = row.spec.recipe, fold.recipe
            assert mine.batch_size == fold.fold * theirs.batch_size
            assert mine.epochs == fold.fold * theirs.epochs
            assert mine.evaluate_every == fold.fold * theirs.evaluate_every
            changed = {"batch_size", "epochs", "evaluate_every"}
            assert mine.model_dump(exclude=changed) == theirs.model_dump(exclude=changed)


@SMALL_OR_PAPER
def test_the_ensemble_trains_and_predicts_at_the_cost_of_the_join_by_width(scale):
    rows = rows_of("table5", scale)
    for fold in (2, 4):
        ensemble, grouped = rows["CIFAR-10", f"fold 1, ensemble of {fold}"].spec, rows["CIFAR-10", f"fold {fold}"].spec
        assert (ensemble.members, ensemble.fold, ensemble.recipe) == (fold, 1, grouped.recipe)
        assert grouped.net["join"] == "width"


@SMALL_OR_PAPER
@pytest.mark.parametrize("where", ["joined after block 4", "joined by channels"])
def test_the_narrow_control_costs_no_more_than_batched_prediction_and_one_wider_would(where, scale):
    rows = rows_of("table5", scale)
    for fold in (2, 4):
        grouped = rows["CIFAR-10", f"fold {fold}, {where}"].spec
        narrow = rows["CIFAR-10", f"fold 1, as cheap as fold {fold} {where}"].spec
        equal = rows["CIFAR-10", equal_objects(fold)].spec

        def cost(spec, protocol, wider=0):
            options = spec.net | {"width": spec.net.get("width", 64) + wider}
            with torch.device("meta"):
                network = preact_resnet((3, 32, 32), 10, spec.fold, **options)
                return multiply_adds_per_object(network, torch.zeros(1, 3, 32, 32), protocol)

        assert cost(narrow, Replicated()) <= cost(grouped, Batched()) < cost(narrow, Replicated(), wider=1)
        assert narrow.model_dump(exclude={"net"}) == equal.model_dump(exclude={"net"})
        assert narrow.net.keys() - {"width"} == equal.net.keys() - {"width"}


def test_an_ordinary_network_that_is_cheap_already_is_not_made_narrower():
    assert width_as_cheap("preact-resnet", (3, 32, 32), 10, 2, (("join", "width"),)) is None


def test_beyond_the_paper_every_fold_has_its_controls_and_differs_from_the_others_in_one_thing():
    rows = rows_of("beyond", SMALL)
    for block in {block for block, _ in rows}:
        for fold in (2, 4):
            plain, repeated, mixed, stacked, equal, ensemble = (
                rows[block, label].spec
                for label in (f"fold {fold}", f"fold {fold}, repetition 0.5", f"fold {fold}, mixed folds 0.5",
                              f"fold {fold}, stacked", equal_objects(fold), f"fold 1, ensemble of {fold}")
            )  # fmt: skip
            assert repeated == plain.model_copy(update={"recipe": repeated.recipe})
            assert mixed.recipe == repeated.recipe.model_copy(update={"repetition_of": "batches"})
            assert (stacked.recipe, stacked.net["join"]) == (plain.recipe, "stack")
            assert (
                equal.recipe.epochs * equal.recipe.batch_size == fold**2 * plain.recipe.epochs * plain.recipe.batch_size
            )
            assert (ensemble.members, ensemble.recipe) == (fold, plain.recipe)


def test_at_medium_scale_the_main_rows_train_ten_times_as_long_as_at_small_scale():
    medium, small = rows_of("table1", MEDIUM), rows_of("table1", SMALL)
    labels = [label for block, label in medium if block == "CIFAR-10"]
    assert labels == [
        "fold 1", "fold 2", "fold 1, objects as fold 2", "fold 1, ensemble of 2", "fold 2, max of the features",
        "fold 2, mean of the features", "fold 1, mixup 1", "fold 2, max of the features, half the rate",
        "fold 2, mean of the features, half the rate",
    ]  # fmt: skip
    for key, row in medium.items():
        longer = {"epochs": 10 * small[key].spec.recipe.epochs, "evaluate_every": row.spec.recipe.evaluate_every}
        assert row.spec.recipe == small[key].spec.recipe.model_copy(update=longer)
        assert row.spec.model_copy(update={"recipe": small[key].spec.recipe}) == small[key].spec


@pytest.mark.parametrize("name", ["table1", "table2", "table3", "table4"])
def test_pooled_slots_that_share_a_head_are_also_trained_at_half_the_rate(name):
    rows = rows_of(name, SMALL)
    for block, label in rows:
        if label in ("fold 2, max of the features", "fold 2, mean of the features"):
            whole, half = rows[block, label].spec, rows[block, f"{label}, half the rate"].spec
            slower = whole.recipe.model_copy(update={"learning_rate": whole.recipe.learning_rate / 2})
            assert half == whole.model_copy(update={"recipe": slower})


@pytest.mark.parametrize("name", ["table1", "table2", "table3", "table4", "table5", "table6", "table6-sgd"])
def test_paper_scale_is_the_published_protocol(name):
    for row in EXPERIMENTS[name].rows(PAPER):
        recipe, spec = row.spec.recipe, row.spec
        if row.part != "paper":
            continue
        assert (recipe.epochs, recipe.batch_size, recipe.learning_rate, recipe.weight_decay) == (400, 64, 0.1, 1e-4)
        assert [round(share * 400) for share in recipe.milestones] == [100, 150, 250]
        assert (recipe.schedule, recipe.decay, recipe.optimizer) == ("steps", 0.1, "sgd")
        assert (row.last, spec.share, recipe.evaluate_every) == (10, 1.0, 1)
        doubled = "double layer" in row.block
        assert spec.net.get("width") == (128 if doubled else None)


def test_the_published_numbers_are_those_of_the_paper():
    """Read from the printed tables, row by row, in the order of their columns."""
    printed = {
        "table1": [5.08, 4.92, 4.89, 4.73, 23.7, 23.7, 23.03, 22.94],
        "table2": [4.3, 4.23, 4.19, 4.18, 21.13, 21.1, 20.3, 20.28],
        "table3": [4.94, 4.91, 4.68, 4.65, 23.86, 23.82, 22.63, 22.25],
        "table4": [4.73, 4.3, 4.65, 4.45, 22.94, 21.78, 22.25, 21.68],
        "table5": [5.08, 4.92, 4.89, 4.73, 4.84, 4.69, 23.7, 23.7, 23.03, 22.94, 22.49, 22.32],
        "table6": [76.1, 79.3, 76.2, 77.8, 90.01, 93.5, 90.2, 92.1],
    }
    for name, values in printed.items():
        rows = EXPERIMENTS[name].rows(PAPER)
        assert [row.published for row in rows if row.published is not None] == values


def test_the_penalty_has_the_papers_weights():
    rows = rows_of("table5", PAPER)
    alphas = {label: row.spec.recipe.alpha for (block, label), row in rows.items() if block == "CIFAR-10"}
    assert [alphas[f"fold {fold}"] for fold in (1, 2, 4)] == [0, 0, 0]
    assert [alphas["fold 1, α = 0.7"], alphas["fold 2, α = 0.3"], alphas["fold 4, α = 4"]] == [0.7, 0.3, 4.0]


def test_tables_that_share_a_setting_share_its_runs():
    one, five = rows_of("table1", SMALL), rows_of("table5", SMALL)
    assert all(five[key].spec.key() == row.spec.key() for key, row in one.items() if key in five)
    assert rows_of("figure3", SMALL)["2.5% of CIFAR-10", "fold 4"].spec == (
        rows_of("data-efficiency", SMALL)["2.5% of CIFAR-10", "fold 4"].spec
    )


def test_table_6_by_sgd_is_table_6_at_paper_scale_and_has_the_published_optimizer_at_small_scale():
    assert {key: row.spec for key, row in rows_of("table6-sgd", PAPER).items()} == {
        key: row.spec for key, row in rows_of("table6", PAPER).items()
    }
    by_adam, by_sgd = rows_of("table6", SMALL), rows_of("table6-sgd", SMALL)
    for key, row in by_sgd.items():
        changed = {"epochs", "batch_size", "evaluate_every", "patience", "repetition", "average_from"}
        assert row.spec.recipe.model_dump(exclude=changed) == Recipe().model_dump(exclude=changed)
        assert row.spec.model_dump(exclude={"recipe"}) == by_adam[key].spec.model_dump(exclude={"recipe"})


def test_networks_trained_to_convergence_take_more_steps_the_more_images_they_see():
    rows = rows_of("data-efficiency", SMALL)
    specs = [row.spec for (_, label), row in rows.items() if label == "fold 2"]
    steps = {spec.share: spec.recipe.epochs * spec.share * 50_000 / spec.recipe.batch_size for spec in specs}
    assert steps == pytest.approx({0.025: 3000, 0.1: 6000, 0.2: 8485, 0.5: 13416, 1.0: 18974}, rel=0.02)


def test_every_committed_result_belongs_to_an_experiment(checkout):
    keys = {row.spec.key() for name, scale in THERE for row in EXPERIMENTS[name].rows(scale)}
    files = list((checkout / "results" / "cells").glob("*.json"))
    assert files
    assert all(file.stem.rsplit("-seed", 1)[0] in keys for file in files)
