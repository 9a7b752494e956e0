"""cu.compare(): methods and remedies side by side."""

import json
from dataclasses import replace

import numpy as np
import pytest
from refusals import refused
from runs.exchanged import exported, imported, written
from watching import Watched, no_training

import class_uncertainty as cu
from class_uncertainty.errors import ShardEnded
from class_uncertainty.reporting.stored_views import stored_results
from class_uncertainty.runs import Store
from class_uncertainty.runs.comparison import CHOOSING_SEED, RateChoice, check_choosing, check_seeds
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import load_or_evaluate
from class_uncertainty.runs.rows import method_rows
from class_uncertainty.runs.settings import Settings
from class_uncertainty.training import RECIPES
from class_uncertainty.workflows.compare import check_judges, choose_rates
from class_uncertainty.workflows.ladder import judged_by_folds

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32)


def test_results_are_those_of_the_lanes_in_the_order_of_the_methods(digits):
    comparison = cu.compare(digits, methods=["cb", "adjusted", "naive"], seeds=[4, 2], lrs=[0.2, 0.1], recipe=RECIPE)
    place = [(result.method, result.lr, result.seed) for result in comparison.results]
    assert place == [
        (method, lr, seed) for method in ("cb", "adjusted", "naive") for lr in (0.2, 0.1) for seed in (4, 2)
    ]
    lanes = [cu.Lane(method, seed, lr) for method in ("cb", "naive") for lr in (0.2, 0.1) for seed in (4, 2)]
    alone = cu.fit(digits.train, lanes, recipe=RECIPE, test=digits.test).results
    methods = [result for result in comparison.results if result.method != "adjusted"]
    assert [result.scores for result in methods] == [result.scores for result in alone]
    assert comparison.estimate is None
    assert comparison.rows == tuple(method_rows(comparison.results))
    assert comparison.strengths == {0.2: 1.0, 0.1: 1.0}


def test_uncertainty_is_measured_where_a_method_uses_it(digits):
    """By the estimator and the score that are given; the rows cost what measuring costs."""
    comparison = cu.compare(
        digits,
        methods=["naive", "ubrw"],
        seeds=1,
        estimator="out-of-fold",
        members=2,
        score="least-confidence",
        recipe=RECIPE,
    )
    estimate = cu.estimate(digits, "out-of-fold", 2, RECIPE, score="least-confidence")
    stats = estimate.stats
    (alone,) = cu.fit(digits.train, [cu.Lane("ubrw")], recipe=RECIPE, stats=stats, test=digits.test).results
    assert comparison.results[1].scores == alone.scores
    assert comparison.estimate.score == "least-confidence"
    assert [row.cost for row in comparison.rows] == [1, 3]


def test_the_document_has_a_row_for_every_method_and_rate(digits):
    comparison = cu.compare(digits, methods=["naive", "cb"], seeds=2, recipe=RECIPE)
    document = json.loads(json.dumps(comparison.document()))
    assert [row["method"] for row in document["methods"]] == ["naive", "cb"]
    assert document["methods"][1]["gain"] == pytest.approx(comparison.rows[0].error - comparison.rows[1].error)
    assert (document["estimator"], document["score"], document["folds"]) == (None, None, 0)
    assert (document["network"], document["parameters"]) == ("small-conv", 6_274)


def test_equal_cost_adds_ensembles_of_cheap_rows(digits):
    """distil costs 2 + 1 + 2/3: three naive networks do not cost more; adjusted*3 is there already."""
    names = ["naive", "adjusted", "ubrs", "distil", "adjusted*3"]
    comparison = cu.compare(digits, methods=names, seeds=1, members=2, equal_cost=True, recipe=RECIPE)
    assert [row.method for row in comparison.rows] == [*names, "naive*3"]
    costs = {row.method: row.cost for row in comparison.rows}
    assert costs["naive*3"] == 3
    assert max(costs.values()) == costs["distil"] == pytest.approx(2 + 1 + 2 / 3)


def test_what_the_store_has_is_not_trained_again(digits, tmp_path):
    path, watched = tmp_path / "runs.sqlite", Watched()
    first = cu.compare(
        digits, methods=["naive", "ensemble"], seeds=1, members=2, recipe=RECIPE, store=path, progress=watched
    )
    assert watched.announced == [1, 1]  # the first member of the ensemble is the naive lane of seed 0
    assert [lane.seed for lane in watched.lanes] == [0, 1]
    again = cu.compare(
        digits, methods=["ensemble", "naive"], seeds=1, members=2, recipe=RECIPE, store=path, progress=no_training
    )
    assert again.results == first.results[::-1]


def test_class_vectors_of_another_machine_are_not_measured_again(digits, tmp_path):
    """The members train only where tau is chosen on their probabilities."""
    here, there = {"recipe": RECIPE, "store": tmp_path / "a"}, {"recipe": RECIPE, "store": tmp_path / "b"}
    out_of_fold = {"estimator": "out-of-fold", "members": 2}
    cu.compare(digits, methods=["ubrs"], seeds=1, members=2, **here)
    cu.compare(digits, methods=["ubrs"], seeds=1, **out_of_fold, **here)
    with Store(tmp_path / "a") as first, Store(tmp_path / "b") as second:
        imported(second, written(tmp_path / "a.jsonl", exported(first)))
    for options in ({"members": 2}, {"members": 2, "score": "true-class"}, out_of_fold):
        watched = Watched()
        comparison = cu.compare(
            digits, methods=["naive", "ubrs", "ubrw"], seeds=1, **options, **there, progress=watched
        )
        assert {lane.name for lane in watched.lanes} <= {"ubrs", "ubrw"}
        as_usual = cu.compare(digits, methods=["naive", "ubrs", "ubrw"], seeds=1, **options, **here)
        assert [result.scores for result in comparison.results] == [result.scores for result in as_usual.results]
        assert tuple(replace(row, marks=()) for row in comparison.rows) == as_usual.rows
        assert (comparison.uncertainty_imported, as_usual.uncertainty_imported) == (True, False)
    cu.train(digits, "ubrw", members=2, **there, progress=(watched := Watched()))
    assert [lane.name for lane in watched.lanes] == ["ubrw"]
    watched = Watched()
    cu.compare(digits, methods=["ubrs", "adjusted"], seeds=1, **out_of_fold, **there, progress=watched)
    assert {lane.fold for lane in watched.lanes} >= {(0, 2), (1, 2)}


def test_without_a_test_split_folds_judge_methods_and_remedies(digits):
    comparison = cu.compare(digits.train, methods=["naive", "adjusted"], seeds=1, recipe=RECIPE)
    assert comparison.folds == 5
    assert {result.folds for result in comparison.results} == {5}
    naive, adjusted = comparison.results
    assert np.isfinite(adjusted.class_errors).all()
    assert adjusted.error != naive.error


def test_rows_are_tested_against_one_of_them(digits):
    names = ["cb-rs", "naive", "cb-rs@uncertainty"]
    comparison = cu.compare(digits, methods=names, seeds=2, members=2, against="naive", recipe=RECIPE)
    assert [row.aso_against for row in comparison.rows] == ["naive", None, "naive"]
    document = comparison.document()
    assert document["aso"] == {"against": "naive", "tests": 2, "confidence": 1 - 0.05 / 2}
    assert [row["aso_against"] for row in document["methods"]] == ["naive", None, "naive"]
    counterparts = cu.Comparison(comparison.dataset, comparison.results, comparison.estimate)
    assert [row.aso_against for row in counterparts.rows] == [None, None, "cb-rs"]
    alone = cu.compare(digits, methods=["naive"], seeds=1, recipe=RECIPE).document()["aso"]
    assert alone == {"against": "counterpart", "tests": 0, "confidence": None}


def test_a_test_against_a_row_that_is_not_compared_is_refused(digits, tmp_path):
    with refused("'cb-r'", "'cb-rs'", "counterpart", "naive"):
        cu.compare(digits, methods=["naive", "cb-rs"], against="cb-r", store=tmp_path / "runs.sqlite")
    with refused("'naive'", "cb-rs"):
        cu.compare(digits, methods=["cb-rs", "ubrs"], against="naive", store=tmp_path / "runs.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_seeds_are_how_many_or_which():
    assert check_seeds(3) == [0, 1, 2]
    assert check_seeds((7, 5)) == [7, 5]
    for seeds in (0, -1, 1001):
        with refused(f"seeds is {seeds}", "1,000"):
            check_seeds(seeds)


def test_wrong_input_is_refused_before_training(digits):
    for methods, parts in ((["ubr"], ["'ubr'", "'ubrw'"]), (["distil*2"], ["'distil*2'"]), (["cb@x"], ["'x'"])):
        with refused(*parts):
            cu.compare(digits, methods=methods, progress=no_training)
    with refused("'epistemc'", "'epistemic'"):
        cu.compare(digits, methods=["ubrw"], score="epistemc", progress=no_training)
    with refused("budget", "store"):
        cu.compare(digits, methods=["naive"], budget=1.0)


@pytest.mark.parametrize(
    ("lists", "facts"),
    [
        ({"methods": []}, ("no method",)),
        ({"methods": ["naive", "naive"]}, ("method naive", "twice")),
        ({"methods": ["naive"], "lrs": [0.1, 0.1]}, ("learning rate 0.1", "twice")),
        ({"methods": ["naive"], "seeds": [0, 0]}, ("seed 0", "twice")),
        ({"methods": ["naive"], "seeds": []}, ("no seed",)),
    ],
)
def test_nothing_is_compared_twice_or_not_at_all(digits, lists, facts):
    with refused(*facts):
        cu.compare(digits, **lists)


@pytest.mark.parametrize(("method", "fact"), [("ldam", "margins"), ("ubrw-focal", "focal"), ("distil", "teachers")])
def test_what_does_not_suit_the_recipe_is_refused_before_anything_is_announced(method, fact):
    table, watched = cu.Data(np.random.default_rng(0).normal(0, 1, (40, 3)), np.arange(40) % 2), Watched()
    with refused(f"'{method}' has {fact}", "network 'forest'"):
        cu.compare(table, methods=["naive", method], seeds=1, recipe=RECIPES["forest"], progress=watched)
    assert watched.announced == []


@pytest.mark.parametrize(
    ("method", "recipe", "facts"),
    [
        ("cb+cutout", {}, ("cutout", "features")),
        ("2s-cam-rs", {}, ("2s-cam-rs", "features")),
        ("naive", {"network": "small-conv"}, ("small-conv", "features")),
        ("naive", {"batch": 1}, ("batch",)),
    ],
)
def test_what_does_not_fit_the_data_is_refused(method, recipe, facts):
    """As cu.fit refuses it: by every workflow that trains."""
    table = cu.Data(np.random.default_rng(0).normal(0, 1, (40, 3)), np.arange(40) % 2)
    recipe = cu.Recipe(**({"network": "mlp", "epochs": 1, "batch": 8} | recipe))
    with refused(*facts):
        cu.compare(table, methods=[method], seeds=1, recipe=recipe)
    with refused(*facts):
        cu.train(table, method, recipe=recipe)


SHORT = cu.Recipe("small-conv", epochs=1, batch=32)
RATES = [0.4, 0.1]  # in one epoch naive is better at the first by 18 points, and ldam at the second by 19
WILD = 1e6  # diverges


@pytest.fixture
def watched():
    return Watched()


@pytest.fixture
def context(digits, watched):
    with open_context(digits, Settings(recipe=SHORT, progress=watched)) as context:
        yield context


def test_the_rate_with_the_lowest_error_is_chosen_for_each_method(context, watched):
    """By what judges in the context, here the test split; all networks train in one step."""
    choices = choose_rates(context, ["naive", "ldam"], RATES, None)
    assert watched.announced == [4]
    assert {(lane.seed, lane.fold) for lane in watched.lanes} == {(CHOOSING_SEED, None)}
    for method, lr in (("naive", 0.4), ("ldam", 0.1)):
        lanes = [cu.Lane(method, CHOOSING_SEED, rate) for rate in RATES]
        results = cu.fit(context.train, lanes, recipe=SHORT, test=context.dataset.test).results
        assert choices[method] == RateChoice(method, lr, {result.lr: pytest.approx(result.error) for result in results})


def test_folds_of_the_training_split_judge_without_a_look_at_the_test_split(context, digits, watched):
    choices = choose_rates(judged_by_folds(context), ["naive", "ldam"], RATES, None)
    assert watched.announced == [4 * 5]
    assert {lane.fold for lane in watched.lanes} == {(k, 5) for k in range(5)}
    other_labels = cu.Data(digits.test.inputs, (digits.test.labels + 1) % 10, digits.classes)
    with open_context(cu.Dataset("other", digits.train, other_labels), Settings(recipe=SHORT)) as other:
        assert choose_rates(judged_by_folds(other), ["naive", "ldam"], RATES, None) == choices


def test_a_rate_at_which_training_diverges_is_never_chosen(context):
    choices = choose_rates(context, ["naive"], [WILD, 0.1], None)
    assert choices["naive"].lr == 0.1
    assert choices["naive"].errors[WILD] is None


def test_a_method_that_always_diverges_keeps_its_row(digits):
    comparison = cu.compare(digits, methods=["naive"], seeds=1, lrs=[2 * WILD, WILD], choose_lr=True, recipe=SHORT)
    (row,) = comparison.rows
    assert (row.lr, row.runs, row.diverged, row.error) == (WILD, 0, 1, None)
    assert comparison.document()["chosen"] == {"naive": {"lr": WILD, "errors": {2 * WILD: None, WILD: None}}}


# in a comparison


def test_every_row_trains_at_its_rate_and_gains_over_naive_at_its_own(digits):
    """Remedies take the rate of the method that they are made of."""
    names = ["ldam", "naive", "adjusted", "ldam*2"]
    comparison = cu.compare(digits, methods=names, seeds=2, lrs=RATES, choose_lr=True, recipe=SHORT)
    assert [(row.method, row.lr, row.runs) for row in comparison.rows] == [
        ("ldam", 0.1, 2), ("naive", 0.4, 2), ("adjusted", 0.4, 2), ("ldam*2", 0.1, 2)
    ]  # fmt: skip
    plain = cu.compare(digits, methods=["ldam", "naive"], seeds=2, lrs=RATES, recipe=SHORT).results
    expected = [result for result in plain if (result.method, result.lr) in {("ldam", 0.1), ("naive", 0.4)}]
    chosen = [result for result in comparison.results if result.method in ("ldam", "naive")]
    assert [(result.method, result.seed, result.scores) for result in chosen] == [
        (result.method, result.seed, result.scores) for result in expected
    ]
    ldam, naive = comparison.rows[:2]
    assert ldam.gain == pytest.approx(naive.error - ldam.error)
    assert (ldam.naive_lr, ldam.cost, naive.cost) == (0.4, 1, 1)
    assert comparison.choosing_trainings == 2 * 5


def test_naive_chooses_for_remedies_even_if_it_is_not_compared(digits):
    measuring = {"estimator": "out-of-fold", "members": 2}
    comparison = cu.compare(
        digits,
        methods=["adjusted", "ldam"],
        seeds=1,
        lrs=RATES,
        **measuring,
        choose_lr=True,
        equal_cost=True,
        recipe=SHORT,
    )
    assert [choice.method for choice in comparison.chosen] == ["naive", "ldam"]
    assert [(row.method, row.lr) for row in comparison.rows] == [("adjusted", 0.4), ("ldam", 0.1), ("ldam*3", 0.1)]
    assert list(comparison.strengths) == [0.4]


def test_uncertainty_rows_choose_with_the_uncertainties_that_they_use(digits, tmp_path):
    options = {"members": 2, "recipe": SHORT, "store": tmp_path / "runs.sqlite"}
    comparison = cu.compare(digits, methods=["ubrw"], seeds=1, lrs=RATES, choose_lr=True, **options)
    with open_context(digits, Settings(recipe=SHORT, store=tmp_path / "runs.sqlite", progress=no_training)) as context:
        lanes = [cu.Lane("ubrw", CHOOSING_SEED, lr) for lr in RATES]
        results = load_or_evaluate(judged_by_folds(context), lanes, comparison.estimate.stats)
    assert comparison.chosen[0].errors == {result.lr: result.error for result in results}
    again = cu.compare(digits, methods=["ubrw"], seeds=1, lrs=RATES, choose_lr=True, **options, progress=no_training)
    assert (again.results, again.chosen) == (comparison.results, comparison.chosen)


def test_what_was_chosen_there_is_not_chosen_again_here(digits, tmp_path):
    there = cu.compare(
        digits, methods=["naive"], seeds=1, lrs=RATES, choose_lr=True, recipe=SHORT, store=tmp_path / "a"
    )
    with Store(tmp_path / "a") as first, Store(tmp_path / "b") as second:
        imported(second, written(tmp_path / "a.jsonl", exported(first)))
        options = {"recipe": SHORT, "store": second, "progress": no_training}
        here = cu.compare(digits, methods=["naive"], seeds=1, lrs=RATES, choose_lr=True, **options)
    assert (here.results, here.chosen) == (there.results, there.chosen)


def test_validation_images_choose_by_one_training_a_rate(digits, tmp_path):
    """The store lists their data, so that another machine need not choose again; the rows train as ever."""
    judged = cu.load("digits-lt:20?validation=20")
    options = {"choose_lr": True, "choose_on": judged, "members": 2, "recipe": SHORT}
    with Store(tmp_path / "a") as first, Store(tmp_path / "b") as second:
        comparison = cu.compare(digits, methods=["naive", "ldam", "ubrw"], seeds=1, lrs=RATES, **options, store=first)
        stats = cu.Stats(judged.train.counts, comparison.estimate.mu)
        lanes = [cu.Lane(choice.method, CHOOSING_SEED, lr) for choice in comparison.chosen for lr in RATES]
        fitted = cu.fit(judged.train, lanes, recipe=SHORT, stats=stats, test=judged.test)
        errors = iter([result.error for result in fitted.results])
        assert [choice.errors for choice in comparison.chosen] == [
            {lr: pytest.approx(next(errors)) for lr in RATES} for _ in comparison.chosen
        ]
        assert (comparison.chosen_on, comparison.choosing_trainings) == (judged, 2)
        assert [data.name for data in first.data()] == [judged.name, digits.name]
        shown = {(row.method, row.lr): row for row in stored_results(first, digits.name)[0].methods}
        assert [shown[row.method, row.lr].gain for row in comparison.rows] == [row.gain for row in comparison.rows]
        assert f": chosen on the test split of {judged.name}." in " ".join(stored_results(first, digits.name)[0].notes)
        imported(second, written(tmp_path / "a.jsonl", exported(first)))
        again = cu.compare(
            digits, methods=["naive", "ldam", "ubrw"], seeds=1, lrs=RATES, **options, store=second, progress=no_training
        )
        assert (again.results, again.chosen) == (comparison.results, comparison.chosen)
    plain = cu.compare(digits, methods=["naive"], seeds=1, lrs=[comparison.rows[0].lr], recipe=SHORT)
    assert plain.results[0].scores == comparison.results[0].scores


def test_shards_choose_and_train_in_parts(digits, tmp_path):
    """The first trains some of the choosing networks, the second the others and some rows, and the first the rest."""
    options = {"choose_lr": True, "choose_on": cu.load("digits-lt:20?validation=20"), "recipe": SHORT}
    whole = cu.compare(
        digits, methods=["naive", "ldam"], seeds=2, lrs=RATES, **options, store=tmp_path / "whole.sqlite"
    )
    options["store"] = tmp_path / "parts.sqlite"
    for shard in ("1/2", "2/2"):
        with pytest.raises(ShardEnded, match=f"shard {shard}"):
            cu.compare(digits, methods=["naive", "ldam"], seeds=2, lrs=RATES, **options, shard=shard)
    cu.compare(digits, methods=["naive", "ldam"], seeds=2, lrs=RATES, **options, shard="1/2")
    joined = cu.compare(digits, methods=["naive", "ldam"], seeds=2, lrs=RATES, **options, progress=no_training)
    assert joined.chosen == whole.chosen
    assert [result.scores for result in joined.results] == [result.scores for result in whole.results]


def test_data_that_cannot_choose_are_refused(digits, tmp_path):
    train, test = digits.train, digits.test
    validated = cu.load("digits-lt:20?validation=20")

    def part(data: cu.Data, first: int, last: int) -> cu.Data:
        return data.take(np.arange(first, last))

    def joined(*parts: cu.Data) -> cu.Data:
        return cu.Data(*(np.concatenate([getattr(one, name) for one in parts]) for name in ("inputs", "labels")))

    def other(train: cu.Data, test: cu.Data | None, name: str = "other") -> cu.Dataset:
        return cu.Dataset(name, train, test)

    def renamed(data: cu.Data) -> cu.Data:
        return cu.Data(data.inputs, data.labels, [f"digit {c}" for c in range(10)])

    def wider(data: cu.Data) -> cu.Data:
        return cu.Data(np.pad(data.inputs, ((0, 0), (0, 0), (0, 0), (0, 1))), data.labels)

    many = joined(validated.test, *[validated.train] * 10)
    for choose_on, told in (
        (digits, ["597 of the 597 examples", "?judge=validation"]),
        (other(train, part(test, 0, 20)), ["20 of the 597 examples"]),  # all that choose
        (other(train, joined(many, part(test, 0, 6))), ["6 of the 597 examples"]),  # of few that judge
        (other(joined(train, part(test, 0, 6)), validated.test), ["6 of the 597 examples"]),  # to train on
        (other(train, None), ["'other'", "no test split to choose on"]),
        (other(renamed(train), renamed(test)), ["'other'", "classes"]),
        (other(wider(train), wider(test)), ["'other'", "shape"]),
        (other(validated.train, validated.test, digits.name), [repr(digits.name), "name"]),
    ):
        with refused(*told):
            options = {"choose_lr": True, "choose_on": choose_on, "store": tmp_path / "runs.sqlite"}
            cu.compare(digits, methods=["naive"], seeds=1, lrs=RATES, **options)
    with refused("choose_on", "choose_lr"):
        cu.compare(digits, methods=["naive"], seeds=1, lrs=RATES, choose_on=digits, store=tmp_path / "runs.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_a_few_shared_examples_may_choose(digits):
    """One in a hundred images, and half of the rows of a table, which may be alike by chance."""
    validated, test = cu.load("digits-lt:20?validation=20"), digits.test
    images = cu.Data(
        np.concatenate([validated.train.inputs, test.inputs[:5]]),
        np.concatenate([validated.train.labels, test.labels[:5]]),
    )
    check_judges(digits, cu.Dataset("other", images, validated.test))
    rows = np.arange(80.0).reshape(40, 2)
    labels, table = np.arange(40) % 2, cu.Data(rows + 1000, np.arange(40) % 2)
    judged = cu.Dataset("rows", table, cu.Data(rows, labels))
    check_judges(judged, cu.Dataset("other", table, cu.Data(np.concatenate([rows[:20], rows[:20] + 500]), labels)))
    with refused("21 of the 40 examples"):
        check_judges(judged, cu.Dataset("other", table, cu.Data(np.concatenate([rows[:21], rows[:19] + 500]), labels)))


def test_groups_that_judge_cannot_choose():
    def data(first: int, groups: list[int]) -> cu.Data:
        return cu.Data(np.arange(first, first + 8.0).reshape(8, 1), np.arange(8) % 2, groups=np.array(groups))

    train, test = data(0, [0, 0, 1, 1, 2, 2, 3, 3]), data(10, [4, 4, 5, 5, 6, 6, 7, 7])
    judged = cu.Dataset("rows", train, test)
    check_judges(judged, cu.Dataset("other", train, data(20, [8] * 8)))
    with refused("'other'", "groups"):
        check_judges(judged, cu.Dataset("other", train, data(20, [7, *[8] * 7])))


def test_the_document_has_every_error(digits):
    comparison = cu.compare(digits, methods=["naive"], seeds=1, lrs=RATES, choose_lr=True, recipe=SHORT)
    chosen = json.loads(json.dumps(comparison.document()))["chosen"]
    errors = comparison.chosen[0].errors
    assert chosen == {"naive": {"lr": 0.4, "errors": {"0.4": errors[0.4], "0.1": errors[0.1]}}}
    assert cu.compare(digits, methods=["naive"], seeds=1, recipe=SHORT).document()["chosen"] == {}


def test_the_report_shows_no_choosing_network_and_the_same_gains(digits, tmp_path):
    """Naive has measured at 0.1, where ldam is compared; ldam gains over the naive that is compared, at 0.4."""
    with Store(tmp_path / "runs.sqlite") as store:
        options = {"members": 2, "choose_lr": True, "recipe": SHORT, "store": store}
        comparison = cu.compare(digits, methods=["naive", "ldam", "ubm-ldam"], seeds=2, lrs=RATES, **options)
        (section,) = stored_results(store)
        assert (section.name, len(store.data())) == (digits.name, 1)
        assert {result.seed for result in store.results(digits.fingerprint)} == {0, 1}
        assert store.finished == len(store.results(digits.fingerprint)) + 3 * len(RATES)
        cu.compare(digits, methods=["ldam*2"], seeds=2, lrs=RATES, **options)
        (ensemble,) = (row for row in stored_results(store)[0].methods if row.method == "ldam*2")
        assert (ensemble.lr, ensemble.naive_lr) == (0.1, 0.4)
    rows = {(row.method, row.lr): row for row in section.methods}
    assert set(rows) == {("naive", 0.1), *((row.method, row.lr) for row in comparison.rows)}
    for row in comparison.rows:
        shown = rows[row.method, row.lr]
        assert (shown.gain, shown.naive_lr, shown.runs, shown.aso, shown.aso_against) == (
            row.gain, row.naive_lr, row.runs, row.aso, row.aso_against
        )  # fmt: skip
    assert rows["ldam", 0.1].naive_lr == 0.4
    methods = (
        " ".join(section.notes)
        .removeprefix("Learning rates of ")
        .removesuffix(": chosen by folds of the training split.")
    )
    assert sorted(methods.split(", ")) == ["ldam", "naive", "ubm-ldam"]


@pytest.mark.parametrize(
    ("lrs", "seeds", "facts"),
    [(None, [0], ("no learning rate",)), ([0.1], [0], ("one learning rate",)), (RATES, [3, 1000], ("seed 1000",))],
)
def test_what_cannot_be_chosen_is_refused(digits, lrs, seeds, facts, tmp_path):
    with refused(*facts):
        check_choosing(lrs, seeds)
    with refused(*facts):
        cu.compare(digits, methods=["naive"], seeds=seeds, lrs=lrs, choose_lr=True, store=tmp_path / "runs.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_a_choice_by_the_examples_that_judge_is_refused(digits, tmp_path):
    for data in (digits.train, replace(digits, test=None)):
        with refused("no test split", "--test 0.2"):
            cu.compare(data, methods=["naive"], seeds=1, lrs=RATES, choose_lr=True, store=tmp_path / "runs.sqlite")
    assert list(tmp_path.iterdir()) == []
