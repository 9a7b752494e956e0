"""Predictions for production: labels by the goal, probabilities for a prior, kept columns, scores, older files."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.posthoc.written_predictions import SEEN, write_predictions
from class_uncertainty.training.model_files import save
from class_uncertainty.training.purpose import Purpose
from class_uncertainty.workflows.audit import audit_file
from class_uncertainty.workflows.predict import MOST_PROBABLE, NO_PRIOR

CHURN = 0.265  # of the rows are of the second class


def customers(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(rows) < CHURN * rows).astype(int)
    return (rng.normal(0, 1, (rows, 4)) + np.array([[0, 0, 0, 0], [1.0, 0.6, 0, 0]])[y]).astype(np.float32), y


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def table():
    """A table of 60 rows, and a network of it that was trained naively and saved as 'model'."""
    x, y = customers(60, 0)
    lines = [f"c{i},{a:.3f},{b:.3f},{['no', 'yes'][c]}" for i, ((a, b, *_), c) in enumerate(zip(x, y, strict=True))]
    Path("t.csv").write_text("\n".join(["id,a,b,churn", *lines]))
    cu.train(cu.load("csv:t.csv?label=churn&drop=id"), recipe=cu.Recipe("mlp", epochs=1, batch=8), save="model")
    return "t.csv"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """What both goals train is trained once."""
    return tmp_path_factory.mktemp("store") / "runs.sqlite"


def predict_customers(model: cu.Fix | cu.Trained) -> tuple[cu.Predicted, np.ndarray]:
    """Of held-out rows for the training prior, and the softmax behind: mean probabilities are the shares."""
    x, y = customers(4000, 2)
    np.savez("new.npz", x=x, y=y)
    predicted = cu.predict(model, "new.npz", prior="train")
    np.testing.assert_allclose(predicted.probabilities.mean(axis=0), np.bincount(y) / len(y), atol=0.02)
    assert predicted.labels == [str(c) for c in predicted.probabilities.argmax(axis=1)]
    with torch.inference_mode():
        softmax = model.module(torch.from_numpy(x)).softmax(1).numpy()
    return predicted, softmax


@pytest.mark.parametrize("goal", ["mean", "overall"])
def test_the_mean_probability_is_the_share_of_the_class(goal, store):
    """Under the prior of training, on held-out rows, whatever the goal; by default, labels are those of the goal."""
    data, recipe = cu.Data(*customers(1500, 0)), cu.Recipe("mlp", epochs=6, batch=64)
    fixed = cu.fix(data, recipe=recipe, goal=goal, candidates=["naive"], trainings=2, seeds=1, store=store)
    predicted, softmax = predict_customers(fixed)
    assert abs(softmax.mean(axis=0)[1] - CHURN) > 0.1 or goal == "overall"  # or there would be nothing to correct
    assert predicted.scores is not None
    assert predicted.scores.ece < 4
    own = cu.predict(fixed, "new.npz")
    assert own.prior_name == "goal"
    np.testing.assert_allclose(own.probabilities, softmax, atol=1e-6)
    assert own.labels == [str(c) for c in softmax.argmax(axis=1)]
    assert own.scores is not None
    assert own.scores.top1_error == pytest.approx(100 * (softmax.argmax(axis=1) != customers(4000, 2)[1]).mean())


PRIORS = {"goal": (0.5, 0.5), "equal": (0.5, 0.5), "train": (0.9, 0.1), "given": (0.2, 0.8)}


@pytest.mark.parametrize("costs", [None, [[0.0, 1.0], [7.0, 0.0]]], ids=["most probable", "by cost"])
@pytest.mark.parametrize("name", PRIORS)
def test_a_file_of_predictions_has_one_prior(table, name, costs):
    """p_c prior_c / made_for_c, for a model that stands for equal classes; class and cost follow from these numbers."""
    module = cu.restore("model")
    module.purpose = Purpose.of((54, 6), (0.5, 0.5), goal="mean")
    with torch.inference_mode():
        softmax = module(torch.from_numpy(cu.load("csv:t.csv?label=churn&drop=id").train.inputs)).softmax(1).numpy()
    if costs is not None:
        module.costs = torch.tensor(costs)
    found = cu.predict(module, table, prior=np.array(PRIORS[name]) if name == "given" else name)
    np.testing.assert_allclose(found.prior, PRIORS[name])
    expected = softmax * PRIORS[name]
    expected /= expected.sum(axis=1, keepdims=True)
    write_predictions(Path("p.csv"), found.table(), found.document())
    with open("p.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    written = np.array([[float(row["p(no)"]), float(row["p(yes)"])] for row in rows])
    np.testing.assert_allclose(written, expected, rtol=1e-4)
    for row, p in zip(rows, written, strict=True):
        if costs is None:
            decided = int(p[1] > p[0])
            assert "cost" not in row
        else:
            decided = int(7 * p[1] > p[0])
            assert float(row["cost"]) == pytest.approx(min(7 * p[1], p[0]), rel=1e-4)
        assert row["class"] == ("no", "yes")[decided]
        assert float(row["probability"]) == p[decided]
    document = json.loads(Path("p.json").read_text())
    assert document["prior"] == pytest.approx(PRIORS[name])
    assert document["prior_name"] == name
    assert ("cost" in document["rule"]) == (costs is not None)


def test_the_measured_prior_of_a_model_is_only_about_that_of_its_goal(table):
    module = cu.restore("model")
    module.purpose = Purpose.of((54, 6), (0.45, 0.55), goal="mean")
    found = cu.predict(module, table)
    assert found.document()["prior"] == [0.45, 0.55]
    assert "about as frequent as the goal 'mean'" in found.meaning[0]


def test_calibration_is_the_same_in_predict_and_in_audit(table):
    """For one file and one prior: of the decided classes, with classes weighed by the prior of the probabilities."""
    module = cu.restore("model")
    module.purpose = Purpose.of((54, 6), (0.5, 0.5), goal="mean", label="churn")
    for prior in ("goal", "train"):
        found = cu.predict(module, table, prior=prior)
        assert found.scores is not None
        write_predictions(Path("p.csv"), found.table(), found.document())
        figures = audit_file(Path("p.csv")).figures
        expected = [found.scores.error, found.scores.top1_error, found.scores.ece, found.scores.nll]
        assert [figures.error, figures.overall_error, figures.ece, figures.nll] == pytest.approx(expected, rel=1e-4)


def test_a_model_predicts_as_its_module_and_says_what_its_probabilities_are_for(table):
    """`predict_proba` is the softmax, for the goal; `cu.predict` takes the Model and converts."""
    import pandas as pd

    module = cu.restore("model")
    module.purpose = Purpose.of((54, 6), (0.5, 0.5), goal="mean", label="churn")
    model, frame = cu.Model(module), pd.read_csv(table)
    own = model.predict_proba(frame)
    np.testing.assert_allclose(cu.predict(model, frame).probabilities, own, rtol=1e-5)
    found = cu.predict(model, frame, prior="train")
    np.testing.assert_allclose(found.probabilities, own * (0.9, 0.1) / (own @ (0.9, 0.1))[:, None], rtol=1e-5)
    np.testing.assert_array_equal(found.probabilities, cu.predict(module, table, prior="train").probabilities)
    assert repr(model).endswith("2 classes; for the goal 'mean')")
    cu.save(model, "again")
    np.testing.assert_array_equal(cu.predict("again", table, prior="train").probabilities, found.probabilities)


def test_a_class_that_the_goal_rules_out(table):
    module = cu.restore("model")
    module.purpose = Purpose.of((45, 15), (1.0, 0.0), goal="prior:x")
    found = cu.predict(module, table, prior="train")
    np.testing.assert_array_equal(found.probabilities[:, 1], 0)
    assert found.meaning[-1] == "The goal rules out 'yes', whose probability stays 0."


@pytest.mark.parametrize("method", ["naive", "balanced-softmax", "cb-rs", "ldam"])
def test_a_network_of_one_method_knows_its_prior(method):
    """Whatever the method, the mean probability of a class is its share; without the rule, only of naive networks."""
    data = cu.Data(*customers(1500, 0))
    trained = cu.train(data, method, recipe=cu.Recipe("mlp", epochs=6, batch=64))
    predict_customers(trained)
    assert repr(method) in cu.predict(trained, "new.npz").meaning[0]


def test_kept_columns_and_scores_of_a_table(table):
    found = cu.predict("model", table, keep=("id", "a"))
    assert found.kept["id"] == [f"c{i}" for i in range(60)]
    assert found.kept["a"][0] == Path("t.csv").read_text().split("\n")[1].split(",")[1]  # as it was written
    truth = [line.rsplit(",", 1)[1] for line in Path("t.csv").read_text().split("\n")[1:]]
    assert (found.truth, found.scored_by) == (truth, "column 'churn'")
    wrong = np.array([label != name for label, name in zip(found.labels, truth, strict=True)])
    yes = np.array(truth) == "yes"
    assert found.scores is not None
    assert found.scores.top1_error == pytest.approx(100 * wrong.mean())
    assert found.scores.class_errors == pytest.approx((100 * wrong[~yes].mean(), 100 * wrong[yes].mean()))


def test_kept_numbers_of_parquet(table):
    """Numbers stay numbers, and a missing one is None."""
    import pyarrow as pa
    import pyarrow.parquet

    columns = {"a": [0.1, 0.2, 0.3], "b": [0.0, 1.0, 2.0], "id": [7, None, 9], "name": ["x", None, "z"]}
    pyarrow.parquet.write_table(pa.table(columns), "new.parquet")
    found = cu.predict("model", "new.parquet", keep=["id", "name"])
    assert found.kept == {"id": [7, None, 9], "name": ["x", "", "z"]}
    assert (found.truth, found.scores) == (None, None)


def test_a_frame_keeps_columns_and_is_scored(table):
    """As the file that it was read from; a row that cannot be read is skipped."""
    import pandas as pd

    frame, of_file = pd.read_csv(table), cu.predict("model", table, keep=["id"])
    found = cu.predict("model", frame, keep=["id"])
    np.testing.assert_allclose(found.probabilities, of_file.probabilities, atol=1e-6)
    assert (found.kept, found.truth, found.scores) == (of_file.kept, of_file.truth, of_file.scores)
    frame.loc[3, "a"] = np.inf
    found = cu.predict("model", frame, keep=["id"])
    assert found.kept["id"] == [f"c{i}" for i in range(60) if i != 3]
    assert found.notes[-1] == "Skipped 1 of 60 rows, which cannot be read."
    with refused("no column 'idd'", "did you mean 'id'?"):
        cu.predict("model", frame, keep=["idd"])


def test_other_labels_and_rows_without_one(table):
    rows = ["a,b,left", "0.1,0.2,yes", "1.5,0.7, no ", "0.3,0.1,"]
    Path("new.csv").write_text("\n".join(rows))
    assert cu.predict("model", "new.csv").scores is None
    found = cu.predict("model", "new.csv", label="left")
    assert found.truth == ["yes", "no", ""]
    assert found.scores is not None
    wrong = [label != name for label, name in zip(found.labels, ["yes", "no"], strict=False)]
    assert found.scores.top1_error == 50 * sum(wrong)


def test_labels_that_are_no_classes(table):
    """Where there are others, those are scored; otherwise a column that was asked for is refused."""
    rows = ["0.1,0.2,yess", "0.3,0.4,perhaps", "0.3,0.4,no", "0.5,0.6,", "0.7,0.1,yes", "x,0.1,never"]
    Path("new.csv").write_text("\n".join(["a,b,churn", *rows]))
    near = "'perhaps', 'yess' (did you mean 'yes'?)"
    for label in (None, "churn"):
        found = cu.predict("model", "new.csv", label=label)
        assert found.truth == ["", "", "no", "", "yes"]
        assert found.scores is not None
        assert found.scores.top1_error == 50 * sum(found.labels[i] != found.truth[i] for i in (2, 4))
        assert found.notes[-2:] == [
            "1 example has no label and is not scored.",
            f"2 examples are not scored: by column 'churn' they are {near}, which the model does not know.",
        ]
    Path("new.csv").write_text("\n".join(["a,b,churn", *rows[:2], *rows[3:4]]))
    with refused("column 'churn'", near, "no, yes"):
        cu.predict("model", "new.csv", label="churn")
    found = cu.predict("model", "new.csv")
    assert (found.scores, found.truth, len(found.labels)) == (None, None, 3)
    assert found.notes == [f"Not scored: column 'churn' names {near}, and the classes are no, yes."]


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"keep": ["idd"]}, ("no column 'idd'", "keep", "did you mean 'id'?")),
        ({"keep": ["id", "id"]}, ("id", "twice")),
        ({"label": "churm"}, ("no column 'churm'", "label", "did you mean 'churn'?")),
        ({"prior": [0.5, 0.3, 0.2]}, ("prior", "2 probabilities", "3 of sum 1")),
        ({"prior": [0.5, 0.4]}, ("prior", "sum to 1", "0.9")),
        ({"prior": "tain"}, ("prior", "'tain'", "'goal'", "'train'", "'equal'")),
    ],
)
def test_refusals(table, options, facts):
    with refused(*facts):
        cu.predict("model", table, **options)


def test_arrays_have_labels_and_no_columns(table):
    x, y = customers(20, 3)
    trained = cu.train(cu.Data(x, y), recipe=cu.Recipe("mlp", epochs=1, batch=8))
    np.savez("new.npz", x=x, y=y)
    found = cu.predict(trained, "new.npz")
    assert (found.scored_by, found.truth) == ("the array y", list(map(str, y)))
    with refused("'id'", "no columns to keep"):
        cu.predict(trained, "new.npz", keep=["id"])
    with refused("'churn'", "not rows of a table"):
        cu.predict(trained, "new.npz", label="churn")


def test_folders_with_the_names_of_classes(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(12):
        place = tmp_path / "photos" / "ab"[i % 2] / f"{i}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(place)
    trained = cu.train(cu.load("folder:photos"), recipe=cu.Recipe("small-conv", epochs=1, batch=4))
    found = cu.predict(trained, "photos")
    assert (found.scored_by, found.truth) == ("the folders", [name[0] for name in found.names])
    Path("photos/b").rename("photos/c")
    found = cu.predict(trained, "photos")
    assert found.truth == ["a"] * 6 + [""] * 6
    unknown = "6 examples are not scored: by the folders they are 'c', which the model does not know."
    assert found.notes == [unknown, SEEN]
    Path("photos/a").rename("photos/2024")
    assert (cu.predict(trained, "photos").scores, cu.predict(trained, "photos").notes) == (None, [])


def test_a_model_that_names_no_prior(table):
    """As those of `cu.fit`: probabilities are the softmax, a sentence says so, and another prior is refused."""
    module = cu.restore("model")
    module.purpose = None
    save(module, "fitted", {})
    found = cu.predict("fitted", table)
    expected = cu.predict("model", table).probabilities
    np.testing.assert_array_equal(found.probabilities, expected)
    assert found.rule == MOST_PROBABLE
    assert NO_PRIOR in found.meaning[0]
    assert found.prior is None
    for prior in ("equal", "train"):
        with refused("prior"):
            cu.predict("fitted", table, prior=prior)


def test_a_module_at_hand_is_not_changed(table):
    module = cu.restore("model").train()
    before = set(module._modules)
    found = cu.predict(module, table)
    np.testing.assert_array_equal(found.probabilities, cu.predict("model", table).probabilities)
    assert set(module._modules) == before
    assert module.training


def test_examples_of_training_are_recognised_in_any_order(table):
    """By `cu predict`, and by `cu audit` of what it wrote; other examples, as many, are not."""
    rows = Path(table).read_text().splitlines()
    Path("shuffled.csv").write_text("\n".join([rows[0], *rows[:0:-1]]))
    Path("other.csv").write_text("\n".join([*rows[:-1], rows[-2]]))
    Path("part.csv").write_text("\n".join(rows[:-3]))
    seen = {name: cu.predict("model", f"{name}.csv") for name in ("shuffled", "other", "part")}
    assert [predicted.seen for predicted in seen.values()] == [True, False, False]
    assert SEEN in seen["shuffled"].notes
    for name, predicted in seen.items():
        write_predictions(Path("p.csv"), predicted.table(), predicted.document())
        assert (SEEN in audit_file(Path("p.csv")).notes) == (name == "shuffled")
