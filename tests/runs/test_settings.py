"""Settings: what every workflow takes beside its own arguments, refused before torch is imported."""

import inspect
import subprocess
import sys

import pytest
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.runs.settings import Settings, Shared

WORKFLOWS = (cu.measure, cu.compare_estimators, cu.compare, cu.train, cu.fix)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"store": 3}, ["store is 3", "a path"]),
        ({"store": "a\0b"}, [r"store is 'a\x00b'", "a path"]),
        ({"device": 0}, ["device is 0", "text"]),
        ({"store": "s", "budget": "1h"}, ["budget is '1h'", "a number"]),
        ({"store": "s", "budget": 10**400}, ["budget is 1000", "a number"]),
        ({"budget": 5.0}, ["budget", "no store"]),
        ({"progress": "yes"}, ["progress is 'yes'", "a function", "True or False"]),
        ({"profile": True}, ["profile is True", "a path"]),
        ({"on": 3}, ["on is 3", "text"]),
        ({"on": "rays"}, ["'rays'", "did you mean 'ray'?"]),
        ({"on": "ray://here"}, ["'ray://here'", "ray://HOST:PORT"]),
        ({"on": "ray", "profile": "trace.json"}, ["trace", "one process"]),
        ({"on": "auto", "device": "mps"}, ["device is 'mps'", "'cpu' or 'cuda'"]),
    ],
)
def test_what_is_wrong_for_any_data_is_refused(given, parts):
    with refused(*parts):
        Settings(**given)


def test_settings_are_checked_without_torch():
    settings = "from class_uncertainty.runs.settings import Settings; Settings(device='cpu')"
    code = f"import sys; {settings}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "class_uncertainty.runs.settings" in done.stdout.split()
    assert "torch" not in done.stdout.split()


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_every_workflow_lists_what_it_shares_with_the_others(workflow):
    """`help()` and notebooks read the signature; by position it takes what it took."""
    rows = inspect.signature(workflow).parameters
    assert [rows[name].kind for name in Shared.__annotations__] == [inspect.Parameter.KEYWORD_ONLY] * len(
        Shared.__annotations__
    )
    assert all(row.kind is not row.VAR_KEYWORD for row in rows.values())


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_an_unknown_keyword_is_refused_with_the_nearest(workflow):
    with refused("'devise'", "did you mean 'device'?", f"{workflow.__name__}()"):
        Settings.of(workflow, {"devise": "cpu"}, None)
    assert Settings.of(workflow, {"device": "cpu"}, None) == Settings(device="cpu")


def test_a_field_of_a_recipe_is_refused_with_the_recipe():
    with refused("measure()", "'epochs'", "part of recipe"):
        Settings.of(cu.measure, {"epochs": 3}, None)


def test_a_store_that_is_open_is_taken(store):
    assert Settings(store=store, budget=5).store is store
