"""`cu reproduce architectures` and `places`: a tiny Swin, and a synthetic tree in the layout of Places-LT."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from own_networks import FILE, swin_folder
from PIL import Image
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.paper.catalogue import EXPERIMENTS
from class_uncertainty.paper.paper_table import judge_of, rates_from
from class_uncertainty.paper.printed_tables import ARCHITECTURES, PLACES_LT
from class_uncertainty.paper.reproduce import plan_reproduction, reproduce
from class_uncertainty.training.recipe import RECIPES

ROWS = ["naive", "pb-ubrs"]


@pytest.fixture(autouse=True)
def few_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fine-tune", "oltr"):
        monkeypatch.setitem(RECIPES, name, replace(RECIPES[name], epochs=1, batch=16))


@pytest.fixture
def places(tmp_path: Path) -> Path:
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


def test_architectures_run_by_any_pretrained_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = replace(ARCHITECTURES, columns=("digits-lt:9",), compares_cost=False)
    table = replace(table, rows=tuple(row for row in table.rows if row.method in ROWS))
    monkeypatch.setitem(EXPERIMENTS, "architectures", replace(EXPERIMENTS["architectures"], table=table))
    network = f"hf:{swin_folder(tmp_path)}"
    about = ("architectures", "paper", None, 1, ["naive"])
    assert [row.lanes for row in plan_reproduction(*about, network=network, store=tmp_path / "runs.sqlite")] == [1]
    (made,) = reproduce(*about, network=network, store=tmp_path / "runs.sqlite")
    assert [(one.cell.method, one.lr, len(one.errors)) for one in made.outcomes] == [("naive", 2e-4, 1)]
    assert made.networks["digits-lt:9"].network == network
    (again,) = reproduce(*about, network=network, store=tmp_path / "runs.sqlite", train=False)
    assert again.document() == made.document()
    swin_folder(tmp_path, seed=4)  # other weights under the same name: nothing of it has been trained
    (other,) = reproduce(*about, network=network, store=tmp_path / "runs.sqlite", train=False)
    assert [one.errors for one in other.outcomes] == [()]
    folder, away = swin_folder(tmp_path), tmp_path / "elsewhere"
    folder.rename(away)  # what is stored is shown by the name of the network alone
    (stored,) = reproduce(*about, network=network, store=tmp_path / "runs.sqlite", train=False)
    assert [one.errors for one in stored.outcomes] == [one.errors for one in made.outcomes]
    with refused(network, "no weights on this machine"):
        reproduce(*about, network=network, store=tmp_path / "runs.sqlite")
    swin_folder(tmp_path, seed=4)
    reproduce(*about, network=network, store=tmp_path / "runs.sqlite")
    folder.rename(tmp_path / "the other one")
    with refused(network, "no weights on this machine"):  # which of two networks is meant, only weights tell
        reproduce(*about, network=network, store=tmp_path / "runs.sqlite", train=False)


def test_places_runs_on_a_tree_in_its_layout(tmp_path: Path, places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (column,) = PLACES_LT.columns
    table = replace(PLACES_LT, columns=(column.replace("256", "32"),), compares_cost=False)
    monkeypatch.setitem(EXPERIMENTS, "places", replace(EXPERIMENTS["places"], table=table))
    (tmp_path / "mine.py").write_text(FILE)

    def read(name: str) -> cu.Dataset:
        return cu.load(name, root=places)

    network = f"{tmp_path / 'mine.py'}:loaded"
    (made,) = reproduce("places", "paper", None, 1, ROWS, network, store=tmp_path / "runs.sqlite", read=read)
    assert [(one.cell.method, len(one.errors)) for one in made.outcomes] == [("naive", 5), ("pb-ubrs", 1)]
    assert made.outcomes[1].lr in rates_from(0.001)
    assert not made.unfinished


def test_rates_are_chosen_on_the_split_of_places_that_is_for_this() -> None:
    assert judge_of("places-lt?size=256") == "places-lt?judge=val&size=256"
    assert rates_from(0.1) == (0.1, 0.2, 0.4, 0.7)
    assert rates_from(0.001) == pytest.approx((0.001, 0.002, 0.004, 0.007))


def test_what_must_be_given_is_said_and_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with refused("architectures", "Swin-T", "--network hf:FOLDER", "efficientnet-lite0"):
        reproduce("architectures", store=tmp_path / "runs.sqlite")
    with refused("places", "ResNet-152", "--network timm:resnet152"):
        reproduce("places", store=tmp_path / "runs.sqlite")
    with refused("table1", "ResNet-32", "architectures and places"):
        reproduce("table1", network="hf:swin", store=tmp_path / "runs.sqlite")
    with refused("hf:nowhere", "no weights on this machine"):
        reproduce("architectures", network="hf:nowhere", store=tmp_path / "runs.sqlite")
    assert not (tmp_path / "runs.sqlite").exists()
