"""Rows of a store as values."""

import dataclasses
import io
import json

import numpy as np
import pytest

import class_uncertainty as cu
from class_uncertainty.data.readers.npz import arrays_in
from class_uncertainty.metrics import Scores
from class_uncertainty.posthoc.error_changes import price
from class_uncertainty.posthoc.evaluation import evaluate_seeds
from class_uncertainty.posthoc.fix_report import FixReport, Rung, RungRow, Step
from class_uncertainty.posthoc.label_issues import LabelIssue
from class_uncertainty.runs.store import (
    StoredDataset,
    npy,
    parse_dataset,
    parse_fix_report,
    parse_network,
    parse_result,
)

GROUPS = {"many": 10.0, "medium": None, "few": 40.0}
OTHERS = {"worst": 40.0, "spread": 15.0, "nll": 0.5, "ece": 3.0}
SCORES = Scores(error=25.0, top1_error=12.5, class_errors=(10.0, 40.0), **GROUPS, **OTHERS)


@pytest.fixture
def result():
    place = {"fold": (1, 5), "data": "fingerprint", "uncertainty": "", "device": "cpu"}
    course = {"diverged": None, "loss": 0.3, "seconds": 1.5, "plan": {"beta": 0.0}}
    recipe = cu.Recipe("mlp", epochs=2, batch=32)
    return cu.Result(method="naive", seed=3, lr=0.1, scores=SCORES, recipe=recipe, **place, **course)


@pytest.fixture
def report(rng):
    evaluation = evaluate_seeds(rng.dirichlet(np.ones(2), (1, 8)), np.arange(8) % 2, [6, 2])
    issues = (LabelIssue(3, "a", "b", 0.1, 0.9, "", "3.png"), LabelIssue(5, "b", "a", 0.2, 0.8, ""))
    gain = {"gain": 1.0, "gain_error": 0.5}
    steps = (
        Step("naive", "naive", 1, 70, 1.0, 2.5, judged=evaluation, values=(50.0,), kept=True),
        Step("student", "naive", 1, 70, 6.5, 16.0, **gain),
    )
    rungs = (Rung(2, 8, (RungRow("naive", 0.5, 1.0, 50.0, 2.0, 0.0, 0.0, kept=True), RungRow("cb", reason="no"))),)
    about = {
        "goal": "mean",
        "aim": "class-mean error",
        "unit": "%",
        "method": "naive",
        "step": "adjusted",
        "why": "So.",
    }
    sizes = {"seeds": 1, "classes": ("a", "b"), "counts": (6, 2), "tau": 1.0, "temperature": 2.0}
    spent = {"cost": 6.0, "allowed": 20.0, "before": evaluation, "after": evaluation}
    spent |= {"price": price(np.zeros(8), np.zeros(8), np.arange(8) % 2, 2)}
    return FixReport("x", **about, **sizes, **spent, ladder=steps, rungs=rungs, label_issues=issues)


def row(**columns: object) -> dict[str, object]:
    return {name: value if isinstance(value, str | bytes) else json.dumps(value) for name, value in columns.items()}


def test_a_result_is_read_back_from_its_document(result):
    document = dataclasses.asdict(result)
    assert parse_result(json.loads(json.dumps(document))) == result
    assert parse_result(json.loads(json.dumps(document | {"scores": None}))) == dataclasses.replace(result, scores=None)


def test_a_fix_report_is_read_back(report):
    assert parse_fix_report(json.loads(json.dumps(dataclasses.asdict(report)))) == report


def test_a_data_set_is_read_back():
    columns = {"fingerprint": "f", "name": "n", "classes": ["a", "b"], "counts": [3, 1]}
    assert parse_dataset(row(**columns)) == StoredDataset("f", "n", ("a", "b"), (3, 1))


def test_a_network_is_read_back_and_damaged_weights_are_an_error_of_value(result):
    import torch
    from safetensors.torch import save

    state = {"w": torch.arange(6.0).reshape(2, 3)}
    document = dataclasses.asdict(result)
    back, weights = parse_network(row(result=document, state=save(state)))
    assert back == result
    assert torch.equal(weights["w"], state["w"])
    with pytest.raises(ValueError):  # noqa: PT011  # of any wording
        parse_network(row(result=document, state=save(state)[:-1]))


@pytest.mark.parametrize("shape", [(1, 1, 2), (2, 5, 3), (3, 0, 4)])
def test_probabilities_are_written_as_numpy_would(shape, rng, monkeypatch):
    """In pieces of any size, of any layout in memory."""
    p = rng.random(shape[::-1], dtype=np.float32).T
    np.save(buffer := io.BytesIO(), np.ascontiguousarray(p))
    for size in (1, 24, 2**22):
        monkeypatch.setattr("class_uncertainty.runs.store.WRITTEN", size)
        content = b"".join(map(bytes, npy(p)))
        assert np.array_equal(np.load(io.BytesIO(content)), p)
        assert content[-p.nbytes :] == buffer.getvalue()[-p.nbytes :]


def test_arrays_of_a_blob_and_of_a_damaged_one():
    np.savez_compressed(buffer := io.BytesIO(), labels=np.arange(3), **{"own.kernel": np.ones(2)})
    loaded = arrays_in(buffer.getvalue())
    assert {name: values.tolist() for name, values in loaded.items()} == {"labels": [0, 1, 2], "own.kernel": [1, 1]}
    for blob in (b"", b"PK\x03\x04", buffer.getvalue()[:-30]):
        with pytest.raises(ValueError):  # noqa: PT011  # of any wording
            arrays_in(blob)
