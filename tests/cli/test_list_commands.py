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


def test_scores_are_listed_with_the_estimators(run: Run) -> None:
    out = run("estimators")[1]
    assert all(score in out for score in (*SCORES, "kernel"))


def test_a_source_is_explained(run: Run) -> None:
    out = run("datasets", "csv")[1]
    assert all(text in out for text in ("csv:PATH?label=COLUMN", "categorical", "missing", "test"))
