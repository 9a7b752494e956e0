"""`cu list`: what can be named, by kind."""

import json
import re
from typing import get_args, get_type_hints

import pytest
from commands import Run
from own_networks import registered
from torch import nn

import class_uncertainty as cu
from class_uncertainty.cli.list_commands import KINDS
from class_uncertainty.cli.options import Command
from class_uncertainty.data import SOURCES
from class_uncertainty.measures import SCORES
from class_uncertainty.training import RECIPES
from class_uncertainty.training.candidate import CANDIDATES
from class_uncertainty.training.networks.network_table import NETWORKS

TABLES = {
    "data": SOURCES,
    "methods": cu.METHODS,
    "candidates": CANDIDATES,
    "remedies": cu.REMEDIES,
    "measures": cu.MEASURES,
    "estimators": cu.ESTIMATORS,
    "networks": NETWORKS,
}


def rows(run: Run, kind: str) -> dict[str, dict]:
    return {row["name"]: row for row in json.loads(run("list", kind, "--json")[1])}


def test_the_help_names_every_recipe():
    about = get_args(get_type_hints(Command, include_extras=True)["recipe"])[1].help
    assert [name for name in RECIPES if not re.search(rf"(?<![\w-]){name}(?![\w-])", about)] == []


def test_without_a_kind_the_kinds_are_listed(run):
    assert set(KINDS) == set(TABLES)
    code, out, _ = run("list")
    assert code == 0
    assert all(kind in out for kind in KINDS)
    assert [row["kind"] for row in json.loads(run("list --json")[1])] == list(KINDS)


@pytest.mark.parametrize("kind", TABLES)
def test_a_kind_is_listed_whole(kind, run):
    code, out, _ = run("list", kind)
    assert code == 0
    assert all(name in out for name in TABLES[kind])
    assert list(rows(run, kind)) == list(TABLES[kind])


def test_constants_are_listed_with_their_defaults(run):
    methods = {name: row["constants"] for name, row in rows(run, "methods").items()}
    assert methods["cb-focal"] == {"beta": 0.9999, "gamma": 2}
    assert methods["vs"] == {"gamma": 0.3, "kappa": 1}
    assert methods["naive"] == {}
    measures = {name: row["constants"] for name, row in rows(run, "measures").items()}
    assert measures["mix"] == {"gamma": 0.5, "beta": 0.9999}
    assert measures["uncertainty"] == {}
    assert "power=1" in run("list measures")[1]
    assert all(text in run("list methods")[1] for text in ("beta=0.9999", "kappa=1", "rate=0.5"))


def test_networks_are_listed_with_their_parameters(run):
    assert "464,154" in run("list networks")[1]
    assert {name: rows(run, "networks")[name]["parameters"] for name in ("resnet32", "linear")} == {
        "resnet32": 464_154,
        "linear": 650,
    }


def test_registered_networks_are_listed(run):
    """Those that take neither the images nor the features that others are counted for have no number."""
    with registered("mine", lambda: nn.Linear(64, 5)), registered("odd", lambda: nn.Linear(7, 5)):
        listed = rows(run, "networks")
        assert (listed["mine"]["parameters"], listed["odd"]["parameters"]) == (64 * 5 + 5 + 5 * 10 + 10, None)
        assert "registered here" in run("list networks")[1]


def test_candidates_are_described(run):
    listed = rows(run, "candidates")
    about = "logits shifted by the log prior while training; "
    assert listed["balanced-softmax?rate=4"]["about"] == about + "4 times the learning rate"
    changed = (
        "with autoaugment and cutout; 2 times the learning rate; schedule cosine; weight decay 0.0005; average 0.3"
    )
    assert any(row["about"] == about + changed for row in listed.values())
    assert listed["naive?rate=4"]["rate"] == 4
    assert listed["naive"] | {"about": ""} == {
        "name": "naive",
        "about": "",
        "data": "any network",
        "method": "naive",
        "rate": 1,
        "recipe": None,
        "changes": {},
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_fits_a_narrow_terminal(kind, run, monkeypatch):
    monkeypatch.setattr("class_uncertainty.reporting.terminal.PIPE_WIDTH", 80)
    narrow = run("list", kind)[1]
    assert 60 < max(len(line.rstrip()) for line in narrow.splitlines()) <= 80  # there is room for what they do
    assert "…" not in narrow
    assert "about" in narrow


def test_estimators_have_the_scores_that_they_take(run):
    scores = {name: row["scores"] for name, row in rows(run, "estimators").items()}
    assert scores["ensemble"] == list(SCORES)
    assert scores["duq"] == [*SCORES, "kernel"]


def test_a_name_is_shown_with_all_its_fields(run):
    code, out, _ = run("list data csv")
    assert code == 0
    shown = " ".join(out.split())
    assert "csv:PATH?label=COLUMN" in shown
    assert all(f"options: {option} " in shown for option in SOURCES["csv"].options)
    assert json.loads(run("list data csv --json")[1]) == [rows(run, "data")["csv"]]
    assert "constants: gamma 2" in " ".join(run("list methods cb-focal")[1].split())
