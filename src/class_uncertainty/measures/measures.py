"""Imbalance measures: functions from Stats to a vector over classes, larger = more under-represented."""

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.checks import Array, check
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.text import short

Row = TypeVar("Row")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)


def split_constants(text: str) -> tuple[str, tuple[str, ...]]:
    """'cb-focal:beta=0.99:gamma=1' as 'cb-focal' and ('beta=0.99', 'gamma=1'), which need not exist."""
    row, *constants = text.split(":")
    return row, tuple(constants)


def constants_of(row: str, makers: Mapping[str, Callable[..., object]]) -> dict[str, float]:
    """The constants of a row with their defaults; none where no function makes it."""
    parameters = signature(makers[row]).parameters if row in makers else {}
    return {name: parameter.default for name, parameter in parameters.items()}


def row_with(
    kind: str, row: str, constants: Sequence[str], rows: Mapping[str, Row], makers: Mapping[str, Callable[..., Row]]
) -> Row:
    """The row of a table, made with these constants, each 'name=value', where there are any."""
    if row not in rows:
        raise unknown(kind, row, rows, listing=f"'cu list {kind}s' lists all")
    if not constants:
        return rows[row]
    text = ":".join([row, *constants])
    defaults = constants_of(row, makers)
    if not defaults:
        raise InputError(f"{kind} {text!r}: {row!r} takes no constants, so leave out {text[len(row) :]!r}.")
    values: dict[str, float] = {}
    for constant in constants:
        name, _, value = constant.partition("=")
        if name not in defaults:
            raise InputError(f"{kind} {text!r}: {unknown('constant', name, defaults)}")
        if name in values:
            raise InputError(f"{kind} {text!r}: the constant {name!r} is given twice.")
        values[name] = _number(value, f"{kind} {text!r}", name, defaults[name])
    try:
        return makers[row](**values)
    except InputError as error:  # out of range
        raise InputError(f"{kind} {text!r}: {error}") from None


def _number(text: str, where: str, name: str, default: float) -> float:
    value = float(text) if NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise InputError(
            f"{where}: {name} is {text!r}, which is no finite number: give one, as in {name}={short(default)}."
        )
    return int(value) if isinstance(default, int) and value.is_integer() else value


Vector = NDArray[np.float64]  # (C,)


@dataclass(frozen=True, eq=False)
class Stats:
    """What measures may look at.

    Parameters
    ----------
    counts : array (C,)
        Training examples of each class.
    uncertainty : array (C,), optional
        Mean uncertainty of the examples of each class (Eq. 9), as `estimate(data).stats` has it.

    Examples
    --------
    >>> stats = cu.Stats([100, 10], uncertainty=[0.2, 0.6])
    >>> cu.normalise(cu.MEASURES["cardinality"](stats)).round(3)
    array([0.091, 0.909])
    >>> cu.normalise(cu.MEASURES["uncertainty"](stats))
    array([0.25, 0.75])
    """

    counts: Vector
    uncertainty: Vector | None = None

    def __init__(self, counts: ArrayLike, uncertainty: ArrayLike | None = None) -> None:
        object.__setattr__(self, "counts", _vector("counts", counts))
        if uncertainty is not None:
            uncertainty = _vector("uncertainty", uncertainty)
            if len(uncertainty) != len(self.counts):
                raise InputError(f"uncertainty has {len(uncertainty)} classes, and counts has {len(self.counts)}.")
        object.__setattr__(self, "uncertainty", uncertainty)

    def __repr__(self) -> str:
        parts = [f"{len(self.counts):,} classes", f"counts {span(self.counts)}"]
        if self.uncertainty is not None:
            parts.append(f"uncertainty {span(self.uncertainty)}")
        return f"Stats({', '.join(parts)})"

    @classmethod
    def of(cls, counts: ArrayLike, stats: "Stats | None") -> "Stats":
        """These counts with the uncertainties of `stats`, if there are any."""
        return cls(counts, stats.uncertainty if stats else None)


def _vector(name: str, values: ArrayLike) -> Vector:
    check(Array, **{name: values})
    try:
        vector = np.array(np.asarray(values), dtype=np.float64)  # a tensor warns where it is to be copied
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers, one a class.") from None
    if vector.ndim != 1 or len(vector) < 2:
        raise InputError(f"{name} has shape {vector.shape}: it needs one value for each of at least two classes.")
    bad = np.flatnonzero(~np.isfinite(vector) | (vector <= 0))
    if len(bad):
        raise InputError(f"{name} of class {bad[0]} is {vector[bad[0]]:g}: every class needs a finite value above 0.")
    vector.setflags(write=False)
    return vector


@dataclass(frozen=True)
class Measure:
    """A formula with its name. `uses_uncertainty`: whether it needs an estimate first."""

    name: str
    about: str
    formula: Callable[[Stats], Vector]
    uses_uncertainty: bool = False

    def __call__(self, stats: Stats) -> Vector:
        check(Stats, stats=stats)
        if self.uses_uncertainty and stats.uncertainty is None:
            raise InputError(f"measure {self.name!r} needs class uncertainties: give stats=cu.estimate(data).stats.")
        with np.errstate(all="ignore"):
            mu = self.formula(stats)
        if not np.isfinite(mu).all() or (mu <= 0).any():
            raise InputError(f"measure {self.name!r} must be finite and above 0 for every class: take a lower power.")
        return mu


def cardinality(power: float = 1.0) -> Measure:
    """1 / N_c ** power (Eq. 6; LDAM's margins are the power 1/4)."""
    name = "cardinality" if power == 1 else f"cardinality^{short(power)}"
    return Measure(name, f"1 / N_c{'' if power == 1 else f' ** {short(power)}'}", lambda stats: stats.counts**-power)


def effective(beta: float = 0.9999) -> Measure:
    """(1 - beta) / (1 - beta ** N_c): one over the effective number of examples (Cui et al. 2019)."""
    if not 0 < beta < 1:
        raise InputError(f"beta is {short(beta)}: the effective number needs a value above 0 and below 1.")
    formula = lambda stats: (1 - beta) / -np.expm1(stats.counts * np.log(beta))  # noqa: E731
    return Measure(f"effective({short(beta)})", f"(1 - beta) / (1 - beta ** N_c), beta = {short(beta)}", formula)


def mix(a: Measure, b: Measure, gamma: float) -> Measure:
    """gamma a + (1 - gamma) b, both normalised first (the supplement's combination of weights)."""
    if not 0 <= gamma <= 1:
        raise InputError(f"gamma is {short(gamma)}: a mix needs a value from 0 to 1.")

    def formula(stats: Stats) -> Vector:
        return gamma * normalise(a(stats)) + (1 - gamma) * normalise(b(stats))

    about = f"{short(gamma)} {a.name} + {short(1 - gamma)} {b.name}, each normalised"
    return Measure(f"mix({a.name}, {b.name}, {short(gamma)})", about, formula, a.uses_uncertainty or b.uses_uncertainty)


def product(a: Measure, b: Measure) -> Measure:
    """The product a b."""
    uses = a.uses_uncertainty or b.uses_uncertainty
    return Measure(f"product({a.name}, {b.name})", f"{a.name} times {b.name}", lambda stats: a(stats) * b(stats), uses)


def power(measure: Measure, exponent: float) -> Measure:
    """measure ** exponent: 0 is uniform, under 1 flatter, over 1 steeper."""
    if not np.isfinite(exponent):
        raise InputError(f"power is {exponent}: it must be a finite number.")
    name, uses = f"{measure.name}^{short(exponent)}", measure.uses_uncertainty
    return Measure(name, f"({measure.about}) ** {short(exponent)}", lambda stats: measure(stats) ** exponent, uses)


def geometric(a: Measure, b: Measure) -> Measure:
    """sqrt(a b): the geometric mean."""
    name, about = f"geometric({a.name}, {b.name})", f"geometric mean of {a.name} and {b.name}"
    return replace(power(product(a, b), 1 / 2), name=name, about=about)


def digest(uncertainty: Vector) -> str:
    """A short hash of class uncertainties, to tell one estimate from another."""
    return hashlib.sha256(uncertainty.tobytes()).hexdigest()[:16]


def normalise(mu: ArrayLike) -> Vector:
    """Divide a measure by its sum, so that it sums to 1 (Eqs. 7 and 10).

    Parameters
    ----------
    mu : array (C,)
        Finite and not negative.

    Returns
    -------
    array (C,)

    Examples
    --------
    >>> cu.normalise([1, 3])
    array([0.25, 0.75])
    """
    check(Array, mu=mu)
    try:
        mu = np.asarray(mu, dtype=np.float64)
    except ValueError:  # texts
        mu = np.full(1, np.nan)
    with np.errstate(all="ignore"):
        total = mu.sum()
    if (mu < 0).any() or not 0 < total < np.inf:
        raise InputError("a measure must be finite and not negative, and above 0 for some class, to be normalised.")
    return mu / total


def span(numbers: Vector) -> str:
    """'0.1 to 0.9', or '1' where all are alike."""
    low, high = f"{numbers.min():.3g}", f"{numbers.max():.3g}"
    return low if low == high else f"{low} to {high}"


def _uncertainty(stats: Stats) -> Vector:
    assert stats.uncertainty is not None  # Measure.__call__ has checked
    return stats.uncertainty


def _surprisal(stats: Stats) -> Vector:
    return -np.log(stats.counts / stats.counts.sum())


uniform = Measure("uniform", "the same for every class", lambda stats: np.ones(len(stats.counts)))
surprisal = Measure("surprisal", "-log of the class's share of the examples", _surprisal)
about_uncertainty = "mean predictive uncertainty of the class's examples (Eq. 9)"
uncertainty = Measure("uncertainty", about_uncertainty, _uncertainty, uses_uncertainty=True)

# Measures, and functions of their constants.
MEASURE_ROWS: dict[str, Measure | Callable[..., Measure]] = {
    "uniform": uniform,
    "cardinality": cardinality,
    "cardinality-root": cardinality(1 / 2),
    "cardinality-quarter": cardinality(1 / 4),
    "surprisal": surprisal,
    "effective": effective,
    "uncertainty": uncertainty,
    "mix": lambda gamma=0.5, beta=0.9999: mix(uncertainty, effective(beta), gamma),
    "product": product(uncertainty, cardinality()),
    "geometric": geometric(uncertainty, cardinality()),
}
MEASURE_MAKERS = {name: row for name, row in MEASURE_ROWS.items() if not isinstance(row, Measure)}

# Every measure by its name, as `cu list measures` lists them and `row@measure` names them.
# MEASURES["cardinality"](cu.Stats([100, 10])) is a vector (C,), larger where a class is more under-represented.
MEASURES: dict[str, Measure] = {name: row if isinstance(row, Measure) else row() for name, row in MEASURE_ROWS.items()}


def measure_named(name: str) -> Measure:
    """A row of MEASURES: 'row', with constants 'row:constant=value', and with a power 'row^power'."""
    base, hat, exponent = name.partition("^")
    row, constants = split_constants(base)
    measure = row_with("measure", row, constants, MEASURES, MEASURE_MAKERS)
    if not hat:
        return measure
    try:
        number = float(exponent)
    except ValueError:
        raise InputError(f"measure {name!r} has the power {exponent!r}: give a number, as in {base}^0.5.") from None
    return power(measure, number)
