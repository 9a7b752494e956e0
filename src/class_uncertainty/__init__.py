"""Measure which classes a classifier under-serves, and fix it. The public names, nothing else."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from class_uncertainty import limits  # noqa: F401  # isort: skip  # before NumPy, whose threads it limits

if TYPE_CHECKING:
    from class_uncertainty.data import Data, Dataset, duplicate, load, long_tail, mix_hardness, svci20, validation_split
    from class_uncertainty.data.data_check import Check, check
    from class_uncertainty.data.finding import Finding
    from class_uncertainty.errors import InputError, MachineFault, Unfinished
    from class_uncertainty.estimation import ESTIMATORS, Estimate, estimate
    from class_uncertainty.integrations.export import export
    from class_uncertainty.integrations.torch import ClassSampler, Loss, OnlineUncertainty
    from class_uncertainty.measures import MEASURES, Stats, normalise
    from class_uncertainty.measures.uncertainty import aleatoric, class_uncertainty, epistemic, kwon, predictive
    from class_uncertainty.methods import METHODS, Method, Plan, plan
    from class_uncertainty.posthoc import REMEDIES, Adjustment, LabelNoise, adjust, fit_adjustment, label_noise
    from class_uncertainty.reporting.audit_page import write_page
    from class_uncertainty.runs import aso
    from class_uncertainty.training import Lane, Recipe, Result, Teaching
    from class_uncertainty.training.candidate import CANDIDATES, Candidate
    from class_uncertainty.training.embed import embed
    from class_uncertainty.training.fit import fit
    from class_uncertainty.training.fit_result import Fit
    from class_uncertainty.training.model_files import restore
    from class_uncertainty.training.networks.network_table import register_network
    from class_uncertainty.workflows.adjust_predictions import AdjustedPredictions, adjust_predictions
    from class_uncertainty.workflows.audit import Audit, audit
    from class_uncertainty.workflows.compare import Comparison, compare
    from class_uncertainty.workflows.fix import Fix, fix
    from class_uncertainty.workflows.fix_choice import Choice
    from class_uncertainty.workflows.measure import EstimatorComparison, Measured, compare_estimators, measure
    from class_uncertainty.workflows.model import Model, save
    from class_uncertainty.workflows.predict import Predicted, predict
    from class_uncertainty.workflows.train import Trained, train

__version__ = "0.1.0"

_LATE = {  # imported on first use: `cu` handles Ctrl-C before it imports NumPy and torch
    "data": ("Data", "Dataset", "duplicate", "load", "long_tail", "mix_hardness", "svci20", "validation_split"),
    "data.data_check": ("Check", "check"),
    "data.finding": ("Finding",),
    "errors": ("InputError", "MachineFault", "Unfinished"),
    "estimation": ("ESTIMATORS", "Estimate", "estimate"),
    "integrations.export": ("export",),
    "integrations.torch": ("ClassSampler", "Loss", "OnlineUncertainty"),
    "measures": ("MEASURES", "Stats", "normalise"),
    "measures.uncertainty": ("aleatoric", "class_uncertainty", "epistemic", "kwon", "predictive"),
    "methods": ("METHODS", "Method", "Plan", "plan"),
    "posthoc": ("REMEDIES", "Adjustment", "LabelNoise", "adjust", "fit_adjustment", "label_noise"),
    "reporting.audit_page": ("write_page",),
    "runs": ("aso",),
    "training": ("Lane", "Recipe", "Result", "Teaching"),
    "training.candidate": ("CANDIDATES", "Candidate"),
    "training.embed": ("embed",),
    "training.fit": ("fit",),
    "training.fit_result": ("Fit",),
    "training.model_files": ("restore",),
    "training.networks.network_table": ("register_network",),
    "workflows.adjust_predictions": ("AdjustedPredictions", "adjust_predictions"),
    "workflows.audit": ("Audit", "audit"),
    "workflows.compare": ("Comparison", "compare"),
    "workflows.fix": ("Fix", "fix"),
    "workflows.fix_choice": ("Choice",),
    "workflows.measure": ("EstimatorComparison", "Measured", "compare_estimators", "measure"),
    "workflows.model": ("Model", "save"),
    "workflows.predict": ("Predicted", "predict"),
    "workflows.train": ("Trained", "train"),
}


def __getattr__(name: str) -> Any:
    for module, names in _LATE.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    if find_spec(f"{__name__}.{name}"):  # a module, as cu.training
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


__all__ = [
    "CANDIDATES", "ESTIMATORS", "MEASURES", "METHODS", "REMEDIES", "AdjustedPredictions", "Adjustment", "Audit",
    "Candidate", "Check", "Choice", "ClassSampler", "Comparison", "Data", "Dataset", "Estimate", "EstimatorComparison",
    "Finding", "Fit", "Fix", "InputError", "LabelNoise", "Lane", "Loss", "MachineFault", "Measured", "Method", "Model",
    "OnlineUncertainty", "Plan", "Predicted", "Recipe", "Result", "Stats", "Teaching", "Trained", "Unfinished",
    "adjust", "adjust_predictions", "aleatoric", "aso", "audit", "check", "class_uncertainty", "compare",
    "compare_estimators", "duplicate", "embed", "epistemic", "estimate", "export", "fit", "fit_adjustment", "fix",
    "kwon", "label_noise", "load", "long_tail", "measure", "mix_hardness", "normalise", "plan", "predict",
    "predictive", "register_network", "restore", "save", "svci20", "train", "validation_split", "write_page",
]  # fmt: skip
