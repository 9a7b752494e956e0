"""Ledgers made by hand: results and measurements of a small table, without any training."""

from collections.abc import Sequence

import pytest

import class_uncertainty as cu
from class_uncertainty.measures import digest
from class_uncertainty.metrics import Scores
from class_uncertainty.paper.experiments import EXPERIMENTS, Experiment, Measuring, judge_of
from class_uncertainty.paper.ledger import Ledger
from class_uncertainty.paper.printed_tables import PaperTable, Row
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.store import StoredDataset
from class_uncertainty.training import RECIPES, describe

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32)
COUNTS, CLASSES = (90, 30, 10), ("cat", "dog", "eel")
DATA = "digits-lt:9"
RAW = {"predictive": (0.1, 0.2, 0.3), "epistemic": (0.03, 0.02, 0.01)}
TABLE = PaperTable(
    columns=(DATA,),
    rows=(
        Row("Naive", "naive", "20.0±1.0"),
        Row("CB", "cb-rs", "18.0±0.5"),
        Row("UBRs", "ubrs", "15.0±0.5", baseline="cb-rs"),
        Row("New", "balanced-softmax", note="not in the paper"),
    ),
    seeds=2,
    compares_cost=True,
)


def use_toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small table and a measurement, in the place of the paper's Table I and IF1a; training takes seconds."""
    monkeypatch.setitem(RECIPES, "bag-of-tricks", cu.Recipe("small-conv", epochs=1, batch=32))
    monkeypatch.setitem(EXPERIMENTS, "table1", Experiment("a small table", TABLE))
    monkeypatch.setitem(EXPERIMENTS, "if1a", Experiment("a measurement", measured=(Measuring(DATA),)))


def stored(name: str = DATA) -> StoredDataset:
    return StoredDataset(f"fingerprint of {name}", name, CLASSES, COUNTS)


def measurement(device: str = "cuda", estimator: str = "ensemble", members: int = 5) -> Measurement:
    errors = (10.0, 20.0, 30.0)
    return Measurement(estimator, members, 0.1, RECIPE, device, float(members), "predictive", RAW, errors)


def result(
    method: str, error: float | None, seed: int = 0, lr: float = 0.1, score: str = "predictive", device: str = "cuda"
) -> cu.Result:
    """As a training would leave it; an error of None diverged."""
    value, scores = cu.Lane(method).value, None
    if error is not None:
        groups = {"many": None, "medium": None, "few": None, "worst": error, "spread": 0.0, "nll": 1.0, "ece": 1.0}
        scores = Scores(error=error, top1_error=error, class_errors=(error - 1, error, error + 1), **groups)
    uncertainty = digest(cu.Stats(COUNTS, RAW[score]).uncertainty) if value.uses_uncertainty else ""
    about = {"method": method, "seed": seed, "lr": lr, "fold": None, "scores": scores, "loss": 1.0, "seconds": 1.0}
    about |= {"diverged": 1 if scores is None else None, "plan": describe(value), "recipe": RECIPE, "data": "train"}
    return cu.Result(**about, uncertainty=uncertainty, device=device)


def ledger(results: Sequence[cu.Result], judged: Sequence[cu.Result] = (), measured: bool = True) -> Ledger:
    """Results on DATA, results on the data set that rates are chosen on, and the measurements of both."""
    made = Ledger(RECIPE)
    for name, listed in ((DATA, results), (judge_of(DATA), judged)):
        made.add(stored(name), listed, [measurement()] if measured else [])
    return made


def choosing(method: str, *errors: float | None) -> list[cu.Result]:
    """The results that choose a rate of 0.1, 0.2, 0.4 and 0.7."""
    return [result(method, error, 1000, lr) for lr, error in zip((0.1, 0.2, 0.4, 0.7), errors, strict=True)]
