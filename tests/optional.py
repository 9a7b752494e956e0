"""Packages that the package does not need: tests of them are skipped without, but not in `make test-integrations`."""

import os
from importlib import import_module
from types import ModuleType

import pytest

REQUIRED = os.environ.get("CU_REQUIRE_INTEGRATIONS") == "1"

slow = pytest.mark.skipif(not REQUIRED, reason="make test-integrations runs it")


def optional(name: str) -> ModuleType:
    """The module; where it is missing, the tests of this file are skipped, or fail where it is required."""
    return import_module(name) if REQUIRED else pytest.importorskip(name)
