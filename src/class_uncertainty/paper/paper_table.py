"""PaperTable: a table of the paper as data. Its rows are methods, its columns data sets, its cells printed errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field

RATES = (0.1, 0.2, 0.4, 0.7)  # four of the seven that the paper tried
# Bag-of-Tricks' constants of the class-balanced losses, by data set; `cross` is beta of the cross entropy
CONSTANTS: Mapping[str, Mapping[str, str]] = {
    "cifar10-lt:50": {"beta": "0.9999", "gamma": "2", "cross": "0.9999"},
    "cifar10-lt:100": {"beta": "0.9999", "gamma": "1", "cross": "0.9999"},
    "cifar100-lt:50": {"beta": "0.99", "gamma": "1", "cross": "0.9"},
    "cifar100-lt:100": {"beta": "0.9", "gamma": "1", "cross": "0.9"},
}
# images a class that are set aside to choose rates on, before the data are cut: a tenth of CIFAR's training images
PLACES = "places-lt"
VALIDATION = {"cifar10-lt": 500, "cifar100-lt": 50, "svci20": 250}


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
    ours: bool = False  # whether it is the paper's own, so that its learning rate was tuned
    baseline: str = ""  # the method with cardinality that it is to beat
    estimator: str = "ensemble"
    score: str = ""  # by default the estimator's own

    def baseline_on(self, data: str) -> str:
        return on_data(self.baseline, data)


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

    def cells(self) -> "list[Cell]":
        """Row by row."""
        return [Cell(self, row, column) for row in self.rows for column in range(len(self.columns))]


@dataclass(frozen=True)
class Cell:
    """One row of a table on one data set."""

    table: PaperTable = field(repr=False)
    row: Row
    column: int

    @property
    def data(self) -> str:
        return self.table.columns[self.column]

    @property
    def method(self) -> str:
        return on_data(self.row.method, self.data)

    @property
    def printed(self) -> Printed | None:
        return Printed.parse(self.row.printed.split()[self.column]) if self.row.printed else None

    def is_tuned(self, protocol: str) -> bool:
        """Whether the learning rate is chosen, or Bag-of-Tricks' 0.1."""
        return protocol == "equal" or self.table.tunes_all or self.row.ours


def rates_from(lr: float) -> tuple[float, ...]:
    """The learning rates to choose from, where a recipe has that one: as far apart as the paper's are from 0.1."""
    return RATES if lr == RATES[0] else tuple(lr * round(rate / RATES[0]) for rate in RATES)


def judge_of(data: str) -> str:
    """The data set that rates are chosen on: images of the training split are set aside before the rest is cut."""
    source = data.partition("?")[0].partition(":")[0]
    if source == PLACES:
        return data.replace("?", "?judge=val&")  # it comes with a split for this; options of a name are sorted
    return f"{data}?validation={VALIDATION.get(source, 10)}"
