"""A cache of its own for each test, and a source file."""

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CLASS_UNCERTAINTY_CACHE", str(tmp_path / "decoded"))
    return tmp_path / "decoded"


@pytest.fixture
def file(tmp_path):
    (tmp_path / "source.bin").write_bytes(b"some content")
    return tmp_path / "source.bin"
