"""A working folder, a cache and Parquet files for tests of data."""

import json

import pytest


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
