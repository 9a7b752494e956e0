"""METHODS: the rows of the paper's tables as they were run, their literal readings, and strong baselines beside them.

A row is a method, or a function of its constants that makes it. Any row can be driven by another measure and augmented:
`named("cb-focal:beta=0.99@mix:gamma=0.3")`, `named("balanced-softmax+mixup")`.
"""

import math
from collections.abc import Callable

from class_uncertainty.checks import check_least, check_number
from class_uncertainty.measures import normalise
from class_uncertainty.measures.measures import Measure, cardinality, effective, surprisal, uncertainty, uniform
from class_uncertainty.methods.method import (
    Focal,
    Knob,
    Method,
    Ramp,
    Stage,
    Unit,
    always,
    as_is,
    late,
    late_linear,
    linear,
    times,
    to_classes,
    to_max,
    to_min,
)
from class_uncertainty.text import short


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


BETA, GAMMA, TAU = 0.9999, 2.0, 0.5  # of the effective number, of the focal loss, and LDAM's largest margin
quarter = cardinality(1 / 4)
DIVIDED = "divided by their sum in the batch"
SOFTMAX = "Table I: rows with focal loss, if its form is that of LDAM-DRW's code"
BY_DATA = "beta and gamma by data set, here CIFAR-10-LT (50)'s; gamma 1 on the others, with beta 0.9999, 0.99 and 0.9"

ROWS: dict[str, Method | Callable[..., Method]] = {
    "naive": Method("nothing: cross entropy on the data as they are").cited("Table I, SVCI-20 table: naïve classifier"),
    # resampling
    "cb-rs": sampling("class-balanced resampling: every class equally often", uniform).cited("Table I: CB Resampling"),
    "pb-rs": sampling("progressively balanced: from natural to equal over the epochs", uniform, linear).cited(
        "Table I: PB Resampling; SVCI-20 table: PB Rs",
        "draws that repeat in every worker and epoch (NumPy's state under old torch)",
    ),
    "power-rs": lambda q=0.5: sampling(
        f"resampling by N ** {short(q)}: 1 is naive, 0 class-balanced", cardinality(-q)
    ).cited("IF2, if duplicates are drawn: q is 1 less their strength", "square-root sampling of Kang et al. at 0.5"),
    "ubrs": sampling("resampling by class uncertainty", uncertainty, counterpart="cb-rs").cited("Table I: UBRs"),
    "pb-ubrs": sampling(
        "from natural to class uncertainty over the epochs", uncertainty, linear, counterpart="pb-rs"
    ).cited("Table I, SVCI-20 table: PB UBRs"),
    # reweighting
    "focal": lambda gamma=GAMMA: focal(f"focal loss, sigmoid form, gamma {short(gamma)}", gamma).cited(
        "Table I, SVCI-20 table: Focal Loss"
    ),
    "cb": lambda beta=BETA: weighting(
        f"class-balanced loss: weights by the effective number, beta {short(beta)}, {DIVIDED}",
        effective(beta),
        reduction="weights",
    ).cited("Table I, SVCI-20 table: Class-balanced Loss", "Bag-of-Tricks' is this one; beta is 0.9 on CIFAR-100"),
    "cb-literal": lambda beta=BETA: weighting(
        f"class-balanced loss by Eq. 4: the same weights, beta {short(beta)}, with 1 / m", effective(beta)
    ).cited("Table I: Class-balanced Loss, as Eq. 4 reads"),
    "cb-focal": lambda beta=BETA, gamma=GAMMA: focal(
        f"focal loss, gamma {short(gamma)}, with effective-number weights, beta {short(beta)}", gamma, effective(beta)
    ).cited("Table I: Class-balanced Focal Loss; supplement: mix, γ = 0", BY_DATA),
    "ubrw": weighting("reweighting by class uncertainty", uncertainty, counterpart="cb-literal").cited(
        "Table I: UBRw; the reduction is not stated: here Eq. 4's, and in `ubrw-bot` that of `cb`"
    ),
    "ubrw-bot": weighting(
        f"weights by class uncertainty, {DIVIDED}", uncertainty, counterpart="cb", reduction="weights"
    ).cited("Table I: UBRw, if it is reduced as Bag-of-Tricks' `cb`"),
    "ubrw-focal": lambda gamma=GAMMA: focal(
        f"focal loss, gamma {short(gamma)}, weighted by class uncertainty", gamma, uncertainty, counterpart="cb-focal"
    ).cited("Table I: UBRw Focal Loss; supplement: mix, γ = 1; other γ: `ubrw-focal@mix:gamma=0.3`"),
    "cb-focal-softmax": lambda beta=BETA, gamma=GAMMA: focal(
        f"`cb-focal` in softmax form, gamma {short(gamma)}, beta {short(beta)}", gamma, effective(beta), sigmoid=False
    ).cited(SOFTMAX),
    "ubrw-focal-softmax": lambda gamma=GAMMA: focal(
        f"`ubrw-focal` in softmax form, gamma {short(gamma)}",
        gamma,
        uncertainty,
        counterpart="cb-focal-softmax",
        sigmoid=False,
    ).cited(SOFTMAX),
    # margins
    "ldam": lambda tau=TAU: ldam(
        f"label-distribution-aware margins, 1 / N ** (1/4), {short(tau)} at most", tau, quarter
    ).cited("Table I, SVCI-20 table: LDAM"),
    "ldam-rw": lambda tau=TAU, beta=BETA: ldam(
        f"LDAM, tau {short(tau)}, then effective-number weights, beta {short(beta)}, in the second stage",
        tau,
        quarter,
        effective(beta),
    ).cited(
        "Table I: LDAM+Reweighting", "weights from epoch 160 of 200, one before all other rows; ours switch together"
    ),
    "ubm-ldam": lambda tau=TAU: ldam(
        f"LDAM, tau {short(tau)}, with margins by class uncertainty", tau, uncertainty, counterpart="ldam"
    ).cited("Table I, SVCI-20 table: UBM LDAM"),
    "ubm-ldam-rw": lambda tau=TAU: ldam(
        f"uncertainty margins, tau {short(tau)}, then uncertainty weights in the second stage",
        tau,
        uncertainty,
        uncertainty,
        counterpart="ldam-rw",
    ).cited("Table I: UBM LDAM+Reweighting; which weights is not said: here uncertainty's"),
    "ubm-ldam-cbrw": lambda tau=TAU, beta=BETA: ldam(
        f"uncertainty margins, tau {short(tau)}, then effective-number weights, beta {short(beta)}",
        tau,
        uncertainty,
        effective(beta),
        counterpart="ldam-rw",
    ).cited("Table I: UBM LDAM+Reweighting, if its weights are still the effective number's"),
    "dro": lambda epsilon=1.0: dro(
        f"DRO-LT: margins {short(epsilon)} / sqrt(N) around class centroids of the features",
        cardinality(1 / 2),
        as_is,
        epsilon,
    ).cited(
        "Table I: DRO-LT with cardinality-based margins",
        "no released code has these margins; DRO-LT's authors add `+autoaugment+cutout`",
    ),
    "dro-learned": dro("DRO-LT as released: margins that are learned", uniform, as_is, learned=True).cited(
        released="DRO-LT as released with `+autoaugment+cutout`, but each example has the margin of its own class, "
        "without selection on test data"
    ),
    "ubm-dro": lambda epsilon=1.0: dro(
        f"DRO-LT with margins by class uncertainty, which sum to {short(epsilon)}",
        uncertainty,
        normalise,
        epsilon,
        counterpart="dro",
    ).cited("Table I: UBM DRO"),
    # two stages: naive for the first 80 % of the epochs, apart from the focal rows that are focal throughout
    "2s-cb-rs": sampling("second stage: class-balanced resampling", uniform, late).cited(
        "Table I, two-stage: CB Resampling", "the switch in epoch 161 of 200, as ours"
    ),
    "2s-pb-rs": sampling("second stage: progressively balanced resampling", uniform, late_linear).cited(
        "Table I, two-stage: PB Resampling", "by the absolute epoch, as ours: it starts at 0.8"
    ),
    "2s-cam-rs": cam("second stage: class-balanced draws from images with pasted foregrounds", uniform).cited(
        "Table I, two-stage: CAM-based Resampling",
        "maps of cropped images by the best network on the test set; turns about another point; black is not pasted",
    ),
    "2s-cam-sqrt-rs": cam("second stage: the same, drawn by the square root of the counts", cardinality(-1 / 2)).cited(
        released="Bag-of-Tricks' CAM-based sampling, `square`"
    ),
    "2s-cam-pb-rs": cam("second stage: the same, progressively balanced", uniform, linear).cited(
        released="Bag-of-Tricks' CAM-based sampling, `progressive`"
    ),
    "2s-cam-rs-bot": cam(
        "second stage: class-balanced draws, pasted as in the released code", uniform, released=True
    ).cited(
        "Table I, two-stage: CAM-based Resampling, as Bag-of-Tricks pastes",
        "maps of cropped images by the best network on the test set; pixels are interpolated",
    ),
    "2s-ubrs": sampling(
        "second stage: resampling by class uncertainty", uncertainty, late, counterpart="2s-cb-rs"
    ).cited("Table I, two-stage: UBRs"),
    "2s-csce": weighting(
        f"second stage: cost-sensitive weights, 1 / N, {DIVIDED}", cardinality(), late, reduction="weights"
    ).cited(
        "Table I, two-stage: Cost-sensitive Cross Entropy; SVCI-20 table: Two-stage CSCE Rw",
        "Bag-of-Tricks' is this one",
    ),
    "2s-csce-literal": weighting("second stage: weights 1 / N by Eq. 4, with 1 / m", cardinality(), late).cited(
        "Table I, two-stage: Cost-sensitive Cross Entropy, as Eq. 4 reads"
    ),
    "2s-focal": lambda gamma=GAMMA: focal(
        f"focal loss throughout, gamma {short(gamma)}, with weights N_min / N in the second stage",
        gamma,
        cardinality(),
        late,
        throughout=True,
        unit=to_max(1),
    ).cited("Table I, two-stage: Focal Loss", "Bag-of-Tricks' is this one"),
    "2s-focal-literal": lambda gamma=GAMMA: focal(
        f"naive, then focal loss, gamma {short(gamma)}, in the second stage", gamma, ramp=late
    ).cited("Table I, two-stage: Focal Loss, as its words read"),
    "2s-cb-focal": lambda beta=BETA, gamma=GAMMA: focal(
        f"focal loss throughout, gamma {short(gamma)}, with effective-number weights, beta {short(beta)}, in the "
        "second stage",
        gamma,
        effective(beta),
        late,
        throughout=True,
    ).cited("Table I, two-stage: Class-balanced Focal Loss", BY_DATA),
    "2s-cb-focal-literal": lambda beta=BETA, gamma=GAMMA: focal(
        f"naive, then focal loss, gamma {short(gamma)}, with effective-number weights, beta {short(beta)}",
        gamma,
        effective(beta),
        late,
    ).cited("Table I, two-stage: Class-balanced Focal Loss, as its words read"),
    "2s-ubrw": weighting(
        "second stage: weights by class uncertainty", uncertainty, late, counterpart="2s-csce-literal"
    ).cited(
        "Table I, two-stage: UBRw; the reduction is not stated: here Eq. 4's, and in `2s-ubrw-bot` that of `2s-csce`"
    ),
    "2s-ubrw-bot": weighting(
        f"second stage: weights by class uncertainty, {DIVIDED}",
        uncertainty,
        late,
        counterpart="2s-csce",
        reduction="weights",
    ).cited("Table I, two-stage: UBRw, if it is reduced as Bag-of-Tricks' `2s-csce`"),
    "2s-ubrw-focal": lambda gamma=GAMMA: focal(
        f"focal loss throughout, gamma {short(gamma)}, weighted by class uncertainty in the second stage",
        gamma,
        uncertainty,
        late,
        counterpart="2s-cb-focal",
        throughout=True,
    ).cited("Table I, two-stage: UBRw Focal Loss"),
    "2s-cb-focal-softmax": lambda beta=BETA, gamma=GAMMA: focal(
        f"`2s-cb-focal` in softmax form, gamma {short(gamma)}, beta {short(beta)}",
        gamma,
        effective(beta),
        late,
        throughout=True,
        sigmoid=False,
    ).cited(SOFTMAX),
    "2s-ubrw-focal-softmax": lambda gamma=GAMMA: focal(
        f"`2s-ubrw-focal` in softmax form, gamma {short(gamma)}",
        gamma,
        uncertainty,
        late,
        counterpart="2s-cb-focal-softmax",
        throughout=True,
        sigmoid=False,
    ).cited(SOFTMAX),
    "2s-ubrw-focal-literal": lambda gamma=GAMMA: focal(
        f"naive, then focal loss, gamma {short(gamma)}, weighted by class uncertainty",
        gamma,
        uncertainty,
        late,
        counterpart="2s-cb-focal-literal",
    ).cited("Table I, two-stage: UBRw Focal Loss, as its words read"),
    "crt": retrained("classifier re-training: a fresh head on frozen features, class-balanced", uniform).cited(
        released="Bag-of-Tricks' cRT: 30 epochs, weight decay 5e-4, drops in the 10th and the 20th, as ours"
    ),
    "ub-crt": retrained("the same, drawn by class uncertainty", uncertainty, counterpart="crt"),
    # baselines that the paper leaves out
    "mixup": Method("input mixup, Beta(1, 1)")
    .augmented("mixup")
    .cited(released="Bag-of-Tricks trains it for 400 epochs: --epochs 400"),
    "remix": Method("Remix: mixup whose labels favour the rarer class, kappa 3, tau 0.5").augmented("remix"),
    "balanced-softmax": adjusted("logits shifted by the log prior while training"),
    "logit-adjust": lambda kappa=1.0: adjusted(
        f"logits shifted by {short(kappa)} times the log prior while training", kappa
    ).cited("Sec. II: Logit-adjusted Loss", "its authors train for over 1,200 epochs"),
    "vs": lambda gamma=0.3, kappa=1.0: adjusted(
        f"vector scaling: logits divided by (N_max / N) ** {short(gamma)} and shifted by {short(kappa)} times the "
        "log prior",
        kappa,
        gamma,
    ),
    # networks that say how sure they are: what some of the estimators train
    "duq": Method("distances to class centroids, with a gradient penalty (DUQ)", head="rbf").cited(
        "supplement: DUQ, as --estimator duq", "ResNet-18 with 512 features; ours is the recipe's network"
    ),
    "cyclic": lambda cycles=5: cyclic(
        f"the learning rate falls by a cosine {cycles} times (snapshot ensembles)", cycles
    ),
    "dropout": lambda rate=0.5: dropout(f"{short(100 * rate)} % of the features left out while training", rate),
}
MAKERS = {name: row for name, row in ROWS.items() if not isinstance(row, Method)}
METHODS: dict[str, Method] = {}
for _name, _row in ROWS.items():
    METHODS[_name] = _row if isinstance(_row, Method) else _row()
