"""`cu reproduce architectures` and `places`: a tiny Swin, and a synthetic tree in the layout of Places-LT."""

from dataclasses import replace

import numpy as np
import pytest
from own_networks import FILE, swin_folder
from PIL import Image
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.paper.experiments import EXPERIMENTS, rates_from, select
from class_uncertainty.paper.printed_tables import ARCHITECTURES, PLACES_LT
from class_uncertainty.paper.reproduce import plan_reproduction, reproduce
from class_uncertainty.paper.reproduction import stored_reproductions
from class_uncertainty.training.recipe import RECIPES

ROWS = ["naive", "pb-ubrs"]


@pytest.fixture(autouse=True)
def few_epochs(monkeypatch):
    for name in ("fine-tune", "oltr"):
        monkeypatch.setitem(RECIPES, name, replace(RECIPES[name], epochs=1, batch=16))


@pytest.fixture
def places(tmp_path):
    """Two classes, four and eight images each, of odd sizes."""
    rng = np.random.default_rng(0)
    for split, number in (("train", 8), ("val", 3), ("test", 3)):
        lines = []
        for label, kind in enumerate(("bar", "attic")):
            for i in range(number // (1 + label) if split == "train" else number):
                file = tmp_path / split / kind / f"{i}.jpg"
                file.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(rng.integers(0, 256, (90 + i, 70, 3), dtype=np.uint8)).save(file)
                lines.append(f"{split}/{kind}/{i}.jpg {label}")
        (tmp_path / f"Places_LT_{split}.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_architectures_run_by_any_pretrained_network(store, tmp_path, monkeypatch):
    table = replace(ARCHITECTURES, columns=("digits-lt:9",), compares_cost=False)
    table = replace(table, rows=tuple(replace(row, printed="1.0") for row in table.rows if row.method in ROWS))
    monkeypatch.setitem(EXPERIMENTS, "architectures", replace(EXPERIMENTS["architectures"], table=table))
    network = f"hf:{swin_folder(tmp_path)}"
    selection = select("architectures", "paper", seeds=1, methods=["naive"], network=network)
    assert [row.lanes for row in plan_reproduction(selection, store)] == [1]
    (made,) = reproduce(selection, store)
    assert [(one.cell.method, one.lr, len(one.errors)) for one in made.outcomes] == [("naive", 2e-4, 1)]
    assert made.networks["digits-lt:9"].network == network
    (again,) = stored_reproductions(selection, store)
    assert again.document() == made.document()
    swin_folder(tmp_path, seed=4)  # other weights under the same name: nothing of it has been trained
    (other,) = stored_reproductions(selection, store)
    assert [one.errors for one in other.outcomes] == [()]
    folder, away = swin_folder(tmp_path), tmp_path / "elsewhere"
    folder.rename(away)  # what is stored is shown by the name of the network alone
    (stored,) = stored_reproductions(selection, store)
    assert [one.errors for one in stored.outcomes] == [one.errors for one in made.outcomes]
    with refused(network, "no weights on this machine"):
        reproduce(selection, store)
    swin_folder(tmp_path, seed=4)
    reproduce(selection, store)
    folder.rename(tmp_path / "the other one")
    with refused(network, "no weights on this machine"):  # which of two networks is meant, only weights tell
        stored_reproductions(selection, store)


def test_places_runs_on_a_tree_in_its_layout(store, tmp_path, places, monkeypatch):
    (column,) = PLACES_LT.columns
    table = replace(PLACES_LT, columns=(column.replace("256", "32"),), compares_cost=False)
    monkeypatch.setitem(EXPERIMENTS, "places", replace(EXPERIMENTS["places"], table=table))
    (tmp_path / "mine.py").write_text(FILE)

    def read(name: str) -> cu.Dataset:
        return cu.load(name, root=places)

    network = f"{tmp_path / 'mine.py'}:loaded"
    (made,) = reproduce(select("places", "paper", seeds=1, methods=ROWS, network=network), store, read=read)
    assert [(one.cell.method, len(one.errors)) for one in made.outcomes] == [("naive", 5), ("pb-ubrs", 1)]
    assert made.outcomes[1].lr in rates_from(0.001)
    assert not made.unfinished
