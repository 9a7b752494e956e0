"""What tests of the store share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import class_uncertainty as cu
from class_uncertainty.results import Store


@pytest.fixture(scope="module")
def digits() -> cu.Dataset:
    return cu.load("digits-lt:20")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "runs.sqlite") as store:
        yield store
