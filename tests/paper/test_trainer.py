"""Experiments trained through the store: nothing twice, on any device, in slices, and never on other data."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ledgers import TABLE
from refusals import refused
from watching import Watched, no_training

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.paper import trainer as module
from class_uncertainty.paper.experiments import REQUESTS, SIX_NAIVE, Experiment, Measuring, Need, Wanted
from class_uncertainty.paper.ledger import Ledger, Remaining
from class_uncertainty.paper.reproduce import remaining
from class_uncertainty.paper.reproduction import Reproduction, summarise
from class_uncertainty.paper.trainer import Trainer
from class_uncertainty.paper.training_time import TrainingTime
from class_uncertainty.runs import Store
from class_uncertainty.runs.load_or_train import load_or_evaluate
from class_uncertainty.runs.result_lines import export_lines, import_lines, read_lines
from class_uncertainty.runs.rows import OLDER
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit_result import width_of
from class_uncertainty.training.stages import lane_cost

RECIPE = cu.Recipe("small-conv", epochs=1, batch=32)
WIDTH = width_of(RECIPE, "cpu")  # lanes of a stack
DATA = TABLE.columns[0]
EXPERIMENT = Experiment("toy", TABLE, measured=(Measuring(DATA),))
LANES = {  # members and six together, which include the two seeds of naive; rows; and what chooses the rate of the last
    DATA: {("naive", seed, 0.1) for seed in range(6)}
    | {(method, seed, 0.1) for method in ("cb-rs", "balanced-softmax") for seed in (0, 1)},
    f"{DATA}?validation=10": {("naive", seed, 0.1) for seed in range(5)}
    | {("ubrs", 1000, lr) for lr in (0.1, 0.2, 0.4, 0.7)},
}


def trainer(store: Store, progress=None, speed: float | None = None, recipe: cu.Recipe = RECIPE, **changes) -> Trainer:
    made = Trainer(store, changes.pop("read", cu.load), recipe, "cpu", progress=progress, **changes)
    made.training_time.speed = speed
    return made


def left(
    store: Store,
    wanted: Sequence[Wanted],
    recipe: cu.Recipe = RECIPE,
    device: str = "cpu",
    read: Callable[[str], cu.Dataset] = cu.load,
) -> list[Remaining]:
    """At 60 images a second."""
    ledger = trainer(store, recipe=recipe).ledger(wanted)
    missing = ledger.missing(wanted, assume=True)
    return remaining(missing, ledger, store, read, TrainingTime(recipe, device, speed=60.0))


def reproduced(store: Store, protocols: tuple[str, ...] = ("paper",)) -> Reproduction:
    wanted = EXPERIMENT.wanted(protocols, None, RECIPE.lr)
    return summarise("toy", EXPERIMENT, protocols, trainer(store).ledger(wanted))


def train(store: Store, progress=None, protocols: tuple[str, ...] = ("paper",), **changes) -> None:
    trainer(store, progress, **changes).train(EXPERIMENT.wanted(protocols, None, RECIPE.lr))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Everything of the protocol `paper`, and what was trained for it."""
    path, watched = tmp_path_factory.mktemp("trained") / "runs.sqlite", Watched()
    with Store(path) as store:
        train(store, watched)
    return path, watched


def test_every_lane_is_trained_once_on_its_data_set(trained):
    path, watched = trained
    with Store(path) as store:
        for name, expected in LANES.items():
            stored = next(data for data in store.data() if data.name == name)
            lanes = {(one.method, one.seed, one.lr) for one in store.results(stored.fingerprint)}
            finals = {lane for lane in lanes if lane[0] == "ubrs" and lane[1] < 1000}
            assert lanes - finals - {(SIX_NAIVE, 0, 0.1)} == expected
            assert len(finals) == (2 if name == DATA else 0)
    assert watched.trained == sum(map(len, LANES.values())) + 2


def test_members_and_rows_share_a_stack(trained):
    """What needs no uncertainty trains together on a data set, with the members that measure it."""
    first = trained[1].announced[0]
    assert first == len(LANES[DATA])


def test_a_table_is_complete_and_trains_nothing_again(trained):
    with Store(trained[0]) as store:
        train(store, no_training)
        made = reproduced(store)
    assert [len(one.errors) for one in made.outcomes] == [6, 2, 2, 2]
    assert made.six_naive.keys() == {DATA}
    assert len(made.measured) == 1


def test_rows_of_an_older_revision_count_marked_and_train_again_on_request(trained, tmp_path, monkeypatch):
    path = Path(shutil.copy(trained[0], tmp_path))
    monkeypatch.setitem(cu.METHODS, "ubrs", replace(cu.METHODS["ubrs"], revision=1))
    with Store(path) as store:
        train(store, no_training)
        older = {one.cell.method: OLDER in one.marks for one in reproduced(store).outcomes}
        assert older.pop("ubrs")
        assert not any(older.values())
        train(store, watched := Watched(), retrain_older=True)
        assert watched.trained == len([lane for lanes in LANES.values() for lane in lanes if lane[0] == "ubrs"]) + 2
        assert {one.marks for one in reproduced(store).outcomes} == {()}


def test_rows_are_trained_at_the_rate_that_validation_images_prefer(trained):
    with Store(trained[0]) as store:
        judge = next(data for data in store.data() if "validation" in data.name)
        errors = {one.lr: one.error for one in store.results(judge.fingerprint) if one.method == "ubrs"}
        (row,) = [one for one in reproduced(store).outcomes if one.cell.method == "ubrs"]
    assert row.lr == min(errors, key=lambda lr: (errors[lr], lr))


def test_a_machine_with_the_exported_lines_alone_trains_only_what_is_new(trained, store, tmp_path):
    """Weights stay behind. Keys differ there, as on another device: results are known by what they are."""
    with Store(trained[0]) as full:
        lines = "".join(export_lines(full)).replace('"device": "cpu"', '"device": "cuda"')
    (tmp_path / "all.jsonl").write_text(lines)
    received = [line._replace(key=f"other {line.key}") for line in read_lines(tmp_path / "all.jsonl")]
    import_lines(store, received, "all.jsonl")
    train(store, no_training)
    assert reproduced(store).outcomes[2].devices == ("cuda",)
    watched = Watched()
    train(store, watched, ("paper", "equal"))
    judged = {(lane.name, lane.lr) for lane in watched.lanes if lane.seed == 1000}
    assert judged == {(name, lr) for name in ("naive", "cb-rs", "balanced-softmax") for lr in (0.1, 0.2, 0.4, 0.7)}
    assert not {lane.name for lane in watched.lanes} & {"ubrs"}


def test_members_without_weights_train_beside_new_rows(trained, store, tmp_path):
    """Their results came from another machine, and the data were not measured there."""
    with Store(trained[0]) as full:
        lines = [line for line in export_lines(full) if json.loads(line)["kind"] != "measurement"]
    (tmp_path / "results.jsonl").write_text("".join(lines))
    import_lines(store, read_lines(tmp_path / "results.jsonl"), "results.jsonl")
    watched = Watched()
    timed = trainer(store, watched, deadline=Deadline.after(1e9), speed=0.01)
    timed.train([Measuring(DATA), Need(DATA, "focal", (0.1,), 2)])
    assert timed.training_time.speed > 1  # by what they have taken
    assert watched.announced == [5 + 2]
    assert watched.trained == 5 + 2
    fingerprint = cu.load(DATA).fingerprint
    with Store(trained[0]) as full:
        assert store.measurements(fingerprint) == full.measurements(fingerprint) != []


def test_a_spent_budget_keeps_what_has_finished(store):
    """The first slice has time for nothing more than it has begun; later ones go on, to the same errors."""
    slices = 0
    while slices < 30:
        slices += 1
        with suppress(cu.Unfinished):
            train(store, deadline=Deadline.after(1e-6))
            break
    assert 2 < slices < 30
    train(store, no_training)


def test_lanes_begin_only_if_they_will_end_in_time(store, monkeypatch):
    """A machine that keeps no checkpoints loses what has begun."""
    watched = Watched()
    limited = trainer(store, watched, deadline=Deadline.after(1000.0), speed=1.0, has_begun=True)
    wanted = EXPERIMENT.wanted(("paper",), None, RECIPE.lr)
    passes = len(cu.load(DATA).train) // 32 * 32
    assert WIDTH * passes > 1000 * module.RESERVE
    with pytest.raises(cu.Unfinished, match=DATA):
        limited.train(wanted)
    assert watched.trained == 0
    limited.training_time.speed = 1.5 * WIDTH * passes / (1000 * module.RESERVE)  # of a stack and a half
    with pytest.raises(cu.Unfinished):
        limited.train(wanted)
    assert watched.trained == WIDTH


def test_a_device_that_others_use_too_is_as_slow_as_it_was(store, monkeypatch):
    """By steps that were timed alone all lanes would fit into the budget. The first take three times as long."""
    needs = [Need(DATA, "cb-rs", (0.1,), WIDTH), Need(f"{DATA}?validation=10", "cb-rs", (0.1,), WIDTH)]
    a_stack, clock = WIDTH * (len(cu.load(DATA).train) // 32 * 32), [0.0]

    def slow_evaluate(*given, **options):
        clock[0] += 3 * a_stack
        return load_or_evaluate(*given, **options)

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(module, "load_or_evaluate", slow_evaluate)
    limited = trainer(store, deadline=Deadline.after(2.5 * a_stack), speed=1.0)
    with pytest.raises(cu.Unfinished, match="validation"):
        limited.train(needs)
    assert limited.training_time.speed == pytest.approx(1 / 3)


def test_what_is_stored_says_nothing_about_the_speed(store):
    trainer(store).train([Need(DATA, "naive", (0.1,), 5)])
    timed = trainer(store, no_training, deadline=Deadline.after(1e9), speed=0.01)
    timed.train([Measuring(DATA)])
    assert timed.training_time.speed == 0.01


def test_lanes_that_a_checkpoint_has_begun_say_nothing_about_the_speed(store):
    needs, recipe = [Need(DATA, "cb-rs", (0.1,), 2)], replace(RECIPE, epochs=3)
    stopped = trainer(store, recipe=recipe, deadline=Deadline.after(1e-6))
    with pytest.raises(cu.Unfinished):
        stopped.train(needs)
    timed = trainer(store, recipe=recipe, deadline=Deadline.after(1e9), speed=0.01)
    timed.train(needs)
    assert timed.training_time.speed == 0.01


def test_what_is_left_is_counted_without_training(trained, store):
    wanted = EXPERIMENT.wanted(("paper",), None, RECIPE.lr)
    rows = {row.data: row for row in left(store, wanted)}
    lanes = {name: len(expected) for name, expected in LANES.items()}
    lanes[DATA] += 2  # the paper's row at the rate that is not chosen yet
    assert {name: row.lanes for name, row in rows.items()} == lanes
    length = len(cu.load(DATA).train) // 32 * 32
    assert rows[DATA].images == lanes[DATA] * length * RECIPE.epochs
    assert rows[DATA].minutes == pytest.approx(15 * length / 60 / 60)  # 12 lanes in three stacks of five
    assert store.data() == []
    with Store(trained[0]) as full:
        assert left(full, wanted) == []


def test_a_stack_that_is_not_full_takes_longer_on_a_gpu(store):
    """Five lanes seem to be nine of 64 + 4, at the speed of a full stack."""
    (row,) = left(store, [Measuring(DATA)], replace(RECIPE, network="resnet32"), "cuda")
    assert row.minutes == pytest.approx(row.images / 5 * 64 * 9 / 68 / 60 / 60)


def test_other_data_under_a_known_name_are_refused(trained, tmp_path):
    copy = tmp_path / "runs.sqlite"
    copy.write_bytes(trained[0].read_bytes())

    def altered(name: str) -> cu.Dataset:
        dataset = cu.load(name)
        train = replace(dataset.train, inputs=np.ascontiguousarray(dataset.train.inputs[:, :, ::-1]))
        return replace(dataset, train=train)

    with Store(copy) as store:
        before = store.finished
        wanted = EXPERIMENT.wanted(("paper",), 3, RECIPE.lr)
        with refused(DATA, str(copy)):
            trainer(store, no_training, read=altered).train(wanted)
        with refused(DATA, str(copy)):
            left(store, wanted, read=altered)
        assert store.finished == before


def test_a_store_of_another_engine_is_refused(store):
    with store.connection:
        store.connection.execute("INSERT INTO results (key, engine, data) VALUES ('old', 2, 'x')")
    with refused(str(store.path), "engine 2"):
        train(store, no_training)


def test_a_measurement_by_one_network_is_made_and_kept(store):
    request, watched = REQUESTS["duq"], Watched()
    trainer(store, watched).train([Measuring(DATA, request)])
    assert watched.trained == 1
    (measured,) = store.measurements(store.data()[0].fingerprint)
    assert (measured.estimator, measured.members, measured.score) == ("duq", 1, "kernel")
    trainer(store, no_training).train([Measuring(DATA, request)])


def test_measurements_by_one_network_are_found_by_their_members(store):
    """Three snapshots are not two, though each are of one training; DUQ is the same by any number of members."""
    recipe, watched = replace(RECIPE, epochs=3), Watched()
    requests = [EstimateRequest("snapshot", 3), EstimateRequest("snapshot", 2), EstimateRequest("duq", 4)]
    wanted = [Measuring(DATA, request) for request in requests]
    for progress in (watched, no_training):
        trainer(store, progress, recipe=recipe).train(wanted)
    assert watched.trained == 3
    ledger = Ledger.read(store, recipe, [DATA])
    assert [ledger.measurement(DATA, request).members for request in requests] == [3, 2, 1]
    three, two, _ = (ledger.measurement(DATA, request).raw["predictive"] for request in requests)
    assert three != two
    assert ledger.measurement(DATA, EstimateRequest("snapshot", 1)) is None
    assert ledger.measurement(DATA, EstimateRequest("duq", 1)) is not None


def test_members_by_several_methods_are_trained_in_one_go(store):
    requests = [EstimateRequest("ensemble", 2), *(EstimateRequest(f"ensemble:power-rs:q={q}", 2) for q in (0, 0.5))]
    wanted, watched = [Measuring(DATA, request) for request in requests], Watched()
    trainer(store, watched).train(wanted)
    assert watched.trained == 6
    assert watched.announced == [2, 4]
    ledger = Ledger.read(store, RECIPE, [DATA])
    vectors = [ledger.measurement(DATA, request).raw["predictive"] for request in requests]
    assert len(set(vectors)) == 3
    trainer(store, no_training).train(wanted)


def test_a_store_that_loses_what_is_written_ends_the_training(store, monkeypatch):
    monkeypatch.setattr(Store, "add_measurement", lambda *_: None)
    with pytest.raises(cu.MachineFault, match=re.escape(str(store.path))):
        trainer(store).train([Measuring(DATA)])


def test_the_same_lane_is_trained_by_each_estimator_and_score(store):
    needs, watched = [Need(DATA, "ubrw", (0.1,), 1, request) for request in REQUESTS.values()], Watched()
    needs.append(replace(needs[0], score="epistemic"))
    (row,) = left(store, needs)
    assert row.lanes == 5 + 1 + 5 + 4  # members, the DUQ network, those of the folds, and the lane by each
    trainer(store, watched).train(needs)
    assert [lane.name for lane in watched.lanes].count("ubrw") == 4
    ledger = trainer(store).ledger(needs)
    assert [len(ledger.runs(need, ledger.choice(need))) for need in needs] == [1, 1, 1, 1]


def test_a_slice_that_ends_measures_what_it_has_trained(store):
    """Weights stay on this machine: another one would train the members again."""
    needs, passes = [Measuring(DATA), Need(DATA, "cb-rs", (0.1,), 9)], len(cu.load(DATA).train) // 32 * 32
    speed = 2.5 * WIDTH * passes / (1000 * module.RESERVE)  # of two stacks and a half
    with pytest.raises(cu.Unfinished, match="4 more lanes"):
        trainer(store, deadline=Deadline.after(1000.0), speed=speed).train(needs)
    assert [one.members for one in store.measurements(store.data()[0].fingerprint)] == [5]


def test_what_is_left_counts_every_stage(store):
    (naive,), (dro,) = (left(store, [Need(DATA, name, (0.1,), 1)]) for name in ("naive", "dro"))
    cost = lane_cost(cu.Lane("dro"), RECIPE, cu.load(DATA).train)
    assert (dro.lanes, dro.images) == (1, pytest.approx(cost * naive.images))
    assert cost > 1
    assert dro.minutes == pytest.approx(cost * naive.minutes)  # one lane that takes longer, not several


def test_a_network_that_measures_alone_begins_only_if_it_will_end_in_time(store):
    late = trainer(store, no_training, deadline=Deadline.after(1000.0), speed=0.1, has_begun=True)
    with pytest.raises(cu.Unfinished, match=DATA):
        late.train([Measuring(DATA, REQUESTS["duq"])])


def test_what_was_trained_in_the_last_moment_is_measured(store, monkeypatch):
    """Two of three estimates fit, and the time is spent when their networks have ended."""
    requests, asked = [EstimateRequest(f"ensemble:power-rs:q={q}", 2) for q in (0, 0.5, 0.7)], list[int]()

    def two_estimates(self: Trainer, lanes: list[cu.Lane], train: cu.Data) -> list[cu.Lane]:
        asked.extend([len(lanes)] if lanes else [])
        return lanes[:4] if len(asked) == 1 else []

    monkeypatch.setattr(Trainer, "_affordable", two_estimates)
    with pytest.raises(cu.Unfinished, match="2 more lanes"):
        trainer(store).train([Measuring(DATA, request) for request in requests])
    ledger = Ledger.read(store, RECIPE, [DATA])
    measured = [ledger.measurement(DATA, request) is not None for request in requests]
    assert measured == [True, True, False]
