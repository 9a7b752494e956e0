"""What is announced is what is trained, or a little more."""

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from watching import Watched

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.watcher import Decided, Diagnosed, Left, News, RowTrained, RungsJudged, Stage, Watcher
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit import Progress
from class_uncertainty.training.keys import checkpoint_keys
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.training.stages import resolve_stages
from class_uncertainty.workflows.search_plan import SearchPlan
from class_uncertainty.workflows.work_ahead import _kind, fix_stages, measuring_stage

RECIPE = cu.Recipe("small-conv", epochs=1, batch=32)
FOREST = replace(RECIPES["forest"], trees=3)


class Heard(Watcher):
    """Everything that a workflow tells."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.recipes: list[cu.Recipe] = []
        self.begun: list[str] = []
        self.left: dict[str, list[list[float]]] = {}
        self.work: dict[str, float] = {}
        self.news: list[News] = []
        self.watched, self.closed = Watched(), 0

    def __call__(self, what: str, networks: int, epochs: int) -> AbstractContextManager[Progress]:
        return self.watched(what, networks, epochs)

    def ahead(self, stages, recipe, device, measure) -> None:
        self.stages += stages
        self.recipes.append(recipe)

    def begin(self, name: str, left: Left = ()) -> None:
        self.begun.append(name)
        self.left[name] = [list(part.shares) for part in left]
        self.work[name] = sum(number * share for part in left for number, share in part.turns)

    def tell(self, news: News) -> None:
        self.news.append(news)

    def close(self) -> None:
        self.closed += 1

    @property
    def announced(self) -> int:
        return sum(stage.networks for stage in self.stages)


def without_test(digits: cu.Dataset) -> cu.Dataset:
    return cu.Dataset("digits", digits.train)


def as_features(digits: cu.Dataset) -> cu.Data:
    train = digits.train
    return cu.Data(train.inputs.reshape(len(train), -1).astype("float32"), train.labels, train.classes)


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


SHARING = cu.Recipe("small-conv", epochs=5, batch=32)  # the second stage is the last epoch


def network_epochs(heard: Heard) -> float:
    """What really trained, in networks: an epoch that several share is one."""
    return sum(1 / number / news.epochs for news in heard.watched.news for number in news.shared_by)


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
    """On a cluster lanes share within a task, under torchrun not at all."""
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


def test_a_fix_counts_shared_epochs_once(digits: cu.Dataset) -> None:
    heard = Heard()
    options = {"candidates": ["naive", "2s-cb-rs"], "seeds": 1, "trainings": 11, "progress": heard}
    fixed = cu.fix(digits, recipe=SHARING, **options)
    first = heard.stages[0]
    assert first.spared == pytest.approx(0.4 * first.networks)
    assert heard.work["rung 1"] == pytest.approx(first.work)
    ladder = heard.work.pop("ladder")
    assert network_epochs(heard) <= sum(heard.work.values()) + ladder
    heard.watched.news = [news for news in heard.watched.news if all(lane.fold for lane in news.lanes)]
    assert network_epochs(heard) == pytest.approx(sum(heard.work.values()))
    searched = sum(row.trainings for rung in fixed.report.rungs for row in rung.rows)
    assert searched == first.networks + sum(stage.networks for stage in heard.stages if stage.name == "rung 2")


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


def test_a_fix_goes_on_with_what_it_lacks(digits: cu.Dataset, tmp_path: Path) -> None:
    settings = {"recipe": RECIPE, "store": tmp_path / "runs.sqlite", "seeds": 2, "trainings": 8}
    heard, again = Heard(), Heard()
    cu.fix(digits, candidates=["naive", "cb-rs"], progress=heard, **settings)
    cu.fix(digits, candidates=["naive", "cb-rs"], progress=again, **settings)
    for side, trained in ((heard, heard.watched.trained), (again, 0)):
        shares = [share for left in side.left.values() for part in left for share in part]
        assert sum(share > 0 for share in shares) >= trained
        assert (0 in map(sum, side.left["rung 1"])) == (side is again)
    assert sum(sum(part) for left in again.left.values() for part in left) == again.watched.trained == 0


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


@pytest.mark.parametrize(
    ("split", "ensemble", "trial", "ladder"),
    [
        (True, False, (2, 2), (2, 2, 2)),
        (True, True, (2, 0), (2, 5, 0)),
        # before: two seeds by folds; after: the same and one on all examples, less the seed that the rungs trained;
        # students: likewise, and three teachers for each fold
        (False, False, (2, 2), (10, 10 + 1 - 5, 10 + 1 + 15)),
        (False, True, (2, 0), (10, 25 + 5 - 5, 0)),
    ],
)
def test_the_networks_of_a_fix(
    split: bool, ensemble: bool, trial: tuple[int, int], ladder: tuple[int, int, int], digits: cu.Dataset
) -> None:
    """Two candidates that cost 1 and 3, two seeds; a trial of three networks, of which one is of the rungs."""
    plan = SearchPlan(candidates=2, finalists=2, folds=5, last_folds=5, members=3, ensemble=ensemble)
    candidates = [cu.Candidate("naive"), cu.Candidate("cb-rs")]
    with open_context(digits if split else without_test(digits), RECIPE) as context:
        first, tried, last = fix_stages(context, plan, candidates, [1.0, 3.0], seeds=2)
    assert (first.together, first.unit, first.kinds) == ((10,), 2.0, ())
    students = 0 if ensemble else 2 + 3 / 3  # whose teachers only predict, a third of a step
    assert (tried.together, tried.unit * tried.networks) == (trial, pytest.approx(2.0 * (2 + students)))
    assert (last.together, last.unit) == (ladder, 2.0)


def test_kinds_of_models_that_train_apart_are_named(digits: cu.Dataset) -> None:
    plan = SearchPlan(candidates=2, finalists=2, folds=5, last_folds=5, members=0, ensemble=True, kept=2)
    rows = [cu.Candidate("naive?recipe=logistic"), cu.Candidate("cb-rs?recipe=forest")]
    with open_context(as_features(digits), FOREST) as context:
        first, last = fix_stages(context, plan, rows, [1.0, 1.0], seeds=1)
    assert first.together == (5, 5)
    assert [kind.network for kind in first.kinds] == ["linear", "forest"]
    assert last.together == (5, 2 * (5 + 1 - 5), 0)


def test_what_was_measured_elsewhere_is_judged_by_no_folds(digits: cu.Dataset, tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.full((len(digits.train), 10), 0.1))
    request = EstimateRequest(f"probabilities:{tmp_path / 'p.npy'}")
    with open_context(without_test(digits), RECIPE) as context:
        assert measuring_stage(context, [request]).about == "0 networks measure uncertainty"


def test_a_fix(digits: cu.Dataset) -> None:
    heard = Heard()
    cu.fix(digits, recipe=RECIPE, candidates=["naive", "cb-rs", "ubrs"], seeds=2, progress=heard)
    names = [stage.name for stage in heard.stages]
    assert names == ["measuring", "rung 1", "rung 2", "rung 3", "ladder"]
    assert [name for name in heard.begun if name in names] == names[1:]
    assert heard.stages[1].about == "3 candidates on 1 fold"
    assert heard.stages[2].about.startswith("the best ")  # also where the stage before is stored
    assert heard.stages[-1].about == "2 networks before and after"
    trained = heard.watched.trained
    assert trained <= heard.announced <= trained + 4
    kinds = [type(news) for news in heard.news]
    assert kinds[:2] == [RungsJudged, Diagnosed]
    assert kinds[-1] is Decided
    assert [len(news.rungs) for news in heard.news if isinstance(news, RungsJudged)] == [1, 2, 3]


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


def test_a_fix_with_a_trial_and_folds(digits: cu.Dataset) -> None:
    heard = Heard()
    options = {"candidates": ["naive"], "deploy": "ensemble", "seeds": 2, "trainings": 40}
    cu.fix(without_test(digits), recipe=RECIPE, progress=heard, **options)
    abouts = [stage.about for stage in heard.stages]
    assert "a trial of 5 networks" in abouts
    assert abouts[-1] == "2 networks before and after, each on 5 folds"
    assert heard.watched.trained <= heard.announced


def test_kinds_of_models_are_told_apart_and_networks_of_one_kind_are_not() -> None:
    """Trees and heads take as long as their recipes say; networks of the usual kind only take more or fewer passes."""
    trees, logistic = RECIPES["forest"], RECIPES["logistic"]
    assert _kind(trees, trees) == trees
    assert _kind(logistic, trees) == logistic
    assert _kind(replace(trees, trees=7), trees).trees == 7
    assert _kind(replace(RECIPE, epochs=9, schedule="cosine"), RECIPE) == RECIPE
