"""Progress is shown without widgets, and says how long training will take."""

import builtins
import warnings

import pytest
from sklearn.datasets import load_iris

from agrlearn import AgrLearnClassifier
from agrlearn.training import progress
from agrlearn.training.progress import TrainingProgress


class Clock:
    """Time that passes when it is told to."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def said_while_training(clock, capsys, *, seconds, done=0, **options):
    """What is said in a run of 60 epochs of 10 steps that take half a second each."""
    with TrainingProgress(600, done, epochs=60, label="fold 2", **options) as bar:
        for step in range(done, done + 2 * seconds + 1):
            bar.show(step, "figures")
            clock.now += 0.5
    return capsys.readouterr().err.splitlines()


def test_after_the_first_seconds_it_is_said_once_how_long_training_will_take(clock, capsys):
    assert said_while_training(clock, capsys, seconds=1, shown="lines") == []
    assert said_while_training(clock, capsys, seconds=3, done=594, shown="lines") == []  # nearly done
    assert said_while_training(clock, capsys, seconds=20, shown="lines") == ["fold 2 · about 5.0 min for 60 epochs"]


def test_with_patience_the_time_is_a_limit_and_of_a_resumed_run_it_is_what_is_left(clock, capsys):
    said = said_while_training(clock, capsys, seconds=20, shown="lines", may_stop=True)
    assert said == ["fold 2 · at most about 5.0 min for 60 epochs"]
    said = said_while_training(clock, capsys, seconds=20, shown="lines", done=500)
    assert said == ["fold 2 · about 50 s for 10 epochs"]


def test_lines_have_the_time_left_and_nothing_is_said_where_nothing_was_asked_for(clock, capsys):
    said = said_while_training(clock, capsys, seconds=40, shown=True)
    assert said == [
        "fold 2 · about 5.0 min for 60 epochs", "fold 2 · epoch figures · 4.5 min left", "fold 2 · done in 40 s",
    ]  # fmt: skip
    for shown in (None, False):
        assert said_while_training(clock, capsys, seconds=40, shown=shown) == []


def test_a_run_that_fails_is_not_done(capsys):
    with pytest.raises(RuntimeError), TrainingProgress(10, 0, shown=True):
        raise RuntimeError
    assert capsys.readouterr().err == ""


def test_in_a_notebook_verbose_prints_lines_and_no_warning_about_widgets(monkeypatch, capsys):
    shell = type("ZMQInteractiveShell", (), {})()  # by which rich recognises a notebook
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as ipykernel sets it, by which rich would see a terminal
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AgrLearnClassifier(epochs=2, random_state=0, verbose=True).fit(*load_iris(return_X_y=True))
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("training · done in ") and "ipywidgets" not in said.err
