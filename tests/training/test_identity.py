"""What identifies a run."""

import functools

import pytest

from agrlearn.errors import RunError
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from tests.training.small_runs import FAST


def shifted(objects, random, by=0.1):
    return objects + by


@pytest.mark.parametrize(
    ("first", "then", "told"),
    [
        (None, shifted, "its augmentation is None, not shifted"),
        (shifted, None, "its augmentation is shifted, not None"),
        (
            functools.partial(shifted, by=0.2),
            functools.partial(shifted, by=0.3),
            r"is shifted\(by=0.2\), not shifted\(by=0.3\)",
        ),
    ],
)
def test_a_run_with_another_augmentation_is_another_run(vectors, make_mlp, tmp_path, first, then, told):
    fit(make_mlp(2), vectors, Recipe(**FAST), None, tmp_path, augment=first)
    with pytest.raises(RunError, match=told):
        fit(make_mlp(2), vectors, Recipe(**FAST), None, tmp_path, augment=then)
    assert fit(make_mlp(2), vectors, Recipe(**FAST), None, tmp_path, augment=first).was_finished
