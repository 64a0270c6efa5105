"""agrlearn report, and the reports that other commands end with."""

import json
import re
import shlex

import numpy
import pytest

from agrlearn.networks.catalogue import build_network
from agrlearn.prediction.protocols import Contextual
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from tests.cli.commands import OWN, RECIPE, append_row, call
from tests.data.files import write_images, write_rows
from tests.runs.notes import change_note


def sections(file) -> set[str]:
    return set(re.findall(r'<section id="(\w+)"', file.read_text()))


def test_training_ends_with_a_report_and_report_shows_runs_side_by_side(table, tmp_path, capsys):
    for seed in (0, 1):
        run = tmp_path / f"run-seed{seed}"
        options = ("--alpha", 0.1, "--net.join", "features", "--seed", seed)
        assert call("train", table, *options, "--run-dir", run, *RECIPE) == 0
        assert f"Report: {run / 'report.html'}" in capsys.readouterr().out
        assert {"curves", "dial", "heads", "confusion", "hardest"} <= sections(run / "report.html")
    assert call("report", tmp_path / "run-seed0", tmp_path / "run-seed1", "--output", tmp_path / "both.html") == 0
    assert "2 runs, 0.1 MB" in capsys.readouterr().out
    page = (tmp_path / "both.html").read_text()
    assert "1 setting" in page
    assert "Measured on 15 held-out objects of" in page


def test_the_command_on_the_page_trains_the_same_run(table, tmp_path, capsys):
    run = tmp_path / "run"
    options = ("--net.width", 24, "--net.noise", 1, "--milestones", 0.4, "--milestones", 0.8, "--schedule", "steps")
    assert call("train", table, "--fold", 3, "--validation-fraction", 0.2, "--run-dir", run, *options, *RECIPE) == 0
    (command,) = re.findall(r"(agrlearn train [^<]*)</pre>", (run / "report.html").read_text())
    capsys.readouterr()
    assert call(*shlex.split(command)[1:]) == 0
    assert "finished already" in capsys.readouterr().out


def test_the_command_on_the_page_names_a_network_of_the_users_own_and_leaves_out_what_training_did(tmp_path, capsys):
    write_images(tmp_path / "pets", count=6)
    (tmp_path / "pets" / "cat" / "broken.png").write_bytes(b"no picture")
    (tmp_path / "own.py").write_text(OWN)
    options = ("--network", f"{tmp_path / 'own.py'}:make_model", "--net.slot-noise", 0.2, "--skip-bad")
    assert call("train", tmp_path / "pets", "--run-dir", tmp_path / "run", *options, *RECIPE) == 0
    (command,) = re.findall(r"(agrlearn train [^<]*)</pre>", (tmp_path / "run" / "report.html").read_text())
    capsys.readouterr()
    assert call(*shlex.split(command)[1:]) == 0
    assert "finished already" in capsys.readouterr().out


def test_a_report_says_how_much_was_left_out(tmp_path, capsys):
    write_images(tmp_path / "pets", count=6)
    run, page = tmp_path / "run", tmp_path / "r.html"
    for name in ("one", "two"):
        (tmp_path / "pets" / "cat" / f"{name}.png").write_bytes(b"no picture")
    assert call("train", tmp_path / "pets", "--run-dir", run, "--skip-bad", *RECIPE) == 0
    sentence = f"{tmp_path / 'pets'}: left out 2 that cannot be read."
    assert sentence in (run / "report.html").read_text()
    capsys.readouterr()
    assert call("report", run, "--output", page, "--data", tmp_path / "pets") == 0
    assert sentence in capsys.readouterr().out
    assert sentence in page.read_text()
    assert re.search(rf'<p class="small">{tmp_path}/pets/\w+/\d\.\w+</p>', page.read_text())


@pytest.mark.parametrize("test", ["own", "file"])
def test_the_hardest_objects_are_named_by_their_rows_in_every_report(test, tmp_path, capsys):
    chance = numpy.random.default_rng(0)
    tables = {}
    for name in ("data", "other"):
        rows = [[*chance.normal(size=2).round(3), "ab"[number % 2]] for number in range(60)]
        write_rows(tmp_path / f"{name}.csv", ["a", "b", "label"], rows)
        tables[name] = {f"row {number}": row for number, row in enumerate(rows, start=2)}
    options = ("--test", "other.csv") if test == "file" else ()
    assert call("train", "data.csv", *options, "--run-dir", "run", *RECIPE) == 0
    assert call("report", "run", "--output", "again.html") == 0
    for page in ("run/report.html", "again.html"):
        shown = (tmp_path / page).read_text().partition('id="hardest"')[2]
        found = re.findall(r"<blockquote>([^<]*)</blockquote>.*?<strong>(\w)</strong>.*?>(row \d+)<", shown, re.DOTALL)
        assert len(found) >= 6
        for numbers, label, row in found:
            *expected, truth = tables["other" if test == "file" else "data"][row]
            assert [float(number) for number in numbers.split(", ")] == pytest.approx(expected, rel=1e-3)
            assert label == truth


def test_report_knows_a_copy_of_the_training_data(table, tmp_path):
    run, page, copy = tmp_path / "run", tmp_path / "r.html", tmp_path / "copy.npz"
    assert call("train", table, "--run-dir", run, "--no-report", *RECIPE) == 0
    table.rename(copy)
    assert call("report", run, "--output", page, "--data", copy, "--no-dial") == 0
    assert "Measured on 15 held-out objects of" in page.read_text()


def test_no_report_writes_none(table, tmp_path, capsys):
    assert call("train", table, "--run-dir", tmp_path / "run", "--no-report", *RECIPE) == 0
    assert "Report" not in capsys.readouterr().out
    assert not (tmp_path / "run" / "report.html").exists()


def test_a_report_that_fails_does_not_fail_the_run(table, tmp_path, capsys, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("the report is broken")

    monkeypatch.setattr("agrlearn.reporting.make.measure", fail)
    assert call("train", table, "--run-dir", tmp_path / "run", *RECIPE) == 0
    out = capsys.readouterr().out
    assert "No report was written: the report is broken" in out
    assert "Next: agrlearn evaluate" in out


def test_a_run_without_a_held_out_part_is_shown_by_its_curves(table, tmp_path, capsys):
    run = tmp_path / "run"
    assert call("train", table, "--validation-fraction", 0, "--run-dir", run, *RECIPE) == 0
    assert sections(run / "report.html") == {"overview", "curves", "again"}
    assert call("report", run, "--output", tmp_path / "r.html", "--data", table, "--no-dial") == 0
    assert {"reliability", "confusion"} <= sections(tmp_path / "r.html")
    assert "dial" not in sections(tmp_path / "r.html")


def dial_of(file) -> set[str]:
    """The ways to predict that the page's dial shows."""
    data = json.loads(re.search(r'id="report-data">(.*?)</script>', file.read_text())[1])
    dial = next(chart for chart in data["charts"] if chart["id"] == "dial-error")
    return {series["name"].rpartition(", ")[2] for series in dial["series"]}


def test_a_run_whose_data_have_changed_is_shown_by_its_curves(table, vectors, tmp_path, capsys):
    run, page = tmp_path / "run", tmp_path / "r.html"
    assert call("train", table, "--net.join", "features", "--run-dir", run, "--no-report", *RECIPE) == 0
    append_row(table, vectors.objects[0].numpy(), "a")
    assert call("report", run, "--output", page) == 0
    assert "has changed since" in capsys.readouterr().out
    assert sections(page) == {"overview", "curves", "again"}
    assert call("report", run, "--output", page, "--data", table) == 0
    assert "Measured on 151 objects" in page.read_text()
    assert "some may be what the run was trained on" in page.read_text()
    assert dial_of(page) == {"replicated", "batched"}


def test_contextual_seats_objects_beside_those_of_training_or_is_left_out(
    table, vectors, tmp_path, capsys, monkeypatch
):
    other, page = tmp_path / "other.npz", tmp_path / "r.html"
    numpy.savez(other, x=vectors.objects[:40].numpy() + 0.5, y=numpy.array(vectors.class_names)[vectors.labels[:40]])
    assert call("train", table, "--net.join", "features", "--run-dir", tmp_path / "run", "--no-report", *RECIPE) == 0
    companions = []
    seat = Contextual.companions
    monkeypatch.setattr(Contextual, "companions", lambda self: companions.append(self.context) or seat(self))
    assert call("report", tmp_path / "run", "--output", page, "--data", other) == 0
    assert dial_of(page) == {"replicated", "batched", "contextual"}
    rows = {tuple(row) for row in vectors.objects.tolist()}
    assert all(len(context) == 135 and {tuple(row) for row in context.tolist()} <= rows for context in companions)

    from_python = build_network("mlp", object_shape=(6,), num_classes=3, fold=2, join="features")
    fit(from_python, vectors, Recipe(epochs=1), run_dir=tmp_path / "own")
    assert call("report", tmp_path / "own", "--output", page, "--data", other) == 0
    assert dial_of(page) == {"replicated", "batched"}
    assert "The dial of own leaves out Contextual" in page.read_text()


def test_a_run_under_way_is_shown_by_its_curves(table, tmp_path, capsys):
    run = tmp_path / "run"
    assert call("train", table, "--run-dir", run, "--no-report", *RECIPE) == 0
    (run / "network.safetensors").unlink()
    assert call("report", run, "--output", tmp_path / "r.html") == 0
    assert "is not finished" in capsys.readouterr().out
    assert sections(tmp_path / "r.html") == {"overview", "curves", "again"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "absent"], "there is no folder absent"),
        (["report", "."], "holds none"),
        (["report"], "requires an argument"),
        (["report", "RUN", "--data", "absent.npz"], "there is no file or folder absent.npz"),
        (["report", "RUN", "--output", "/proc/nowhere/r.html"], "/proc/nowhere"),
        (["watch", "absent"], "not a run directory"),
        (["watch", "RUN", "--port", "70000"], "from 0 to 65535"),
        (["watch", "RUN", "--port", "x"], "expected a whole number"),
    ],
)
def test_errors_are_one_sentence_and_exit_code_2(arguments, message, table, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "RUN" in arguments:
        assert call("train", table, "--run-dir", "RUN", "--no-report", *RECIPE) == 0
    capsys.readouterr()
    assert call(*arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.startswith("agrlearn: ")
    assert len(err.strip().splitlines()) == 1


def test_a_damaged_note_about_the_data_gets_a_sentence(table, tmp_path, capsys):
    run = tmp_path / "run"
    assert call("train", table, "--run-dir", run, "--no-report", *RECIPE) == 0
    change_note(run, source=5)
    assert call("report", run, "--output", tmp_path / "r.html") == 2
    assert "run.json was not written by this version" in capsys.readouterr().err


def test_a_sweep_ends_with_one_report_of_all_trials(table, tmp_path, capsys):
    sweep = tmp_path / "grid.toml"
    sweep.write_text(f'data = "{table}"\nseeds = 2\nrecipe.epochs = 2\nrecipe.batch_size = 16\n[grid]\nfold = [1, 2]\n')
    assert call("sweep", sweep, "--run-dir", tmp_path / "runs") == 0
    file = tmp_path / "runs" / "report.html"
    assert f"Report: {file}" in capsys.readouterr().out
    page = file.read_text()
    assert "2 settings" in page
    assert "Differences are to fold-1, paired by seed" in page
    assert not list((tmp_path / "runs").glob("*/report.html"))
