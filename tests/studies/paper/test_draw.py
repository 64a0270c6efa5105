"""Pictures of results."""

import pytest

from agrlearn.runs.result import FinishedRun, Point, ProtocolScores, RunResult
from agrlearn.runs.spec import RunSpec
from agrlearn.studies.paper.draw import draw_shares, errors_by_share
from agrlearn.studies.paper.results import CellResult


def result(error, seed=0, **settings):
    scores = {"Replicated": ProtocolScores(error, 0.5, 0.1, 0.2, 0.0, 20.0)}
    left = RunResult(scores, (Point(1, 100, 1.0, 0.5, error, 0.5, None),), 10, 30, 40, 50.0, "cpu")
    spec = RunSpec(data="cifar-10", **{"fold": 1, **settings}).with_seed(seed)
    return CellResult(FinishedRun(format="", versions={"torch": "2"}, spec=spec, result=left), (error,))


RESULTS = {
    ("100%", "fold 1"): [result(0.1), result(0.2, seed=1)],
    ("100%", "fold 2"): [result(0.3, seed=1, fold=2), result(0.6, seed=2, fold=2)],
    ("2.5%", "fold 1"): [result(0.5, share=0.025)],
    ("2.5%", "fold 4, joined after block 4"): [result(0.4, share=0.025, fold=4)],
    ("2.5%", "fold 1, last layer as fold 4"): [result(0.3, share=0.025)],
}


def test_errors_are_ordered_by_the_share_of_the_images_whatever_the_order_of_the_table():
    lines = errors_by_share(RESULTS)
    assert set(lines) == {"fold 1", "fold 2", "fold 4, joined after block 4"}
    assert list(lines["fold 1"]) == [2.5, 100]
    assert lines["fold 1"][100].value == pytest.approx(15)
    assert lines["fold 1"][100].standard_error == pytest.approx(5)


def test_differences_are_those_of_the_seeds_that_both_have():
    lines = errors_by_share(RESULTS, minus="fold 1")
    assert set(lines) == {"fold 2", "fold 4, joined after block 4"}
    assert lines["fold 2"][100].value == pytest.approx(10)
    assert lines["fold 4, joined after block 4"][2.5].value == pytest.approx(-10)


def test_shares_are_drawn_with_one_seed_and_with_several(tmp_path):
    draw_shares(RESULTS, tmp_path / "new" / "shares.png", "Little data")
    assert (tmp_path / "new" / "shares.png").stat().st_size > 10_000
