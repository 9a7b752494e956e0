"""Context: one data set, recipe and store for a workflow; its keys hash values and do nothing else."""

import dataclasses
import sqlite3

import numpy as np
import pytest
from watching import Watched

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.settings import Settings
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.keys import lane_key

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32)
STATS = cu.Stats([30, 20, 10], [0.1, 0.2, 0.4])


def test_a_store_is_opened_from_its_path_and_closed_at_the_end(tmp_path, digits):
    with open_context(digits, Settings(recipe=RECIPE, store=tmp_path / "deep" / "runs.sqlite")) as context:
        assert context.store.path == tmp_path / "deep" / "runs.sqlite"
        assert (context.dataset, context.train, context.recipe) == (digits, digits.train, RECIPE)
        assert context.checkpoints.folder == tmp_path / "deep" / "runs.sqlite.running"
        assert [data.fingerprint for data in context.store.data()] == [digits.fingerprint]
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        context.store.connection.execute("SELECT 1")


def test_a_store_that_is_given_open_stays_open(store, digits):
    with open_context(digits, Settings(recipe=RECIPE, store=store)) as context:
        assert context.store is store
    assert len(store.data()) == 1


def test_without_a_store_a_temporary_one_is_used_and_removed(digits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_context(digits, Settings()) as context:
        folder = context.store.path.parent
        context.store.create_file()
        assert context.store.path.is_file()
        assert context.recipe == cu.training.default_recipe(digits.train)
    assert not folder.exists()
    assert list(tmp_path.iterdir()) == []


def test_plain_data_become_a_data_set_without_a_test_split(digits):
    with open_context(digits.train, Settings(recipe=RECIPE)) as context:
        assert context.dataset.train is digits.train
        assert context.dataset.test is None


def test_a_deadline_is_made_of_seconds_or_taken_as_it_is(store, digits):
    with (
        open_context(digits, Settings(recipe=RECIPE, store=store, budget=1e-9)) as context,
        pytest.raises(cu.Unfinished, match="0 of 1"),
    ):
        list(context.train_lanes(context.untrained([cu.Lane()]), None))
    deadline = Deadline.after(60)
    with open_context(digits, Settings(recipe=RECIPE, store=store, budget=deadline)) as context:
        assert context.deadline is deadline


@pytest.fixture
def context(store, digits):
    with open_context(digits, Settings(recipe=RECIPE, store=store)) as context:
        return context


def test_keys_neither_train_nor_read_nor_write(context, digits, monkeypatch):
    """They are the same after the store is closed and gone."""
    request = EstimateRequest("out-of-fold", 2)
    before = context.result_key(cu.Lane()), context.network_key(cu.Lane()), context.estimate_key(request)
    context.store.connection.close()
    context.store.path.unlink(missing_ok=True)
    monkeypatch.setattr("class_uncertainty.runs.context.train_lanes", lambda *_, **__: pytest.fail("trained"))
    assert (context.result_key(cu.Lane()), context.network_key(cu.Lane()), context.estimate_key(request)) == before


def test_a_network_is_known_by_what_it_was_trained_on_and_a_result_by_what_judges_it(context, digits):
    other = dataclasses.replace(context, dataset=cu.Dataset("no-test", digits.train))
    lane, student = cu.Lane("naive"), cu.Lane("naive", teaching=cu.Teaching())
    assert context.network_key(lane) == other.network_key(lane)
    assert context.result_key(lane) != other.result_key(lane)
    keys = [context.network_key(student, teachers=teachers) for teachers in (["a"], ["b"], ["a", "b"])]
    assert len({*keys, context.network_key(lane)}) == 4


def test_estimates_differ_by_estimator_members_seed_rate_and_data(context, digits):
    requests = [EstimateRequest(name, members) for name in ("ensemble", "out-of-fold") for members in (2, 3)]
    requests += [EstimateRequest("ensemble", 2, seed=1), EstimateRequest("ensemble", 2, lr=0.3)]
    requests += [EstimateRequest("probabilities:p.npy"), EstimateRequest("probabilities:q.npy")]
    keys = {context.estimate_key(request) for request in requests}
    other = dataclasses.replace(context, dataset=cu.Dataset("no-test", digits.train))
    assert len(keys | {other.estimate_key(request) for request in requests}) == 2 * len(requests)
    assert context.estimate_key(EstimateRequest("ensemble", 2, lr=RECIPE.lr)) in keys


def test_what_is_known_of_uncertainty_counts_where_a_method_uses_it(context, digits):
    stats = cu.Stats(digits.train.counts, np.arange(1.0, 11))
    assert context.result_key(cu.Lane("naive"), stats) == context.result_key(cu.Lane("naive"))
    assert context.result_key(cu.Lane("ubrw"), stats) != context.result_key(
        cu.Lane("ubrw"), cu.Stats(stats.counts, np.ones(10))
    )


def test_checkpoints_of_lanes_with_results_are_dropped_and_others_stay(store, digits):
    """A method of two stages has a checkpoint of each."""
    lanes = [cu.Lane("naive"), cu.Lane("crt")]
    watched = Watched()
    with open_context(digits, Settings(recipe=RECIPE, store=store)) as context:
        list(context.train_lanes(context.untrained(lanes), watched.hear))
        assert len(list(context.checkpoints.folder.iterdir())) == 3
        assert [context.has_checkpoint(lane) for lane in (*lanes, cu.Lane("naive", 1))] == [True, True, False]
        context.drop_checkpoints(lanes[1:])
        assert [context.has_checkpoint(lane) for lane in lanes] == [True, False]
        assert len(list(context.checkpoints.folder.iterdir())) == 1
        context.drop_checkpoints(lanes)
        assert not context.checkpoints.folder.exists()


def test_key_knows_all_that_determines_a_result():
    """Each ingredient changes the key; a name for the default learning rate does not."""
    base = {"data": "d", "lane": cu.Lane("ubrw"), "recipe": RECIPE, "stats": STATS, "device": "cpu"}
    changed = {
        "data": {"data": "e"},
        "method": {"lane": cu.Lane("ubrs")},
        "seed": {"lane": cu.Lane("ubrw", 1)},
        "lr": {"lane": cu.Lane("ubrw", lr=0.2)},
        "fold": {"lane": cu.Lane("ubrw", fold=(0, 2))},
        "other fold": {"lane": cu.Lane("ubrw", fold=(1, 2))},
        "bootstrap": {"lane": cu.Lane("ubrw", bootstrap=True)},
        "measure": {"lane": cu.Lane("ubrw@product")},
        "augmentation": {"lane": cu.Lane("ubrw+mixup")},
        "uncertainty": {"stats": cu.Stats([30, 20, 10], [0.1, 0.2, 0.5])},
        "counts": {"stats": cu.Stats([30, 20, 11], [0.1, 0.2, 0.4])},
        "device": {"device": "cuda"},
        **{
            field.name: {"recipe": dataclasses.replace(RECIPE, **{field.name: value})}
            for field, value in zip(dataclasses.fields(RECIPE), _other(RECIPE), strict=True)
        },
    }
    keys = {name: lane_key(**(base | change)) for name, change in changed.items()}
    assert len({lane_key(**base), *keys.values()}) == len(keys) + 1
    assert lane_key(**(base | {"lane": cu.Lane("ubrw", lr=RECIPE.lr)})) == lane_key(**base)
    assert lane_key(**(base | {"lane": cu.Lane("ubrw", gather="online")})) == lane_key(
        **base
    )  # what is watched is the same training
    weighted = [
        cu.Method(weight=dataclasses.replace(cu.METHODS["ubrw"].knobs["weight"]), reduction=r)
        for r in ("mean", "weights")
    ]
    assert len({lane_key(**(base | {"lane": cu.Lane(method)})) for method in weighted}) == 2


WORDS = {RECIPE.network: "linear", "drops": "cosine", "sgd": "adamw", "": "0123abcd"}


def _other(recipe: cu.Recipe) -> list[object]:
    """Another value for each field."""
    values = [getattr(recipe, field.name) for field in dataclasses.fields(recipe)]
    values[[field.name for field in dataclasses.fields(recipe)].index("layer_decay")] = -0.5  # it is 1 at most
    return [
        not v if isinstance(v, bool) else WORDS[v] if isinstance(v, str) else (0.5,) if isinstance(v, tuple) else v + 1
        for v in values
    ]


def test_a_measure_that_does_not_count_does_not_change_the_key():
    """A naive lane is the same whatever is known of the classes' uncertainty."""
    plain = lane_key("d", cu.Lane("naive"), RECIPE, cu.Stats([30, 20, 10]), "cpu")
    assert lane_key("d", cu.Lane("naive"), RECIPE, STATS, "cpu") == plain
