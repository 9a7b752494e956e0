"""What is announced is what is trained, or a little more."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from workflows.heard import FOREST, RECIPE, SHARING, Heard, as_features, network_epochs, without_test

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.watcher import RowTrained
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.keys import checkpoint_keys
from class_uncertainty.training.stages import resolve_stages
from class_uncertainty.workflows.work_ahead import measuring_stage


@pytest.mark.parametrize("split", [True, False])
def test_a_measurement(digits: cu.Dataset, split: bool) -> None:
    heard = Heard()
    cu.measure(digits if split else without_test(digits), members=2, recipe=RECIPE, progress=heard)
    assert heard.announced == heard.watched.trained == (2 if split else 7)
    judged = "" if split else ", 5 folds judge"
    assert [stage.about for stage in heard.stages] == [f"2 networks measure uncertainty{judged}"]
    assert heard.closed == 1
    assert len(heard.news) == (2 if split else 0)


@pytest.mark.parametrize(
    ("methods", "options", "abouts"),
    [
        (["naive", "cb-rs"], {}, ["2 methods × 2 seeds"]),
        (["ubrs"], {"members": 2}, ["2 networks measure uncertainty", "1 method × 2 seeds"]),
        (["cb-rs"], {"lrs": [0.1, 0.2]}, ["1 method × 2 seeds × 2 rates"]),
        (
            ["cb-rs"],
            {"lrs": [0.1, 0.2], "choose_lr": True},
            ["1 method × 2 rates × 5 folds choose", "1 method × 2 seeds"],
        ),
        (["ensemble", "distil"], {"members": 2}, ["6 networks for remedies"]),
    ],
)
def test_a_comparison(digits: cu.Dataset, methods: list[str], options: dict, abouts: list[str]) -> None:
    heard = Heard()
    cu.compare(digits, methods, 2, recipe=RECIPE, progress=heard, **options)
    assert [stage.about for stage in heard.stages] == abouts
    assert heard.announced == heard.watched.trained
    rows = [news for news in heard.news if isinstance(news, RowTrained) and news.complete]
    assert {news.row[0] for news in rows} == set(methods)


def test_a_comparison_at_rates_that_validation_images_choose(digits: cu.Dataset) -> None:
    heard, options = Heard(), {"choose_lr": True, "choose_on": cu.load("digits-lt:20?validation=20")}
    cu.compare(digits, ["cb-rs"], 2, [0.1, 0.2], recipe=RECIPE, progress=heard, **options)
    chosen = "1 method × 2 rates choose on digits-lt:20?validation=20"
    assert [stage.about for stage in heard.stages] == [chosen, "1 method × 2 seeds"]
    assert heard.announced == heard.watched.trained == 4


@pytest.mark.parametrize("split", [True, False])
def test_a_comparison_counts_shared_epochs_once(digits: cu.Dataset, split: bool, tmp_path: Path) -> None:
    data, settings = digits if split else without_test(digits), {"recipe": SHARING, "store": tmp_path / "runs.sqlite"}
    heard, again = Heard(), Heard()
    folds = 1 if split else 5
    comparison = cu.compare(data, ["naive", "2s-cb-rs", "2s-csce", "cb-rs"], 2, progress=heard, **settings)
    (stage,) = heard.stages
    work = 2 * folds * (0.8 + 4 * 0.2 + 0.8)
    assert (stage.networks, stage.work) == (8 * folds, pytest.approx(work))
    assert heard.work["methods"] == pytest.approx(work)
    assert network_epochs(heard) == pytest.approx(work)
    assert {row.cost for row in comparison.rows} == {1.0}  # as if each were trained alone
    cu.compare(data, ["naive", "2s-ubrs", "2s-cb-rs"], 2, members=2, progress=again, **settings)
    assert again.work["methods"] == pytest.approx(2 * folds)  # what it shared it with is stored


def test_methods_at_rates_that_are_not_chosen_yet_may_share_nothing(digits: cu.Dataset) -> None:
    heard, rates = Heard(), [0.05, 0.1]
    cu.compare(digits, ["naive", "2s-csce"], 1, rates, choose_lr=True, recipe=SHARING, progress=heard)
    choosing, compared = heard.stages
    assert (choosing.networks, choosing.work) == (20, pytest.approx(12.0))
    assert heard.work["choosing"] == pytest.approx(12.0)
    assert compared.work == compared.networks == 2
    assert network_epochs(heard) == pytest.approx(12 + heard.work["methods"])


def test_elsewhere_nothing_is_known_to_be_shared(digits: cu.Dataset, tmp_path: Path) -> None:
    """On a cluster lanes share within a task."""
    lanes = [cu.Lane("naive"), cu.Lane("2s-csce")]
    with open_context(digits, SHARING, tmp_path / "runs.sqlite", "cpu") as context:
        assert context.rest(lanes, [1.0, 1.0]).turns == ((1, pytest.approx(0.8)), (2, pytest.approx(0.2)))
        elsewhere = replace(context, executor=SimpleNamespace(device="cpu"))
        assert elsewhere.rest(lanes, [1.0, 0.5]).turns == ((1, 1.0), (1, 0.5))


def test_networks_that_share_nothing_fill_the_stacks_of_a_gpu(digits: cu.Dataset, tmp_path: Path) -> None:
    lanes = [cu.Lane("naive"), cu.Lane("2s-csce"), cu.Lane("cb-rs")]
    turns = {"cpu": ((1, 0.8), (2, 0.2), (1, 1.0)), "cuda": ((2, 0.8), (3, 0.2))}
    with open_context(digits, SHARING, tmp_path / "runs.sqlite", "cpu") as context:
        for device, expected in turns.items():
            rest = replace(context, device=device).rest(lanes, [1.0] * 3)
            assert rest.turns == tuple((number, pytest.approx(share)) for number, share in expected)


def test_a_comparison_by_folds(digits: cu.Dataset, tmp_path: Path) -> None:
    settings = {"recipe": RECIPE, "store": tmp_path / "runs.sqlite"}
    heard, again = Heard(), Heard()
    cu.compare(without_test(digits), ["cb-rs"], 2, progress=heard, **settings)
    assert [stage.about for stage in heard.stages] == ["1 method × 2 seeds × 5 folds"]
    assert heard.announced == heard.watched.trained == 10
    cu.compare(without_test(digits), ["cb-rs"], 2, progress=again, **settings)  # rows that are stored are told too
    assert [news.complete for news in again.news] == [False, True]
    assert again.watched.trained == 0


def test_what_is_trained_already_is_not_announced_again(digits: cu.Dataset, tmp_path: Path) -> None:
    settings = {"recipe": RECIPE, "store": tmp_path / "runs.sqlite"}
    heard, by_folds, measuring = Heard(), Heard(), Heard()
    cu.compare(digits, ["cb-rs"], 1, **settings)
    cu.compare(digits, ["naive", "cb-rs"], 2, progress=heard, **settings)
    assert heard.left["methods"] == [[1.0, 1.0, 0.0, 1.0]]
    assert heard.watched.trained == 3
    remedies = Heard()
    cu.compare(digits, ["ensemble", "distil"], 1, members=3, progress=remedies, **settings)
    assert remedies.left["remedies"] == [[0.0, 0.0, 1.0], [1.0]]  # of naive networks two, of students none
    cu.compare(digits, ["ensemble"], 2, members=3, progress=remedies, **settings)
    assert remedies.left["remedies"] == [[0.0] * 3 + [1.0] * 3, []]
    cu.compare(without_test(digits), ["cb-rs"], 2, progress=by_folds, **settings)
    assert by_folds.left["methods"] == [[1.0] * 10]  # judged by folds, of which none is stored
    cu.measure(digits, members=2, **settings)
    cu.measure(digits, members=2, progress=measuring, **settings)
    assert measuring.stages == []


def test_a_checkpoint_counts_for_as_much_as_it_holds(digits: cu.Dataset, tmp_path: Path) -> None:
    recipe, crt = cu.Recipe("small-conv", epochs=20, batch=32), cu.Lane("crt")
    with open_context(digits, recipe, tmp_path / "runs.sqlite", "cpu") as context:
        keys = checkpoint_keys(digits.train.fingerprint, crt, recipe, cu.Stats(digits.train.counts), "cpu")
        first, second = (stage.recipe.epochs for stage in resolve_stages(crt.value, recipe))
        reached = dict[str, int]()
        begun = replace(context, checkpoints=SimpleNamespace(epoch=lambda key: reached.get(key, 0)))
        assert (context.left(crt), begun.left(crt)) == (1.0, 1.0)
        reached[keys[0]] = first
        assert begun.left(crt) == pytest.approx(second / (first + second))
        reached[keys[1]] = second
        assert begun.left(crt) == 0.0


LONG = cu.Recipe("small-conv", epochs=20, batch=32)  # crt has a second stage of three more


def test_both_checkpoints_of_a_second_stage_under_way_count_once(digits: cu.Dataset, tmp_path: Path) -> None:
    crt = cu.Lane("crt")
    with open_context(digits, LONG, tmp_path / "runs.sqlite", "cpu") as context:
        keys = checkpoint_keys(digits.train.fingerprint, crt, LONG, cu.Stats(digits.train.counts), "cpu")
        for reached, left in (((12, 0), 11), ((20, 1), 2), ((0, 2), 1), ((10**9, 0), 0)):  # the last is damaged
            epoch = dict(zip(keys, reached, strict=True)).__getitem__
            begun = replace(context, checkpoints=SimpleNamespace(epoch=epoch))
            assert begun.left(crt) == pytest.approx(left / 23)


@pytest.mark.parametrize(
    ("epochs", "left", "work"),
    [(12, [8 / 20, 11 / 23], 8 * (1 / 20 + 1 / 23) / 2 + 3 / 23), (21, [0, 2 / 23], 2 / 23)],
    ids=["first stage", "second stage"],
)
def test_a_comparison_that_was_stopped_trains_what_its_plan_says(
    epochs: int, left: list[float], work: float, digits: cu.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both methods share all 20 epochs of the first stage; then one of them has ended."""
    settings = {"recipe": LONG, "store": tmp_path / "runs.sqlite"}
    heard, again = Heard(), Heard()

    def reached() -> int:
        return max((news.epoch + 1 for news in heard.watched.news), default=0)

    with monkeypatch.context() as patch:
        patch.setattr(Deadline, "passed", property(lambda _: reached() >= epochs))
        with pytest.raises(cu.Unfinished):
            cu.compare(digits, ["naive", "crt"], 1, progress=heard, **settings)
    assert reached() == epochs
    cu.compare(digits, ["naive", "crt"], 1, progress=again, **settings)
    assert again.left["methods"] == [pytest.approx(left)]
    assert again.work["methods"] == pytest.approx(work)
    assert network_epochs(again) == pytest.approx(work)


def test_what_was_measured_elsewhere_is_judged_by_no_folds(digits: cu.Dataset, tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.full((len(digits.train), 10), 0.1))
    request = EstimateRequest(f"probabilities:{tmp_path / 'p.npy'}")
    with open_context(without_test(digits), RECIPE) as context:
        assert measuring_stage(context, [request]).about == "0 networks measure uncertainty"


@pytest.mark.parametrize(("recipe", "has_rate"), [(FOREST, False), (RECIPE, True)])
def test_a_forest_is_no_network_and_has_no_learning_rate(digits: cu.Dataset, recipe: cu.Recipe, has_rate: bool) -> None:
    heard, data = Heard(), digits if recipe is RECIPE else as_features(digits)
    measuring = Heard()
    cu.measure(data, members=2, recipe=recipe, estimator="ensemble", progress=measuring)
    assert [stage.about.split()[1] for stage in measuring.stages] == ["networks" if has_rate else "models"]
    compared = cu.compare(data, ["naive"], seeds=1, recipe=recipe, progress=heard)
    (row,) = compared.rows
    assert (heard.recipes, row.has_rate) == ([recipe], has_rate)
    assert (f">{row.lr:g}</td>" in compared._repr_html_()) == has_rate
