"""Runs from their specifications: their data, their results, and how they are found again."""

import json

import pytest
import torch

from agrlearn.errors import RecipeError, RunError, TrainingError
from agrlearn.evaluation.metrics import outcomes_of, score
from agrlearn.evaluation.temperature import at_temperature, fit_temperature
from agrlearn.prediction.predict import predict
from agrlearn.runs import many
from agrlearn.runs.jobs import Resources
from agrlearn.runs.many import Job, do_run, run_many
from agrlearn.runs.result import read_finished
from agrlearn.runs.run import Run
from agrlearn.runs.spec import RunSpec
from agrlearn.runs.train import open_data
from agrlearn.training.recipe import Recipe
from tests.training.stopping import StoppedError, at_most

QUICK = RunSpec(data="digits", network="small-cnn", net={"width": 4}, fold=1, share=0.2, recipe=Recipe(epochs=2))


def change(spec, **values):
    return spec.model_copy(update=values)


def cell_job(folder, spec, label="run"):
    name = f"{spec.key()}-seed{spec.seed}"
    return Job(label, spec, folder / "runs" / name, folder / "cells" / f"{name}.json", dial=True)


def test_any_other_setting_has_another_key():
    others = [
        change(QUICK, fold=2), change(QUICK, network="mlp"), change(QUICK, net={"width": 5}), change(QUICK, share=0.3),
        change(QUICK, augment=True), change(QUICK, stopping_fraction=0.1), change(QUICK, test_fraction=0.1),
        change(QUICK, recipe=Recipe(epochs=3)), change(QUICK, data="fashion-mnist"),
    ]  # fmt: skip
    assert len({spec.key() for spec in (QUICK, *others)}) == 1 + len(others)
    assert RunSpec(**QUICK.model_dump()).key() == QUICK.with_seed(5).key() == QUICK.key()


def test_a_share_takes_every_class_alike_and_the_test_part_stays():
    whole, part = open_data(change(QUICK, share=1.0).with_seed(3)), open_data(QUICK.with_seed(3))
    assert torch.equal(whole.test.labels, part.test.labels)
    expected = (0.2 * whole.train.labels.bincount()).round()
    assert part.train.labels.bincount().tolist() == expected.tolist()
    assert not torch.equal(part.train.objects, open_data(QUICK.with_seed(4)).train.objects)
    assert torch.equal(part.train.objects, open_data(change(QUICK, fold=2).with_seed(3)).train.objects)


def test_an_early_stop_is_decided_on_a_part_of_the_training_objects():
    spec = change(QUICK, share=1.0)
    whole, data = open_data(spec), open_data(change(spec, stopping_fraction=0.1))
    assert whole.stopping is None
    assert len(data.stopping) == pytest.approx(0.1 * len(whole.train), abs=5)
    rows = [tuple(image.flatten().tolist()) for part in (data.train, data.stopping) for image in part.objects]
    assert sorted(rows) == sorted(tuple(image.flatten().tolist()) for image in whole.train.objects)
    assert torch.equal(data.test.objects, whole.test.objects)


def test_a_test_part_drawn_by_the_seed_takes_its_share_of_all_objects():
    for draw in ("plain", "by class"):
        spec = change(QUICK, share=1.0, test_fraction=0.25, test_draw=draw)
        first, second = open_data(spec.with_seed(0)), open_data(spec.with_seed(1))
        assert len(first.train) + len(first.test) == 1797
        assert not torch.equal(first.test.objects, second.test.objects)
        counts = [part.labels.bincount() for part in (first.test, first.train)]
        assert (sum(counts) * 0.25 - counts[0]).abs().max() <= (0.5 if draw == "by class" else 30)
        assert len(first.test) == pytest.approx(0.25 * 1797, abs=0.5 if draw == "plain" else 5)


def test_label_noise_changes_a_share_of_the_training_labels_and_nothing_else():
    clean, noisy = (open_data(change(QUICK, share=1.0, label_noise=noise)) for noise in (0.0, 0.3))
    assert int((clean.train.labels != noisy.train.labels).sum()) == round(0.3 * len(clean.train))
    assert torch.equal(clean.train.objects, noisy.train.objects)
    assert torch.equal(clean.test.labels, noisy.test.labels)


def test_a_result_is_read_as_it_was_written(tmp_path):
    recipe = Recipe(epochs=2, learning_rate=0.1 * 3)  # not 0.3 but 0.30000000000000004
    job = cell_job(tmp_path, change(QUICK, fold=2, recipe=recipe).with_seed(1))
    assert job.finished() is None
    left = do_run(job).result
    again = read_finished(job.cell)
    assert again.is_of(job.spec)
    assert [point.epoch for point in again.result.curve] == [1, 2]
    assert [point.error for point in again.result.curve] == pytest.approx([point.error for point in left.curve])
    assert set(again.result.protocols) == {"Replicated", "Contextual, 4 draws", "Batched, 4 draws", "Batched, 1 draw"}
    assert again.result.protocols["Replicated"].error == pytest.approx(again.result.curve[-1].error)
    assert again.result.objects_seen == 2 * 2 * len(open_data(job.spec).train)
    assert not job.run_dir.exists()  # a finished run of a table leaves no checkpoints


def test_a_run_directory_keeps_its_specification_and_result_in_the_same_format(tmp_path):
    job = Job("kept", QUICK, tmp_path / "run")
    left = do_run(job)
    assert read_finished(tmp_path / "run" / "run.json").result == left.result
    assert job.finished().is_of(QUICK)
    assert Run.open(tmp_path / "run").evaluate("digits").error == left.result.protocols["Replicated"].error


def test_an_early_stopped_run_is_measured_on_the_test_part_with_its_best_weights(tmp_path):
    spec = change(QUICK, stopping_fraction=0.1, recipe=Recipe(epochs=3, patience=3))
    result = do_run(Job("stopped", spec, tmp_path / "run")).result
    best = Run.open(tmp_path / "run").evaluate("digits")
    assert len(result.curve) == 3
    assert result.protocols["Replicated"].error == best.error


def test_an_ensemble_that_was_stopped_goes_on_where_it_was_and_ends_as_one_that_was_not(tmp_path):
    spec = change(QUICK, members=2)
    whole = do_run(cell_job(tmp_path / "whole", spec)).result
    job = cell_job(tmp_path / "cut", spec)
    steps = whole.steps // 2
    with pytest.raises(StoppedError), at_most(steps + 1):  # within the second member
        do_run(job)
    with at_most(steps):  # the first is not trained again
        again = do_run(job).result
    assert again.protocols == whole.protocols
    assert not job.run_dir.exists()


def test_a_calibrated_run_is_measured_at_the_temperature_of_its_held_out_part(tmp_path):
    spec = change(QUICK, fold=1, stopping_fraction=0.1, recipe=Recipe(epochs=3, batch_size=16))
    plain = do_run(Job("plain", spec, tmp_path / "plain")).result.protocols["Replicated"]
    calibrated = do_run(Job("calibrated", change(spec, calibrate=True), tmp_path / "run")).result
    network, data = Run.open(tmp_path / "run").network, open_data(spec)
    held_out, answers = (predict(network, part.objects) for part in (data.stopping, data.test))
    expected = at_temperature(answers, fit_temperature(held_out, data.stopping.labels))
    found = calibrated.protocols["Replicated"]
    assert found.nll == score(outcomes_of(expected, data.test.labels)).nll != plain.nll
    assert found.error == plain.error
    with pytest.raises(RecipeError, match="calibrate needs a held-out part"):
        RunSpec(data="digits", calibrate=True)


@pytest.mark.parametrize("content", ["", "[]", "1", '{"format": "another"}', '{"format": "agrlearn-run-3"}'])
def test_a_foreign_result_is_refused_with_a_sentence(tmp_path, content):
    (tmp_path / "cell.json").write_text(content)
    with pytest.raises(RunError, match="remove it"):
        read_finished(tmp_path / "cell.json")


@pytest.mark.parametrize("network", ["sentence-cnn", "sentence-lstm"])
def test_multiply_adds_are_those_of_a_sentence_of_the_greatest_length(network, tmp_path, monkeypatch):
    def with_padding(spec, data_dir=None):
        data = open_data(spec, data_dir)
        data.test.objects[:, 1 + spec.seed :] = 0
        return data

    spec = RunSpec(
        data="digits-as-words", network=network, fold=1, share=0.1, net={"embedding": 4}, recipe=Recipe(epochs=1)
    )  # fmt: skip
    monkeypatch.setattr(many, "open_data", with_padding)
    results = [do_run(Job("", spec.with_seed(seed), tmp_path / str(seed))).result for seed in (0, 1)]
    counts = {result.protocols["Replicated"].multiply_adds for result in results}
    assert len(counts) == 1
    if network == "sentence-lstm":
        assert counts == {64 * 4 * 128 * (4 + 128) + 128 * 10}


def test_words_made_of_digits_stand_in_for_sentences():
    data = open_data(RunSpec(data="digits-as-words"))
    assert data.object_shape == (64,)
    assert data.vocabulary == 19
    assert 2 <= int(data.train.objects.min()) <= int(data.train.objects.max()) < data.vocabulary


def test_a_result_of_other_defaults_is_not_found_again(tmp_path):
    job = cell_job(tmp_path, QUICK)
    do_run(job)
    assert job.finished() is not None
    values = json.loads(job.cell.read_text())
    assert values["spec"]["recipe"]["momentum"] == 0.9
    assert values["spec"]["net"]["join_after"] == -1
    for change_default in (
        lambda spec: spec["recipe"].update(momentum=0.8), lambda spec: spec["net"].update(join_after=2),
    ):  # fmt: skip
        before = json.loads(json.dumps(values))
        change_default(before["spec"])  # as if that had been the default when it was run
        job.cell.write_text(json.dumps(before))
        assert job.finished() is None
    del values["spec"]["recipe"]["bound"]  # as before there was this setting
    job.cell.write_text(json.dumps(values))
    assert job.finished() is not None


def test_a_failed_run_is_reported_and_the_others_go_on(tmp_path):
    good = change(QUICK, share=0.1, recipe=Recipe(epochs=1))
    outcomes = {}
    jobs = [cell_job(tmp_path, change(good, net={"width": -1}), "bad"), cell_job(tmp_path, good, "good")]
    run_many(jobs, Resources(), on_done=lambda job, outcome: outcomes.update({job.label: outcome}))
    assert "width of small-cnn" in str(outcomes["bad"])
    assert outcomes["good"].seed == 0
    assert len(list((tmp_path / "cells").iterdir())) == 1


def test_a_run_that_another_command_has_finished_meanwhile_is_not_done_again(tmp_path, monkeypatch):
    job = cell_job(tmp_path, change(QUICK, recipe=Recipe(epochs=1)))
    first = do_run(job)
    monkeypatch.setattr(many, "open_data", None)
    assert do_run(job).result.seconds == pytest.approx(first.result.seconds, rel=1e-6)


def test_a_run_that_diverged_leaves_its_reason(tmp_path, monkeypatch):
    def diverge(*arguments, **options):
        raise TrainingError("J was not finite")

    job = cell_job(tmp_path, QUICK)
    monkeypatch.setattr(many, "train_run", diverge)
    with pytest.raises(TrainingError):
        do_run(job)
    assert job.divergence_file.read_text() == "J was not finite\n"


def test_a_test_part_that_was_drawn_from_all_objects_is_found_again(tmp_path):
    spec = RunSpec(data="digits-as-vectors", network="mlp", fold=1, test_fraction=0.25, recipe=Recipe(epochs=1, seed=3))
    finished = do_run(Job("drawn", spec, tmp_path / "run"))
    data, run = open_data(spec), Run.open(tmp_path / "run")
    source = run.read("digits-as-vectors")
    measured, name = run.to_measure(source, strict=True)
    assert torch.equal(measured.objects, data.test.objects)  # and not the source's own, most of which it has seen
    assert name == "450 held-out objects of digits-as-vectors"
    assert torch.equal(run.trained_on(source).objects, data.train.objects)
    assert run.evaluate("digits-as-vectors").error == finished.result.protocols["Replicated"].error
