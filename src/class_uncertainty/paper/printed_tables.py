"""PaperTable: a table of the paper as data, its errors as printed, in percent.

A row's note says which reading of the paper's text it follows, where its printed errors are from, or that it is not in
the paper.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from class_uncertainty.methods import named

# Bag-of-Tricks' constants of the class-balanced losses, by data set; `cross` is beta of the cross entropy
CONSTANTS: Mapping[str, Mapping[str, str]] = {
    "cifar10-lt:50": {"beta": "0.9999", "gamma": "2", "cross": "0.9999"},
    "cifar10-lt:100": {"beta": "0.9999", "gamma": "1", "cross": "0.9999"},
    "cifar100-lt:50": {"beta": "0.99", "gamma": "1", "cross": "0.9"},
    "cifar100-lt:100": {"beta": "0.9", "gamma": "1", "cross": "0.9"},
}


def on_data(method: str, data: str) -> str:
    """The name of a method with the constants for a data set."""
    return method.format(**CONSTANTS.get(data, {}))


@dataclass(frozen=True)
class Printed:
    """A value as the paper prints it: '24.26±0.35', or '20.73' where it was taken from another paper."""

    mean: float
    deviation: float | None = None

    @classmethod
    def parse(cls, text: str) -> "Printed":
        mean, _, deviation = text.partition("±")
        return cls(float(mean), float(deviation) if deviation else None)


@dataclass(frozen=True)
class Row:
    """A row: its name in the paper, our method under that name, and what is printed in each column.

    `method` may hold constants in braces, which differ from data set to data set.
    """

    label: str
    method: str
    printed: str = ""  # a word a column; nothing where the paper has no such row
    note: str = ""  # which reading of the text it is, or where the printed value is from
    baseline: str = ""  # the method with cardinality that it is to beat
    estimator: str = "ensemble"
    score: str = ""  # by default the estimator's own


@dataclass(frozen=True)
class Cell:
    """One row of a table on one data set."""

    row: Row
    data: str
    method: str  # with the constants for the data set
    printed: Printed | None
    tunes_all: bool = False  # whether the paper tuned its baselines too

    @cached_property
    def is_ours(self) -> bool:
        """Whether the row is one of the paper's own, which use class uncertainty."""
        return named(self.method).uses_uncertainty

    @property
    def baseline(self) -> str:
        """The method with cardinality that the row is to beat, with the constants for the data set."""
        return on_data(self.row.baseline, self.data)

    def is_tuned(self, protocol: str) -> bool:
        """Whether the learning rate is chosen, or Bag-of-Tricks' 0.1."""
        return protocol == "equal" or self.tunes_all or self.is_ours


@dataclass(frozen=True)
class PaperTable:
    """A table of errors."""

    columns: tuple[str, ...]  # data sets
    rows: tuple[Row, ...]
    seeds: int = 3
    tunes_all: bool = False  # whether the paper tuned its baselines too
    compares_cost: bool = False  # whether it shows what as many naive trainings give
    ablation: str = ""  # options of the data: other pixels, with which the methods of `ablated` are trained
    ablated: tuple[str, ...] = ()

    def cells(self) -> list[Cell]:
        """Row by row."""
        cells = []
        for row in self.rows:
            printed = self.by_column(row.printed) if row.printed else {}
            for data in self.columns:
                value = Printed.parse(printed[data]) if data in printed else None
                cells.append(Cell(row, data, on_data(row.method, data), value, self.tunes_all))
        return cells

    def ablation_of(self, data: str) -> str | None:
        """The same data with other pixels, where the table has that ablation: on CIFAR-10-LT."""
        return f"{data}?{self.ablation}" if self.ablation and data.startswith("cifar10-lt") else None

    def by_column(self, words: str) -> dict[str, str]:
        """Words, one a column, by data set."""
        return dict(zip(self.columns, words.split(), strict=True))


CIFAR_LT = ("cifar10-lt:50", "cifar10-lt:100", "cifar100-lt:50", "cifar100-lt:100")
STRONG = "+autoaugment+cutout"
CB_FOCAL = "cb-focal:beta={beta}:gamma={gamma}"
FOCAL_MIX = "ubrw-focal:gamma={gamma}@mix:gamma=%s:beta={beta}"
BY_DUQ = "uncertainty by DUQ"

TABLE_1 = PaperTable(
    columns=CIFAR_LT,
    rows=(
        Row("Naïve Classifier", "naive", "24.26±0.35 30.18±0.52 57.14±0.08 61.48±0.40"),
        Row("CB Resampling", "cb-rs", "23.33±0.14 30.33±0.30 61.13±0.52 66.34±0.30"),
        Row("PB Resampling", "pb-rs", "23.86±0.36 29.62±0.49 56.87±0.13 60.40±0.57"),
        Row("UBRs", "ubrs", "23.32±0.11 29.09±0.37 66.12±0.73 72.53±0.74", baseline="cb-rs"),
        Row("PB UBRs", "pb-ubrs", "22.61±0.70 28.67±0.91 55.48±0.08 59.28±0.47", baseline="pb-rs"),
        Row("Focal Loss", "focal", "23.91±0.36 30.49±0.68 57.50±0.07 61.32±0.58"),
        Row("CB Loss", "cb:beta={cross}", "20.73 25.43 54.68 60.40", note="printed: its own paper"),
        Row("CB Focal Loss", CB_FOCAL, "21.29±0.39 26.64±0.59 57.60±0.48 61.41±0.35"),
        Row("UBRw", "ubrw", "22.51±0.61 26.72±0.59 55.23±0.53 59.23±0.42", baseline="cb:beta={cross}"),
        Row(
            "UBRw Focal Loss",
            "ubrw-focal:gamma={gamma}",
            "21.63±0.42 26.54±0.28 53.85±0.71 58.33±0.49",
            baseline=CB_FOCAL,
        ),
        Row("LDAM", "ldam", "23.31±0.11 27.95±0.20 57.72±0.27 61.22±0.10"),
        Row("LDAM+Reweighting", "ldam-rw", "20.32±0.02 23.90±0.28 54.27±0.43 57.98±0.20"),
        Row("UBM LDAM", "ubm-ldam", "22.74±0.23 27.31±0.39 55.50±0.49 59.19±0.07", baseline="ldam"),
        Row("UBM LDAM+Reweighting", "ubm-ldam-rw", "20.20±0.29 21.80±0.33 50.40±0.10 54.55±0.14", baseline="ldam-rw"),
        Row("Two-stage CB Resampling", "2s-cb-rs", "21.47±0.36 27.00±0.21 54.39±0.15 58.83±0.14"),
        Row("Two-stage PB Resampling", "2s-pb-rs", "22.56±0.10 28.99±0.72 54.96±0.26 59.27±0.30"),
        Row("Two-stage CAM-based Resampling", "2s-cam-rs", "18.66 22.62 53.56 57.70", note="printed: its own paper"),
        Row("Two-stage CAM-based Resampling", "2s-cam-rs-bot", "18.66 22.62 53.56 57.70", note="pasted as released"),
        Row("Two-stage UBRs", "2s-ubrs", "19.06±0.14 22.50±0.14 51.82±0.44 56.34±0.46", baseline="2s-cb-rs"),
        Row("Two-stage CSCE", "2s-csce", "21.03±0.46 26.11±0.22 54.41±0.25 58.78±0.13"),
        Row("Two-stage Focal Loss", "2s-focal", "22.03±0.27 28.51±0.68 57.23±0.05 61.70±0.30"),
        Row(
            "Two-stage CB Focal Loss",
            "2s-cb-focal:beta={beta}:gamma={gamma}",
            "20.45±0.27 26.08±0.34 57.09±0.55 59.90±0.19",
        ),
        Row("Two-stage UBRw", "2s-ubrw", "22.21±0.35 26.41±0.14 52.90±0.06 57.25±0.17", baseline="2s-csce"),
        Row(
            "Two-stage UBRw Focal Loss",
            "2s-ubrw-focal:gamma={gamma}",
            "22.22±0.22 25.71±0.21 53.27±0.08 57.89±0.13",
            baseline="2s-cb-focal:beta={beta}:gamma={gamma}",
        ),
        Row(
            "UBRw",
            "ubrw-bot",
            "22.51±0.61 26.72±0.59 55.23±0.53 59.23±0.42",
            note="weighted mean",
            baseline="cb:beta={cross}",
        ),
        Row(
            "Two-stage UBRw",
            "2s-ubrw-bot",
            "22.21±0.35 26.41±0.14 52.90±0.06 57.25±0.17",
            note="weighted mean",
            baseline="2s-csce",
        ),
        Row(
            "UBM LDAM+Reweighting",
            "ubm-ldam-cbrw",
            "20.20±0.29 21.80±0.33 50.40±0.10 54.55±0.14",
            note="effective-number weights",
            baseline="ldam-rw",
        ),
        Row("Balanced Softmax", "balanced-softmax", note="not in the paper"),
        Row("DRO-LT", f"dro{STRONG}", "14.63±0.10 17.99±0.11 46.75±0.08 51.85±0.13", note="AutoAugment and Cutout"),
        Row(
            "UBM DRO",
            f"ubm-dro{STRONG}",
            "14.54±0.25 17.68±0.31 46.54±0.11 51.65±0.08",
            note="AutoAugment and Cutout",
            baseline=f"dro{STRONG}",
        ),
        Row("DRO-LT", "dro", "14.63±0.10 17.99±0.11 46.75±0.08 51.85±0.13", note="crop and flip alone"),
        Row(
            "UBM DRO",
            "ubm-dro",
            "14.54±0.25 17.68±0.31 46.54±0.11 51.65±0.08",
            note="crop and flip alone",
            baseline="dro",
        ),
    ),
    compares_cost=True,
    ablation="jpeg=95&normalise=imagenet",
    ablated=("naive", "cb-rs", "ldam-rw", "2s-cb-rs", "2s-csce"),
)


def _by_both(label: str, method: str, printed: str, baseline: str) -> tuple[Row, Row]:
    """A row by the uncertainty of what the networks were trained on, and by that of what they have not seen."""
    row = Row(label, method, printed, baseline=baseline)
    return row, replace(row, printed="", note="out-of-fold uncertainty, not in the paper", estimator="out-of-fold")


SVCI_20 = PaperTable(
    columns=("svci20:250", "svci20:100", "svci20:50"),
    rows=(
        Row(
            "Naïve Classifier", "naive", "22.04±0.65 33.56±1.40 46.17±3.10", note="also PB Rs, CB Loss, Two-stage CSCE"
        ),
        Row("Focal Loss", "focal", "21.65±0.04 33.61±0.97 50.37±0.48"),
        *_by_both("PB UBRs", "pb-ubrs", "21.38±0.34 32.78±0.68 45.31±1.30", baseline="naive"),
        Row("LDAM", "ldam", "20.72±0.80 30.90±0.39 43.36±0.57"),
        *_by_both("UBM LDAM", "ubm-ldam", "19.87±0.47 31.20±0.09 42.17±0.39", baseline="ldam"),
    ),
    seeds=5,
    tunes_all=True,
    compares_cost=True,
)

DUQ = PaperTable(
    columns=CIFAR_LT[:2],
    rows=(
        Row("Naïve Classifier", "naive", "24.26±0.35 30.18±0.52"),
        Row("UBRw", "ubrw", "22.51±0.61 26.72±0.59"),
        Row("UBRw", "ubrw", "22.84±0.36 27.60±0.89", note=BY_DUQ, estimator="duq"),
        Row("UBRw Focal Loss", "ubrw-focal:gamma={gamma}", "21.63±0.42 26.54±0.28"),
        Row("UBRw Focal Loss", "ubrw-focal:gamma={gamma}", "20.90±0.17 25.22±0.87", note=BY_DUQ, estimator="duq"),
    ),
    compares_cost=True,
)

GAMMA = PaperTable(
    columns=CIFAR_LT,
    rows=(
        Row("γ = 0", CB_FOCAL, "21.29±0.39 26.64±0.59 57.60±0.48 61.41±0.35"),
        Row("γ = 0.3", FOCAL_MIX % "0.3", "20.22±0.20 25.39±0.09 54.24±0.57 59.61±0.49", baseline=CB_FOCAL),
        Row("γ = 0.5", FOCAL_MIX % "0.5", "20.51±0.37 25.27±0.47 53.73±0.54 58.30±0.30", baseline=CB_FOCAL),
        Row("γ = 0.7", FOCAL_MIX % "0.7", "20.74±0.51 25.82±0.20 53.33±0.23 58.26±0.29", baseline=CB_FOCAL),
        Row("γ = 1", "ubrw-focal:gamma={gamma}", "21.63±0.42 26.54±0.28 53.85±0.71 58.33±0.49", baseline=CB_FOCAL),
    ),
    compares_cost=True,
)


def _focal_readings(label: str, method: str, printed: str) -> tuple[Row, ...]:
    forms = {"sigmoid, γ 1": ":gamma=1", "sigmoid, γ 2": ":gamma=2", "softmax, γ 1": "-softmax:gamma=1"}
    return tuple(Row(label, f"{method}{form}", printed, note) for note, form in forms.items())


READINGS = PaperTable(
    columns=("cifar100-lt:50",),
    rows=(
        *_focal_readings("UBRw Focal Loss", "ubrw-focal", "53.85±0.71"),
        *_focal_readings("Two-stage UBRw Focal Loss", "2s-ubrw-focal", "53.27±0.08"),
    ),
)


def _kinds(label: str, method: str, predictive: str, epistemic: str) -> tuple[Row, Row]:
    return (
        Row(label, method, predictive, note="predictive"),
        Row(label, method, epistemic, note="epistemic", score="epistemic"),
    )


EPISTEMIC = PaperTable(
    columns=CIFAR_LT,
    rows=(
        *_kinds(
            "PB UBRs",
            "pb-ubrs",
            "22.61±0.70 28.67±0.91 55.48±0.08 59.28±0.47",
            "21.84±0.57 27.92±0.61 55.08±0.67 58.95±0.39",
        ),
        *_kinds(
            "UBRw", "ubrw", "22.51±0.61 26.72±0.59 55.23±0.53 59.23±0.42", "21.75±0.13 28.06±1.06 55.62±0.20 59.48±0.57"
        ),
        *_kinds(
            "UBRw Focal Loss",
            "ubrw-focal:gamma={gamma}",
            "21.63±0.42 26.54±0.28 53.85±0.71 58.33±0.49",
            "21.59±0.88 25.57±0.61 53.09±0.61 59.03±1.36",
        ),
    ),
    compares_cost=True,
)

# Swin-T as the feature extractor, pretrained
ARCHITECTURES = PaperTable(
    columns=("cifar10-lt:50", "cifar100-lt:50"),
    rows=(
        Row("Naïve Classifier", "naive", "9.71±0.12 31.14±0.06"),
        Row("CB Resampling", "cb-rs", "6.60±0.07 28.88±0.20"),
        Row("PB Resampling", "pb-rs", "6.71±0.07 28.47±0.10"),
        Row("UBRs", "ubrs", "6.35±0.03 29.35±0.56", baseline="cb-rs"),
        Row("PB UBRs", "pb-ubrs", "6.26±0.21 27.52±0.23", baseline="pb-rs"),
        Row("CB Focal Loss", CB_FOCAL, "6.67±0.14 28.13±0.16"),
        Row("UBRw Focal Loss", "ubrw-focal:gamma={gamma}", "6.50±0.09 28.72±0.21", baseline=CB_FOCAL),
    ),
    compares_cost=True,
)

# ResNet-152, pretrained, with OLTR's recipe; images are stored somewhat larger than the crops of 224 pixels
PLACES_LT = PaperTable(
    columns=("places-lt?size=256",),
    rows=(
        Row("Naïve Classifier", "naive", "67.41±0.11"),
        Row("PB UBRs", "pb-ubrs", "60.92±0.09", baseline="naive"),
        Row("UBRw", "ubrw", "66.54±0.18", baseline="naive"),
        Row("UBRw Focal Loss", "ubrw-focal", "68.96±0.17", baseline="naive"),
        Row("Two-stage UBRs", "2s-ubrs", "59.59±0.12", baseline="naive"),
        Row("Two-stage UBRw", "2s-ubrw", "66.36±0.07", baseline="naive"),
    ),
    compares_cost=True,
)

TABLES = {"table1": TABLE_1, "svci20": SVCI_20, "duq": DUQ, "gamma": GAMMA, "epistemic": EPISTEMIC}
TABLES |= {"architectures": ARCHITECTURES, "places": PLACES_LT}

# the significance table: method, its baseline, and epsilon_min as printed, by column of Table I
SIGNIFICANCE = (
    ("pb-ubrs", "pb-rs", "0.08 0.28 0.00 0.09"),
    ("ubrw-focal:gamma={gamma}", CB_FOCAL, "1.00 0.87 0.00 0.00"),
    ("ubrw-focal:gamma={gamma}", "focal", "0.00 0.00 0.00 0.00"),
    (f"ubm-dro{STRONG}", f"dro{STRONG}", "0.74 0.22 0.09 0.12"),
    ("2s-ubrs", "2s-cb-rs", "0.00 0.00 0.00 0.00"),
    ("2s-ubrw-focal:gamma={gamma}", "2s-cb-focal:beta={beta}:gamma={gamma}", "1.00 0.37 0.00 0.00"),
    ("2s-ubrw", "2s-csce", "1.00 1.00 0.00 0.00"),
)

# The baselines in Bag-of-Tricks' own tables, on which the paper builds, by column of Table I: on its older data (Cui's
# draw, JPEG, ImageNet's statistics), and on its present data (Cao's draw), which this package uses. From
# documents/trick_gallery.md, and for `naive` on present data its README (an earlier trick_gallery.md has 25.19 29.64
# 56.15 61.68).
_CAM = ("18.55 23.59 53.25 58.38", "19.28 23.10 53.27 58.05")
BAG_OF_TRICKS = {
    "naive": ("24.81 30.12 57.65 61.76", "23.55 28.05 56.22 62.27"),
    "cb-rs": ("23.38 30.35 61.07 66.47", "21.92 27.55 60.54 64.76"),
    "pb-rs": ("24.06 29.35 56.92 60.90", "21.43 28.02 56.88 60.96"),
    "focal": ("24.12 30.88 59.46 62.59", "22.09 28.44 58.21 62.78"),
    "cb:beta={cross}": ("22.91 29.80 57.98 61.50", "22.52 29.52 56.22 61.03"),
    CB_FOCAL: ("21.71 26.83 57.70 62.11", "21.01 24.80 57.63 61.44"),
    "ldam": ("23.15 29.37 57.86 61.24", "20.99 26.34 56.41 61.12"),
    "ldam-rw": ("20.31 24.61 54.46 59.08", "18.40 22.27 52.71 57.53"),
    "2s-cb-rs": ("21.18 27.08 54.26 58.66", "19.27 24.93 54.58 59.36"),
    "2s-pb-rs": ("21.82 27.73 54.60 59.20", "19.47 26.15 54.79 59.59"),
    "2s-cam-rs": _CAM,
    "2s-cam-rs-bot": _CAM,
    "2s-csce": ("20.71 26.66 54.77 59.36", "20.18 25.18 53.20 58.38"),
    "2s-focal": ("22.25 27.97 58.51 62.41", "20.68 28.85 56.39 62.47"),
    "2s-cb-focal:beta={beta}:gamma={gamma}": ("20.75 26.69 56.68 62.19", "18.62 24.57 55.01 61.94"),
    "balanced-softmax": ("20.07 23.63 54.55 56.82", "18.89 22.46 53.45 57.01"),
}
