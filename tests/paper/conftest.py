"""What tests of the reproduction share: an empty store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from class_uncertainty.runs import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "runs.sqlite") as store:
        yield store
