"""Recipes and calls for stores that are reported."""

from collections.abc import Callable

import class_uncertainty as cu
import class_uncertainty.runs.store

SHORT, SHORTER = (cu.Recipe("small-conv", epochs=epochs, batch=32) for epochs in (2, 1))
Estimator = Callable[..., cu.Estimate]
Trainer = Callable[..., None]
