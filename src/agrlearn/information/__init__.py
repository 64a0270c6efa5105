"""Mutual information: estimates from samples, closed forms, and the regularizer that training uses.

The names below are loaded on first use, so that importing one does not import all.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agrlearn.information.bottleneck import BottleneckRegularizer
    from agrlearn.information.bounds import BOUNDS
    from agrlearn.information.closed_forms import discrete_information, gaussian_information, ksg_information
    from agrlearn.information.estimate_result import Estimate
    from agrlearn.information.estimator import estimate
    from agrlearn.information.pair_critics import CRITICS
    from agrlearn.information.pairs import MARGINALS
    from agrlearn.information.regularizer import InformationRegularizer

_HOMES = {
    "BOUNDS": "bounds",
    "BottleneckRegularizer": "bottleneck",
    "CRITICS": "pair_critics",
    "Estimate": "estimate_result",
    "InformationRegularizer": "regularizer",
    "MARGINALS": "pairs",
    "discrete_information": "closed_forms",
    "estimate": "estimator",
    "gaussian_information": "closed_forms",
    "ksg_information": "closed_forms",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'agrlearn.information' has no attribute {name!r}")
    return getattr(import_module(f"agrlearn.information.{_HOMES[name]}"), name)
