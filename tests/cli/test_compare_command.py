"""`cu compare`, as a user types it: methods and remedies side by side."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import SHORT

import class_uncertainty as cu
from class_uncertainty.posthoc import REMEDIES
from class_uncertainty.runs import Store


def test_compare(run):
    options = "compare digits-lt:20 --epochs 2 --members 2 --methods naive,cb-rs,ubrs --seeds 2 --lrs 0.1,0.2"
    code, out, err = run(options)
    assert (code, err) == (0, "")
    assert "vs cb-rs" not in out
    verbose = run(f"{options} --verbose")[1]
    assert "vs cb-rs" in verbose
    assert "at least 5 are needed" in verbose
    code, out, err = run(f"{options} --json")
    rows = json.loads(out)["methods"]
    assert [(row["method"], row["lr"], row["runs"]) for row in rows] == [
        (m, lr, 2) for m in ("naive", "cb-rs", "ubrs") for lr in (0.1, 0.2)
    ]
    naive, ubrs = rows[0], rows[4]
    assert ubrs["gain"] == pytest.approx(naive["error"] - ubrs["error"])
    assert ubrs["counterpart"] == "cb-rs"
    assert 0 <= ubrs["aso"] <= 1
    assert naive["gain"] is None
    for row in rows[4:]:
        counterpart = next(other for other in rows if (other["method"], other["lr"]) == ("cb-rs", row["lr"]))
        assert row["compared_with"] == "cb-rs"
        assert row["compared_gain"] == pytest.approx(counterpart["error"] - row["error"])
        assert row["is_clear"] == (row["compared_low"] > 0 or row["compared_high"] < 0)


def test_rows_at_chosen_rates(run, forbid_training):
    """The tables name each row's rate, whom it is tested against, how many tests there are and what choosing cost."""
    options = "--methods naive,ldam --seeds 2 --lrs 0.4,0.1 --choose-lr --against naive"
    command = f"compare digits-lt:20 --epochs 1 {options}"
    code, out, err = run(f"{command} --verbose")
    assert (code, err) == (0, "")
    forbid_training()
    document = json.loads(run(f"{command} --json")[1])
    rows = {row["method"]: row for row in document["methods"]}
    for name, row in rows.items():
        assert document["chosen"][name]["lr"] == row["lr"]
        lines = [line.split() for line in out.splitlines() if line.startswith(f"  {name} ")]
        assert lines[0][:3] == [name, f"{row['lr']:g}", f"{row['error']:.2f}"]
        assert lines[1][:3] == [name, f"{row['lr']:g}", "2"]
        assert (lines[-1][-2:] == ["vs", "naive"]) == (name != "naive")
    assert len({row["lr"] for row in rows.values()}) == 2
    assert rows["ldam"]["gain"] == pytest.approx(rows["naive"]["error"] - rows["ldam"]["error"])
    for fact in (
        "1 test at confidence",
        "0.95",
        "2 rates x 5 folds = 10 trainings",
        "edge of the tried rates: naive, ldam",
    ):
        assert fact in " ".join(out.split())
    assert run("report")[0] == 0
    assert f"{rows['ldam']['aso']:.2f} vs naive" not in Path("report.html").read_text()  # it tests counterparts


def test_rates_are_chosen_on_data_that_are_named(run, forbid_training):
    options = "--methods naive,ldam --seeds 1 --lrs 0.4,0.1 --choose-lr --choose-on digits-lt:20?validation=20"
    command = f"compare digits-lt:20 --epochs 1 {options}"
    code, out, err = run(f"{command} --verbose")
    assert (code, err) == (0, "")
    printed = " ".join(out.split())
    assert "naive, ldam: chosen on the test split of digits-lt:20?validation=20, 2 trainings each" in printed
    forbid_training()
    document = json.loads(run(f"{command} --json")[1])
    assert document["chosen_on"] == "digits-lt:20?validation=20"
    assert {row["method"]: row["lr"] for row in document["methods"]} == {
        name: chosen["lr"] for name, chosen in document["chosen"].items()
    }


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ("--choose-on digits-lt:20?validation=20", ("choose_on", "choose_lr")),
        ("--choose-lr --lrs 0.1,0.2 --choose-on ''", ("''", "cu list data")),
        ("--choose-lr --lrs 0.1,0.2 --choose-on digit-lt:20", ("'digit-lt:20'", "digits-lt")),
        ("--choose-lr", ("learning rates",)),
        ("--choose-lr --lrs 0.1", ("one learning rate",)),
        ("--choose-lr --lrs 0.1,0.2 --seeds 5,1000", ("seed 1000",)),
        ("--methods naive,cb-rs --against cbrs", ("'cbrs'", "'cb-rs'")),
        ("--methods cb-rs,ubrs --against naive", ("'naive'", "cb-rs, ubrs")),
    ],
)
def test_what_cannot_be_chosen_or_tested_is_refused(run, options, facts, tmp_path):
    code, out, err = run(f"compare digits-lt:20 {options}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert [fact for fact in facts if fact not in err] == []
    assert list(tmp_path.iterdir()) == []


def test_choosing_needs_a_test_split(run):
    np.savez("all.npz", x=np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32), y=np.arange(60) % 3)
    options = "--epochs 1 --methods naive --seeds 1 --lrs 0.1,0.2 --choose-lr"
    code, _, err = run(f"compare npz:all.npz {options}")
    assert (code, err.count("\n")) == (2, 1)
    assert "--test 0.2" in err
    assert run(f"compare npz:all.npz?test=0.2 {options}")[0] == 0


def test_compare_and_train_by_an_estimator_and_a_score(run):
    """Each score is another vector of class uncertainties, and so another training."""
    command = f"compare digits-lt:20 {SHORT} --methods ubrw --seeds 1 --estimator out-of-fold --json"
    plain, other = (
        json.loads(run(command, *score)[1])["methods"][0] for score in ((), ("--score", "least-confidence"))
    )
    assert plain["nll"] != other["nll"]
    options = "--method ubrw --estimator out-of-fold --score least-confidence"
    trained = json.loads(run(f"train digits-lt:20 {SHORT} {options} --json")[1])["result"]
    assert trained["scores"]["nll"] == pytest.approx(other["nll"])
    assert run("report")[0] == 0


def test_any_method_by_any_measure_with_any_augmentation(run):
    """Stored, shown and reported under the name that was typed."""
    names = ("ubrw@product", "naive+mixup")
    command = f"compare digits-lt:20 {SHORT} --methods {','.join(names)} --seeds 1"
    code, out, err = run(command)
    assert (code, err) == (0, "")
    assert all(name in out for name in names)
    assert [row["method"] for row in json.loads(run(f"{command} --json")[1])["methods"]] == list(names)
    with Store("runs.sqlite") as store:
        assert {result.method for result in store.results(store.data()[0].fingerprint)} == {"naive", *names}
    assert run("report")[0] == 0
    assert all(name in Path("report.html").read_text() for name in names)


def test_tables_say_who_measured_and_who_judged(run, tmp_path):
    options = f"--estimator online --score aleatoric --seeds 1 {SHORT} --verbose"
    _, out, _ = run(f"compare digits-lt:20 --methods ubrw {options}")
    assert "Uncertainty was measured by online, score aleatoric." in out
    rng = np.random.default_rng(0)
    np.savez("own.npz", x=rng.normal(size=(60, 4)).astype(np.float32), y=np.arange(60) % 3)
    _, out, _ = run(f"measure npz:own.npz --estimators ensemble,single {SHORT} --verbose")
    assert "There is no test split: errors come from 5 stratified folds" in " ".join(out.split())
    assert json.loads(run(f"measure npz:own.npz --estimators ensemble,single {SHORT} --json")[1])["folds"] == 5


def test_remedies_beside_methods(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")  # in which no name is folded
    names = ["naive", "ubrw", *REMEDIES, "cb*2"]
    command = f"compare digits-lt:20 {SHORT} --seeds 2 --methods {','.join(names)}"
    code, out, err = run(command)
    assert (code, err) == (0, "")
    rows = {row["method"]: row for row in json.loads(run(f"{command} --json")[1])["methods"]}
    assert list(rows) == names
    assert [rows[name]["cost"] for name in ("naive", "ubrw", "adjusted", "ensemble", "cb*2")] == [1, 3, 1, 2, 2]
    assert rows["distil"]["cost"] == pytest.approx(2 + 1 + 2 / 3)
    assert rows["distil"]["runs"] == 2
    for name in names:
        line = next(line for line in out.splitlines() if line.split()[:1] == [name])
        assert f"{rows[name]['error']:.2f} +-" in line
        assert f" {rows[name]['cost']:.3g} " in line + " "


def test_tau_is_chosen_out_of_fold_at_every_rate(run):
    command = f"compare digits-lt:20 {SHORT} --seeds 1 --methods adjusted --lrs 0.1,0.4 --estimator out-of-fold"
    rows = json.loads(run(f"{command} --json")[1])["methods"]
    assert [(row["lr"], row["cost"]) for row in rows] == [(0.1, 3), (0.4, 3)]
    with Store("runs.sqlite") as store:
        kept = store.results(store.data()[0].fingerprint)
    train = cu.load("digits-lt:20").train
    for row in rows:
        (result,) = (stored for stored in kept if (stored.method, stored.lr) == ("adjusted", row["lr"]))
        recipe = cu.training.default_recipe(train, epochs=2, lr=row["lr"])
        estimate = cu.estimate(train, "out-of-fold", 2, recipe)
        assert result.plan["tau"] == cu.fit_adjustment(estimate.probabilities[0], train.labels, train.counts).tau


def test_what_is_said_of_adjusted_rows(run, rng):
    """Each fold has its own tau; NLL and ECE are of examples as they come, where rows with tau assume equal classes."""
    labels = np.repeat([0, 1, 2], [40, 20, 10])
    np.savez("some.npz", X=rng.normal(0, 1, (70, 4)) + labels[:, None], y=labels)
    np.savez("even.npz", X=rng.normal(0, 1, (60, 4)), y=np.arange(60) % 3)
    texts = {}
    for name in ("some", "even"):
        options = "--seeds 1 --methods naive,adjusted --estimator out-of-fold --verbose"
        texts[name] = " ".join(run(f"compare npz:{name}.npz {SHORT} {options}")[1].split())
    assert ("each fold's was chosen on the others" in texts["some"]) == ("(tau): 1 at" not in texts["some"])
    assert "equally frequent classes" in texts["some"]
    assert "equally frequent" not in texts["even"]
    assert "(tau): 0 at the learning rate 0.1; each fold's" in texts["even"]


def test_equal_cost(run):
    """naive costs 1 and ubrs 2 + 1, where distil costs 2 + 1 + 2/3: three of the one, and one of the other still."""
    command = f"compare digits-lt:20 {SHORT} --seeds 1 --methods naive,adjusted,ubrs,distil,adjusted*3 --equal-cost"
    document = json.loads(run(f"{command} --json")[1])
    assert [row["method"] for row in document["methods"]] == [
        "naive",
        "adjusted",
        "ubrs",
        "distil",
        "adjusted*3",
        "naive*3",
    ]
    assert [row["runs"] for row in document["methods"]] == [1] * 6
