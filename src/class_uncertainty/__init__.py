"""Measure which classes a classifier under-serves, and mend it. The public names, nothing else."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from class_uncertainty import limits  # noqa: F401  # isort: skip  # before NumPy, whose threads it limits
from class_uncertainty.data import Data, Dataset, duplicate, load, long_tail, mix_hardness, svci20, validation_split
from class_uncertainty.errors import InputError, MachineFault, Unfinished
from class_uncertainty.estimation import ESTIMATORS, Estimate, estimate
from class_uncertainty.measures import (
    MEASURES,
    Stats,
    aleatoric,
    class_uncertainty,
    epistemic,
    kwon,
    normalise,
    predictive,
)
from class_uncertainty.methods import METHODS, Method, Plan, plan
from class_uncertainty.remedies import REMEDIES, Adjustment, adjust, fit_adjustment
from class_uncertainty.results import aso
from class_uncertainty.training import Lane, Recipe, Result, Teaching

if TYPE_CHECKING:
    from class_uncertainty.results.fixing import Fix, fix
    from class_uncertainty.training.fitted import Fit
    from class_uncertainty.training.loop import fit
    from class_uncertainty.training.predicting import Predicted, predict
    from class_uncertainty.training.saving import restore

__version__ = "0.1.0"

_LATE = {
    "Fit": "training.fitted",
    "Fix": "results.fixing",
    "Predicted": "training.predicting",
    "fit": "training.loop",
    "fix": "results.fixing",
    "predict": "training.predicting",
    "restore": "training.saving",
}  # these need torch


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(f"{__name__}.{_LATE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


__all__ = [
    "ESTIMATORS",
    "MEASURES",
    "METHODS",
    "REMEDIES",
    "Adjustment",
    "Data",
    "Dataset",
    "Estimate",
    "Fit",
    "Fix",
    "InputError",
    "Lane",
    "MachineFault",
    "Method",
    "Plan",
    "Predicted",
    "Recipe",
    "Result",
    "Stats",
    "Teaching",
    "Unfinished",
    "adjust",
    "aleatoric",
    "aso",
    "class_uncertainty",
    "duplicate",
    "epistemic",
    "estimate",
    "fit",
    "fit_adjustment",
    "fix",
    "kwon",
    "load",
    "long_tail",
    "mix_hardness",
    "normalise",
    "plan",
    "predict",
    "predictive",
    "restore",
    "svci20",
    "validation_split",
]
