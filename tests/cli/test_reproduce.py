"""agrlearn reproduce, from end to end at the smallest scale."""

import pytest

from agrlearn.cli import main
from agrlearn.errors import DataError
from agrlearn.runs import train
from agrlearn.studies.paper import reproduce
from agrlearn.studies.paper.results import Folders, pending


def call(tmp_path, *arguments):
    main(["reproduce", *arguments, "--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")])


def test_a_table_is_run_once_and_then_only_shown(tmp_path, capsys):
    chosen = ("figure3", "--scale", "smoke", "--seeds", "1")
    call(tmp_path, *chosen, "--cells", "fold ?")
    told = capsys.readouterr().out
    assert "2 runs to do" in told
    assert len(list((tmp_path / "results" / "cells").glob("*.json"))) == 2
    assert list((tmp_path / "runs").iterdir()) == []  # finished runs leave no checkpoints
    text = (tmp_path / "results" / "figure3-smoke.md").read_text()
    assert "Not run: fold 1, objects as fold 4." in text
    assert (tmp_path / "results" / "figure3-smoke.png").stat().st_size > 10_000

    call(tmp_path, *chosen, "--cells", "fold ?")
    told = capsys.readouterr().out
    assert "to do" not in told
    assert "figure3-smoke.md" in told

    call(tmp_path, *chosen, "--only-write")
    assert "to do" not in capsys.readouterr().out
    assert "Not run: fold 1, objects as fold 4." in (tmp_path / "results" / "figure3-smoke.md").read_text()


def test_data_that_cannot_be_had_are_left_out_with_the_reason(tmp_path, capsys, monkeypatch):
    def refuse(name, **options):
        raise DataError(f"there is no {name} here")

    monkeypatch.setattr(train, "open_source", refuse)
    with pytest.raises(SystemExit) as leaving:
        call(tmp_path, "table1", "--scale", "small", "--seeds", "1")
    assert leaving.value.code == 2
    told, error = capsys.readouterr()
    assert "no finished runs to write a table from: cifar-10 and cifar-100 cannot be had" in error
    assert "there is no cifar-10 here" in told
    assert "there is no cifar-100 here" in told
    assert not (tmp_path / "results").exists()


def test_a_folder_without_finished_runs_gets_no_empty_tables(tmp_path, capsys):
    with pytest.raises(SystemExit):
        call(tmp_path, "table6", "--only-write")
    assert "no finished runs to write a table from" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_a_run_that_diverged_is_shown_in_the_table_and_not_tried_again(tmp_path, capsys):
    rows = reproduce.choose_rows(["table6"], "smoke", ["Movie Review, CNN: fold 2"])["table6"]
    folders = Folders(tmp_path / "results" / "cells")
    (job,) = pending(rows, 1, folders)
    folders.cells.mkdir(parents=True)
    job.divergence_file.write_text("J was not finite\n")
    assert pending(rows, 1, folders) == []
    call(tmp_path, "table6", "--scale", "smoke", "--seeds", "1", "--cells", "Movie Review, CNN: fold 2")
    assert "to do" not in capsys.readouterr().out
    text = (tmp_path / "results" / "table6-smoke.md").read_text()
    assert "Diverged: fold 2, 1 of its seeds: J was not finite." in text
    assert "Not run: fold 1; fold 1, objects as fold 2" in text


def test_a_table_has_all_seeds_that_are_done_however_few_are_asked_for(tmp_path):
    chosen = ("table6", "--scale", "smoke", "--cells", "Movie Review, CNN: fold 1")
    call(tmp_path, *chosen, "--seeds", "2")
    two = (tmp_path / "results" / "table6-smoke.md").read_text()
    call(tmp_path, *chosen, "--seeds", "1", "--only-write")
    assert (tmp_path / "results" / "table6-smoke.md").read_text() == two
    assert "--seeds 2" in two


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("table9",), "table9"),
        (("table1", "--cells", "fold 3"), "no cell matches fold 3"),
        (("table1", "--cells", "fold 2", "fold 9"), "no cell matches fold 9"),
        (("table1", "--seeds", "0"), "at least 1"),
        (("table1", "--workers", "0"), "at least 1"),
        (("table1", "--scale", "huge"), "huge"),
        (("table6", "--scale", "medium"), "table6 has no medium scale; the experiments that do are: table1, table2"),
    ],
)
def test_what_a_user_can_mend_is_told_in_a_sentence(tmp_path, capsys, arguments, sentence):
    with pytest.raises(SystemExit) as leaving:
        call(tmp_path, *arguments)
    assert leaving.value.code == 2
    assert sentence in capsys.readouterr().err


def test_paper_scale_asks_before_it_starts(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(reproduce, "missing_data", lambda jobs: {})
    monkeypatch.setattr(reproduce, "estimate_seconds", lambda spec, data_dir: 9 * 86400.0)
    monkeypatch.setattr("builtins.input", lambda question: "n")
    call(tmp_path, "table1", "--scale", "paper", "--cells", "CIFAR-10: fold 1")
    assert "7 runs to do: about 63 core-days" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()

    def nobody(question):
        raise EOFError

    monkeypatch.setattr("builtins.input", nobody)
    with pytest.raises(SystemExit) as leaving:
        call(tmp_path, "table1", "--scale", "paper", "--seeds", "7", "--cells", "CIFAR-10: fold 1")
    assert leaving.value.code == 2
    assert "pass --yes" in capsys.readouterr().err
