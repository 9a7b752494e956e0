"""What is wrong with data: each kind of finding, what counts once, and which findings other commands tell of."""

import numpy as np
import pandas
import pytest
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.data.data_check import Check, check_dataset, notes
from class_uncertainty.data.dataset import LeftOut
from class_uncertainty.data.examples import Embedding
from class_uncertainty.data.finding import KINDS, Finding

# every content but 0 to 9 occurs once in any split: enough examples of both classes for nothing else to be found
FILLER = [float(i) for i in range(100, 112)]
FILLER_LABELS = [0, 1] * 6


def split(values, labels, offset=0.0, **fields):
    """Features of two classes, the filler behind them."""
    inputs = np.array([*values, *(value + offset for value in FILLER)])
    return cu.Data(np.stack([inputs, inputs**2], axis=1), [*labels, *FILLER_LABELS], ["cat", "dog"], **fields)


def found(dataset, **more):
    return {finding.kind: finding for finding in check_dataset(dataset, **more).findings}


def counts(dataset):
    return {kind: finding.number for kind, finding in found(dataset).items()}


def images(values, labels):
    pixels = np.array([*values, *(value / 2 for value in FILLER)], dtype=np.uint8)
    return cu.Data(pixels[:, None, None, None].repeat(3, axis=1), [*labels, *FILLER_LABELS], ["cat", "dog"])


# Copies.


@pytest.mark.parametrize(
    ("train", "test", "expected"),
    [
        ([(1, 0), (2, 1)], [(3, 0), (4, 1)], {}),
        ([(1, 0), (2, 1)], [(1, 0), (4, 1)], {"test-copies": 1}),
        ([(1, 0), (2, 1)], [(1, 1), (4, 1)], {"two-labels": 1}),
        ([(1, 0), (1, 1)], [(1, 0), (1, 1)], {"two-labels": 1}),
        ([(1, 0), (1, 0), (2, 1)], [(1, 0), (1, 0), (4, 1)], {"test-copies": 2, "copies": 1}),
        ([(1, 0), (2, 1)], [(3, 0), (3, 0)], {}),  # within the test split
        ([(1, 0), (2, 1)], [(3, 0), (3, 1)], {"two-labels": 1}),
        ([(1, 0), (1, 1), (2, 1), (2, 1)], [(2, 1), (3, 0)], {"two-labels": 1, "test-copies": 1, "copies": 1}),
    ],
)
def test_each_copy_counts_once(train, test, expected):
    parts = [split(*zip(*examples, strict=True), offset) for examples, offset in ((train, 0), (test, 50))]
    assert counts(cu.Dataset("x", *parts)) == expected


def test_both_labels_and_both_places_are_shown():
    train = split([1, 2, 2], [0, 0, 1], names=[f"train/{i}" for i in range(15)])
    test = split([1, 3], [1, 0], offset=50, names=[f"test/{i}" for i in range(14)])
    finding = found(cu.Dataset("x", train, test))["two-labels"]
    assert set(finding.examples) == {"train/0 (cat) = test test/0 (dog)", "train/1 (cat) = train/2 (dog)"}


def test_copies_without_a_test_split_may_part_unless_groups_keep_them():
    names, values, labels = list(map(str, range(15))), [1, 1, 2], [0, 0, 1]
    alone = found(cu.Dataset("x", split(values, labels)))["copies"]
    assert (alone.number, alone.is_minor, "folds" in alone.sentence) == (1, False, True)
    apart = found(cu.Dataset("x", split(values, labels, groups=names)))["copies"]
    assert (apart.number, apart.is_minor) == (1, False)
    together = found(cu.Dataset("x", split(values, labels, groups=["0", *names[:14]])))["copies"]
    assert (together.number, together.is_minor) == (1, True)


def test_few_copies_among_images_and_rows_that_are_alike_are_minor():
    test = images([3, 4], [0, 1])
    test = cu.Data(test.inputs + 80, test.labels, test.classes)
    assert not found(cu.Dataset("x", images([1, 1], [0, 0]), test))["copies"].is_minor
    many = np.arange(300 * 4, dtype=np.uint32).view(np.uint8).reshape(300, 1, 4, 4)
    few = many.copy()
    few[0] = few[2]
    labels = np.arange(300) % 2
    of_images = cu.Dataset("x", cu.Data(few, labels), cu.Data(many + 7, labels))
    assert found(of_images)["copies"].is_minor
    assert found(cu.Dataset("x", split([1, 1], [0, 0]), split([3, 4], [0, 1], 50)))["copies"].is_minor


@pytest.mark.parametrize(("name", "helps"), [("folder:x", True), ("csv:x.csv", True), ("digits", False), ("x", False)])
def test_the_option_against_copies_is_named_where_there_is_one(name, helps):
    advice = found(cu.Dataset(name, split([1, 1], [0, 0])))["copies"].advice
    assert ("?repeats=drop" in advice) == helps


# Classes.


def test_classes_with_few_or_no_test_examples():
    train = cu.Data(np.arange(60.0)[:, None], np.arange(60) % 4, ["ant", "bee", "cow", "dog"])
    test = cu.Data(np.arange(100.0, 117)[:, None], [0] * 6 + [1] * 4 + [2] * 7, train.classes)
    findings = found(cu.Dataset("x", train, test))
    assert {kind: finding.number for kind, finding in findings.items()} == {"no-test": 1, "few-test": 1}
    assert findings["no-test"].examples == ("dog",)
    assert findings["few-test"].examples == ("bee (4)",)
    assert found(cu.Dataset("x", train)) == {}


def test_twin_names():
    data = split([], [])
    twins = cu.Data(data.inputs, data.labels, ["Yes", "yes "])
    assert found(cu.Dataset("x", twins))["twin-names"].number == 1


# Columns.


FRAME = pandas.DataFrame(
    {
        "number": range(40),
        "age": [None, *range(20, 59)],
        "unit": ["cm"] * 40,
        "two": [2.0] * 40,
        "city": ["Oslo", "Rome"] * 20,
        "churned": ["no", "no", "yes"] * 13 + ["no"],
    }
)


def test_columns_of_a_frame():
    findings = {finding.kind: finding for finding in cu.check(FRAME, label="churned").findings}
    assert findings["missing-values"].examples == ("age",)
    assert findings["id-columns"].examples == ("number",)
    assert findings["constant-columns"].examples == ("unit", "two")
    assert "drop='number'" in findings["id-columns"].advice
    assert set(findings) == {"missing-values", "id-columns", "constant-columns"}


def test_features_without_names():
    findings = found(cu.Dataset("x", cu.Data([[1.0, i] for i in range(10)], [0, 1] * 5)))
    assert findings["constant-columns"].examples == ("feature 0",)


# Files.


def test_what_was_left_out():
    parts = (LeftOut("?skip=unreadable", "images", 2, 30, ("a.png", "b.png")), LeftOut("?min=3", "classes", 1, 4))
    findings = found(cu.Dataset("x", split([], []), left_out=parts))
    assert (findings["unreadable"].number, findings["unreadable"].examples) == (2, ("a.png", "b.png"))
    assert findings["rare-classes"].number == 1
    assert all("?" in finding.advice for finding in findings.values())


@pytest.mark.parametrize(("side", "is_small"), [(None, False), (8, False), (9, True)])
def test_images_smaller_than_a_backbone_takes(side, is_small):
    pixels = np.random.default_rng(0).integers(0, 256, (20, 3, 8, 12), dtype=np.uint8)
    assert ("small-images" in found(cu.Dataset("x", cu.Data(pixels, [0, 1] * 10)), side=side)) == is_small


@pytest.mark.parametrize(("size", "is_small"), [(64, False), (224, True)])
def test_images_that_were_embedded(size, is_small):
    embedding = Embedding("b", "w", size, (64, 80))
    data = split([], [], embedding=embedding)
    assert ("small-images" in found(cu.Dataset("x", data))) == is_small


# The value, and what other commands tell of.


def test_the_worst_comes_first():
    findings = check_dataset(cu.Dataset("x", split([1, 1, 2, 2], [0, 1, 0, 0])), [Finding("copies", "a", "b", 1)])
    places = [list(KINDS).index(finding.kind) for finding in findings.findings]
    assert places == sorted(places)
    assert findings.findings[0].kind == "two-labels"


def test_the_document_and_the_frame_hold_all():
    checked = cu.check(FRAME, label="churned")
    assert [finding["kind"] for finding in checked.document()["findings"]] == list(checked.to_frame()["kind"])
    assert len(checked.to_frame()) == len(checked.findings)


def some(number, minor=0):
    findings = [Finding("twin-names", f"problem {i}", f"advice {i}", 1) for i in range(number)]
    findings += [Finding("constant-columns", "small", "advice", 1, is_minor=True)] * minor
    return Check(cu.Dataset("x", split([], [])), tuple(findings))


def test_notes_are_the_first_findings_and_a_command():
    assert notes(some(0, minor=2), "photos") == []
    *lines, pointer = notes(some(2, minor=1), "photos")
    assert [line.startswith("! ") for line in lines] == [True, True]
    assert pointer.strip() == "for details: cu check photos"
    *lines, pointer = notes(some(5), "my photos", most=3)
    assert len(lines) == 3
    assert "2 more" in pointer
    assert "cu check 'my photos'" in pointer


# What `check` takes.


def test_a_frame_with_labels_beside_it_is_as_one_with_a_column():
    column, beside = cu.check(FRAME, label="churned"), cu.check(FRAME.drop(columns="churned"), FRAME["churned"])
    assert column.findings == beside.findings
    assert column.dataset.fingerprint == beside.dataset.fingerprint


@pytest.mark.parametrize("labels", [["a", "b"] * 10, [3, 7] * 10, np.array([0.0, 1.0] * 10), [True, False] * 10])
def test_arrays_with_labels_of_any_kind(labels):
    X = np.arange(40.0).reshape(20, 2)
    dataset = cu.check(X, labels).dataset
    assert dataset.classes == tuple(sorted(str(label).removesuffix(".0") for label in set(labels)))
    assert dataset.train.counts.tolist() == [10, 10]
    assert cu.check(X, pandas.Series(labels)).dataset.fingerprint == dataset.fingerprint


def test_images_with_labels():
    pixels = np.random.default_rng(0).integers(0, 256, (20, 3, 8, 8), dtype=np.uint8)
    assert cu.check(pixels, ["cat", "dog"] * 10).dataset.train.is_images


X = np.arange(60.0).reshape(30, 2)
REFUSED = {
    "no labels": ((X,), ["no labels", "y"]),
    "fewer labels": ((X, [0, 1]), ["30", "2"]),
    "fewer labels than rows": ((FRAME.drop(columns="churned"), [0, 1]), ["40 rows", "2 labels"]),
    "labels in a matrix": ((X, [[0]] * 30), ["(30, 1)"]),
    "no label of an example": ((X, [0.0] * 29 + [np.nan]), ["nan for example 29"]),
    "what is measured": ((X, np.arange(30) / 7), ["example 1", "names or whole numbers"]),
    "numbers that all differ": ((X, range(30)), ["30 different values"]),
    "labels of labels": ((cu.Data(X, [0, 1] * 15), [0, 1] * 15), ["y is given", "Data"]),
    "a column of labels too": ((FRAME, FRAME["churned"]), ["'churned'", "leave it out"]),
    "a name": (("photos",), ["load('photos')"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    given, facts = REFUSED[case]
    with refused(*facts):
        cu.check(*given)


def test_a_label_that_is_no_column_or_no_label_is_refused_with_those_that_could_be():
    with refused("label=", "city (2 values)", "churned (2 values)"):
        cu.check(FRAME)
    with refused("'number'", "40 different values", "churned (2 values)"):
        cu.check(FRAME, label="number")
    with refused("label", "y", "one of them"):
        cu.check(FRAME, [0] * 40, label="churned")
    with refused("label is given", "Dataset"):
        cu.check(cu.Dataset("x", split([], [])), label="churned")
