"""Classifiers of scikit-learn on the data of a run: what many people would use on a table instead."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from agrlearn.errors import RecipeError, look_up
from agrlearn.evaluation.metrics import METRICS, outcomes_of, score
from agrlearn.grouping import first_tensor
from agrlearn.runs.result import REPLICATED, ProtocolScores, RunResult, describe_machine
from agrlearn.runs.spec import RunSpec
from agrlearn.runs.train import RunData


def _gradient_boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed)


def _random_forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=300, random_state=seed)


def _logistic_regression(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))


def _perceptron(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), MLPClassifier(random_state=seed))


RIVALS: dict[str, Callable[[int], Any]] = {
    "sklearn:gradient-boosting": _gradient_boosting,
    "sklearn:random-forest": _random_forest,
    "sklearn:logistic-regression": _logistic_regression,
    "sklearn:mlp": _perceptron,
}
"""By the name that a `RunSpec` calls them as its network; each maker takes a seed."""


def run_rival(spec: RunSpec, data: RunData) -> RunResult:
    """Fit the classifier that the spec names, with scikit-learn's defaults, and measure it."""
    make = look_up(RIVALS, str(spec.network), "classifier of scikit-learn")
    if data.test is None:
        raise RecipeError(f"{spec.network} is only measured; hold out a part of the data to measure it on")
    x, unseen = (first_tensor(part.objects).flatten(1).double().numpy() for part in (data.train, data.test))
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about iterations; scikit-learn's defaults are what is compared
        fitted = make(spec.seed).fit(x, data.train.labels.numpy())
    seconds = time.perf_counter() - start
    probabilities = torch.zeros(len(unseen), data.train.num_classes, dtype=torch.float64)
    probabilities[:, torch.from_numpy(fitted.classes_)] = torch.from_numpy(fitted.predict_proba(unseen))
    scores = score(outcomes_of(probabilities, data.test.labels))
    found = ProtocolScores(
        **{name: getattr(scores, name) for name in METRICS}, head_disagreement=0.0, multiply_adds=0.0
    )
    return RunResult({REPLICATED: found}, (), 0, 0, len(data.train), seconds, describe_machine())
