"""What tests of the store share."""

import json
from pathlib import Path

import pytest
from example_results import DATA, add_data, fill, make_measurement, make_result
from runs.exchanged import OTHER, VALIDATION

import class_uncertainty as cu
from class_uncertainty.runs import Store
from class_uncertainty.runs.result_lines import export_lines


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "runs.sqlite") as store:
        yield store


@pytest.fixture
def full(store):
    for data in (DATA, OTHER, VALIDATION):
        fill(store, data)
    return store


@pytest.fixture
def empty(tmp_path):
    empty = Store(tmp_path / "empty.sqlite")
    empty.create_file()
    return empty


@pytest.fixture
def lines():
    """One line of each kind."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "runs.sqlite") as store:
        add_data(store)
        store.add("r", DATA.fingerprint, make_result(cu.Lane()))
        store.add_measurement("m", DATA.fingerprint, make_measurement())
        return {line["kind"]: line for line in map(json.loads, export_lines(store))}
