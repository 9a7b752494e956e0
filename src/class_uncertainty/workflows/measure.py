"""cu.measure(): which classes are under-represented, by count and by how uncertain networks are about them."""

from dataclasses import asdict, dataclass
from typing import Any, Unpack

from class_uncertainty.checks import take
from class_uncertainty.data import Data, Dataset
from class_uncertainty.estimation import Estimate, EstimateRequest, read_by
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import load_or_estimate, telling_rows
from class_uncertainty.runs.rows import ClassRow, class_rows, result_marks, spearman
from class_uncertainty.runs.settings import Settings, Shared, lists_shared
from class_uncertainty.text import html_table, interval, number, to_frame
from class_uncertainty.training import Recipe
from class_uncertainty.training.network_size import NetworkSize


@dataclass(frozen=True, eq=False)
class Measured:
    """What `cu.measure` returns: an estimate of a data set, and its classes as rows.

    Attributes
    ----------
    dataset : Dataset
        What was measured.
    estimate : Estimate
        The members' probabilities for the training examples, and what follows from them.
    rows : tuple of ClassRow
        Every class by every measure.

    Examples
    --------
    >>> recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    >>> measured = cu.measure(cu.load("digits-lt:20"), "single", recipe=recipe)
    >>> measured.rows[0].name, measured.folds
    ('0', 0)
    """

    dataset: Dataset
    estimate: Estimate
    rows: tuple[ClassRow, ...]

    @property
    def folds(self) -> int:
        """Folds that the errors come from; 0 where there is a test split."""
        return max((result.folds for result in self.estimate.results), default=0)

    @property
    def network(self) -> NetworkSize:
        """What was trained; nothing where the probabilities come from a file."""
        train = self.dataset.train
        return NetworkSize.of_results(self.estimate.results, train.shape, len(train.classes))

    @property
    def marks(self) -> tuple[str, ...]:
        """What sets the results of the members apart, as of a MethodRow."""
        return result_marks(self.estimate.results)

    def __repr__(self) -> str:
        return f"Measured({self.dataset!r}, {self.estimate!r})"

    def document(self) -> dict[str, Any]:
        """What `cu measure --json` prints."""
        return {
            **describe_dataset(self.dataset, self.folds),
            **asdict(self.network),
            "estimator": self.estimate.estimator,
            "score": self.estimate.score,
            "cost": self.estimate.cost,
            "members": len(self.estimate.probabilities),
            "marks": list(self.marks),
            "classes": [asdict(row) | {"disagreement": row.disagreement} for row in self.rows],
            "spearman": {name: spearman(self.rows, name) for name in ("cardinality", "effective", "uncertainty")},
        }

    def to_frame(self) -> Any:
        """The classes as a DataFrame of pandas, one row a class."""
        return to_frame([asdict(row) | {"disagreement": row.disagreement} for row in self.rows])

    def _repr_html_(self) -> str:
        columns = ("class", "train", "rarity %", "uncertainty %", "rank rarity", "rank unc.", "error %", "95 %", "test")
        cells = []
        for row in sorted(self.rows, key=lambda row: row.rank_uncertainty):
            shares = (number(100 * row.cardinality), number(100 * row.uncertainty))
            ranks = (f"{row.rank_cardinality:g}", f"{row.rank_uncertainty:g}")
            error = (number(row.error), interval(row.low, row.high), "–" if row.examples is None else row.examples)
            cells.append((row.name, f"{row.count:,}", *shares, *ranks, *error))
        title = f"{self.dataset.name}, measured by {self.estimate.estimator} ({self.estimate.score})"
        return html_table(title, columns, cells)


@lists_shared
def measure(
    dataset: Dataset | Data,
    estimator: str | None = None,
    members: int = 5,
    *,
    score: str | None = None,
    lr: float | None = None,
    recipe: Recipe | None = None,
    **settings: Unpack[Shared],
) -> Measured:
    """Measure how under-represented each class is, by its count and by its uncertainty.

    Parameters
    ----------
    dataset : Dataset or Data
        What to train on. Without a test split, errors come from five folds.
    estimator : str, optional
        A key of ESTIMATORS, "ensemble:METHOD" or "probabilities:FILE"; by default "ensemble", or "out-of-fold" for
        heads that train on full batches.
    members : int
        Networks, folds or snapshots that measure.
    score : str, optional
        What counts as uncertain; by default the estimator's natural score.
    lr : float, optional
        The learning rate; by default the recipe's.
    recipe : Recipe, optional
        How to train; by default the one for images or for features.
    store : Store or path, optional
        Results are kept there, and what it has is not trained again.
    device : str, optional
        "cpu", "cuda" or "mps"; by default the fastest that is there.
    budget : float, optional
        Seconds after which training stops at an epoch's end and Unfinished is raised; needs a store.
    progress : bool or callable, optional
        Whether to show a plan, a bar and findings on stderr; in a notebook, lines of text take the place of the bar. By
        default where stderr is a terminal or a notebook, and not where it is a file or a pipe. A function of (what
        trains, networks, epochs of each) that returns a context manager is told instead.
    profile : path, optional
        Where to write a trace of one epoch.
    on : str, optional
        Where networks train: "ray" on all GPUs or cores of this machine, "auto" on the Ray cluster that runs here,
        "ray://HOST:PORT" on another; by default in this process. The results are the same.

    Returns
    -------
    Measured

    Examples
    --------
    >>> measured = cu.measure(cu.load("digits-lt:20"), members=2, recipe=cu.Recipe("small-conv", epochs=1, batch=32))
    >>> len(measured.rows), measured.rows[9].count
    (10, 6)
    """
    members = take(int, members=members)
    with open_context(dataset, Settings.of(measure, settings, recipe)) as context:
        request = EstimateRequest.usual(estimator, members, lr, context.recipe)
        request.check_score(score)
        estimate = read_by(load_or_estimate(context, [request], ended=telling_rows(context, members))[0], score)
        rows = class_rows(context.dataset.classes, context.train.counts.tolist(), estimate, context.dataset)
        return Measured(context.dataset, estimate, tuple(rows))


def describe_dataset(dataset: Dataset, folds: int) -> dict[str, Any]:
    """What every document says of its data."""
    return {
        "data": dataset.name,
        "fingerprint": dataset.fingerprint,
        "folds": folds,
        "duplicates": dataset.duplicates,
        "left_out": [asdict(part) for part in dataset.left_out],
    }
