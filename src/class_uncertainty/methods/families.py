"""Families of methods: functions that put measures on knobs, from which the rows of METHODS are made."""

import math

from class_uncertainty.checks import check_least, check_number
from class_uncertainty.measures import normalise
from class_uncertainty.measures.measures import Measure, cardinality, surprisal, uniform
from class_uncertainty.methods.method import Focal, Knob, Method, Stage
from class_uncertainty.methods.ramps import Ramp, always, late
from class_uncertainty.methods.units import Unit, as_is, times, to_classes, to_max, to_min


def sampling(about: str, measure: Measure, ramp: Ramp = always, counterpart: str = "") -> Method:
    """alpha follows a measure."""
    return Method(about, counterpart, alpha=Knob(measure, normalise, ramp))


def weighting(
    about: str, measure: Measure, ramp: Ramp = always, counterpart: str = "", reduction: str = "mean"
) -> Method:
    """w follows a measure. The loss is divided by the batch size ("mean") or by the batch's weights ("weights")."""
    return Method(about, counterpart, weight=Knob(measure, to_classes, ramp), reduction=reduction)


def focal(
    about: str,
    gamma: float,
    measure: Measure | None = None,
    ramp: Ramp = always,
    counterpart: str = "",
    throughout: bool = False,
    unit: Unit = to_classes,
    sigmoid: bool = True,
) -> Method:
    """Focal loss, with w if a measure is given. `throughout`: only w follows the ramp, the loss is always focal."""
    weight = Knob(measure, unit, ramp) if measure else None
    return Method(about, counterpart, weight=weight, focal=Focal(gamma, sigmoid, always if throughout else ramp))


def ldam(about: str, tau: float, measure: Measure, reweight: Measure | None = None, counterpart: str = "") -> Method:
    """Margins on the own class's cosine logit, largest tau, then scaled by 30; weights, if any, in the second stage."""
    _check_from_zero("tau", tau)
    margin, reduction = Knob(measure, to_max(tau)), "weights" if reweight else "mean"
    weight = Knob(reweight, to_classes, late) if reweight else None
    return Method(about, counterpart, weight=weight, margin=margin, head="cosine", scale=30.0, reduction=reduction)


def dro(
    about: str, measure: Measure, unit: Unit, epsilon: float = 1.0, counterpart: str = "", learned: bool = False
) -> Method:
    """DRO-LT after a naive training: 80 of 200 epochs for the features, then 20 for the head, at constant rates.

    Draws are class-balanced. The features learn by the robust loss, with margins around class centroids, and by
    cross entropy weighted by N_c, which undoes the resampling; the head learns by cross entropy.
    """
    _check_from_zero("epsilon", epsilon)
    balanced, natural = Knob(uniform, normalise, fixed=True), Knob(cardinality(-1), to_classes, fixed=True)
    margin = Knob(measure, times(epsilon, unit))
    body = Method(alpha=balanced, weight=natural, margin=margin, reduction="weights", level="features", learned=learned)
    plain = (("nesterov", False), ("weight_decay", 1e-4), ("warmup", 0), ("drops", ()))
    first = Stage(body, epochs=0.4, rate=0.05, recipe=plain, trains="body", balanced=True)
    second = Stage(Method(alpha=balanced), epochs=0.1, rate=0.1, recipe=plain, trains="head", balanced=True)
    # revision 1 sums the centroids in blocks whose size does not depend on the lanes of a stack
    return Method(about, counterpart, then=(first, second), revision=1)


def retrained(about: str, measure: Measure, counterpart: str = "") -> Method:
    """Classifier re-training (Kang et al. 2020) as in Bag-of-Tricks: 30 of 200 epochs for a fresh head."""
    recipe = (("weight_decay", 5e-4), ("warmup", 0), ("drops", (9 / 30, 19 / 30)), ("drop", 0.1))
    stage = Stage(Method(alpha=Knob(measure, normalise)), epochs=0.15, recipe=recipe, trains="head", fresh=True)
    return Method(about, counterpart, then=(stage,))


def cam(about: str, measure: Measure, ramp: Ramp = always, released: bool = False) -> Method:
    """CAM-based resampling: 160 of 200 epochs naive, then 40 with pasted foregrounds at a hundredth of the rate."""
    recipe = (("warmup", 0), ("drops", (19 / 40,)), ("drop", 0.01))
    draws = Method(alpha=Knob(measure, normalise, ramp))
    stage = Stage(draws, epochs=0.2, rate=0.01, recipe=recipe, pasted=True, released=released)
    return Method(about, share=0.8, then=(stage,))


def adjusted(about: str, kappa: float = 1.0, gamma: float | None = None) -> Method:
    """Delta = -kappa log of the class prior, on every logit; with gamma, (N_max / N) ** gamma divides the logits."""
    _check_from_zero("kappa", kappa)
    if gamma is not None:
        _check_from_zero("gamma", gamma)
    divisor = None if gamma is None else Knob(cardinality(gamma), to_min)
    return Method(about, margin=Knob(surprisal, times(kappa, as_is)), divisor=divisor, beta=1.0)


def cyclic(about: str, cycles: int) -> Method:
    """A learning rate that falls by a cosine so many times."""
    check_least("cycles", cycles, 1)
    return Method(about, cycles=cycles)


def dropout(about: str, rate: float) -> Method:
    """A share of the features is left out while training."""
    check_number("rate", rate, "a share from 0 to below 1", lambda share: 0 <= share < 1)
    return Method(about, dropout=rate)


def _check_from_zero(name: str, value: float) -> None:
    check_number(name, value, "a finite number from 0", lambda number: 0 <= number < math.inf)
