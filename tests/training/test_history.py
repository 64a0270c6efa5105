"""The records of a run."""

import pytest

from agrlearn.errors import RunError
from agrlearn.training.history import EpochRecord, History


def test_the_final_error_is_the_median_of_the_last_epochs():
    records = tuple(EpochRecord(e, 0.1, 1.0, 0.1, None, 4.0, 0, e, validation_error=e / 100) for e in range(1, 21))
    assert History(records, 1.0).final_error() == pytest.approx(0.155)
    with pytest.raises(RunError, match="validation set"):
        History((EpochRecord(1, 0.1, 1.0, 0.1, None, 4.0, 0, 1),), 1.0).final_error()
