"""Predictions for production: labels by the goal, probabilities for a prior, kept columns, scores, older files."""

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
from class_uncertainty.workflows.predict import IN_PYTHON, LIKELIEST, NO_PRIOR, _meaning

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
    """Of held-out rows, and the softmax behind: mean probabilities are the shares, and labels are the module's."""
    x, y = customers(4000, 2)
    np.savez("new.npz", x=x, y=y)
    predicted = cu.predict(model, "new.npz")
    np.testing.assert_allclose(predicted.probabilities.mean(axis=0), np.bincount(y) / len(y), atol=0.02)
    with torch.inference_mode():
        softmax = model.module(torch.from_numpy(x)).softmax(1).numpy()
    assert predicted.labels == [str(c) for c in softmax.argmax(axis=1)]
    return predicted, softmax


@pytest.mark.parametrize("goal", ["mean", "overall"])
def test_the_mean_probability_is_the_share_of_the_class(goal, store):
    """Under the prior of training, on held-out rows, whatever the goal; labels stay those of the goal."""
    data, recipe = cu.Data(*customers(1500, 0)), cu.Recipe("mlp", epochs=6, batch=64)
    fixed = cu.fix(data, recipe=recipe, goal=goal, candidates=["naive"], trainings=2, seeds=1, store=store)
    predicted, softmax = predict_customers(fixed)
    assert abs(softmax.mean(axis=0)[1] - CHURN) > 0.1 or goal == "overall"  # or there would be nothing to correct
    as_it_is = cu.predict(fixed, "new.npz", prior=predicted.purpose.prior)  # type: ignore[union-attr]
    np.testing.assert_allclose(as_it_is.probabilities, softmax, atol=1e-6)
    assert predicted.scores is not None
    assert predicted.scores.ece < 4
    assert predicted.scores.top1_error == pytest.approx(100 * (softmax.argmax(axis=1) != customers(4000, 2)[1]).mean())


def test_probabilities_are_by_the_rule_and_labels_do_not_change(table):
    """p_c prior_c / made_for_c, for a model that stands for equal classes; sentences say both."""
    module = cu.restore("model")
    module.purpose = Purpose.of((54, 6), (0.5, 0.5), goal="mean")
    softmax = cu.predict(module, table, prior="equal").probabilities.astype(float)
    for prior, weights in {"train": (0.9, 0.1), (0.1, 0.9): (0.1, 0.9)}.items():
        found = cu.predict(module, table, prior=prior if isinstance(prior, str) else np.array(prior))
        expected = softmax * weights
        np.testing.assert_allclose(found.probabilities, expected / expected.sum(axis=1, keepdims=True), rtol=1e-5)
        assert found.labels == [module.classes[c] for c in softmax.argmax(axis=1)]
        differing = (found.probabilities.argmax(axis=1) != softmax.argmax(axis=1)).sum()
        assert differing > 0
        assert found.meaning[0] == "Predictions are for the lowest class-mean error (goal 'mean')."
        assert (
            f"for {differing} examples, another class than the predicted one is the most probable" in found.meaning[1]
        )
        assert ("as in training" in found.meaning[1]) == (prior == "train")
        assert found.meaning[2:] == [IN_PYTHON]
    assert IN_PYTHON not in cu.predict(module, table, prior="equal").meaning
    assert "; for 1 example, another class" in _meaning(module, "train", np.array([0.9, 0.1]), 1)[1]


def test_a_model_predicts_as_its_module_and_says_what_its_probabilities_are_for(table):
    """`predict_proba` is the softmax, for the goal; `cu.predict` takes the Model and converts."""
    import pandas as pd

    module = cu.restore("model")
    module.purpose = Purpose.of((54, 6), (0.5, 0.5), goal="mean", label="churn")
    model, frame = cu.Model(module), pd.read_csv(table)
    found, own = cu.predict(model, frame), model.predict_proba(frame)
    np.testing.assert_allclose(found.probabilities, own * (0.9, 0.1) / (own @ (0.9, 0.1))[:, None], rtol=1e-5)
    np.testing.assert_array_equal(found.probabilities, cu.predict(module, table).probabilities)
    assert repr(model).endswith("2 classes; predict_proba is for the goal 'mean', cu.predict for the training prior)")
    cu.save(model, "again")
    np.testing.assert_array_equal(cu.predict("again", table).probabilities, found.probabilities)


def test_a_class_that_the_goal_rules_out(table):
    module = cu.restore("model")
    module.purpose = Purpose.of((45, 15), (1.0, 0.0), goal="prior:x")
    found = cu.predict(module, table)
    np.testing.assert_array_equal(found.probabilities[:, 1], 0)
    assert found.meaning[-1] == "The goal rules out 'yes', whose probability stays 0."


@pytest.mark.parametrize("method", ["naive", "balanced-softmax", "cb-rs", "ldam"])
def test_a_network_of_one_method_knows_its_prior(method):
    """Whatever the method, the mean probability of a class is its share; without the rule, only of naive networks."""
    data = cu.Data(*customers(1500, 0))
    trained = cu.train(data, method, recipe=cu.Recipe("mlp", epochs=6, batch=64))
    predicted, _ = predict_customers(trained)
    assert repr(method) in predicted.meaning[0]


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
        ({"prior": "tain"}, ("prior", "'tain'", "'train'", "'equal'")),
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
    expected = cu.predict("model", table, prior=cu.restore("model").purpose.prior).probabilities  # type: ignore
    np.testing.assert_array_equal(found.probabilities, expected)
    assert found.meaning == [LIKELIEST, f"{NO_PRIOR}probabilities are that softmax."]
    assert found.prior is None
    with refused("prior"):
        cu.predict("fitted", table, prior="equal")


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
