"""Where each method comes from: the paper's row, and what Bag-of-Tricks, on which the paper builds, runs under that name."""

from typing import NamedTuple


class Origin(NamedTuple):
    paper: str  # its table and row; "" where the paper has none
    released: str = ""  # what public code does otherwise


I_, SVCI, SUPPLEMENT = "Table I", "SVCI-20 table", "supplement"
SAME_NAME = "weights divided by their sum in the batch, as torch does: `{}`"
SWITCH = "the switch in epoch 161 of 200, as ours"

ORIGINS: dict[str, Origin] = {
    "naive": Origin(f"{I_}, {SVCI}: naïve classifier"),
    "cb-rs": Origin(f"{I_}: CB Resampling"),
    "pb-rs": Origin(f"{I_}: PB Resampling; {SVCI}: PB Rs", "draws that repeat in every worker and epoch (NumPy's state under old torch)"),
    "ubrs": Origin(f"{I_}: UBRs"),
    "pb-ubrs": Origin(f"{I_}, {SVCI}: PB UBRs"),
    "focal": Origin(f"{I_}, {SVCI}: Focal Loss"),
    "cb": Origin(f"{I_}, {SVCI}: Class-balanced Loss", f"{SAME_NAME.format('cb-bot')}; beta 0.9 on CIFAR-100: `cb-bot-0.9`"),
    "cb-focal": Origin(
        f"{I_}: Class-balanced Focal Loss; {SUPPLEMENT}: mix, γ = 0",
        "beta and gamma by data set: this one is CIFAR-10-LT (50)'s; `cb-focal-bot-g1`, `cb-focal-bot-0.99`, `cb-focal-bot-0.9`",
    ),
    "ubrw": Origin(f"{I_}: UBRw", SAME_NAME.format("ubrw-bot")),
    "ubrw-focal": Origin(f"{I_}: UBRw Focal Loss; {SUPPLEMENT}: mix, γ = 1; other γ: `ubrw-focal@mix-0.3`, `@mix`, `@mix-0.7`"),
    "ldam": Origin(f"{I_}, {SVCI}: LDAM"),
    "ldam-rw": Origin(f"{I_}: LDAM+Reweighting", "weights from epoch 160 of 200, one before all other rows; ours switch together"),
    "ubm-ldam": Origin(f"{I_}, {SVCI}: UBM LDAM"),
    "ubm-ldam-rw": Origin(f"{I_}: UBM LDAM+Reweighting; which weights is not said: here uncertainty's"),
    "ubm-ldam-cbrw": Origin(f"{I_}: UBM LDAM+Reweighting, if its weights are still the effective number's"),
    "dro": Origin(f"{I_}: DRO-LT with cardinality-based margins", "no released code has these margins; ε = 1 here"),
    "dro-learned": Origin(
        "",
        "DRO-LT as released, but each example gets its own class's margin (there another's, unless the batch is sorted), no test selection",
    ),
    "ubm-dro": Origin(f"{I_}: UBM DRO"),
    "2s-cb-rs": Origin(f"{I_}, two-stage: CB Resampling", SWITCH),
    "2s-pb-rs": Origin(f"{I_}, two-stage: PB Resampling", "by the absolute epoch, as ours: it starts at 0.8"),
    "2s-cam-rs": Origin(
        f"{I_}, two-stage: CAM-based Resampling",
        "maps of cropped pictures, by the network that is best on the test set; turned about another point; black pixels are not pasted",
    ),
    "2s-cam-sqrt-rs": Origin("", "Bag-of-Tricks' CAM-based sampling, `square`"),
    "2s-cam-pb-rs": Origin("", "Bag-of-Tricks' CAM-based sampling, `progressive`"),
    "2s-ubrs": Origin(f"{I_}, two-stage: UBRs"),
    "2s-csce": Origin(f"{I_}, two-stage: Cost-sensitive Cross Entropy; {SVCI}: Two-stage CSCE Rw", SAME_NAME.format("2s-csce-bot")),
    "2s-focal": Origin(f"{I_}, two-stage: Focal Loss", "focal throughout, with cost-sensitive weights in the second stage: `2s-focal-bot`"),
    "2s-cb-focal": Origin(
        f"{I_}, two-stage: Class-balanced Focal Loss",
        "focal throughout, beta and gamma by data set: `2s-cb-focal-bot`, `…-g1`, `…-0.99`, `…-0.9`",
    ),
    "2s-ubrw": Origin(f"{I_}, two-stage: UBRw", SAME_NAME.format("2s-ubrw-bot")),
    "2s-ubrw-focal": Origin(f"{I_}, two-stage: UBRw Focal Loss", "focal throughout: `2s-ubrw-focal-bot`"),
    "crt": Origin("", "Bag-of-Tricks' cRT: 30 epochs, weight decay 5e-4, drops in the 10th and the 20th, as ours"),
    "ub-crt": Origin(""),
    "mixup": Origin("", "Bag-of-Tricks trains it for 400 epochs: --epochs 400"),
    "remix": Origin(""),
    "balanced-softmax": Origin(""),
    "logit-adjust": Origin("Sec. II: Logit-adjusted Loss", "its authors train for over 1,200 epochs"),
    "vs": Origin(""),
    "duq": Origin(f"{SUPPLEMENT}: DUQ, as --estimator duq", "ResNet-18 with 512 features; ours is the recipe's network"),
    "cyclic": Origin(""),
    "dropout": Origin(""),
    "cb-bot": Origin(f"{I_}: Class-balanced Loss"),
    "2s-csce-bot": Origin(f"{I_}, two-stage: Cost-sensitive Cross Entropy"),
    "ubrw-bot": Origin(f"{I_}: UBRw"),
    "2s-ubrw-bot": Origin(f"{I_}, two-stage: UBRw"),
    "cb-bot-0.9": Origin(f"{I_}: Class-balanced Loss"),
    "cb-focal-bot-g1": Origin(f"{I_}: Class-balanced Focal Loss"),
    "cb-focal-bot-0.99": Origin(f"{I_}: Class-balanced Focal Loss"),
    "cb-focal-bot-0.9": Origin(f"{I_}: Class-balanced Focal Loss"),
    "2s-focal-bot": Origin(f"{I_}, two-stage: Focal Loss"),
    **{f"2s-cb-focal-bot{end}": Origin(f"{I_}, two-stage: Class-balanced Focal Loss") for end in ("", "-g1", "-0.99", "-0.9")},
    "2s-ubrw-focal-bot": Origin(f"{I_}, two-stage: UBRw Focal Loss"),
}
