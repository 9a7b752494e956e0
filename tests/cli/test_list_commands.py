"""Commands that list what can be named."""

import json
import re
from typing import get_args

import pytest
from commands import Run
from own_networks import registered
from torch import nn

import class_uncertainty as cu
from class_uncertainty.cli import options
from class_uncertainty.data import SOURCES
from class_uncertainty.measures import SCORES
from class_uncertainty.training import RECIPES
from class_uncertainty.training.candidate import CANDIDATES
from class_uncertainty.training.networks.network_table import NETWORKS


def test_the_help_names_every_recipe() -> None:
    about = get_args(options.RECIPE)[1].help
    assert [name for name in RECIPES if not re.search(rf"(?<![\w-]){name}(?![\w-])", about)] == []


@pytest.mark.parametrize(
    ("command", "table"),
    [
        ("methods", cu.METHODS),
        ("measures", cu.MEASURES),
        ("estimators", cu.ESTIMATORS),
        ("datasets", SOURCES),
        ("networks", NETWORKS),
        ("remedies", cu.REMEDIES),
        ("candidates", CANDIDATES),
    ],
)
def test_lists(command: str, table: dict, run: Run) -> None:
    code, out, _ = run(command)
    assert code == 0
    assert all(name in out for name in table)
    assert {row["name"] for row in json.loads(run(command, "--json")[1])} == set(table)


def test_constants_are_listed_with_their_defaults(run: Run) -> None:
    methods = {row["name"]: row["constants"] for row in json.loads(run("methods", "--json")[1])}
    assert methods["cb-focal"] == {"beta": 0.9999, "gamma": 2}
    assert methods["vs"] == {"gamma": 0.3, "kappa": 1}
    assert methods["naive"] == {}
    measures = {row["name"]: row["constants"] for row in json.loads(run("measures", "--json")[1])}
    assert measures["mix"] == {"gamma": 0.5, "beta": 0.9999}
    assert measures["uncertainty"] == {}
    assert "power=1" in run("measures")[1]
    assert all(text in run("methods")[1] for text in ("beta=0.9999", "kappa=1", "rate=0.5"))


def test_networks_are_listed_with_their_parameters(run: Run) -> None:
    out = run("networks")[1]
    assert all(count in out for count in ("0.46 M", "7.4 M", "11.2 M", "650"))
    assert {row["name"]: row["parameters"] for row in json.loads(run("networks", "--json")[1])}["resnet32"] == 464_154


def test_registered_networks_are_listed(run: Run) -> None:
    """Those that take neither the images nor the features that others are counted for have no number."""
    with registered("mine", lambda: nn.Linear(64, 5)), registered("odd", lambda: nn.Linear(7, 5)):
        rows = {row["name"]: row["parameters"] for row in json.loads(run("networks", "--json")[1])}
        assert (rows["mine"], rows["odd"]) == (64 * 5 + 5 + 5 * 10 + 10, None)
        assert "registered here" in run("networks")[1]


def test_candidates_are_described_and_those_for_some_data_listed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {row["name"]: row for row in json.loads(run("candidates", "--json")[1])}
    about = "logits shifted by the log prior while training; "
    assert rows["balanced-softmax?rate=4"]["about"] == about + "4 times the learning rate"
    assert "a student trains as its teachers did" in " ".join(run("candidates")[1].lower().split())
    changed = (
        "with autoaugment and cutout; 2 times the learning rate; schedule cosine; weight decay 0.0005; average 0.3"
    )
    assert any(row["about"] == about + changed for row in rows.values())
    assert rows["naive?rate=4"]["rate"] == 4
    assert rows["naive"] | {"about": ""} == {
        "name": "naive",
        "about": "",
        "data": "any network",
        "method": "naive",
        "rate": 1,
        "recipe": None,
        "changes": {},
    }
    grey = {row["name"]: row["data"] for row in json.loads(run("candidates", "digits-lt:20", "--json")[1])}
    assert set(grey.values()) == {
        "any network",
        "images or features",
        "grey images or features",
    }  # the digits have no colours
    monkeypatch.setattr("class_uncertainty.reporting.terminal.PIPE_WIDTH", 80)
    narrow = run("candidates")[1]
    assert all(len(line) <= 80 for line in narrow.splitlines())
    assert "…" not in narrow
    assert max(len(line.rstrip()) for line in narrow.splitlines()) > 60  # there is room for what they do


def test_scores_are_listed_with_the_estimators(run: Run) -> None:
    out = run("estimators")[1]
    assert all(score in out for score in (*SCORES, "kernel"))


def test_a_source_is_explained(run: Run) -> None:
    out = run("datasets", "csv")[1]
    assert all(text in out for text in ("csv:PATH?label=COLUMN", "categorical", "missing", "test"))
