"""Run directories: whose they are, and what happens to damaged files."""

import hashlib
import json
import multiprocessing
import time

import pytest
import torch

from agrlearn.errors import RunError
from agrlearn.files import one_process_at_a_time
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from tests.training.small_runs import FAST, same, weights
from tests.training.stopping import StoppedError, at_most


def test_a_run_directory_of_another_run_is_refused_and_told_apart(vectors, make_mlp, tmp_path):
    fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)
    with pytest.raises(RunError, match=r"its learning rate is 0\.05, not 0\.1"):
        fit(make_mlp(2), vectors, Recipe(**{**FAST, "learning_rate": 0.1}), run_dir=tmp_path)
    with pytest.raises(RunError, match="its fold is 2, not 4"):
        fit(make_mlp(4), vectors, Recipe(**FAST), run_dir=tmp_path)
    with pytest.raises(RunError, match="training data"):
        fit(make_mlp(2), vectors.subset(torch.arange(149)), Recipe(**FAST), run_dir=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="is a file"):
        fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path / "file")


def test_a_checkpoint_that_is_broken_or_would_run_code_is_refused(vectors, make_mlp, tmp_path):
    import pickle

    fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)
    checkpoint = tmp_path / "checkpoint.pt"
    whole = checkpoint.read_bytes()

    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    (tmp_path / "checkpoint.previous.pt").unlink()
    bomb = pickle.dumps(Bomb())
    for content in (
        whole[: len(whole) // 2], b"", b"nonsense", bomb, hashlib.sha256(bomb).digest() + bomb,
        whole[:2000] + bytes([whole[2000] ^ 1]) + whole[2001:],
    ):  # fmt: skip
        checkpoint.write_bytes(content)
        with pytest.raises(RunError, match="not a readable checkpoint"):
            fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)
    assert not (tmp_path / "exploded").exists()


def test_a_damaged_checkpoint_falls_back_to_the_one_before_it_and_loses_nothing(vectors, make_mlp, tmp_path):
    undisturbed, disturbed = make_mlp(2), make_mlp(2)
    fit(undisturbed, vectors, Recipe(**FAST))
    fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)
    previous = (tmp_path / "checkpoint.previous.pt").read_bytes()
    (tmp_path / "checkpoint.pt").write_bytes(b"nonsense")
    with pytest.warns(UserWarning, match="resumes from the checkpoint before it"):
        fit(disturbed, vectors, Recipe(**FAST), run_dir=tmp_path)
    assert same(weights(undisturbed), weights(disturbed))
    assert (tmp_path / "checkpoint.damaged.pt").read_bytes() == b"nonsense"
    assert (tmp_path / "checkpoint.previous.pt").read_bytes() == previous  # one epoch was left to save
    (tmp_path / "checkpoint.pt").unlink()  # as killed between keeping the old one and placing the new one
    fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)


def test_a_run_of_an_earlier_version_without_newer_settings_goes_on(vectors, make_mlp, tmp_path):
    fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)
    about = json.loads((tmp_path / "run.json").read_text())
    del about["identity"]["recipe"]["accumulate"]
    (tmp_path / "run.json").write_text(json.dumps(about))
    assert fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path).was_finished
    with pytest.raises(RunError, match="accumulate is 1, not 2"):
        fit(make_mlp(2), vectors, Recipe(**FAST, accumulate=2), run_dir=tmp_path)


def test_a_second_process_on_a_run_directory_is_told_so(vectors, make_mlp, tmp_path):
    with one_process_at_a_time(tmp_path), pytest.raises(RunError, match="another process is training"):
        fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)
    fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)
    fit(make_mlp(2), vectors, Recipe(**FAST), run_dir=tmp_path)  # the first has let go of it


def test_the_lock_ends_with_its_block_though_a_forked_process_lives_on(tmp_path):
    with one_process_at_a_time(tmp_path):
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        child.start()
    try:
        with one_process_at_a_time(tmp_path, wait=False):
            pass
    finally:
        child.kill()


@pytest.mark.parametrize("damage", ["the last record is missing", "the last record is cut short"])
def test_records_are_mended_when_a_run_was_killed_while_writing_them(vectors, make_mlp, tmp_path, damage):
    recipe = Recipe(**FAST)
    fit(make_mlp(2), vectors, recipe, vectors, tmp_path / "whole")
    with pytest.raises(StoppedError), at_most(25):
        fit(make_mlp(2), vectors, recipe, vectors, tmp_path / "cut")
    metrics = tmp_path / "cut/metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text(lines[0] if "missing" in damage else lines[0] + lines[1][:20])
    fit(make_mlp(2), vectors, recipe, vectors, tmp_path / "cut")
    assert metrics.read_bytes() == (tmp_path / "whole/metrics.jsonl").read_bytes()
