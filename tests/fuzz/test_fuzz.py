"""A little of `python -m fuzz`, the same in every run, and files that Hypothesis makes up."""

import json
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from class_uncertainty import InputError
from fuzz.harness import Late, files_of, held, try_one, write
from fuzz.mutations import VALUES
from fuzz.targets import TARGETS, zipped

CASES = 12  # of each target
FEW = settings(max_examples=40)
FIELDS = ("format", "network", "shape", "classes", "head", "scale", "preprocessing", "encoding", "about")
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(VALUES)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
)
CELLS = (
    st.text(max_size=8)
    | st.integers().map(str)
    | st.floats().map(str)
    | st.sampled_from(("", "NA", "1e400", "1_0", str(10**18), "-0"))
)
DTYPES = st.sampled_from(
    ("<f4", "<f8", ">f2", "<i8", "<u8", "|b1", "|S3", "<U2", "<U0", "|V0", "|V8", "<M8[s]", "|O", "<c8", "f4,f4", "x")
)
SIDES = st.integers(-2, 20) | st.sampled_from((2**31, 2**40, 2**63, 10**30))


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_valid_is_read(name, tmp_path):
    assert try_one(name, 0, tmp_path / "case")


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_changed_is_read_or_refused(name, tmp_path):
    """And some of it is refused, or nothing would have been tried."""
    assert not all([try_one(name, case, tmp_path / "case") for case in range(1, CASES + 1)])


def read(name: str, file: str, content: bytes) -> None:
    """The target's files, with this in the place of one."""
    with tempfile.TemporaryDirectory() as folder, held():
        write(name, 0, Path(folder))
        (Path(folder) / file).write_bytes(content)
        TARGETS[name].read(Path(folder))


@FEW
@given(field=st.sampled_from(FIELDS), value=JSON)
def test_any_description_of_a_network(field, value):
    document = json.loads(files_of("model")["m.json"]) | {field: value}
    read("model", "m.json", json.dumps(document).encode())


@FEW
@given(field=st.sampled_from(("name", "categories", "median", "fills")), value=JSON)
def test_any_column_of_a_network(field, value):
    document = json.loads(files_of("model")["m.json"])
    document["encoding"][1][field] = value
    read("model", "m.json", json.dumps(document).encode())


@FEW
@given(
    names=st.lists(CELLS, min_size=1, max_size=3), rows=st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=6)
)
def test_any_table(names, rows):
    text = "\n".join(",".join(line) for line in ([*names, "label"], *rows)).encode(errors="surrogatepass")
    read("csv", "t.csv", text)
    read("unlabelled csv", "t.csv", text)


@FEW
@given(shape=st.lists(SIDES, max_size=4).map(tuple), dtype=DTYPES, order=st.booleans(), content=st.binary(max_size=200))
def test_any_header_of_an_array(shape, dtype, order, content):
    """Sizes are compared with what is there before anything is allocated."""
    header = f"{{'descr': {dtype!r}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content
    read("npz", "t.npz", zipped("X", y=np.arange(12) % 2)(array))
    read("npz, labels", "t.npz", zipped("y", X=np.ones((12, 2)))(array))
    read("unlabelled npy", "x.npy", array)
    read("saved probabilities", "p.npy", array)


@FEW
@given(names=JSON)
def test_any_metadata_of_parquet(names):
    content = json.dumps({"info": {"features": {"label": {"names": names}}}}).encode()
    read("parquet, names of classes", "t.parquet", TARGETS["parquet, names of classes"].pack(content))


def test_a_reader_that_breaks_is_seen(monkeypatch):
    """The harness itself: another error, no sentence, a warning, and a file that takes too long."""
    monkeypatch.setattr("fuzz.harness.LIMIT", 0.05)
    with pytest.raises(KeyError), held():
        raise KeyError("x")
    with pytest.raises(AssertionError), held():
        raise InputError("no full stop")
    with pytest.raises(AssertionError), held():
        warnings.warn("odd", stacklevel=1)
    with pytest.raises(Late), held():
        time.sleep(5)
