"""Every method of the paper's tables, what Bag-of-Tricks runs under the same names where it differs, and strong baselines they leave out.

Any row can be driven by another measure and given augmentations: `named("cb-focal@mix-0.3")`, `named("balanced-softmax+mixup")`.
"""

from dataclasses import replace

from class_uncertainty.measures import normalise
from class_uncertainty.measures.stats import Measure, cardinality, effective, surprisal, uncertainty, uniform
from class_uncertainty.methods.knobs import (
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
    to_classes,
    to_max,
    to_min,
)

TAU = 0.5  # LDAM's largest margin
quarter = cardinality(1 / 4)


BAG_OF_TRICKS = "Bag-of-Tricks, as it is run there: "


def sampling(about: str, measure: Measure, ramp: Ramp = always, counterpart: str = "") -> Method:
    """alpha follows a measure."""
    return Method(about, counterpart, alpha=Knob(measure, normalise, ramp))


def weighting(about: str, measure: Measure, ramp: Ramp = always, counterpart: str = "", reduction: str = "mean") -> Method:
    """w follows a measure."""
    return Method(about, counterpart, weight=Knob(measure, to_classes, ramp), reduction=reduction)


def focal(
    about: str,
    measure: Measure | None = None,
    ramp: Ramp = always,
    counterpart: str = "",
    gamma: float = 2.0,
    throughout: bool = False,
    unit: Unit = to_classes,
) -> Method:
    """Focal loss, with w if a measure is given; `throughout`: the loss is focal before the ramp too, only w follows it."""
    weight = Knob(measure, unit, ramp) if measure else None
    return Method(about, counterpart, weight=weight, focal=Focal(gamma, ramp=always if throughout else ramp))


def ldam(about: str, measure: Measure, reweight: Measure | None = None, counterpart: str = "") -> Method:
    """Margins on the own class's cosine logit, largest TAU, then scaled by 30; weights, if any, in the second stage."""
    weight = Knob(reweight, to_classes, late) if reweight else None
    margin = Knob(measure, to_max(TAU))
    return Method(about, counterpart, weight=weight, margin=margin, head="cosine", scale=30.0, reduction="weights" if reweight else "mean")


def dro(about: str, measure: Measure, unit: Unit, counterpart: str = "", learned: bool = False) -> Method:
    """DRO-LT after a naive training: 80 of 200 epochs for the features, then 20 for the head, on class-balanced draws at constant rates.

    The features learn by the robust loss, with margins around class centroids, and by cross entropy weighted by N_c, which undoes the
    resampling; the head by cross entropy. AutoAugment and Cutout throughout.
    """
    balanced, natural = Knob(uniform, normalise, fixed=True), Knob(cardinality(-1), to_classes, fixed=True)
    features = Method(alpha=balanced, weight=natural, margin=Knob(measure, unit), reduction="weights", level="features", learned=learned)
    plain = (("nesterov", False), ("weight_decay", 1e-4), ("warmup", 0), ("drops", ()))
    then = (
        Stage(features, epochs=0.4, rate=0.05, recipe=plain, trains="body", balanced=True),
        Stage(Method(alpha=balanced), epochs=0.1, rate=0.1, recipe=plain, trains="head", balanced=True),
    )
    return Method(about, counterpart, then=then).augmented("autoaugment", "cutout")


def retrained(about: str, measure: Measure, counterpart: str = "") -> Method:
    """Classifier re-training (Kang et al. 2020) as in Bag-of-Tricks: 30 of 200 epochs for a fresh head on features that stay."""
    recipe = (("weight_decay", 5e-4), ("warmup", 0), ("drops", (9 / 30, 19 / 30)), ("drop", 0.1))
    stage = Stage(Method(alpha=Knob(measure, normalise)), epochs=0.15, recipe=recipe, trains="head", fresh=True)
    return Method(about, counterpart, then=(stage,))


def cam(about: str, measure: Measure, ramp: Ramp = always) -> Method:
    """CAM-based resampling: 160 of 200 epochs naive, then 40 on classes filled up with pasted foregrounds, at a hundredth of the rate."""
    recipe = (("warmup", 0), ("drops", (19 / 40,)), ("drop", 0.01))
    stage = Stage(Method(alpha=Knob(measure, normalise, ramp)), epochs=0.2, rate=0.01, recipe=recipe, pasted=True)
    return Method(about, share=0.8, then=(stage,))


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
    "dro": dro("DRO-LT: margins 1 / sqrt(N) around class centroids of the features", cardinality(1 / 2), as_is),
    "dro-learned": dro("DRO-LT as released: margins that are learned", uniform, as_is, learned=True),
    "ubm-dro": dro("DRO-LT with margins by class uncertainty, which sum to 1", uncertainty, normalise, counterpart="dro"),
    # two stages: naive for the first 80 % of the epochs
    "2s-cb-rs": sampling("second stage: class-balanced resampling", uniform, late),
    "2s-pb-rs": sampling("second stage: progressively balanced resampling", uniform, late_linear),
    "2s-cam-rs": cam("second stage: class-balanced draws from pictures with pasted foregrounds", uniform),
    "2s-cam-sqrt-rs": cam("second stage: the same, drawn by the square root of the counts", cardinality(-1 / 2)),
    "2s-cam-pb-rs": cam("second stage: the same, progressively balanced", uniform, linear),
    "2s-ubrs": sampling("second stage: resampling by class uncertainty", uncertainty, late, counterpart="2s-cb-rs"),
    "2s-csce": weighting("second stage: cost-sensitive weights, 1 / N", cardinality(), late),
    "2s-focal": focal("second stage: focal loss", ramp=late),
    "2s-cb-focal": focal("second stage: focal loss with effective-number weights", effective(), late),
    "2s-ubrw": weighting("second stage: weights by class uncertainty", uncertainty, late, counterpart="2s-csce"),
    "2s-ubrw-focal": focal("second stage: focal loss weighted by class uncertainty", uncertainty, late, counterpart="2s-cb-focal"),
    "crt": retrained("classifier re-training: a fresh head on frozen features, class-balanced", uniform),
    "ub-crt": retrained("the same, drawn by class uncertainty", uncertainty, counterpart="crt"),
    # baselines that the paper leaves out
    "mixup": Method("input mixup, Beta(1, 1)").augmented("mixup"),
    "remix": Method("Remix: mixup whose labels favour the rarer class, kappa 3, tau 0.5").augmented("remix"),
    "balanced-softmax": adjusted("logits shifted by the log prior while training"),
    "logit-adjust": adjusted("the same loss by its other name, at the kappa its authors use: 1"),
    "vs": Method(
        "vector scaling: logits divided by (N_max / N) ** 0.3 and shifted by the log prior",
        margin=Knob(surprisal, as_is),
        divisor=Knob(cardinality(0.3), to_min),
        beta=1.0,
    ),
    # networks that say how sure they are: what some of the estimators train
    "duq": Method("distances to class centroids, with a gradient penalty (DUQ)", head="rbf"),
    "cyclic": Method("the learning rate falls by a cosine five times (snapshot ensembles)", cycles=5),
    "dropout": Method("half of the features left out at random while training", dropout=0.5),
}

METHODS |= {
    f"{name}-bot": replace(METHODS[name], about=about, counterpart=counterpart, reduction="weights")
    for name, about, counterpart in (
        ("cb", f"{BAG_OF_TRICKS}effective-number weights, divided by their sum in the batch", ""),
        ("2s-csce", f"{BAG_OF_TRICKS}second stage: weights 1 / N, divided by their sum in the batch", ""),
        ("ubrw", "weights by class uncertainty, divided by their sum in the batch", "cb-bot"),
        ("2s-ubrw", "second stage: weights by class uncertainty, divided by their sum in the batch", "2s-csce-bot"),
    )
}
METHODS |= {
    "cb-bot-0.9": weighting(f"{BAG_OF_TRICKS}the same with beta 0.9, for CIFAR-100-LT", effective(0.9), reduction="weights"),
    "cb-focal-bot-g1": focal(f"{BAG_OF_TRICKS}gamma 1, beta 0.9999, for CIFAR-10-LT (100)", effective(), gamma=1),
    "cb-focal-bot-0.99": focal(f"{BAG_OF_TRICKS}gamma 1, beta 0.99, for CIFAR-100-LT (50)", effective(0.99), gamma=1),
    "cb-focal-bot-0.9": focal(f"{BAG_OF_TRICKS}gamma 1, beta 0.9, for CIFAR-100-LT (100)", effective(0.9), gamma=1),
    "2s-focal-bot": focal(
        f"{BAG_OF_TRICKS}focal loss throughout, with weights N_min / N in the second stage",
        cardinality(),
        late,
        throughout=True,
        unit=to_max(1),
    ),
    **{
        f"2s-cb-focal-bot{suffix}": focal(
            f"{BAG_OF_TRICKS}focal loss throughout, gamma {gamma}, then effective-number weights, beta {beta:g}, for {data}",
            effective(beta),
            late,
            gamma=gamma,
            throughout=True,
        )
        for suffix, gamma, beta, data in (
            ("", 2, 0.9999, "CIFAR-10-LT (50)"),
            ("-g1", 1, 0.9999, "CIFAR-10-LT (100)"),
            ("-0.99", 1, 0.99, "CIFAR-100-LT (50)"),
            ("-0.9", 1, 0.9, "CIFAR-100-LT (100)"),
        )
    },
    "2s-ubrw-focal-bot": focal(
        "focal loss throughout, weights by class uncertainty in the second stage",
        uncertainty,
        late,
        counterpart="2s-cb-focal-bot",
        throughout=True,
    ),
}
