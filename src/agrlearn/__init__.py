"""Aggregated Learning: train a classifier on groups, deploy an ordinary network.

The public names are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agrlearn.data.augmentation import crop_and_flip
    from agrlearn.data.datasets import DATASETS, open_source
    from agrlearn.data.labelled import LabelledSet
    from agrlearn.deploy import Export, export
    from agrlearn.errors import AgrLearnError
    from agrlearn.evaluation.evaluate import Evaluation, evaluate
    from agrlearn.grouping import GroupBatchSampler, group, replicate, ungroup
    from agrlearn.information.regularizer import InformationRegularizer
    from agrlearn.networks.aggregated import AggregatedClassifier
    from agrlearn.networks.catalogue import NETWORKS, build_network, load, save
    from agrlearn.networks.convert import Conversion, aggregate
    from agrlearn.networks.joins import JOINS
    from agrlearn.networks.single import single
    from agrlearn.prediction.predict import predict
    from agrlearn.prediction.protocols import PROTOCOLS, Batched, Contextual, Replicated
    from agrlearn.reporting.make import report
    from agrlearn.runs.run import Run
    from agrlearn.sklearn import AgrLearnClassifier
    from agrlearn.studies.compare import compare
    from agrlearn.training.history import History
    from agrlearn.training.loop import fit
    from agrlearn.training.objective import cross_entropy
    from agrlearn.training.recipe import Recipe

_HOMES = {
    "AgrLearnClassifier": "sklearn",
    "AgrLearnError": "errors",
    "AggregatedClassifier": "networks.aggregated",
    "Batched": "prediction.protocols",
    "Contextual": "prediction.protocols",
    "Conversion": "networks.convert",
    "DATASETS": "data.datasets",
    "Evaluation": "evaluation.evaluate",
    "Export": "deploy",
    "GroupBatchSampler": "grouping",
    "History": "training.history",
    "InformationRegularizer": "information.regularizer",
    "JOINS": "networks.joins",
    "LabelledSet": "data.labelled",
    "NETWORKS": "networks.catalogue",
    "PROTOCOLS": "prediction.protocols",
    "Recipe": "training.recipe",
    "Replicated": "prediction.protocols",
    "Run": "runs.run",
    "aggregate": "networks.convert",
    "build_network": "networks.catalogue",
    "compare": "studies.compare",
    "crop_and_flip": "data.augmentation",
    "cross_entropy": "training.objective",
    "evaluate": "evaluation.evaluate",
    "export": "deploy",
    "fit": "training.loop",
    "group": "grouping",
    "load": "networks.catalogue",
    "open_source": "data.datasets",
    "predict": "prediction.predict",
    "replicate": "grouping",
    "report": "reporting.make",
    "save": "networks.catalogue",
    "single": "networks.single",
    "ungroup": "grouping",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("agrlearn")
        except PackageNotFoundError:
            return "unknown: not installed"
    if name not in _HOMES:
        raise AttributeError(f"module 'agrlearn' has no attribute {name!r}")
    return getattr(import_module(f"agrlearn.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
