"""Is it worth it on this data? The same splits for all, choices on validation parts alone, and an honest verdict."""

import json
import warnings

import numpy
import pandas
import pytest
import torch

import agrlearn
from agrlearn.errors import DataError, RecipeError, UnknownNameError
from agrlearn.evaluation.statistics import Mean, mean_over_runs, p_value, paired_difference
from agrlearn.runs import many
from agrlearn.runs.train import open_data
from agrlearn.studies.compare import Method, base_spec, compare_methods, make_methods, with_settings
from agrlearn.studies.comparison import Comparison, Line
from tests.cli.commands import call
from tests.data.files import write_rows

QUICK = {"epochs": 2, "evaluate_every": 2, "width": 8}


def quick_spec(data="wine", **settings):
    return base_spec(data, **{**QUICK, **settings})[0]


def in_this_process(jobs):
    for job in jobs:
        many.do_run(job)


def test_every_method_gets_the_same_splits_and_the_test_part_chooses_nothing(tmp_path):
    spec = quick_spec()
    for seed in (0, 1):
        final = open_data(spec.with_seed(seed))
        tuning = open_data(spec.model_copy(update={"tuning_fraction": 0.2}).with_seed(seed))
        rows = {tuple(row.tolist()) for row in final.test.objects}
        assert not rows & {tuple(row.tolist()) for part in (tuning.train, tuning.test) for row in part.objects}
        assert len(tuning.train) + len(tuning.test) == len(final.train)
    methods = make_methods(spec)
    tests = [open_data(method.tries[0].with_seed(3)).test.objects for method in methods]
    assert all(torch.equal(tests[0], other) for other in tests)


def test_the_strength_of_a_remedy_is_the_one_that_did_best_on_the_validation_part(tmp_path):
    spec = quick_spec(epochs=20)
    hopeless = with_settings(spec, learning_rate=1e-12)
    methods = [Method("ordinary network", (spec,), "ordinary"), Method("remedy", (hopeless, spec))]
    ordinary, remedy = compare_methods(methods, tmp_path, seeds=2, run=in_this_process)
    assert remedy.scores == ordinary.scores
    assert remedy.differences["error"].value == 0
    assert remedy.seconds > ordinary.seconds  # with what was spent on choosing


def test_fewer_epochs_are_fewer_and_never_none():
    for epochs, expected in ((60, [10, 20, 40]), (3, [1, 2]), (1, [1])):
        spec = with_settings(base_spec("wine")[0], epochs=epochs)
        [method] = [method for method in make_methods(spec) if method.name == "fewer epochs"]
        assert [tried.recipe.epochs for tried in method.tries] == expected


def test_what_is_done_is_not_run_again(tmp_path):
    methods = [Method("ordinary network", (quick_spec(),), "ordinary")]
    first = compare_methods(methods, tmp_path, seeds=2, run=in_this_process)
    assert compare_methods(methods, tmp_path, seeds=2, run=pytest.fail) == first


def test_of_data_that_have_changed_everything_is_run_again(tmp_path, monkeypatch):
    monkeypatch.setattr("agrlearn.studies.compare.default_epochs", lambda kind, objects: 3)
    random = numpy.random.default_rng(0)
    x, folder = random.normal(size=(60, 2)), tmp_path / "compared"
    clear, by_chance = (x[:, 0] > 0).astype(int), random.integers(0, 2, 60)
    first = agrlearn.compare(x, clear, seeds=2, run_dir=folder)
    again = agrlearn.compare(x, by_chance, seeds=2, run_dir=folder)
    assert again.lines[0].scores["error"].value > first.lines[0].scores["error"].value + 0.2
    other = agrlearn.compare(x, by_chance, seeds=2, run_dir=tmp_path / "other")
    assert [line.scores for line in again.lines] == [line.scores for line in other.lines]


def test_of_a_network_whose_file_has_changed_everything_is_run_again(tmp_path):
    file = tmp_path / "mine.py"
    spec = quick_spec().model_copy(update={"network": f"{file}:make", "net": {}})
    methods, costs = [Method("ordinary network", (spec,), "ordinary")], []
    for width in (8, 64):
        file.write_text(
            "from torch import nn\n\n\ndef make(num_classes, object_shape):\n"
            f"    return nn.Sequential(nn.Linear(*object_shape, {width}), nn.ReLU(), nn.Linear({width}, num_classes))\n"
        )
        costs.append(compare_methods(methods, tmp_path / "compared", seeds=2, run=in_this_process)[0].multiply_adds)
    assert costs[1] > 1.9 * costs[0]


def test_the_ensemble_averages_distributions_of_networks_that_saw_the_same_objects(tmp_path):
    spec = quick_spec().model_copy(update={"members": 3})
    methods = [Method("ordinary network", (quick_spec(),), "ordinary"), Method("ensemble", (spec,))]
    one, three = compare_methods(methods, tmp_path, seeds=2, run=in_this_process)
    assert three.multiply_adds == 3 * one.multiply_adds
    assert three.scores["nll"].value != one.scores["nll"].value


def line(name, kind, errors, base, multiply_adds=10.0):
    difference = mean_over_runs([error - other for error, other in zip(errors, base, strict=True)])
    return Line(
        name, kind, {"error": mean_over_runs(errors)}, {"error": difference}, p_value(difference), multiply_adds, 1.0
    )


BASE = [0.10, 0.12, 0.11, 0.13, 0.12]


@pytest.mark.parametrize(
    ("groups", "remedy", "start"),
    [
        (-0.05, 0.0, "Fold 2, mean errs in 6.60 % instead of 11.60 % (p < 0.001) at no cost in prediction: use it."),
        (0.05, 0.0, "Nothing here beats an ordinary network, which errs in 11.60 %: use fold 1."),
        (0.0, -0.05, "Mixup errs in 6.60 %"),
        (-0.02, -0.05, "Mixup errs in 6.60 %"),
    ],
)
def test_the_verdict_names_what_wins_and_nothing_else(groups, remedy, start):
    noise = [0.001, -0.001, 0.002, -0.002, 0.0]
    lines = [
        line("ordinary network", "ordinary", BASE, BASE),
        line("mixup", "remedy", [error + remedy + own for error, own in zip(BASE, noise, strict=True)], BASE),
        line("fold 2, mean", "groups", [error + groups + own for error, own in zip(BASE, noise, strict=True)], BASE),
        line("random forest", "context", [0.0] * 5, BASE, None),
    ]
    verdict = Comparison("data", 5, tuple(lines)).verdict
    assert verdict.startswith(start)
    assert ("Of the groups, fold 2, mean errs" in verdict) == (groups == -0.02)
    assert ("Groups do not beat" in verdict) == (groups == 0.0)
    assert verdict.endswith("Of the classifiers for context, random forest errs in 0.00 %.")
    errors = [error - 0.01 + own for error, own in zip(BASE, noise, strict=True)]
    worse = line("random forest", "context", errors, BASE, None)
    assert ("for context" in Comparison("data", 5, (*lines[:3], worse)).verdict) == (groups == 0.05)


def test_a_difference_that_is_the_same_in_every_split_is_not_certain_for_that():
    assert p_value(Mean(0.5, 0.0, 2)) == 0.5
    assert p_value(Mean(0.0, 0.0, 2)) == 1.0
    equal_but_for_rounding = paired_difference({0: 0.0493, 1: 0.0563}, {0: 0.0423, 1: 0.0493})
    assert equal_but_for_rounding.standard_error > 0
    assert p_value(equal_but_for_rounding) == 0.5


def test_arrays_are_compared_from_python_with_a_table_and_a_picture(tmp_path, monkeypatch):
    monkeypatch.setattr("agrlearn.studies.compare.default_epochs", lambda kind, objects: 1)
    random = numpy.random.default_rng(0)
    x, y = random.normal(size=(60, 4)), numpy.arange(60) % 2
    found = agrlearn.compare(x, y, seeds=2, run_dir=tmp_path)
    assert found.lines[0].name == "ordinary network"
    assert {"groups", "remedy", "context"} <= {line.kind for line in found.lines}
    assert (tmp_path / "compare.png").stat().st_size > 10_000
    assert found.verdict in (tmp_path / "table.md").read_text()
    assert len(json.loads((tmp_path / "compare.json").read_text())["lines"]) == len(found.lines)


def test_arrays_without_labels_get_a_sentence(tmp_path):
    for labels in (None, [0, 1]):
        with pytest.raises(DataError, match="one label for each of 3 objects"):
            agrlearn.compare(numpy.zeros((3, 2)), labels, run_dir=tmp_path)


class SeenError(Exception):
    """In place of all runs."""


def spec_of(monkeypatch, data, labels, folder):
    """What `compare` would run on the data."""

    def see(methods, *_, **__):
        raise SeenError(methods[0].tries[0])

    monkeypatch.setattr("agrlearn.studies.compare.compare_methods", see)
    with pytest.raises(SeenError) as seen:
        agrlearn.compare(data, labels, run_dir=folder)
    return seen.value.args[0]


def test_a_table_in_memory_is_compared_as_the_estimator_reads_it(tmp_path, monkeypatch):
    random = numpy.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "label": numpy.where(random.random(60) < 0.1, numpy.nan, random.normal(size=60)),
            "city": random.choice(["Rome", "Oslo", None], 60),
            "zip": pandas.Categorical(random.choice([1010, 8001], 60)),
            "day": pandas.date_range("2024-01-01", periods=60),
            "row_id": range(60),
        }
    )
    rows, gaps = frame[["label", "city"]].to_numpy(), frame[["label"]].to_numpy()
    for number, table in enumerate((frame, rows, gaps, frame["city"].fillna("no city at all"))):
        spec = spec_of(monkeypatch, table, list("ab") * 30, tmp_path / str(number))
        source = open_data(spec).source
        assert source.train.labels == list("ab") * 30
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the identifier, which is left out
            fitted = agrlearn.AgrLearnClassifier(epochs=1).fit(table, list("ab") * 30)
        if number < 3:
            read = [(column["column"], column["kind"]) for column in source.preparation["columns"]]
            assert read == [(column.column, column.kind) for column in fitted.preparation_.columns]
        else:
            assert set(source.preparation["words"]) == set(fitted.vocabulary_.words)


def test_labels_of_a_table_in_memory_may_be_a_tensor(tmp_path, monkeypatch):
    spec = spec_of(monkeypatch, [[number, "x"] for number in range(40)], torch.arange(40) % 2, tmp_path)
    assert open_data(spec).source.train.labels == ["0", "1"] * 20


def test_data_of_a_single_class_are_refused_before_anything_is_run(tmp_path, monkeypatch):
    monkeypatch.setattr("agrlearn.studies.compare.compare_methods", lambda *_, **__: pytest.fail("it was run"))
    with pytest.raises(DataError, match="has a single class, '1'"):
        agrlearn.compare(numpy.zeros((20, 2)), [1] * 20, run_dir=tmp_path)


def test_the_command_shows_the_table_and_the_verdict(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("agrlearn.studies.compare.default_epochs", lambda kind, objects: 1)
    assert call("compare", "wine", "--seeds", 2, "--run-dir", tmp_path, "--also", "fold=3,join=max") == 0
    out = capsys.readouterr().out
    assert "| fold 3, max |" in out
    assert "use" in out.splitlines()[-2]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--seeds", "1"], "at least 2"),
        (["--also", "fold"], "such as fold=4,join=max"),
        (["--also", "fold=2,joyn=max"], "did you mean 'join'"),
        (["--also", "fold=0"], "greater than or equal to 1"),
    ],
)
def test_what_cannot_be_compared_gets_a_sentence(tmp_path, capsys, options, sentence):
    assert call("compare", "wine", "--run-dir", tmp_path, *options) == 2
    assert sentence in capsys.readouterr().err


def test_settings_go_where_they_belong():
    spec = with_settings(quick_spec(), fold=4, join="max", repetition=0.2)
    assert (spec.fold, spec.net["join"], spec.recipe.repetition) == (4, "max", 0.2)
    with pytest.raises(UnknownNameError):
        with_settings(spec, depht=3)
    with pytest.raises(RecipeError):
        with_settings(spec, repetition=2.0)


def test_the_columns_of_a_table_are_those_that_the_user_names(tmp_path, capsys):
    chance = numpy.random.default_rng(0)
    rows = [[f"{chance.normal():.3f}", chance.choice(["red", "blue", ""]), "ab"[number % 2]] for number in range(60)]
    write_rows(tmp_path / "t.csv", ["size", "colour", "kind"], rows)
    spec = quick_spec(str(tmp_path / "t.csv"), label_column="kind", ignore=("size",))
    columns = open_data(spec).source.preparation["columns"]
    assert [column["column"] for column in columns] == ["colour"]
    assert call("compare", tmp_path / "t.csv", "--label", "sort", "--run-dir", tmp_path / "runs") == 2
    assert "no column of" in capsys.readouterr().err
