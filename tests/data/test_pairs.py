"""Data that are no pairs of object and label, to train and to evaluate on."""

import pandas
import pytest

from agrlearn.errors import DataError
from agrlearn.evaluation.evaluate import evaluate
from agrlearn.networks.catalogue import build_network
from agrlearn.training.loop import fit

FRAME = pandas.DataFrame({"a": [0.5, 1.5, 2.5, 3.5], "b": [1.0, 2.0, 3.0, 4.0]})
NUMBERS = [0, 1, 0, 1]


@pytest.mark.parametrize("use", [fit, evaluate])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((FRAME, NUMBERS), "got DataFrame as its first item"),
        (FRAME, "got a DataFrame"),
        ((FRAME.to_numpy(), NUMBERS), "got ndarray as its first item"),
        ((FRAME.to_numpy()[:2].tolist(), [0, 1]), "got a list as the label"),
        ([(FRAME.iloc[row], NUMBERS[row]) for row in range(4)], "as tensors or numbers, got Series and int"),
    ],
    ids=["frame and labels", "frame", "array and labels", "two rows and labels", "rows of a frame"],
)
def test_data_that_are_no_pairs_are_told_what_takes_them(use, data, message):
    network = build_network(object_shape=(2,), num_classes=2, fold=1)
    with pytest.raises(DataError, match=f"{message}.*AgrLearnClassifier"):
        use(network, data)
