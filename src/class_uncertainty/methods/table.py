"""The methods of the paper's tables that act on alpha, w or the margin, and the strong baselines it leaves out."""

from class_uncertainty.measures import normalise
from class_uncertainty.measures.stats import Measure, cardinality, effective, surprisal, uncertainty, uniform
from class_uncertainty.methods.knobs import (
    Focal,
    Knob,
    Method,
    Ramp,
    always,
    as_is,
    late,
    late_linear,
    linear,
    to_classes,
    to_max,
    to_min,
)

TAU = 0.5  # LDAM's largest margin
quarter = cardinality(1 / 4)


def sampling(about: str, measure: Measure, ramp: Ramp = always, counterpart: str = "") -> Method:
    """alpha follows a measure."""
    return Method(about, counterpart, alpha=Knob(measure, normalise, ramp))


def weighting(about: str, measure: Measure, ramp: Ramp = always, counterpart: str = "") -> Method:
    """w follows a measure."""
    return Method(about, counterpart, weight=Knob(measure, to_classes, ramp))


def focal(about: str, measure: Measure | None = None, ramp: Ramp = always, counterpart: str = "", gamma: float = 2.0) -> Method:
    """Focal loss, with w if a measure is given."""
    weight = Knob(measure, to_classes, ramp) if measure else None
    return Method(about, counterpart, weight=weight, focal=Focal(gamma, ramp=ramp))


def ldam(about: str, measure: Measure, reweight: Measure | None = None, counterpart: str = "") -> Method:
    """Margins on the own class's cosine logit, largest TAU, then scaled by 30; weights, if any, in the second stage."""
    weight = Knob(reweight, to_classes, late) if reweight else None
    margin = Knob(measure, to_max(TAU))
    return Method(about, counterpart, weight=weight, margin=margin, head="cosine", scale=30.0, reduction="weights" if reweight else "mean")


def adjusted(about: str) -> Method:
    """Delta = -log of the class prior, on every class's logit (kappa 1)."""
    return Method(about, margin=Knob(surprisal, as_is), beta=1.0)


METHODS: dict[str, Method] = {
    "naive": Method("nothing: cross entropy on the data as they are"),
    # resampling
    "cb-rs": sampling("class-balanced resampling: every class equally often", uniform),
    "pb-rs": sampling("progressively balanced: from natural to equal over the epochs", uniform, linear),
    "ubrs": sampling("resampling by class uncertainty", uncertainty, counterpart="cb-rs"),
    "pb-ubrs": sampling("from natural to class uncertainty over the epochs", uncertainty, linear, counterpart="pb-rs"),
    # reweighting
    "focal": focal("focal loss, sigmoid form, gamma 2"),
    "cb": weighting("class-balanced loss: weights by the effective number", effective()),
    "cb-focal": focal("focal loss with effective-number weights", effective()),
    "ubrw": weighting("reweighting by class uncertainty", uncertainty, counterpart="cb"),
    "ubrw-focal": focal("focal loss weighted by class uncertainty", uncertainty, counterpart="cb-focal"),
    # margins
    "ldam": ldam("label-distribution-aware margins, 1 / N ** (1/4)", quarter),
    "ldam-rw": ldam("LDAM, then effective-number weights in the second stage", quarter, effective()),
    "ubm-ldam": ldam("LDAM with margins by class uncertainty", uncertainty, counterpart="ldam"),
    "ubm-ldam-rw": ldam("the same, then uncertainty weights in the second stage", uncertainty, uncertainty, counterpart="ldam-rw"),
    "ubm-ldam-cbrw": ldam("uncertainty margins, then effective-number weights", uncertainty, effective(), counterpart="ldam-rw"),
    # two stages: naive for the first 80 % of the epochs
    "2s-cb-rs": sampling("second stage: class-balanced resampling", uniform, late),
    "2s-pb-rs": sampling("second stage: progressively balanced resampling", uniform, late_linear),
    "2s-ubrs": sampling("second stage: resampling by class uncertainty", uncertainty, late, counterpart="2s-cb-rs"),
    "2s-csce": weighting("second stage: cost-sensitive weights, 1 / N", cardinality(), late),
    "2s-focal": focal("second stage: focal loss", ramp=late),
    "2s-cb-focal": focal("second stage: focal loss with effective-number weights", effective(), late),
    "2s-ubrw": weighting("second stage: weights by class uncertainty", uncertainty, late, counterpart="2s-csce"),
    "2s-ubrw-focal": focal("second stage: focal loss weighted by class uncertainty", uncertainty, late, counterpart="2s-cb-focal"),
    # baselines that the paper leaves out
    "balanced-softmax": adjusted("logits shifted by the log prior while training"),
    "logit-adjust": adjusted("the same loss by its other name, at the kappa its authors use: 1"),
    "vs": Method(
        "vector scaling: logits divided by (N_max / N) ** 0.3 and shifted by the log prior",
        margin=Knob(surprisal, as_is),
        divisor=Knob(cardinality(0.3), to_min),
        beta=1.0,
    ),
}
