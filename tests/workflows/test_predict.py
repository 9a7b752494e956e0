"""A saved network reads examples without labels as it read its training examples, whatever they come in."""

import csv
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.posthoc.adjustment import combined
from class_uncertainty.posthoc.goal import Goal
from class_uncertainty.training.model_files import save
from class_uncertainty.workflows.predict import LEAST_COST, MOST_PROBABLE, GivenLabels

ROWS = [
    ("31.5", "Oslo", "yes"),
    ("", "Rome", "no"),
    ("44", "", "no"),
    ("28", "Rome", "yes"),
    ("52", "Bern", "no"),
    ("39", "Bern", "yes"),
] * 4


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLASS_UNCERTAINTY_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def model():
    """A function that trains on the data for an epoch, saves the network as 'model' and returns it."""

    def make(data: cu.Data):
        network = cu.fit(
            data, [cu.Lane()], recipe=cu.Recipe("small-conv" if data.is_images else "mlp", epochs=1, batch=8)
        ).module(0)
        save(network, "model", {})
        return network

    return make


def said(network, inputs) -> np.ndarray:
    with torch.inference_mode():
        return network(torch.from_numpy(np.array(inputs))).softmax(1).numpy()


def write(file: str, header: list[str], rows) -> None:
    with open(file, "w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])


@pytest.fixture
def photos(here):
    """Pictures of other sizes than 12 x 12, which they are made to be."""
    rng = np.random.default_rng(0)
    for i in range(16):
        place = here / "photos" / "ab"[i % 2] / ("deep" if i % 4 == 0 else "") / f"{i}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (10 + i, 14, 3), dtype=np.uint8)).save(place)
    return cu.load("folder:photos?size=12").train


def test_a_folder_of_pictures(photos, model):
    network = model(photos)
    found = cu.predict("model", "photos")
    assert list(found.names) == list(photos.names)
    assert found.classes == photos.classes
    np.testing.assert_allclose(found.probabilities, said(network, photos.inputs), atol=1e-6)


def test_one_picture(photos, model):
    network, told = model(photos), []
    found = cu.predict("model.json", Path("photos/b/5.png"), progress=lambda *news: told.append(news))
    (place,) = np.flatnonzero(photos.names == str(Path("b/5.png")))
    assert list(found.names) == ["5.png"]
    np.testing.assert_allclose(found.probabilities, said(network, photos.inputs[[place]]), atol=1e-6)
    assert told == [("photos/b/5.png", 1, 1)]


def test_pictures_in_parquet(photos, model, here):
    import pyarrow as pa
    import pyarrow.parquet

    network = model(photos)
    files = [here / "photos" / name for name in photos.names]
    for i, some in enumerate((files[:10], files[10:])):
        pyarrow.parquet.write_table(pa.table({"image": [file.read_bytes() for file in some]}), f"part-{i}.parquet")
    found = cu.predict("model", "part-0.parquet")
    assert list(found.names) == [f"row {i}" for i in range(10)]
    np.testing.assert_allclose(found.probabilities, said(network, photos.inputs[:10]), atol=1e-6)
    (here / "parts").mkdir()
    for i in range(2):
        (here / f"part-{i}.parquet").rename(here / "parts" / f"part-{i}.parquet")
    found = cu.predict("model", "parts")
    assert list(found.names[9:11]) == ["part-0.parquet, row 9", "part-1.parquet, row 0"]
    np.testing.assert_allclose(found.probabilities, said(network, photos.inputs), atol=1e-6)


def test_arrays_of_pictures_and_of_features(photos, model):
    network = model(photos)
    np.save("x.npy", photos.inputs.transpose(0, 2, 3, 1))  # channels last are fine
    np.savez("x.npz", X=photos.inputs, other=[1])
    for file in ("x.npy", "x.npz"):
        np.testing.assert_allclose(cu.predict("model", file).probabilities, said(network, photos.inputs), atol=1e-6)
    features = np.random.default_rng(0).normal(0, 1, (3000, 5))  # more than a batch
    network = model(cu.Data(features, np.arange(3000) % 3))
    np.savez("f.npz", features)
    found = cu.predict("model", "f.npz")
    assert (found.names[0], found.names[-1]) == ("row 0", "row 2999")
    np.testing.assert_allclose(found.probabilities, said(network, features.astype(np.float32)), atol=1e-6)


def test_the_rows_of_a_table(here, model):
    """Columns may come in another order, with others between them; medians and categories are those of training."""
    write("train.csv", ["age", "city", "label"], ROWS)
    data = cu.load("csv:train.csv?missing=fill").train
    network = model(data)
    write(
        "new.csv",
        ["id", "city", "age"],
        [(i, city, age) for i, (age, city, _) in enumerate(ROWS[:4])] + [(9, "Paris", "39")],
    )
    found = cu.predict("model", "new.csv")
    assert list(found.names) == [f"line {i}" for i in range(2, 7)]
    assert data.columns == ("age", "city=Bern", "city=Oslo", "city=Rome", "city=missing")
    expected = [
        [31.5, 0, 1, 0, 0],
        [39, 0, 0, 1, 0],
        [44, 0, 0, 0, 1],
        [28, 0, 0, 1, 0],
        [39, 0, 0, 0, 0],
    ]  # 39: the training median
    np.testing.assert_allclose(found.probabilities, said(network, np.float32(expected)), atol=1e-6)
    unseen, filled = found.notes
    assert all(fact in unseen for fact in ("city", "1 of 5 rows", "'Paris'", "line 6"))
    assert "(age 1, city 1)" in filled
    assert found.labels == [data.classes[c] for c in found.probabilities.argmax(axis=1)]


def test_a_whole_table_is_read_as_in_training(here, model):
    """Numbers that are names, dropped columns and a Parquet file: every option of training is in the saved network."""
    import pyarrow as pa
    import pyarrow.parquet

    rows = [(str(1000 + i % 3), i, i / 7, "no" if i % 5 else "yes") for i in range(60)]
    random.Random(0).shuffle(rows)
    write("train.csv", ["zip", "id", "size", "label"], rows)
    data = cu.load("csv:train.csv?categorical=zip&drop=id").train
    network = model(data)
    columns = dict(zip(("zip", "id", "size"), zip(*rows, strict=True), strict=False))
    pyarrow.parquet.write_table(
        pa.table({"size": columns["size"], "zip": [float(z) for z in columns["zip"]]}), "new.parquet"
    )
    for file in ("train.csv", "new.parquet"):
        np.testing.assert_allclose(cu.predict("model", file).probabilities, said(network, data.inputs), atol=1e-6)


@pytest.mark.parametrize(
    ("place", "facts"),
    [
        ("gone", ("gone", ".csv", ".npy")),
        ("folder:photos", ("folder:photos", "'photos'")),
        ("empty", ("empty", "no images")),
        ("text.png", ("text.png", "PNG")),
        ("wide.npy", ("wide.npy", "(2, 3, 12, 13)", "uint8", "(N, 3, 12, 12)")),
        ("none.npy", ("none.npy", "no examples")),
        ("float.npy", ("float.npy", "float64", "uint8")),
        ("new.csv", ("new.csv", "table", "images")),
        ("two.npz", ("two.npz", "a, b", "x")),
    ],
)
def test_what_is_no_image_is_refused(photos, model, here, place, facts):
    model(photos)
    (here / "empty").mkdir()
    (here / "text.png").write_text("no image")
    (here / "new.csv").write_text("a,b\n1,2\n")
    np.save("wide.npy", np.zeros((2, 3, 12, 13), np.uint8))
    np.save("none.npy", np.zeros((0, 3, 12, 12), np.uint8))
    np.save("float.npy", np.zeros((2, 3, 12, 12)))
    np.savez("two.npz", a=[1], b=[2])
    with refused(*facts):
        cu.predict("model", place)


@pytest.mark.parametrize(
    ("header", "rows", "facts"),
    [
        (["Age", "city"], [(3, "Rome")], ("'age'", "did you mean 'Age'?", "city")),
        (["age", "city"], [("1e39", "Rome")], ("no rows that can be read", "'age'", "'1e39'", "line 2", "numbers")),
        (["age", "city"], [("", "Rome"), ("NA", "Bern")], ("no rows that can be read", "'age'", "''", "line 2")),
        (["age", "city"], [(4, "?")], ("'city'", "'?'", "line 2", "missing values", "--missing fill")),
    ],
)
def test_rows_that_the_network_cannot_read_are_refused(here, model, header, rows, facts):
    write("train.csv", ["age", "city", "label"], [row for row in ROWS if all(row)])
    model(cu.load("train.csv", missing="refuse").train)
    write("new.csv", header, rows)
    with refused("new.csv", *facts):
        cu.predict("model", "new.csv")


def test_rows_that_cannot_be_read_are_skipped_and_counted(here, model):
    """The first few are named; what is kept and scored is of the rows that are left."""
    rows = [row for row in ROWS if all(row)]
    write("train.csv", ["age", "city", "label"], rows)
    data = cu.load("train.csv", missing="refuse").train
    network = model(data)
    bad = [("old", "Rome", "yes"), ("", "Bern", "no"), ("3", "", "no")]
    write("new.csv", ["id", "age", "city"], [(f"c{i}", *row[:2]) for i, row in enumerate([*bad, *rows])])
    found = cu.predict("model", "new.csv", keep=["id"])
    np.testing.assert_allclose(found.probabilities, said(network, data.inputs), atol=1e-6)
    assert list(found.names) == [f"line {i}" for i in range(5, 5 + len(rows))]
    assert found.kept == {"id": [f"c{i}" for i in range(3, 3 + len(rows))]}
    *first, count = found.notes
    assert count == f"Skipped 3 of {3 + len(rows)} rows, which cannot be read."
    assert [f"line {line}" in note for line, note in zip((2, 3, 4), first, strict=True)] == [True] * 3


def test_a_folder_for_a_network_of_a_table(here, model):
    """Parquet files are its rows, other files are left out, and pictures are none."""
    import pyarrow as pa
    import pyarrow.parquet

    write("train.csv", ["age", "city", "label"], [row for row in ROWS if all(row)])
    data = cu.load("csv:train.csv").train
    network = model(data)
    (here / "new").mkdir()
    (here / "new" / "README.md").write_text("rows")
    with refused("rows of a table", "new", ".csv or .parquet"):
        cu.predict("model", "new")
    (here / "a.png").write_bytes(b"\x89PNG")
    with refused("rows of a table", "a.png"):
        cu.predict("model", "a.png")
    rows = [row for row in ROWS if all(row)]
    pyarrow.parquet.write_table(
        pa.table({"age": [float(row[0]) for row in rows], "city": [row[1] for row in rows]}), "new/a.parquet"
    )
    found = cu.predict("model", "new")
    np.testing.assert_allclose(found.probabilities, said(network, data.inputs), atol=1e-6)
    (note,) = found.notes
    assert "1 of 2 files" in note
    assert str(Path("new/README.md")) in note
    (here / "new" / "more").mkdir()
    (here / "new" / "more" / "a.parquet").write_bytes((here / "new" / "a.parquet").read_bytes())
    names = cu.predict("model", "new").names
    assert (names[0], names[-1]) == ("a.parquet, row 0", f"{Path('more/a.parquet')}, row {len(rows) - 1}")
    assert len(set(names)) == 2 * len(rows)


def test_arrays_have_no_columns_and_numbers_are_finite(here, model):
    model(cu.Data(np.random.default_rng(0).normal(0, 1, (20, 2)), np.arange(20) % 2))
    write("new.csv", ["a", "b"], [(1, 2)])
    with refused("columns", ".npz or .npy", "new.csv"):
        cu.predict("model", "new.csv")
    np.save("x.npy", np.zeros((2, 2, 2)))
    with refused("x.npy", "(2, 2, 2)", "float64", "(N, 2)"):
        cu.predict("model", "x.npy")
    np.save("x.npy", [[0, 1], [2, 1e39]])
    with refused("x.npy", "feature 1 of example 1", "finite"):
        cu.predict("model", "x.npy")


def test_an_answer_that_is_not_finite(here, model):
    """Features that float32 holds, and the network's first product does not."""
    rng = np.random.default_rng(0)
    model(cu.Data(rng.normal(size=(40, 3)) / 1e3, np.arange(40) % 2))
    examples = np.zeros((1500, 3), np.float32)
    examples[1207] = 3e38
    np.save("e.npy", examples)
    with refused("e.npy", "row 1207", "not finite"):
        cu.predict("model", "e.npy")
    np.save("e.npy", examples[:1207])
    assert np.isfinite(cu.predict("model", "e.npy").probabilities).all()


COSTS = np.array([[0, 1, 9], [1, 0, 9], [1, 1, 0]])


@pytest.mark.parametrize("kind", ["adjusted", "ensemble"])
@pytest.mark.parametrize("costs", [None, COSTS], ids=["likeliest", "by cost"])
def test_what_is_deployed_decides_as_its_goal(here, kind, costs):
    """Adjusted probabilities are those of posthoc, and a goal with costs decides as it does when it judges."""
    rng = np.random.default_rng(0)
    data = cu.Data(rng.normal(0, 1, (60, 4)), np.minimum(np.arange(60) % 6, 2))
    recipe = cu.Recipe("mlp", epochs=1, batch=8)
    fitted = cu.fit(data, [cu.Lane(seed=seed) for seed in range(2)], recipe=recipe)
    goal = Goal("cost:x" if costs is not None else "mean", np.ones(3) / 3, costs)
    adjustment = cu.Adjustment([1.0, 0.2, 0.0], goal.prior, temperature=1.4)
    adjusted, ensemble = fitted.adjusted_module(0, adjustment, costs), fitted.ensemble_module(adjustment, costs)
    save(adjusted if kind == "adjusted" else ensemble, "model", {})
    np.save("new.npy", data.inputs)
    found, members = cu.predict("model", "new.npy"), fitted.probabilities(data).astype(np.float64)
    expected = adjustment(members[0] if kind == "adjusted" else combined(members))
    np.testing.assert_allclose(found.probabilities, expected, atol=2e-6)
    decided = goal.decide(expected)
    assert found.labels == [data.classes[c] for c in decided]
    np.testing.assert_array_equal(found.confidence, found.probabilities[np.arange(60), decided])
    assert (found.labels != [data.classes[c] for c in expected.argmax(axis=1)]) == (costs is not None)
    assert found.rule == (MOST_PROBABLE if costs is None else LEAST_COST)
    assert found.rule in found.meaning[0]
    if costs is not None:
        np.testing.assert_allclose(found.expected_costs, (expected @ costs).min(axis=1), rtol=1e-5)


def test_scores_are_of_labelled_examples_alone():
    """Of five examples, the label of one is no class: two of class 0, one of them wrong, and two of class 1, right."""
    labels = GivenLabels(np.array([0, -1, 0, 1, 1]), "y", ["a", "c", "a", "b", "b"])
    decisions = np.array([0, 0, 1, 1, 1])
    p = np.array([[0.8, 0.2], [0.5, 0.5], [0.4, 0.6], [0.1, 0.9], [0.3, 0.7]], dtype=np.float32)
    scores = labels.scores(p, decisions, [50, 50], None)
    assert scores is not None
    assert (scores.error, scores.top1_error, scores.class_errors) == (25.0, 25.0, (50.0, 0.0))
    assert scores.nll == pytest.approx(-np.log([0.8, 0.4, 0.9, 0.7]).mean(), rel=1e-6)
    assert labels.at([1]).scores(p[[1]], decisions[[1]], [50, 50], None) is None
    assert labels.at([4, 0]).classes.tolist() == [1, 0]
    assert labels.at([4, 0]).unscored(["a", "b"]) == []
    assert labels.at([1, 0]).unscored(["a", "b"]) == [
        "1 example is not scored: by y it is 'c', which the model does not know."
    ]


def test_unknown_labels_are_named_at_most_five_times():
    names = [f"zz{i}" for i in range(7)]
    (sentence,) = GivenLabels(np.full(7, -1), "y", names).unscored(["a"])
    assert sentence.startswith("7 examples are not scored: by y they are 'zz0', 'zz1', 'zz2', 'zz3', 'zz4' and 2 more,")
