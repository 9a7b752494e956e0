"""EXPERIMENTS: the tables and figures of the paper by name, and what each of them needs trained."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from class_uncertainty.errors import InputError, unknown
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.methods import parse_name
from class_uncertainty.paper.needs import Measuring, Need, SixNaive, Wanted, need_of
from class_uncertainty.paper.paper_table import PaperTable, on_data
from class_uncertainty.paper.printed_tables import (
    ARCHITECTURES,
    DUQ,
    EPISTEMIC,
    GAMMA,
    PLACES_LT,
    READINGS,
    SIGNIFICANCE,
    SVCI_20,
    TABLE_1,
)  # fmt: skip

CIFAR_100 = "cifar100-lt:50"  # the data set of IF1a and of Figure 1
RATIOS = (1, 2, 10, 20, 50)  # of IF1b
STRENGTHS = (0.0, 0.3, 0.5, 0.7, 1.0)  # of IF2
CIFAR_10 = "cifar10-lt:50"  # its data set
DRAWN = {f"ensemble:power-rs:q={1 - s:.1g}": s for s in STRENGTHS if s}  # estimators whose members draw duplicates
COUNTS = (1000, 500, 250, 100, 50)  # examples a class of SVCI-20, for the gap between its halves
GROUPS = {  # of Figure 1: the paper's row in each
    "Resampling": "pb-ubrs",
    "Reweighting": "ubrw-focal:gamma={gamma}",
    "Margin adjustment": "ubm-ldam-rw",
    "Multi-stage training": "2s-ubrs",
}


@dataclass(frozen=True)
class Experiment:
    """A table, the class uncertainties of some data sets, or both."""

    about: str
    table: PaperTable | None = None
    measured: tuple[str, ...] = ()  # data sets whose class uncertainties it shows
    by_others: tuple[Measuring, ...] = ()  # of these data sets, by other estimators than the ensemble
    naive: tuple[str, ...] = ()  # data sets on which it compares naive networks
    recipe: str = "bag-of-tricks"
    needs: str = ""  # the network that it is about, where a user must have its weights

    @property
    def data(self) -> list[str]:
        """The data sets that it is about."""
        return list(dict.fromkeys([*(self.table.columns if self.table else ()), *self.measured, *self.naive]))

    @property
    def estimators(self) -> list[str]:
        """The estimators that its rows compare, if they are several."""
        names = list(dict.fromkeys(row.estimator for row in self.table.rows)) if self.table else []
        return names if len(names) > 1 else []

    def restricted(self, methods: Sequence[str]) -> "Experiment":
        """With those rows of the table whose methods are named, as 'ubrw-focal' or in full, and what belongs to them.

        Those are their ablations and, of the naive row, what six naive networks give.
        """
        if not self.table:
            raise InputError("methods are rows of a table, and this experiment has none.")
        names = {}  # of each row: that of METHODS, and those with the constants of each data set
        for row in self.table.rows:
            names[row] = {parse_name(row.method).row, *(on_data(row.method, data) for data in self.table.columns)}
        for name in methods:
            if not any(name in row_names for row_names in names.values()):
                raise unknown("method of this table", name, dict.fromkeys(parse_name(row.method).row for row in names))
        rows = tuple(row for row, row_names in names.items() if row_names.intersection(methods))
        chosen = {row.method for row in rows}
        ablated = tuple(method for method in self.table.ablated if method in chosen)
        compares_cost = self.table.compares_cost and "naive" in chosen
        return replace(self, table=replace(self.table, rows=rows, ablated=ablated, compares_cost=compares_cost))

    def wanted(self, protocols: Sequence[str], seeds: int | None, lr: float, only: str | None = None) -> list[Wanted]:
        """What is to be trained, in order; `lr` is the rate of rows that are not tuned."""
        names, wanted = self.data, self._wanted(protocols, seeds, lr)

        def belongs_to(data: str) -> str:
            """An ablation belongs to the data whose pixels it changes."""
            return data if data in names else data.partition("?")[0]

        return list(dict.fromkeys(one for one in wanted if only in (None, belongs_to(one.data))))

    def _wanted(self, protocols: Sequence[str], seeds: int | None, lr: float) -> Iterator[Wanted]:
        yield from [*map(Measuring, self.measured), *self.by_others]
        for data in self.naive:
            yield Need(data, "naive", (lr,), seeds or SVCI_20.seeds)
        if table := self.table:
            number = seeds or table.seeds
            for column, data in enumerate(table.columns):
                cells = [cell for cell in table.cells() if cell.column == column]
                yield from (need_of(cell, protocol, number, lr) for protocol in protocols for cell in cells)
                yield from [SixNaive(data)] * table.compares_cost
                for place in ablations(table, data):
                    yield from (Need(place, on_data(method, data), (lr,), number) for method in table.ablated)


def ablations(table: PaperTable, data: str) -> list[str]:
    """The same data with other pixels, where the table has such an ablation: for CIFAR-10-LT."""
    return [f"{data}?{table.ablation}"] if table.ablation and data.startswith("cifar10-lt") else []


def _table_1(
    methods: Sequence[str], seeds: int = TABLE_1.seeds, columns: Sequence[str] = TABLE_1.columns
) -> PaperTable:
    """Some rows and columns of Table I."""
    places = [TABLE_1.columns.index(data) for data in columns]
    rows = [row for row in TABLE_1.rows if row.method in methods]
    cut = tuple(replace(row, printed=" ".join(row.printed.split()[place] for place in places)) for row in rows)
    return replace(TABLE_1, columns=tuple(columns), rows=cut, seeds=seeds, compares_cost=False, ablation="")


_tested = [method for *pair, _ in SIGNIFICANCE for method in pair]
_shown = [method for row in TABLE_1.rows if row.method in GROUPS.values() for method in (row.method, row.baseline)]

EXPERIMENTS: dict[str, Experiment] = {
    "table1": Experiment("Table I: all methods on CIFAR-10-LT and CIFAR-100-LT", TABLE_1),
    "svci20": Experiment(
        "SVCI-20: its table, and the gap between its halves by N_c",
        SVCI_20,
        measured=SVCI_20.columns,
        naive=tuple(f"svci20:{count}" for count in COUNTS),
    ),
    "if1a": Experiment("IF1a: do the measures rank classes as their test errors do?", measured=(CIFAR_100,)),
    "if1b": Experiment(
        "IF1b: how the measures follow the imbalance ratio", measured=tuple(f"cifar10-lt:{ratio}" for ratio in RATIOS)
    ),
    "if2": Experiment(
        "IF2: how the measures react to duplicates",
        measured=tuple(f"{CIFAR_10}?duplicate={s:g}" if s else CIFAR_10 for s in STRENGTHS),
        by_others=tuple(Measuring(CIFAR_10, EstimateRequest(estimator)) for estimator in DRAWN),
    ),
    "measures": Experiment(
        "Figures 2a and 2b and the SVCI-20 figure: the measures by class, and kinds of uncertainty",
        measured=(CIFAR_10, CIFAR_100, "svci20:100"),
    ),
    "figure1": Experiment("Figure 1a: relative gains on CIFAR-100-LT (50)", _table_1(_shown, columns=[CIFAR_100])),
    "epistemic": Experiment("Predictive against epistemic uncertainty", EPISTEMIC),
    "gamma": Experiment("Uncertainty and effective number combined", GAMMA),
    "readings": Experiment("Other readings of the focal rows, which miss what is printed", READINGS),
    "duq": Experiment("DUQ against deep ensembles on CIFAR-10-LT", DUQ),
    "significance": Experiment("ASO tests of Table I", _table_1(_tested, seeds=5)),
    "architectures": Experiment(
        "Another architecture on CIFAR-LT; the printed errors are of Swin-T",
        ARCHITECTURES,
        recipe="fine-tune",
        needs="Swin-T, pretrained: give it as --network hf:FOLDER, or another one, as --network efficientnet-lite0",
    ),
    "places": Experiment(
        "Places-LT; the printed errors are of ResNet-152",
        PLACES_LT,
        recipe="oltr",
        needs="ResNet-152, pretrained: give it as --network timm:resnet152 or --network 'PATH.py:FACTORY?weights=FILE'",
    ),
}
ALL = "all"


def find_experiments(name: str, network: str | None = None) -> dict[str, Experiment]:
    """The experiment of that name, or all that need no other network than ResNet-32."""
    if name not in EXPERIMENTS and name != ALL:
        raise unknown("experiment", name, [*EXPERIMENTS, ALL])
    if name == ALL or not EXPERIMENTS[name].needs:
        if network is not None:
            others = " and ".join(sorted(other for other, experiment in EXPERIMENTS.items() if experiment.needs))
            raise InputError(f"network is {network}, and experiment {name!r} is about ResNet-32: it is for {others}.")
        return {one: row for one, row in EXPERIMENTS.items() if name in (ALL, one) and not row.needs}
    if network is None:
        raise InputError(f"experiment {name!r} needs {EXPERIMENTS[name].needs}.")
    return {name: EXPERIMENTS[name]}


def check_only(experiments: dict[str, Experiment], only: str | None) -> None:
    """Refuse a data set that none of the experiments is about."""
    data = list(dict.fromkeys(data for experiment in experiments.values() for data in experiment.data))
    if only is not None and only not in data:
        raise unknown("data set", only, data)
