"""Commands that list what can be named."""

import json

import pytest
from commands import Run

import class_uncertainty as cu
from class_uncertainty.data import SOURCES
from class_uncertainty.measures import SCORES


@pytest.mark.parametrize(
    ("command", "table"),
    [
        ("methods", cu.METHODS),
        ("measures", cu.MEASURES),
        ("estimators", cu.ESTIMATORS),
        ("datasets", SOURCES),
        ("remedies", cu.REMEDIES),
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


def test_scores_are_listed_with_the_estimators(run: Run) -> None:
    out = run("estimators")[1]
    assert all(score in out for score in (*SCORES, "kernel"))


def test_a_source_is_explained(run: Run) -> None:
    out = run("datasets", "csv")[1]
    assert all(text in out for text in ("csv:PATH?label=COLUMN", "categorical", "missing", "test"))
