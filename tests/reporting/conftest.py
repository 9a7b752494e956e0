"""A store to report, and what a terminal of some width shows."""

from collections.abc import Callable
from typing import Any

import pytest
from reporting.reported import SHORT

import class_uncertainty as cu
import class_uncertainty.runs.store
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.runs import Store
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import load_or_estimate, load_or_evaluate
from class_uncertainty.runs.settings import Settings


@pytest.fixture
def store(tmp_path, digits):
    with Store(tmp_path / "runs.sqlite") as store:
        store.add_data(digits)
        yield store


@pytest.fixture
def measure(store, digits):
    """(estimator, members, lr) -> an estimate of the digits, through the store."""

    def call(estimator: str = "ensemble", members: int = 2, lr: float | None = None) -> cu.Estimate:
        with open_context(digits, Settings(recipe=SHORT, store=store)) as context:
            (estimate,) = load_or_estimate(context, [EstimateRequest(estimator, members, lr=lr)])
        return estimate

    return call


@pytest.fixture
def train(store, digits):
    """Train lanes, or methods by name, through the store."""

    def call(
        *lanes: cu.Lane | str,
        estimate: cu.Estimate | None = None,
        recipe: cu.Recipe = SHORT,
        dataset: cu.Dataset = digits,
    ) -> None:
        named = [cu.Lane(lane) if isinstance(lane, str) else lane for lane in lanes]
        with open_context(dataset, Settings(recipe=recipe, store=store)) as context:
            load_or_evaluate(context, named, estimate.stats if estimate else None)

    return call


@pytest.fixture
def printed(monkeypatch, capsys):
    """What a function prints to a terminal of some width."""

    def call(function: Callable[..., None], *args: Any, width: int = 160) -> str:
        monkeypatch.setattr("class_uncertainty.reporting.terminal.PIPE_WIDTH", width)
        function(*args)
        return capsys.readouterr().out

    return call
