"""A working folder, a cache, images of CIFAR, tables and Parquet files for tests of data."""

import json

import numpy as np
import pytest
from data.cifar_files import N

from class_uncertainty.data.readers.csv_file import read_csv


@pytest.fixture
def own_cache(tmp_path_factory, monkeypatch):
    """A cache and a data folder that no other test uses."""
    folder = tmp_path_factory.mktemp("decoded")
    monkeypatch.setenv("CLASS_UNCERTAINTY_CACHE", str(folder))
    monkeypatch.setenv("CLASS_UNCERTAINTY_DATA", str(tmp_path_factory.mktemp("data")))
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch, own_cache):
    """An empty working folder, so that messages name files without a folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def write(here):
    """A function that writes columns as a Parquet file."""
    import pyarrow as arrow
    from pyarrow import parquet

    def make(name="pets.parquet", names=None, row_group_size=None, **columns):
        table = arrow.table(columns)
        if names is not None:
            features = {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
            table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table, here / name, row_group_size=row_group_size)

    make.arrow = arrow
    return make


@pytest.fixture
def batches(rng):
    """Five training batches and a test batch of CIFAR-10: (N, 3072) pixels and labels."""
    labels = np.arange(N) % 10
    return {
        f"data_batch_{i}": (rng.integers(0, 256, (N, 3072), dtype=np.uint8), rng.permutation(labels))
        for i in range(1, 6)
    } | {"test_batch": (rng.integers(0, 256, (N, 3072), dtype=np.uint8), labels)}


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A function that writes a CSV file and reads it; messages then name it without a folder."""
    monkeypatch.chdir(tmp_path)

    def write(text, name="train.csv"):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_csv((tmp_path / name).relative_to(tmp_path))

    return write
