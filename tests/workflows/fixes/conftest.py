"""One fix and its store, shared so that each network trains once; and what makes a step clear."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from workflows.fixes.by_hand import ROWS

import class_uncertainty as cu
from class_uncertainty.runs import Store
from class_uncertainty.training import default_recipe
from class_uncertainty.workflows import fix_plan
from class_uncertainty.workflows.alternatives import Gain


@pytest.fixture(scope="session")
def recipe(digits):
    return default_recipe(digits.train, epochs=4)


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """Shared, so that each network trains once."""
    with Store(tmp_path_factory.mktemp("fixed") / "runs.sqlite") as store:
        yield store


@pytest.fixture(scope="session")
def fixed(store, digits, recipe):
    return cu.fix(digits, recipe=recipe, candidates=ROWS, seeds=2, store=store)


@pytest.fixture
def every_gain_is_clear(monkeypatch):
    """So that a student is kept, though its fold is small."""
    monkeypatch.setattr(fix_plan, "MIN_FOLD_EXAMPLES", 1)
    monkeypatch.setattr(Gain, "is_clear", True)


@pytest.fixture(scope="module")
def wine():
    wine = load_wine()
    kept = np.concatenate([np.flatnonzero(wine.target == c)[:n] for c, n in enumerate((59, 20, 8))])
    labels = wine.target[kept].copy()
    labels[3] = 1  # wrongly
    return cu.Data(wine.data[kept].astype(np.float32), labels, tuple(wine.target_names))
