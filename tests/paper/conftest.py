"""What tests of the reproduction share: an empty store."""

import pytest

from class_uncertainty.runs import Store


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "runs.sqlite") as store:
        yield store
