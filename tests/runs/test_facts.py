"""Run directories as they are read: finished, under way, damaged, and grouped by seed."""

import dataclasses
import json

import pytest

from agrlearn.errors import RunError
from agrlearn.evaluation.statistics import mean_over_runs
from agrlearn.reporting.charts import Series
from agrlearn.reporting.overview import compare
from agrlearn.reporting.training_charts import information_plane, training_charts
from agrlearn.runs.facts import RunFacts, find_runs, read_facts, settings_of
from agrlearn.training.recipe import Recipe


def make_facts(tmp_path, name="run", *, epochs=3, fold=2, error=0.5, held_out="64 objects", **recipe) -> RunFacts:
    lines = [
        {
            "epoch": epoch, "loss": 2.0 * fold / epoch, "train_error": 0.5 / epoch, "information": None,
            "log_groups": 2.0, "objects_seen": 64 * fold * epoch, "validation_error": error / epoch,
            "validation_nll": 1.0 / epoch,
        }
        for epoch in range(1, epochs + 1)
    ]  # fmt: skip
    told = json.loads(Recipe(**{"batch_size": 16, **recipe}).model_dump_json())
    identity = {"recipe": told, "network": {"network": "mlp", "fold": fold}, "validation_data": held_out}
    return RunFacts(tmp_path / name, identity, {"agrlearn": "0"}, tuple(lines), 1.5, finished=True)


def test_runs_that_differ_only_by_their_seed_are_one_setting(tmp_path):
    runs = [make_facts(tmp_path, f"a-seed{seed}", seed=seed) for seed in (0, 1)]
    runs.append(make_facts(tmp_path, "b-seed0", seed=0, alpha=0.3))
    settings = settings_of(runs)
    assert [(setting.name, len(setting.runs)) for setting in settings] == [("a", 2), ("b", 1)]


def test_seeds_that_draw_other_objects_of_the_same_data_are_one_setting(tmp_path):
    def runs(stamp="a", **recipe):
        return [
            dataclasses.replace(
                make_facts(tmp_path, f"r-seed{seed}", seed=seed, held_out=f"9 objects, {seed}", **recipe),
                spec={"data": "t.csv", "recipe": {"seed": seed}}, data_stamp=stamp,
            )
            for seed in (0, 1)
        ]  # fmt: skip

    assert len(settings_of(runs(patience=3))) == 1
    assert len(settings_of(runs())) == 2  # without patience all seeds have the same objects, unless the data changed
    assert len(settings_of([*runs(patience=3), *runs("b", patience=3)])) == 2  # the data changed


def test_a_repetition_of_a_seed_is_a_setting_of_its_own(tmp_path):
    settings = settings_of([make_facts(tmp_path / place, "a-seed0") for place in ("x", "y")])
    assert [setting.name for setting in settings] == ["x/a", "y/a"]


def test_differences_are_paired_by_seed(tmp_path):
    errors = {("a", 0): 0.3, ("a", 1): 0.9, ("b", 0): 0.6, ("b", 1): 1.5, ("b", 2): 0.0}
    runs = [
        make_facts(tmp_path, f"{name}-seed{seed}", seed=seed, error=error, alpha=0.1 * (name == "b"))
        for (name, seed), error in errors.items()
    ]
    first, second = compare(settings_of(runs), {})
    assert first.difference is None
    # Validation errors end at a third; seed 2 has no partner.
    expected = mean_over_runs([0.1, 0.2])
    assert dataclasses.astuple(second.difference) == pytest.approx(dataclasses.astuple(expected))
    assert (first.objects_seen, first.steps, first.seeds) == (384, 12, 2)


def test_a_finished_run_with_patience_is_compared_by_the_epoch_that_it_keeps(tmp_path):
    run = make_facts(tmp_path, epochs=4, patience=2, error=0.4)
    likelihoods = (1.0, 0.5, None, 0.5, 0.7)  # of equals the first is kept
    lines = [
        {**run.epochs[0], "epoch": epoch, "validation_nll": nll, "validation_error": nll and epoch / 10}
        for epoch, nll in enumerate(likelihoods, start=1)
    ]
    for finished, patience, error, nll in ((True, 2, 0.2, 0.5), (False, 2, 0.5, 0.7), (True, None, 0.5, 0.7)):
        recipe = {**run.recipe, "patience": patience}
        facts = dataclasses.replace(
            run, epochs=tuple(lines), finished=finished, identity={**run.identity, "recipe": recipe}
        )
        (row,) = compare(settings_of([facts]), {})
        assert (row.scores["error"].value, row.scores["nll"].value) == (error, nll)


def test_errors_on_other_objects_have_no_difference(tmp_path, report):
    runs = [
        make_facts(tmp_path, name, alpha=alpha, held_out=held_out)
        for name, alpha, held_out in [
            ("a", 0.0, "9 objects, x"),
            ("b", 0.1, "9 objects, x"),
            ("c", 0.1, "9 objects, y"),
        ]
    ]
    settings = settings_of(runs)
    assert [row.difference is None for row in compare(settings, {})] == [True, False, True]
    # What was measured counts, not what training held out.
    found = [
        dataclasses.replace(report.measured[0], origin=origin, scores=report.measured[0].scores[:1])
        for origin in ("9 held-out objects of x", "20 objects of x", "9 held-out objects of x")
    ]
    assert [row.difference is None for row in compare(settings, dict(enumerate(found)))] == [True, True, False]


def test_seeds_become_a_band_and_loss_is_per_slot(tmp_path):
    runs = [make_facts(tmp_path, f"a-seed{seed}", seed=seed, error=0.2 + 0.4 * seed) for seed in (0, 1)]
    charts = {chart.id: chart for chart in training_charts(settings_of(runs))}
    assert charts["loss"].series[0].y == pytest.approx((2.0, 1.0, 2 / 3))
    error: Series = charts["error"].series[0]
    assert (error.low[0], error.y[0], error.high[0]) == pytest.approx((20, 40, 60))
    assert error.x == ((128, 256, 384), (1, 2, 3))
    assert "penalty" not in charts


def test_a_run_without_a_held_out_part_still_shows_its_error_in_training(tmp_path):
    run = make_facts(tmp_path)
    bare = [{**line, "validation_error": None, "validation_nll": None} for line in run.epochs]
    charts = training_charts(settings_of([dataclasses.replace(run, epochs=tuple(bare))]))
    assert [(chart.id, len(chart.series)) for chart in charts] == [("loss", 1), ("error", 1)]


def test_long_runs_are_thinned_and_keep_their_ends(tmp_path):
    (loss, *_) = training_charts(settings_of([make_facts(tmp_path, epochs=5000)]))
    epochs = loss.series[0].x[1]
    assert len(epochs) == 400
    assert (epochs[0], epochs[-1]) == (1, 5000)


def test_the_information_plane_is_there_only_where_it_was_tracked(tmp_path):
    plain = make_facts(tmp_path)
    assert information_plane(settings_of([plain])) is None
    tracked = [
        {**line, "x_information_lower": 1.0 + line["epoch"], "x_information_upper": 9.0, "y_information": 0.5,
         "y_information_bound": 0.4} for line in plain.epochs
    ]  # fmt: skip
    chart = information_plane(settings_of([dataclasses.replace(plain, epochs=tuple(tracked))]))
    assert [series.mark for series in chart.series] == ["circle", "diamond"]
    assert chart.series[0].x == ((2.0, 3.0, 4.0),)
    assert "at most 9" in chart.series[0].notes[0]
    assert chart.series[1].y == (0.4, 0.4, 0.4)


def test_a_line_that_is_still_being_written_is_left_for_later(trained, tmp_path):
    facts, _ = trained
    for name in ("run.json", "metrics.jsonl", "timing.jsonl"):
        (tmp_path / name).write_bytes((facts[0].folder / name).read_bytes())
    whole = (tmp_path / "metrics.jsonl").read_text()
    (tmp_path / "metrics.jsonl").write_text(whole[: len(whole) // 2])
    found = read_facts(tmp_path)
    assert not found.finished
    assert 0 < len(found.epochs) < 4
    (tmp_path / "metrics.jsonl").write_text("{nonsense\n")
    with pytest.raises(RunError, match="was not written by a run"):
        read_facts(tmp_path)


@pytest.mark.parametrize("network", [None, "mlp", {}, {"fold": 0}, {"fold": "2"}])
def test_a_run_file_that_tells_nonsense_is_refused_in_a_sentence(trained, tmp_path, network):
    facts, _ = trained
    about = json.loads((facts[0].folder / "run.json").read_text())
    about["identity"]["network"] = network
    (tmp_path / "run.json").write_text(json.dumps(about))
    with pytest.raises(RunError, match="was not written by this version"):
        read_facts(tmp_path)


def test_a_folder_of_runs_stands_for_its_runs(trained, tmp_path):
    facts, _ = trained
    found = find_runs([facts[0].folder.parent, facts[0].folder])
    assert found == [run.folder for run in facts]
    with pytest.raises(RunError, match="holds none"):
        find_runs([tmp_path])
    with pytest.raises(RunError, match="there is no folder"):
        find_runs([tmp_path / "absent"])
