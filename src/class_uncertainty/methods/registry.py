"""METHODS: the rows of the paper's tables, Bag-of-Tricks' versions where they differ, and strong baselines beside them.

Any row can be driven by another measure and augmented: `named("cb-focal@mix-0.3")`, `named("balanced-softmax+mixup")`.
"""

from dataclasses import replace

from class_uncertainty.measures import normalise
from class_uncertainty.measures.measures import Measure, cardinality, effective, surprisal, uncertainty, uniform
from class_uncertainty.methods.method import Focal, Knob, Method, Stage
from class_uncertainty.methods.ramps import Ramp, always, late, late_linear, linear
from class_uncertainty.methods.units import Unit, as_is, to_classes, to_max, to_min

TAU = 0.5  # LDAM's largest margin
quarter = cardinality(1 / 4)
BAG_OF_TRICKS = "Bag-of-Tricks, as it is run there: "
DIVIDED = "divided by their sum in the batch"


def sampling(about: str, measure: Measure, ramp: Ramp = always, counterpart: str = "") -> Method:
    """alpha follows a measure."""
    return Method(about, counterpart, alpha=Knob(measure, normalise, ramp))


def weighting(about: str, measure: Measure, ramp: Ramp = always, counterpart: str = "") -> Method:
    """w follows a measure."""
    return Method(about, counterpart, weight=Knob(measure, to_classes, ramp))


def focal(
    about: str,
    measure: Measure | None = None,
    ramp: Ramp = always,
    counterpart: str = "",
    gamma: float = 2.0,
    throughout: bool = False,
    unit: Unit = to_classes,
) -> Method:
    """Focal loss, with w if a measure is given. `throughout`: only w follows the ramp, the loss is always focal."""
    weight = Knob(measure, unit, ramp) if measure else None
    return Method(about, counterpart, weight=weight, focal=Focal(gamma, ramp=always if throughout else ramp))


def ldam(about: str, measure: Measure, reweight: Measure | None = None, counterpart: str = "") -> Method:
    """Margins on the own class's cosine logit, largest TAU, then scaled by 30; weights, if any, in the second stage."""
    margin, reduction = Knob(measure, to_max(TAU)), "weights" if reweight else "mean"
    weight = Knob(reweight, to_classes, late) if reweight else None
    return Method(about, counterpart, weight=weight, margin=margin, head="cosine", scale=30.0, reduction=reduction)


def dro(about: str, measure: Measure, unit: Unit, counterpart: str = "", learned: bool = False) -> Method:
    """DRO-LT after a naive training: 80 of 200 epochs for the features, then 20 for the head, at constant rates.

    Draws are class-balanced. The features learn by the robust loss, with margins around class centroids, and by
    cross entropy weighted by N_c, which undoes the resampling; the head learns by cross entropy. AutoAugment and
    Cutout are applied throughout.
    """
    balanced, natural = Knob(uniform, normalise, fixed=True), Knob(cardinality(-1), to_classes, fixed=True)
    margin = Knob(measure, unit)
    body = Method(alpha=balanced, weight=natural, margin=margin, reduction="weights", level="features", learned=learned)
    plain = (("nesterov", False), ("weight_decay", 1e-4), ("warmup", 0), ("drops", ()))
    first = Stage(body, epochs=0.4, rate=0.05, recipe=plain, trains="body", balanced=True)
    second = Stage(Method(alpha=balanced), epochs=0.1, rate=0.1, recipe=plain, trains="head", balanced=True)
    return Method(about, counterpart, then=(first, second)).augmented("autoaugment", "cutout")


def retrained(about: str, measure: Measure, counterpart: str = "") -> Method:
    """Classifier re-training (Kang et al. 2020) as in Bag-of-Tricks: 30 of 200 epochs for a fresh head."""
    recipe = (("weight_decay", 5e-4), ("warmup", 0), ("drops", (9 / 30, 19 / 30)), ("drop", 0.1))
    stage = Stage(Method(alpha=Knob(measure, normalise)), epochs=0.15, recipe=recipe, trains="head", fresh=True)
    return Method(about, counterpart, then=(stage,))


def cam(about: str, measure: Measure, ramp: Ramp = always) -> Method:
    """CAM-based resampling: 160 of 200 epochs naive, then 40 with pasted foregrounds at a hundredth of the rate."""
    recipe = (("warmup", 0), ("drops", (19 / 40,)), ("drop", 0.01))
    stage = Stage(Method(alpha=Knob(measure, normalise, ramp)), epochs=0.2, rate=0.01, recipe=recipe, pasted=True)
    return Method(about, share=0.8, then=(stage,))


def adjusted(about: str) -> Method:
    """Delta = -log of the class prior, on every class's logit (kappa 1)."""
    return Method(about, margin=Knob(surprisal, as_is), beta=1.0)


METHODS: dict[str, Method] = {
    "naive": Method("nothing: cross entropy on the data as they are").cited("Table I, SVCI-20 table: naïve classifier"),
    # resampling
    "cb-rs": sampling("class-balanced resampling: every class equally often", uniform).cited("Table I: CB Resampling"),
    "pb-rs": sampling("progressively balanced: from natural to equal over the epochs", uniform, linear).cited(
        "Table I: PB Resampling; SVCI-20 table: PB Rs",
        "draws that repeat in every worker and epoch (NumPy's state under old torch)",
    ),
    "ubrs": sampling("resampling by class uncertainty", uncertainty, counterpart="cb-rs").cited("Table I: UBRs"),
    "pb-ubrs": sampling(
        "from natural to class uncertainty over the epochs", uncertainty, linear, counterpart="pb-rs"
    ).cited("Table I, SVCI-20 table: PB UBRs"),
    # reweighting
    "focal": focal("focal loss, sigmoid form, gamma 2").cited("Table I, SVCI-20 table: Focal Loss"),
    "cb": weighting("class-balanced loss: weights by the effective number", effective()).cited(
        "Table I, SVCI-20 table: Class-balanced Loss",
        "weights divided by their sum in the batch, as torch does: `cb-bot`; beta 0.9 on CIFAR-100: `cb-bot-0.9`",
    ),
    "cb-focal": focal("focal loss with effective-number weights", effective()).cited(
        "Table I: Class-balanced Focal Loss; supplement: mix, γ = 0",
        "beta and gamma by data set, here CIFAR-10-LT (50)'s; others: `cb-focal-bot-g1`, `…-0.99`, `…-0.9`",
    ),
    "ubrw": weighting("reweighting by class uncertainty", uncertainty, counterpart="cb").cited(
        "Table I: UBRw", "weights divided by their sum in the batch, as torch does: `ubrw-bot`"
    ),
    "ubrw-focal": focal("focal loss weighted by class uncertainty", uncertainty, counterpart="cb-focal").cited(
        "Table I: UBRw Focal Loss; supplement: mix, γ = 1; other γ: `ubrw-focal@mix-0.3`, `@mix`, `@mix-0.7`"
    ),
    # margins
    "ldam": ldam("label-distribution-aware margins, 1 / N ** (1/4)", quarter).cited("Table I, SVCI-20 table: LDAM"),
    "ldam-rw": ldam("LDAM, then effective-number weights in the second stage", quarter, effective()).cited(
        "Table I: LDAM+Reweighting", "weights from epoch 160 of 200, one before all other rows; ours switch together"
    ),
    "ubm-ldam": ldam("LDAM with margins by class uncertainty", uncertainty, counterpart="ldam").cited(
        "Table I, SVCI-20 table: UBM LDAM"
    ),
    "ubm-ldam-rw": ldam(
        "the same, then uncertainty weights in the second stage", uncertainty, uncertainty, counterpart="ldam-rw"
    ).cited("Table I: UBM LDAM+Reweighting; which weights is not said: here uncertainty's"),
    "ubm-ldam-cbrw": ldam(
        "uncertainty margins, then effective-number weights", uncertainty, effective(), counterpart="ldam-rw"
    ).cited("Table I: UBM LDAM+Reweighting, if its weights are still the effective number's"),
    "dro": dro("DRO-LT: margins 1 / sqrt(N) around class centroids of the features", cardinality(1 / 2), as_is).cited(
        "Table I: DRO-LT with cardinality-based margins", "no released code has these margins; ε = 1 here"
    ),
    "dro-learned": dro("DRO-LT as released: margins that are learned", uniform, as_is, learned=True).cited(
        released="DRO-LT as released, but each example has the margin of its own class, without selection on test data"
    ),
    "ubm-dro": dro(
        "DRO-LT with margins by class uncertainty, which sum to 1", uncertainty, normalise, counterpart="dro"
    ).cited("Table I: UBM DRO"),
    # two stages: naive for the first 80 % of the epochs
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
    "2s-ubrs": sampling(
        "second stage: resampling by class uncertainty", uncertainty, late, counterpart="2s-cb-rs"
    ).cited("Table I, two-stage: UBRs"),
    "2s-csce": weighting("second stage: cost-sensitive weights, 1 / N", cardinality(), late).cited(
        "Table I, two-stage: Cost-sensitive Cross Entropy; SVCI-20 table: Two-stage CSCE Rw",
        "weights divided by their sum in the batch, as torch does: `2s-csce-bot`",
    ),
    "2s-focal": focal("second stage: focal loss", ramp=late).cited(
        "Table I, two-stage: Focal Loss",
        "focal throughout, with cost-sensitive weights in the second stage: `2s-focal-bot`",
    ),
    "2s-cb-focal": focal("second stage: focal loss with effective-number weights", effective(), late).cited(
        "Table I, two-stage: Class-balanced Focal Loss",
        "focal throughout, beta and gamma by data set: `2s-cb-focal-bot`, `…-g1`, `…-0.99`, `…-0.9`",
    ),
    "2s-ubrw": weighting("second stage: weights by class uncertainty", uncertainty, late, counterpart="2s-csce").cited(
        "Table I, two-stage: UBRw", "weights divided by their sum in the batch, as torch does: `2s-ubrw-bot`"
    ),
    "2s-ubrw-focal": focal(
        "second stage: focal loss weighted by class uncertainty", uncertainty, late, counterpart="2s-cb-focal"
    ).cited("Table I, two-stage: UBRw Focal Loss", "focal throughout: `2s-ubrw-focal-bot`"),
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
    "logit-adjust": adjusted("the same loss by its other name, at the kappa its authors use: 1").cited(
        "Sec. II: Logit-adjusted Loss", "its authors train for over 1,200 epochs"
    ),
    "vs": Method(
        "vector scaling: logits divided by (N_max / N) ** 0.3 and shifted by the log prior",
        margin=Knob(surprisal, as_is),
        divisor=Knob(cardinality(0.3), to_min),
        beta=1.0,
    ),
    # networks that say how sure they are: what some of the estimators train
    "duq": Method("distances to class centroids, with a gradient penalty (DUQ)", head="rbf").cited(
        "supplement: DUQ, as --estimator duq", "ResNet-18 with 512 features; ours is the recipe's network"
    ),
    "cyclic": Method("the learning rate falls by a cosine five times (snapshot ensembles)", cycles=5),
    "dropout": Method("half of the features left out at random while training", dropout=0.5),
}


def divided(row: Method, about: str, paper: str, counterpart: str = "") -> Method:
    """The same row with weights that are divided by their sum in the batch."""
    return replace(row, about=about, counterpart=counterpart, reduction="weights").cited(paper)


about = f"{BAG_OF_TRICKS}effective-number weights, {DIVIDED}"
METHODS["cb-bot"] = divided(METHODS["cb"], about, "Table I: Class-balanced Loss")
about = f"{BAG_OF_TRICKS}second stage: weights 1 / N, {DIVIDED}"
METHODS["2s-csce-bot"] = divided(METHODS["2s-csce"], about, "Table I, two-stage: Cost-sensitive Cross Entropy")
about = f"weights by class uncertainty, {DIVIDED}"
METHODS["ubrw-bot"] = divided(METHODS["ubrw"], about, "Table I: UBRw", counterpart="cb-bot")
about = f"second stage: weights by class uncertainty, {DIVIDED}"
METHODS["2s-ubrw-bot"] = divided(METHODS["2s-ubrw"], about, "Table I, two-stage: UBRw", counterpart="2s-csce-bot")
about = f"{BAG_OF_TRICKS}the same with beta 0.9, for CIFAR-100-LT"
METHODS["cb-bot-0.9"] = divided(weighting("", effective(0.9)), about, "Table I: Class-balanced Loss")
BETAS = (  # suffix, gamma and beta of Bag-of-Tricks, and for which data
    ("", 2, 0.9999, "CIFAR-10-LT (50)"),
    ("-g1", 1, 0.9999, "CIFAR-10-LT (100)"),
    ("-0.99", 1, 0.99, "CIFAR-100-LT (50)"),
    ("-0.9", 1, 0.9, "CIFAR-100-LT (100)"),
)
for suffix, gamma, beta, data in BETAS[1:]:
    about = f"{BAG_OF_TRICKS}gamma {gamma}, beta {beta:g}, for {data}"
    row = focal(about, effective(beta), gamma=gamma)
    METHODS[f"cb-focal-bot{suffix}"] = row.cited("Table I: Class-balanced Focal Loss")
about = f"{BAG_OF_TRICKS}focal loss throughout, with weights N_min / N in the second stage"
row = focal(about, cardinality(), late, throughout=True, unit=to_max(1))
METHODS["2s-focal-bot"] = row.cited("Table I, two-stage: Focal Loss")
for suffix, gamma, beta, data in BETAS:
    weights = f"then effective-number weights, beta {beta:g}, for {data}"
    about = f"{BAG_OF_TRICKS}focal loss throughout, gamma {gamma}, {weights}"
    row = focal(about, effective(beta), late, gamma=gamma, throughout=True)
    METHODS[f"2s-cb-focal-bot{suffix}"] = row.cited("Table I, two-stage: Class-balanced Focal Loss")
about = "focal loss throughout, weights by class uncertainty in the second stage"
row = focal(about, uncertainty, late, counterpart="2s-cb-focal-bot", throughout=True)
METHODS["2s-ubrw-focal-bot"] = row.cited("Table I, two-stage: UBRw Focal Loss")
