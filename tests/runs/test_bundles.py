"""Runs that differ by their seed alone: one worker trains them together, and each has its own result."""

import dataclasses

import pytest

from agrlearn.errors import TrainingError
from agrlearn.runs import many
from agrlearn.runs.jobs import JobDiedError, Resources
from agrlearn.runs.many import Job, bundles_of, do_run, do_runs, run_many
from agrlearn.runs.result import read_finished
from agrlearn.runs.spec import RunSpec
from agrlearn.studies.compare import base_spec, compare_methods, make_methods
from agrlearn.training.recipe import Recipe

SPEC = RunSpec(
    data="wine", network="mlp", net={"width": 8, "dropout": 0.1}, test_fraction=0.25,
    recipe=Recipe(epochs=3, batch_size=32, optimizer="adamw", learning_rate=0.003, evaluate_every=3),
)  # fmt: skip


def jobs_of(folder, *specs, seeds=3, **settings):
    return [
        Job("run", spec.with_seed(seed), folder / f"{number}-{seed}", folder / "cells" / f"{number}-{seed}.json",
            **{"keep_checkpoints": False, **settings})
        for seed in range(seeds) for number, spec in enumerate(specs)
    ]  # fmt: skip


def one_by_one(trainees):
    return [None] * len(trainees)


def figures(run):
    return [vars(run.result.protocols["Replicated"]), *(vars(point) for point in run.result.curve)]


def assert_alike(ours, theirs):
    for found, expected in zip(figures(ours), figures(theirs), strict=True):
        numbers = {name: value for name, value in expected.items() if value is not None}
        assert {name: found[name] for name in numbers} == pytest.approx(numbers, rel=1e-4, abs=1e-6)


def test_a_bundle_holds_runs_that_differ_by_their_seed_alone(tmp_path):
    other = SPEC.model_copy(update={"fold": 1})
    bundles = bundles_of(jobs_of(tmp_path, SPEC, other, seeds=12), Resources())
    assert [[(job.spec.fold, job.spec.seed) for job in bundle] for bundle in bundles] == [
        [(fold, seed) for seed in seeds] for fold in (2, 1) for seeds in (range(10), range(10, 12))
    ]


def test_every_worker_has_a_bundle_and_what_gains_nothing_stays_alone(tmp_path):
    jobs = jobs_of(tmp_path, SPEC, seeds=8)
    assert [len(bundle) for bundle in bundles_of(jobs, Resources(workers=4))] == [2, 2, 2, 2]
    alone = [
        (jobs_of(tmp_path, SPEC, keep_checkpoints=True), Resources()),
        (jobs_of(tmp_path, SPEC.model_copy(update={"network": "small-cnn"})), Resources()),
        (jobs_of(tmp_path, SPEC), Resources(engine="ray", address="auto")),
    ]
    assert [len(bundle) for jobs, resources in alone for bundle in bundles_of(jobs, resources)] == [1] * 9


@pytest.mark.parametrize("members", [1, 2])
def test_runs_of_a_bundle_have_the_results_that_they_have_alone(tmp_path, monkeypatch, members):
    spec = SPEC.model_copy(update={"members": members})
    with monkeypatch.context() as patch:
        patch.setattr(many, "fit_together", one_by_one)
        alone = [do_run(job) for job in jobs_of(tmp_path / "alone", spec)]
    monkeypatch.setattr(many, "train_run", None)  # no network is trained alone
    jobs = jobs_of(tmp_path / "together", spec)
    for job, run, expected in zip(jobs, do_runs(jobs), alone, strict=True):
        assert read_finished(job.cell).is_of(job.spec)
        assert run.result.seconds > 0
        assert_alike(run, expected)


def test_workers_tell_of_every_run_of_a_bundle(tmp_path):
    told, started = {}, []
    jobs = jobs_of(tmp_path, SPEC, SPEC.model_copy(update={"net": {"width": -1}}))
    run_many(
        jobs, Resources(), on_start=lambda job: started.append(job.run_dir),
        on_done=lambda job, outcome: told.update({job.run_dir: outcome}),
    )  # fmt: skip
    assert sorted(started) == sorted(told) == sorted(job.run_dir for job in jobs)
    failed = {job.run_dir for job in jobs if isinstance(told[job.run_dir], Exception)}
    assert failed == {job.run_dir for job in jobs if job.spec.net["width"] < 0}
    assert all("width of mlp" in str(told[folder]) for folder in failed)


def test_if_a_worker_dies_every_run_of_its_bundle_is_told(tmp_path, monkeypatch):
    def die(bundles, function, resources, *, on_start, on_done):
        for bundle in bundles:
            on_done(bundle, JobDiedError("for want of memory"))

    told = []
    monkeypatch.setattr(many, "run_jobs", die)
    run_many(jobs_of(tmp_path, SPEC), Resources(), on_done=lambda job, outcome: told.append((job.spec.seed, outcome)))
    assert [seed for seed, _ in told] == [0, 1, 2]
    assert all(isinstance(outcome, JobDiedError) for _, outcome in told)


def test_a_run_that_diverges_does_not_take_its_bundle_with_it(tmp_path, monkeypatch):
    def open_data(spec, data_dir):
        data = many_open(spec, data_dir)
        large = dataclasses.replace(data.train, objects=data.train.objects * 1e38)
        return dataclasses.replace(data, train=large) if spec.seed == 1 else data

    many_open = many.open_data
    monkeypatch.setattr(many, "open_data", open_data)
    jobs = jobs_of(tmp_path, SPEC)
    first, diverged, last = do_runs(jobs)
    assert isinstance(diverged, TrainingError)
    assert jobs[1].divergence_file.read_text() == f"{diverged}\n"
    assert (first.seed, last.seed) == (0, 2)


def test_compare_has_the_same_table_with_bundles_and_without(tmp_path, monkeypatch):
    spec = base_spec("wine", epochs=3, evaluate_every=3, width=8)[0]
    methods = [method for method in make_methods(spec) if method.kind != "context"]

    def in_bundles(jobs):
        for bundle in bundles_of(jobs, Resources()):
            do_runs(bundle)

    together = compare_methods(methods, tmp_path / "together", seeds=2, run=in_bundles)
    monkeypatch.setattr(many, "fit_together", one_by_one)
    alone = compare_methods(methods, tmp_path / "alone", seeds=2, run=in_bundles)
    cells = [sorted(file.name for file in (tmp_path / name / "cells").iterdir()) for name in ("together", "alone")]
    assert cells[0] == cells[1]
    for ours, theirs in zip(together, alone, strict=True):
        assert {name: mean.value for name, mean in ours.scores.items()} == pytest.approx(
            {name: mean.value for name, mean in theirs.scores.items()}, rel=1e-4
        )
