"""EXPERIMENTS: the tables and figures of the paper by name, as what each of them needs trained."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from class_uncertainty.errors import InputError, unknown
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.methods import named, parse_name
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
    Cell,
    PaperTable,
    on_data,
)
from class_uncertainty.runs.comparison import CHOOSING_SEED, check_seeds
from class_uncertainty.training import RECIPES, Lane, Recipe

PROTOCOLS = ("paper", "equal")
RATES = (0.1, 0.2, 0.4, 0.7)  # four of the seven that the paper tried
# images a class that are set aside to choose rates on, before the data are cut: a tenth of CIFAR's training images
VALIDATION = {"cifar10-lt": 500, "cifar100-lt": 50, "svci20": 250}
REQUESTS = {
    "ensemble": EstimateRequest(),
    "duq": EstimateRequest("duq", members=1),
    "out-of-fold": EstimateRequest("out-of-fold"),
}
ENSEMBLE = REQUESTS["ensemble"]  # five naive members
SIX_NAIVE = "adjusted*6"  # six naive trainings cost as much as five that measure and one that uses it

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
class Need:
    """Runs of a method on a data set: at one learning rate, or at the best of several."""

    data: str
    method: str
    rates: tuple[float, ...]
    seeds: int
    request: EstimateRequest = ENSEMBLE  # what measures the class uncertainties, if the method uses them
    score: str = ""  # by default the estimator's own

    @cached_property
    def uses_uncertainty(self) -> bool:
        return named(self.method).uses_uncertainty

    @property
    def choosing_lanes(self) -> list[Lane]:
        """One for each learning rate; none where there is nothing to choose."""
        if len(self.rates) == 1:
            return []
        return [Lane(self.method, CHOOSING_SEED, lr) for lr in self.rates]


@dataclass(frozen=True)
class Measuring:
    """The class uncertainties of a data set."""

    data: str
    request: EstimateRequest = ENSEMBLE


@dataclass(frozen=True)
class SixNaive:
    """What as many naive trainings as an uncertainty row costs give: an ensemble, adjusted for the counts."""

    data: str


Wanted = Need | Measuring | SixNaive


def need_of(cell: Cell, protocol: str, lr: float, seeds: int = 0) -> Need:
    """What a cell wants trained; `lr` is the rate where it is not tuned. Without seeds it is only looked up."""
    rates = rates_from(lr) if cell.is_tuned(protocol) else (lr,)
    return Need(cell.data, cell.method, rates, seeds, REQUESTS[cell.row.estimator], cell.row.score)


def rates_from(lr: float) -> tuple[float, ...]:
    """The learning rates to choose from, where a recipe has that one: as far apart as the paper's are from 0.1."""
    if lr == RATES[0]:
        return RATES
    return tuple(lr * round(rate / RATES[0]) for rate in RATES)


def judge_of(data: str) -> str:
    """The data set that rates are chosen on: images of the training split are set aside before the rest is cut."""
    source = data.partition("?")[0].partition(":")[0]
    if source == "places-lt":
        return data.replace("?", "?judge=val&")  # it comes with a split for this; options of a name are sorted
    return f"{data}?validation={VALIDATION.get(source, 10)}"


@dataclass(frozen=True)
class Experiment:
    """A table, the class uncertainties of some data sets, or both."""

    about: str
    table: PaperTable | None = None
    measured: tuple[Measuring, ...] = ()  # the class uncertainties that it shows
    naive: tuple[str, ...] = ()  # data sets on which it compares naive networks
    recipe: str = "bag-of-tricks"
    needs: str = ""  # the network that it is about, where a user must have its weights

    @property
    def data(self) -> list[str]:
        """The data sets that it is about."""
        columns = self.table.columns if self.table else ()
        return list(dict.fromkeys([*columns, *(one.data for one in self.measured), *self.naive]))

    def requests_on(self, data: str) -> list[EstimateRequest]:
        """What measures the class uncertainties that are shown of a data set."""
        requests = [one.request for one in self.measured if one.data == data]
        if self.table and data in self.table.columns:
            estimators = dict.fromkeys(row.estimator for row in self.table.rows)
            if len(estimators) > 1:  # the table compares them
                requests += [REQUESTS[name] for name in estimators]
        return list(dict.fromkeys(requests))

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
        wanted: list[Wanted] = [*self.measured]
        wanted += [Need(data, "naive", (lr,), seeds or SVCI_20.seeds) for data in self.naive]
        if self.table:
            for data in self.table.columns:
                wanted += _wanted_of(self.table, data, protocols, seeds or self.table.seeds, lr)
        if only is not None:
            names = self.data
            # an ablation belongs to the data whose pixels it changes
            wanted = [one for one in wanted if only == (one.data if one.data in names else one.data.partition("?")[0])]
        return list(dict.fromkeys(wanted))


def _wanted_of(table: PaperTable, data: str, protocols: Sequence[str], seeds: int, lr: float) -> list[Wanted]:
    """What one column of a table wants trained."""
    cells = [cell for cell in table.cells() if cell.data == data]
    wanted: list[Wanted] = [need_of(cell, protocol, lr, seeds) for protocol in protocols for cell in cells]
    if table.compares_cost:
        wanted.append(SixNaive(data))
    other_pixels = table.ablation_of(data)
    if other_pixels:
        wanted += [Need(other_pixels, on_data(method, data), (lr,), seeds) for method in table.ablated]
    return wanted


def _table_1(
    methods: Sequence[str], seeds: int = TABLE_1.seeds, columns: tuple[str, ...] = TABLE_1.columns
) -> PaperTable:
    """Some rows and columns of Table I."""
    rows = []
    for row in TABLE_1.rows:
        if row.method in methods:
            printed = TABLE_1.by_column(row.printed)
            rows.append(replace(row, printed=" ".join(printed[data] for data in columns)))
    return PaperTable(columns, tuple(rows), seeds)


def _measured(data: Sequence[str]) -> tuple[Measuring, ...]:
    return tuple(map(Measuring, data))


_tested = [method for *pair, _ in SIGNIFICANCE for method in pair]
_shown = [method for row in TABLE_1.rows if row.method in GROUPS.values() for method in (row.method, row.baseline)]
_copied = [f"{CIFAR_10}?duplicate={s:g}" if s else CIFAR_10 for s in STRENGTHS]

EXPERIMENTS: dict[str, Experiment] = {
    "table1": Experiment("Table I: all methods on CIFAR-10-LT and CIFAR-100-LT", TABLE_1),
    "svci20": Experiment(
        "SVCI-20: its table, and the gap between its halves by N_c",
        SVCI_20,
        measured=_measured(SVCI_20.columns),
        naive=tuple(f"svci20:{count}" for count in COUNTS),
    ),
    "if1a": Experiment("IF1a: do the measures rank classes as their test errors do?", measured=_measured([CIFAR_100])),
    "if1b": Experiment(
        "IF1b: how the measures follow the imbalance ratio",
        measured=_measured([f"cifar10-lt:{ratio}" for ratio in RATIOS]),
    ),
    "if2": Experiment(
        "IF2: how the measures react to duplicates",
        measured=(*_measured(_copied), *(Measuring(CIFAR_10, EstimateRequest(estimator)) for estimator in DRAWN)),
    ),
    "measures": Experiment(
        "Figures 2a and 2b and the SVCI-20 figure: the measures by class, and kinds of uncertainty",
        measured=_measured([CIFAR_10, CIFAR_100, "svci20:100"]),
    ),
    "figure1": Experiment("Figure 1a: relative gains on CIFAR-100-LT (50)", _table_1(_shown, columns=(CIFAR_100,))),
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


@dataclass(frozen=True)
class Selection:
    """Experiments that are asked for, and as much of them as is."""

    experiments: dict[str, Experiment]  # by name
    protocols: tuple[str, ...]
    only: str | None = None  # a data set
    seeds: int | None = None  # runs of every row; None: as many as its table has
    network: str | None = None  # pretrained, of the one experiment that needs it

    @property
    def recipe(self) -> Recipe:
        """What all of the experiments are trained by: those that need a network are asked for one by one."""
        if self.network is None:
            return RECIPES["bag-of-tricks"]
        (experiment,) = self.experiments.values()
        return replace(RECIPES[experiment.recipe], network=self.network)

    def wanted(self, experiment: Experiment) -> list[Wanted]:
        """What one of the experiments wants trained, in order."""
        return experiment.wanted(self.protocols, self.seeds, self.recipe.lr, self.only)


def select(
    experiment: str,
    protocol: str | None = None,
    only: str | None = None,
    seeds: int | None = None,
    methods: Sequence[str] | None = None,
    network: str | None = None,
) -> Selection:
    """Choose experiments of the paper, or refuse what there is not.

    Parameters
    ----------
    experiment : str
        "table1", "svci20", "if1a" and so on, or "all" that need no other network than ResNet-32.
    protocol : str, optional
        "paper" chooses learning rates for the paper's own rows alone, as it did, "equal" for all rows. By default both.
    only : str, optional
        One data set.
    seeds : int, optional
        Runs of every row; by default the table's number.
    methods : list of str, optional
        Only rows of these methods, as "ubrw-focal"; by default all.
    network : str, optional
        The pretrained network of "architectures" and "places".
    """
    experiments = _experiments(experiment, network)
    if methods is not None:
        experiments = {name: row.restricted(methods) for name, row in experiments.items()}
    if protocol is not None and protocol not in PROTOCOLS:
        raise unknown("protocol", protocol, PROTOCOLS)
    data = dict.fromkeys(data for row in experiments.values() for data in row.data)
    if only is not None and only not in data:
        raise unknown("data set", only, data)
    if seeds is not None:
        check_seeds(seeds, alternative="")
    protocols = PROTOCOLS if protocol is None else (protocol,)
    return Selection(experiments, protocols, only, seeds, network)


def _experiments(name: str, network: str | None) -> dict[str, Experiment]:
    """The experiment of that name, or all that need no other network than ResNet-32."""
    if name not in EXPERIMENTS and name != ALL:
        raise unknown("experiment", name, [*EXPERIMENTS, ALL])
    needs = "" if name == ALL else EXPERIMENTS[name].needs
    if needs and network is None:
        raise InputError(f"experiment {name!r} needs {needs}.")
    if network is not None and not needs:
        others = " and ".join(sorted(other for other, experiment in EXPERIMENTS.items() if experiment.needs))
        raise InputError(f"network is {network}, and experiment {name!r} is about ResNet-32: it is for {others}.")
    if name == ALL:
        return {other: experiment for other, experiment in EXPERIMENTS.items() if not experiment.needs}
    return {name: EXPERIMENTS[name]}
