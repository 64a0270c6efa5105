"""A fitted estimator becomes a report like that of a run directory."""

from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import DataError, RecipeError
from agrlearn.reporting.collect import Report, report_of_runs
from agrlearn.reporting.measure import Subject, measure
from agrlearn.runs.facts import RunFacts, Setting
from agrlearn.training.identity import facts_of

if TYPE_CHECKING:
    from agrlearn.sklearn import AgrLearnClassifier


def report_of_classifier(
    classifier: "AgrLearnClassifier", data: Any = None, *, title: str | None = None, dial: bool | None = None
) -> Report:
    """The report of a fitted estimator; the arguments are those of `report`."""
    if not hasattr(classifier, "network_"):
        raise RecipeError(f"expected runs or a fitted AgrLearnClassifier, got {classifier!r}; fit it first")
    if data is not None and (not isinstance(data, tuple) or len(data) != 2):
        raise RecipeError("a fitted classifier is measured on rows and their labels: data=(X, y)")
    name = type(classifier).__name__
    settings = [Setting(name, (_facts(classifier),))]
    if data is None:
        notes = ["Nothing was measured: a classifier keeps no data, and none were given."]
        return report_of_runs(title or name, settings, notes=notes)
    subject = _subject(classifier, *data)
    measured = dict(enumerate(measure([[lambda: subject]], dial=dial)))
    return report_of_runs(title or name, settings, measured)


def _facts(classifier: "AgrLearnClassifier") -> RunFacts:
    """What is known of its training."""
    history = classifier.history_
    return RunFacts(
        Path(),
        {"network": facts_of(classifier.network_), "recipe": classifier.recipe_.model_dump(mode="json")},
        {package: version(package) for package in ("agrlearn", "torch", "numpy", "scikit-learn")},
        tuple(asdict(record) for record in history.records),
        history.seconds,
        finished=True,
        command=f"{classifier!r}.fit(X, y)",
    )


def _subject(classifier: "AgrLearnClassifier", rows: Any, labels: Sequence[Any]) -> Subject:
    """Its network, with what to measure it on."""
    objects = classifier._objects(rows, training=False)
    if len(labels) != len(objects):
        raise DataError(f"expected one label for each of {len(objects)} rows, got {len(labels)}")
    names = tuple(map(str, classifier.classes_))
    numbers = {label: number for number, label in enumerate(classifier.classes_)}
    unknown = next((label for label in labels if label not in numbers), None)
    if unknown is not None:
        raise DataError(f"the classifier does not know the class {unknown}; it was fitted on {', '.join(names)}")
    test_set = LabelledSet(objects, torch.tensor([numbers[label] for label in labels]), names)
    words = () if classifier.vocabulary_ is None else classifier.vocabulary_.words
    return Subject(classifier.network_, test_set, classifier._context, f"{len(objects):,} objects", words)
