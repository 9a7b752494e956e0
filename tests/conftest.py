"""Strict for all tests: a warning is an error, and random numbers come from a fixture with a fixed seed."""

import tempfile
from collections.abc import Iterator

import numpy as np
import pytest

pytest.register_assert_rewrite("contracts")

from contracts import global_random_untouched  # noqa: E402
from hypothesis import configuration, settings  # noqa: E402

configuration.set_hypothesis_home_dir(f"{tempfile.gettempdir()}/class-uncertainty-hypothesis")  # nothing is left in the tree
settings.register_profile("suite", deadline=None, derandomize=True, database=None, max_examples=50)
settings.load_profile("suite")


def pytest_configure(config: pytest.Config) -> None:
    """At the front, so that what pyproject allows after it stays allowed."""
    config.getini("filterwarnings").insert(0, "error")


@pytest.fixture
def rng() -> np.random.Generator:
    """The same numbers in every run."""
    return np.random.default_rng(20231114)


@pytest.fixture
def no_global_random() -> Iterator[None]:
    """The test leaves the random states of NumPy, torch and Python as they were."""
    with global_random_untouched():
        yield
