"""How many examples of each class a resampled data set has: the alpha of a method, as counts."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.checks import check, check_number, shortly
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.measures import Stats, Vector
from class_uncertainty.methods import METHODS, Method, named, plan

SAMPLINGS = ("same-size", "over-sampling", "under-sampling")
ROUNDING = 1e-9

Counts = NDArray[np.int64]  # (C,)


def resampling_method(name: str) -> Method:
    """The method of that name, if it draws classes by another rule than their frequency."""
    check(str, method=name)
    method = named(name)
    if method.alpha is None:
        rows = ", ".join(row for row, value in METHODS.items() if value.alpha)
        raise InputError(f"method {name!r} does not resample: give one that acts on alpha, as {rows}.")
    return method


def class_shares(name: str, stats: Stats, strength: float = 1.0) -> Vector:
    """(C,) alpha of the method: at strength 0 the frequencies of the classes, at 1 the method's own (Eq. 3)."""
    check_number("strength", strength, "a number from 0 to 1", lambda value: 0 <= value <= 1)
    knob = resampling_method(name).alpha
    assert knob is not None
    return plan(Method(alpha=replace(knob, ramp=lambda epoch, epochs: float(strength))), stats, 0, 1).alpha


def resampled_counts(alpha: Vector, counts: Counts, sampling: str) -> Counts:
    """(C,) in the proportions of alpha, one at least.

    "same-size" has as many examples as before, "over-sampling" the fewest without removing one, "under-sampling" the
    most without repeating one.
    """
    check(str, sampling=sampling)
    if sampling not in SAMPLINGS:
        raise unknown("sampling", sampling, SAMPLINGS)
    if sampling == "over-sampling":
        wanted = np.ceil(alpha * (counts / alpha).max() - ROUNDING)
        return np.maximum(wanted.astype(np.int64), counts)
    if sampling == "under-sampling":
        wanted = np.floor(alpha * (counts / alpha).min() + ROUNDING)
        return np.clip(wanted.astype(np.int64), 1, counts)
    exact = alpha * counts.sum()
    wanted = np.maximum(np.floor(exact + ROUNDING), 1).astype(np.int64)
    left = max(int(counts.sum() - wanted.sum()), 0)
    wanted[np.argsort(wanted - exact, kind="stable")[:left]] += 1  # the largest remainders
    return wanted


@dataclass(frozen=True, eq=False)
class SamplingStrategy:
    """A `sampling_strategy` for samplers of imbalanced-learn: from labels to the count of each class.

    `ClassUncertainty.sampling_strategy` makes one.

    Attributes
    ----------
    classes : array (C,)
    uncertainty : array (C,)
        Of each class, above 0.
    sampling : str
        "over-sampling" or "under-sampling", as the sampler does.
    method : str
        A method that resamples, as 'ubrs' or 'ubrs@mix'.
    strength : float
        From 0, nothing, to 1, the shares of the method.

    Examples
    --------
    >>> SamplingStrategy(np.array(["cat", "dog"]), np.array([0.1, 0.3]))(["cat"] * 20 + ["dog"] * 10)
    {'cat': 20, 'dog': 60}
    """

    classes: NDArray
    uncertainty: Vector
    sampling: str = "over-sampling"
    method: str = "ubrs"
    strength: float = 1.0

    def __call__(self, y: Any) -> dict[Any, int]:
        """The number of examples that each class is to have."""
        present, counts = np.unique(np.asarray(y), return_counts=True)
        if len(others := np.setdiff1d(present, self.classes)):
            raise InputError(
                f"class {shortly(others.tolist()[0])} was not measured: measure class uncertainty on all classes."
            )
        uncertainty = self.uncertainty[np.searchsorted(self.classes, present)]
        alpha = class_shares(self.method, Stats(counts, uncertainty), self.strength)
        return dict(zip(present.tolist(), resampled_counts(alpha, counts, self.sampling).tolist(), strict=True))
