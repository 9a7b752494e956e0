"""Dataclasses go through JSON and come back as they were."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import class_uncertainty as cu
from class_uncertainty.io import from_document
from class_uncertainty.metrics import Scores
from class_uncertainty.posthoc.diagnosis import ClassEvidence, Verdict
from class_uncertainty.posthoc.error_changes import ErrorChange, Price
from class_uncertainty.posthoc.evaluation import Bin, Evaluation, Threshold, TwoClasses
from class_uncertainty.posthoc.fix_report import FixReport, JudgedPredictions, Rung, RungRow, Step
from class_uncertainty.posthoc.label_issues import LabelIssue
from class_uncertainty.runs import StoredDataset

FINITE = st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.integers(-(2**63), 2**63 - 1)
ERRORS = st.lists(FINITE, max_size=4).map(tuple)
PLANS = st.dictionaries(st.text(max_size=5), FINITE | st.text(max_size=5) | st.integers(), max_size=3)


def values_of(kind: type, **given: st.SearchStrategy) -> st.SearchStrategy:
    """Values of a dataclass, whose other fields are strategies by their annotations."""
    plain = {
        "float": FINITE,
        "float | None": st.none() | FINITE,
        "int": WHOLE,
        "bool": st.booleans(),
        "str": st.text(max_size=8),
    }
    plain |= {"int | None": st.none() | WHOLE, "tuple[float, ...]": ERRORS}
    plain |= {"tuple[tuple[float, float], ...]": st.lists(st.tuples(FINITE, FINITE), max_size=4).map(tuple)}
    names = {field.name: getattr(field.type, "__name__", str(field.type)) for field in fields(kind)}
    names |= {field.name: str(field.type) for field in fields(kind) if field.type not in (int, float, str, bool)}
    return st.builds(kind, **{name: given[name] if name in given else plain[names[name]] for name in names})


RECIPES = st.builds(
    cu.Recipe,
    network=st.sampled_from(["small-conv", "mlp", "resnet32"]),
    epochs=st.integers(1, 300),
    batch=st.integers(2, 512),
    drops=st.sampled_from([(), (0.5,), (0.8, 0.9)]),
)
RESULTS = values_of(
    cu.Result,
    fold=st.none() | st.tuples(st.integers(0, 4), st.just(5)),
    scores=st.none() | values_of(Scores, error=st.floats(0, 100)),
    recipe=RECIPES,
    plan=PLANS,
)
EVALUATIONS = values_of(
    Evaluation,
    class_errors=st.lists(ERRORS, max_size=2).map(tuple),
    confusion=st.lists(ERRORS, max_size=2).map(tuple),
    bins=st.lists(values_of(Bin), max_size=2).map(tuple),
    two=st.none() | values_of(TwoClasses, curve=st.lists(values_of(Threshold), max_size=2).map(tuple)),
)
CHANGES = values_of(ErrorChange)
PRICES = values_of(
    Price,
    examples=st.lists(st.integers(0, 9), max_size=2).map(tuple),
    overall=CHANGES,
    mean=CHANGES,
    classes=st.lists(CHANGES, max_size=2).map(tuple),
    goal=st.none() | CHANGES,
    together=st.lists(CHANGES, max_size=2).map(tuple),
)
VERDICTS = values_of(Verdict, evidence=st.none() | values_of(ClassEvidence))
STEPS = values_of(Step, judged=st.none() | EVALUATIONS)
REPORTS = values_of(
    FixReport,
    classes=st.lists(st.text(max_size=3), max_size=3).map(tuple),
    counts=st.lists(st.integers(1, 2**63 - 1), max_size=3).map(tuple),
    before=EVALUATIONS,
    after=EVALUATIONS,
    ladder=st.lists(STEPS, max_size=2).map(tuple),
    rungs=st.lists(values_of(Rung, rows=st.lists(values_of(RungRow), max_size=2).map(tuple)), max_size=2).map(tuple),
    findings=st.lists(VERDICTS, max_size=2).map(tuple),
    label_issues=st.lists(values_of(LabelIssue), max_size=2).map(tuple),
    price=st.none() | PRICES,
    predictions=st.none() | st.sampled_from(["", "AAAAAA=="]).map(lambda text: JudgedPredictions(*[text] * 3)),
)
DATASETS = values_of(
    StoredDataset,
    classes=st.lists(st.text(max_size=3), max_size=3).map(tuple),
    counts=st.lists(st.integers(1, 2**63 - 1), max_size=3).map(tuple),
)


@given(st.one_of(RECIPES, RESULTS, REPORTS, DATASETS))
def test_a_value_goes_through_json(value):
    back = from_document(type(value), json.loads(json.dumps(asdict(value))))
    assert back == value
    assert repr(asdict(back)) == repr(asdict(value))  # a tuple is not a list, nor 1 a float


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.5


@dataclass(frozen=True)
class Shape:
    points: tuple[Point, ...]
    ends: tuple[int, str]
    centre: Point | None = None
    notes: dict[str, Any] | None = None


def test_fields_that_a_document_lacks_have_their_defaults():
    document = {"points": [{"x": 1}, {"x": 2, "y": 3.0}], "ends": [7, "a"]}
    assert from_document(Shape, document) == Shape((Point(1), Point(2, 3.0)), (7, "a"))
    assert from_document(Shape, document | {"centre": {"x": 4}}).centre == Point(4)
    assert from_document(Shape, document | {"notes": {"a": [1]}}).notes == {"a": [1]}


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"ends": [7, "a"]}, TypeError),
        ({"points": [], "ends": [], "colour": "red"}, TypeError),
        ({"points": 7, "ends": []}, TypeError),
        ({"points": [3], "ends": []}, AttributeError),
        ([], AttributeError),
    ],
    ids=["a field is missing", "an unknown field", "no list", "no object", "a list"],
)
def test_another_document_is_an_error_that_the_store_knows(document, error):
    from class_uncertainty.runs.store import UNREADABLE

    with pytest.raises(error):
        from_document(Shape, document)
    assert issubclass(error, UNREADABLE)
