"""Results, measurements and data sets that nothing was trained for."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import class_uncertainty as cu
from class_uncertainty.measures import digest
from class_uncertainty.metrics import Scores
from class_uncertainty.runs import Store
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.result_lines import export_lines
from class_uncertainty.runs.store import StoredDataset, dataset_row
from class_uncertainty.training import describe

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32)
DATA = StoredDataset("f" * 32, "digits-lt:20", ("a", "b", "ü"), (90, 9, 3))
STATS = cu.Stats(DATA.counts, (0.1, 1 / 3, 2 / 7))
GROUPS = {"many": None, "medium": None, "few": 40.0}
SCORES = Scores(error=20.0, top1_error=10.0, class_errors=(0.0, 20.0, 40.0), worst=40.0, spread=16.3, nll=0.5, ece=3.0,
                **GROUPS)  # fmt: skip


def make_result(lane: cu.Lane, stats: cu.Stats | None = None, **changes: Any) -> cu.Result:
    """What a lane might reach on a GPU."""
    uncertainty = digest(stats.uncertainty) if stats and lane.value.uses_uncertainty else ""
    of_lane = {"method": lane.name, "seed": lane.seed, "lr": lane.rate(RECIPE), "fold": lane.fold}
    course = {"scores": SCORES, "diverged": None, "loss": 0.1 + 0.2, "seconds": 1.5, "plan": describe(lane.value)}
    place = {"recipe": RECIPE, "data": "t" * 32, "uncertainty": uncertainty, "device": "cuda"}
    return cu.Result(**(of_lane | course | place | changes))


def make_measurement(**changes: Any) -> Measurement:
    raw = {"predictive": (0.1, 1 / 3, 2 / 7), "true-class": (1e-17, 0.25, 0.1 + 0.2)}
    about = {"estimator": "ensemble", "members": 5, "lr": RECIPE.lr, "recipe": RECIPE, "device": "cuda", "cost": 5.0}
    return Measurement(**(about | {"score": "predictive", "raw": raw, "class_errors": (0.0, 12.5, 100 / 3)} | changes))


def make_estimate(seed: int = 0, estimator: str = "ensemble") -> cu.Estimate:
    """Of two members."""
    p = np.random.default_rng(seed).dirichlet(np.ones(3), (2, 30)).astype(np.float32)
    results = tuple(make_result(cu.Lane("naive", seed + i)) for i in range(2))
    return cu.Estimate(estimator, p, np.arange(30) % 3, results, cost=2.0)


def add_data(store: Store, data: StoredDataset = DATA, **changes: Any) -> StoredDataset:
    data = replace(data, **changes)
    store.add_rows([("data", dataset_row(data))])
    return data


def fill(store: Store, data: StoredDataset = DATA, backwards: bool = False) -> None:
    """Two methods, one of which diverged once, an estimate, and a measurement that came without one."""
    add_data(store, data)
    lanes = [cu.Lane(method, seed, lr) for method in ("ubrw", "naive") for seed in (1, 0) for lr in (0.2, 0.1)]
    results = {f"{i}{data.name}": make_result(lane, STATS) for i, lane in enumerate(lanes)}
    results[f"wild{data.name}"] = make_result(cu.Lane("cb", lr=9.0), scores=None, diverged=1, loss=float("nan"))
    for key, result in reversed(results.items()) if backwards else results.items():
        store.add(key, data.fingerprint, result)
    store.add_estimate(f"e{data.name}", data.fingerprint, make_estimate())
    store.add_measurement(f"m{data.name}", data.fingerprint, make_measurement())


def export_text() -> bytes:
    """A file of results, as `cu results export` writes it."""
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "runs.sqlite") as store:
        fill(store)
        return "".join(export_lines(store)).encode()
