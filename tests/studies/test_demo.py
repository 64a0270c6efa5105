"""What the demo says about its table."""

import math
from dataclasses import replace

import pytest

from agrlearn.evaluation.statistics import Mean, mean_over_runs, paired_difference
from agrlearn.studies.compare import ORDINARY
from agrlearn.studies.demo import CHEAP, DIAL, GROUPS, Demo, Row

BASE = [0.030, 0.032, 0.034]


def row(setting, errors, cost=100.0, protocol="ordinary"):
    by_seed = dict(enumerate(errors))
    difference = paired_difference(by_seed, {} if setting == ORDINARY else dict(enumerate(BASE)))
    scores = {name: mean_over_runs(errors) for name in ("error", "nll", "ece", "brier")}
    return Row(setting, protocol, scores, by_seed, difference, 1, cost, 1, 1.0, 1.0)


def verdict(*rows):
    return Demo("", (row(ORDINARY, BASE), *rows)).verdict


def test_the_verdict_names_what_errs_least_at_the_ordinary_networks_cost_with_its_paired_difference():
    cheaper, dearer = row("small", [0.001] * 3, cost=50.0), row("large", [0.001] * 3, cost=200.0)
    said = verdict(cheaper, row(GROUPS, [0.020, 0.021, 0.025]), dearer)
    assert said.startswith(f"Of the 2 networks that predict an object with 100 multiply-adds, “{GROUPS}” errs least")
    assert "2.20 ± 0.15 % instead of 3.20 ± 0.12 %, −1.00 ± 0.25 points, p = 0.003" in said
    assert "chance" not in said


def test_the_verdict_does_not_hide_that_a_gain_may_be_chance_or_that_there_is_none():
    assert "That may be chance" in verdict(row(GROUPS, [0.031, 0.030, 0.032]))
    assert "the ordinary network errs least, in 3.20 ± 0.12 %" in verdict(row(GROUPS, [0.04] * 3))
    single = replace(row(GROUPS, [0.01]), difference=Mean(-0.02, math.nan))
    said = verdict(single)
    assert "−2.00 points. That may be chance" in said


@pytest.mark.parametrize(("error", "sign"), [(0.02, "−"), (0.09, "+")])
def test_the_fast_end_of_the_dial_stands_beside_the_ordinary_network_that_is_as_cheap(error, sign):
    said = verdict(
        row(DIAL, [0.03, 0.03, 0.03], cost=150.0, protocol="Replicated"),
        row(DIAL, [0.05, 0.06, 0.07], cost=40.0, protocol="Batched, 1 draw"),
        row(CHEAP, [error, error, error], cost=39.0),
    )
    assert "from 6.00 ± 0.58 % error at 40 multiply-adds to 3.00 ± 0.00 % at 150" in said
    assert f"takes 39 has {100 * error:.2f} ± 0.00 % ({sign}" in said
