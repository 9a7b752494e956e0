"""Tables: models of several kinds are judged on the same folds, and averaged where that is no worse."""

import numpy as np
import pytest
import torch

import class_uncertainty as cu
from class_uncertainty.posthoc.adjustment import combined
from class_uncertainty.training import default_recipe
from class_uncertainty.training.folds import fold_indices
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.workflows.alternatives import KindAverage
from class_uncertainty.workflows.model_card import model_card

ROWS = ["naive?recipe=logistic", "cb-rs?recipe=forest&trees=8", "naive?recipe=boosting&trees=8&leaf=5"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A rare class, a column of text, and a label that all kinds learn a part of."""
    rng, lines = np.random.default_rng(0), ["age,city,income,label"]
    for _ in range(200):
        age, city, income = rng.integers(18, 80), rng.choice(["Oslo", "Rome", "Bern"]), rng.normal()
        churns = (age > 60 and city == "Rome") or income + 0.3 * rng.normal() < -1.3
        lines.append(f"{age},{city},{income:.3f},{'churn' if churns else 'stay'}")
    file = tmp_path_factory.mktemp("table") / "t.csv"
    file.write_text("\n".join(lines))
    return cu.load(f"csv:{file}")


@pytest.fixture(scope="module")
def fixed(table, tmp_path_factory):
    """With the mean kept, whatever it gains."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KindAverage, "is_kept", True)
        return cu.fix(table, candidates=ROWS, save=tmp_path_factory.mktemp("model") / "model")


def test_the_mean_of_all_kinds_is_deployed_and_restored(fixed, table):
    assert fixed.choice.step == "ensemble"
    assert [part.candidate.name for part in fixed.choice.parts] == ROWS
    assert fixed.report.seeds == 1
    alone = []
    for part in fixed.choice.parts:
        recipe = part.candidate.recipe(RECIPES["forest"])
        lane = part.candidate.lane(RECIPES["forest"], 0)
        alone.append(part.adjustment(cu.fit(table.train, [lane], recipe=recipe).probabilities(table.train)[0]))
    p = fixed.model.predict_proba(table.train.inputs)
    np.testing.assert_allclose(p, combined(np.stack(alone)), atol=1e-5)
    again = cu.restore(fixed.files[0])
    np.testing.assert_allclose(again(torch.from_numpy(table.train.inputs)).softmax(dim=1).detach(), p, atol=1e-6)


def test_what_is_saved_names_all_models_of_the_mean(fixed):
    kept = next(step for step in fixed.report.ladder if step.kept)
    purpose = cu.restore(fixed.files[0]).purpose
    assert purpose is not None
    assert purpose.method == fixed.module.about["candidate"] == kept.candidate == " + ".join(ROWS)
    taus = [part.adjustment.tau for part in fixed.choice.parts]  # each has its own
    assert fixed.module.about["tau"] == list(fixed.report.taus) == list(fixed.document()["taus"]) == taus
    assert f"(τ): {', '.join(map(str, taus))}, of these models in turn" in model_card(fixed.files[0])
    assert repr(fixed.choice).endswith(f"tau {', '.join(f'{tau:g}' for tau in taus)})")
    for text in (repr(fixed), repr(fixed.report)):
        assert f"{' + '.join(ROWS)} (ensemble)" in text


def test_every_model_of_the_mean_is_kept_on_every_rung(fixed):
    """In what `cu fix --json` prints."""
    rows = [row for rung in fixed.document()["rungs"] for row in rung["rows"]]
    assert {row["candidate"] for row in rows} == set(ROWS)
    assert all(row["kept"] for row in rows)


def test_the_note_says_what_was_decided_on_the_folds_that_judge(fixed):
    assert "Without a test split, whether several kinds are averaged is decided on the same folds" in fixed.report.note


def test_before_and_after_are_of_models_that_never_saw_the_fold(fixed, table):
    """The plain model by hand, fold after fold."""
    train, wrong = table.train, np.zeros(len(table.train), bool)
    baseline = next(step for step in fixed.report.ladder if step.name == "naive")
    candidate = cu.Candidate(baseline.candidate)
    assert candidate.is_naive
    for k in range(5):
        lane = candidate.lane(RECIPES["forest"], 0, (k, 5))
        left_out = fold_indices(train, (k, 5))
        networks = cu.fit(train, [lane], recipe=candidate.recipe(RECIPES["forest"]))
        wrong[left_out] = networks.probabilities(train.take(left_out))[0].argmax(axis=1) != train.labels[left_out]
    errors = [100 * wrong[train.labels == c].mean() for c in range(2)]
    assert fixed.before.errors == pytest.approx((np.mean(errors),))
    assert "a plain model by the recipe" in fixed.report.note


def test_one_model_is_kept_where_that_is_asked_for(table):
    fixed = cu.fix(table, candidates=ROWS, deploy="one")
    assert fixed.choice.parts == ()
    assert fixed.report.taus == (fixed.choice.tau,)
    assert fixed.choice.step in ("adjusted", "best single")


def test_rows_of_a_file_are_predicted_as_in_training(fixed, table, tmp_path):
    rows = tmp_path / "new.csv"
    rows.write_text("income,city,age\n-2,Oslo,30\n0.5,Rome,20\n")
    predicted = cu.predict(fixed.files[0], rows)
    features = np.array([[30, 0, 1, 0, -2], [20, 0, 0, 1, 0.5]])
    assert table.train.columns == ("age", "city=Bern", "city=Oslo", "city=Rome", "income")
    assert predicted.labels == fixed.model.predict(features).tolist() == ["churn", "stay"]


def test_tables_use_forests_unless_a_network_is_asked_for(table):
    assert default_recipe(table.train) == RECIPES["forest"]
    assert default_recipe(table.train, epochs=3).network == "mlp"
    assert default_recipe(cu.Data(table.train.inputs, table.train.labels)) == RECIPES["features"]
    measured = cu.measure(table, recipe=cu.Recipe("forest", epochs=1, batch=64, trees=8))
    assert measured.estimate.estimator == "out-of-fold"
    assert measured.rows[0].name == "churn"
    assert measured.rows[0].uncertainty > measured.rows[1].uncertainty


def test_methods_are_compared_by_forests(table):
    recipe = cu.Recipe("forest", epochs=1, batch=64, trees=8)
    rows = cu.compare(table, methods=["naive", "cb-rs", "ubrw"], seeds=1, recipe=recipe).rows
    assert [row.method for row in rows] == ["naive", "cb-rs", "ubrw"]
