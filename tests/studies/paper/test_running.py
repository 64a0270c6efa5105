"""Cells, their data and their results."""

import json

import pytest
import torch

from agrlearn.errors import RunError
from agrlearn.studies.paper.cells import Cell, read_result, result_file
from agrlearn.studies.paper.experiments import EXPERIMENTS
from agrlearn.studies.paper.running import DIGITS_AS_WORDS, open_parts, run_cell
from agrlearn.studies.paper.scales import SMOKE
from agrlearn.training.recipe import Recipe

QUICK = Cell(dataset="digits", network="small-cnn", options={"width": 4}, share=0.2, recipe=Recipe(epochs=2), final=2)


def change(cell, **values):
    return cell.model_copy(update=values)


def test_any_other_setting_has_another_key():
    others = [
        change(QUICK, fold=2), change(QUICK, network="mlp"), change(QUICK, options={"width": 5}),
        change(QUICK, share=0.3), change(QUICK, augment=True), change(QUICK, stop_early=True), change(QUICK, final=1),
        change(QUICK, recipe=Recipe(epochs=3)), change(QUICK, dataset="fashion-mnist"),
    ]  # fmt: skip
    assert len({cell.key() for cell in (QUICK, *others)}) == 1 + len(others)
    assert Cell(**QUICK.model_dump()).key() == QUICK.key()


def test_a_share_takes_every_class_alike_and_the_test_part_stays():
    whole, some = open_parts(change(QUICK, share=1.0), 3), open_parts(QUICK, 3)
    assert torch.equal(whole.test.labels, some.test.labels)
    expected = (0.2 * whole.train.labels.bincount()).round()
    assert some.train.labels.bincount().tolist() == expected.tolist()
    other = open_parts(QUICK, 4)
    assert not torch.equal(some.train.objects, other.train.objects)
    assert torch.equal(some.train.objects, open_parts(change(QUICK, fold=2), 3).train.objects)


def test_an_early_stop_is_decided_on_a_tenth_of_the_training_part():
    whole, parts = open_parts(change(QUICK, share=1.0), 0), open_parts(change(QUICK, share=1.0, stop_early=True), 0)
    assert whole.held_out is None
    assert len(parts.held_out) == pytest.approx(0.1 * len(whole.train), abs=5)
    rows = [tuple(image.flatten().tolist()) for part in (parts.train, parts.held_out) for image in part.objects]
    assert sorted(rows) == sorted(tuple(image.flatten().tolist()) for image in whole.train.objects)
    assert torch.equal(parts.test.objects, whole.test.objects)


def test_a_result_is_read_as_it_was_written(tmp_path):
    cell = change(QUICK, fold=2)
    result = run_cell(cell, 1, tmp_path / "runs")
    assert read_result(tmp_path / "cells", cell, 1) is None
    result.save(tmp_path / "cells", cell)
    again = read_result(tmp_path / "cells", cell, 1)
    assert again.test_errors == pytest.approx(result.test_errors, rel=1e-6)
    assert [point.epoch for point in again.curve] == [1, 2]
    assert again.cell == cell.settings()
    assert set(again.protocols) == {"Replicated", "Contextual, 4 draws", "Batched, 4 draws", "Batched, 1 draw"}
    assert again.protocols["Replicated"].error == pytest.approx(again.test_errors[-1])
    assert again.objects_seen == 2 * 2 * len(open_parts(cell, 1).train)


def test_an_early_stopped_run_is_measured_on_the_test_part_with_its_best_weights(tmp_path):
    cell = change(QUICK, stop_early=True, recipe=Recipe(epochs=3, patience=3))
    result = run_cell(cell, 0, tmp_path)
    assert result.test_errors == (result.protocols["Replicated"].error,)
    assert len(result.curve) == 3


@pytest.mark.parametrize("content", ["", "[]", "1", '{"format": "another"}', '{"format": "agrlearn-cell-1"}'])
def test_a_foreign_result_is_refused_with_a_sentence(tmp_path, content):
    result_file(tmp_path, QUICK, 0).write_text(content)
    with pytest.raises(RunError, match="remove it"):
        read_result(tmp_path, QUICK, 0)


@pytest.mark.parametrize("network", ["sentence-cnn", "sentence-lstm"])
def test_multiply_adds_are_those_of_a_sentence_of_the_greatest_length_whatever_the_seed(network, tmp_path, monkeypatch):
    def with_padding(cell, seed, data_dir=None):
        parts = open_parts(cell, seed, data_dir)
        parts.test.objects[:, 1 + seed :] = 0
        return parts

    cell = Cell(
        dataset=DIGITS_AS_WORDS, network=network, share=0.1, options={"embedding": 4}, recipe=Recipe(epochs=1)
    )  # fmt: skip
    monkeypatch.setattr("agrlearn.studies.paper.running.open_parts", with_padding)
    counts = {run_cell(cell, seed, tmp_path).protocols["Replicated"].multiply_adds for seed in (0, 1)}
    assert len(counts) == 1
    if network == "sentence-lstm":
        assert counts == {64 * 4 * 128 * (4 + 128) + 128 * 10}


def test_words_made_of_digits_stand_in_for_sentences():
    row = EXPERIMENTS["table6"].rows(SMOKE)[0]
    parts = open_parts(row.cell, 0)
    assert parts.object_shape == (64,)
    assert parts.vocabulary == 19
    assert 2 <= int(parts.train.objects.min()) <= int(parts.train.objects.max()) < parts.vocabulary


def test_a_result_of_other_defaults_is_not_found_again(tmp_path):
    result = run_cell(QUICK, 0, tmp_path / "runs")
    result.save(tmp_path, QUICK)
    assert read_result(tmp_path, QUICK, 0) is not None
    file = result_file(tmp_path, QUICK, 0)
    told = json.loads(file.read_text())
    assert told["cell"]["recipe"]["momentum"] == 0.9
    assert told["cell"]["options"]["join_after"] == 1
    for change_default in (
        lambda cell: cell["recipe"].update(momentum=0.8), lambda cell: cell["options"].update(join_after=2),
    ):  # fmt: skip
        before = json.loads(json.dumps(told))
        change_default(before["cell"])  # as if that had been the default when it was run
        file.write_text(json.dumps(before))
        assert read_result(tmp_path, QUICK, 0) is None
    del told["cell"]["recipe"]["bound"]  # as before there was this setting
    file.write_text(json.dumps(told))
    assert read_result(tmp_path, QUICK, 0) is not None
