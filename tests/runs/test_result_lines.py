"""Results as JSON lines: the same bytes after any exchange, and one sentence for whatever is no export."""

import json
from dataclasses import asdict, replace

from example_results import DATA, SCORES, add_data, fill, make_estimate, make_measurement, make_result
from refusals import refused
from runs.exchanged import OTHER, VALIDATION, exported, imported, written

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.runs import Store
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import load_or_estimate
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.result_lines import import_lines, read_lines
from class_uncertainty.runs.settings import Settings
from class_uncertainty.runs.store import StoredDataset, result_row
from class_uncertainty.training.keys import ENGINE


def test_a_file_of_one_store_makes_another_that_writes_the_same_file(full, empty, tmp_path):
    text = exported(full)
    file = written(tmp_path / "a.jsonl", text)
    assert imported(empty, file) == 3 * 11
    assert exported(empty) == text
    assert imported(empty, file) == 0
    assert exported(empty) == text
    for data in (DATA, OTHER, VALIDATION):
        assert sorted(empty.by_key("results", data.fingerprint)) == sorted(full.by_key("results", data.fingerprint))
    assert sorted(empty.data(), key=lambda data: data.name) == [OTHER, DATA, VALIDATION]


def test_what_came_by_an_import_is_marked_there_alone(full, empty, tmp_path):
    """Also what came by two imports; a result that is trained later takes its place without the mark."""
    imported(empty, written(tmp_path / "a.jsonl", exported(full, OTHER.name)))
    imported(full, written(tmp_path / "b.jsonl", exported(empty)))
    for store, is_marked in ((empty, True), (full, False)):
        results = store.by_key("results", OTHER.fingerprint)
        values = [*results.values(), *store.by_key("measurements", OTHER.fingerprint).values()]
        assert {value.imported for value in values} == {is_marked}
    assert '"imported"' not in exported(empty)
    key, result = next(iter(results.items()))
    empty.add(key, OTHER.fingerprint, result)
    assert empty.by_key("results", OTHER.fingerprint)[key].imported is False


def test_a_store_lacks_nothing_of_its_own_export(full, tmp_path):
    before = full.path.read_bytes()
    assert imported(full, written(tmp_path / "a.jsonl", exported(full))) == 0
    assert full.path.read_bytes() == before


def test_a_measurement_comes_beside_an_estimate_that_differs_from_it(empty, tmp_path):
    """The results that came with it used its numbers, which the same training need not give here."""
    fill(empty)
    first, *_ = Measurement.of(make_estimate()).raw["predictive"]
    changed = exported(empty).replace(json.dumps(first), json.dumps(first / 2))
    assert imported(empty, written(tmp_path / "a.jsonl", changed)) == 1
    assert first / 2 in [one.raw["predictive"][0] for one in empty.measurements(DATA.fingerprint)]


def test_a_line_that_comes_twice_is_added_once(full, empty, tmp_path):
    """Of two that differ under one key, the first one stays."""
    lines = exported(full, DATA.name).splitlines()
    other = json.loads(lines[-1])
    other["document"]["loss"] = 99.0
    again = read_lines(written(tmp_path / "a.jsonl", "\n".join([*lines, *lines, json.dumps(other)])))
    assert import_lines(empty, again, "a") == (2 * 11, 0)  # a loss is no error
    assert exported(empty) == exported(full, DATA.name)


def test_lines_that_differ_from_what_is_stored_are_counted(full, tmp_path):
    """By errors and class vectors alone: not by seconds, nor by what only one of two versions writes."""
    scores = replace(SCORES, error=30.0, class_errors=(float("nan"), 20.0, 40.0))
    full.add("nan", DATA.fingerprint, make_result(cu.Lane(), scores=scores))
    before = exported(full)

    def differing(key: str, **changes: object) -> int:
        lines = [json.loads(line) for line in before.splitlines()]
        next(line["document"] for line in lines if line.get("key") == key).update(changes)
        path = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines)))
        added, number = import_lines(full, read_lines(path), "a")
        assert (added, exported(full)) == (0, before)
        return number

    result, measured, raw = f"0{DATA.name}", f"m{DATA.name}", make_measurement().raw
    assert differing(result, seconds=99.0) == 0
    assert differing(measured, cost=99.0, raw=raw | {"newer": [1, 2, 3]}) == 0
    assert differing(result, scores=asdict(scores)) == 1
    assert differing(result, scores=None, diverged=1) == 1
    assert differing(measured, raw=raw | {"predictive": [1, 2, 3]}) == 1


def test_results_of_folds_go_with_their_data(store, empty, tmp_path):
    """They have chosen learning rates, and no store lists what judged them as a data set."""
    data = add_data(store, fingerprint="1" * 32 + "-" + "2" * 32)
    add_data(store, name="the same training split", fingerprint="1" * 32 + "-" + "3" * 32)
    store.add("k", "1" * 32 + "-folds", make_result(cu.Lane()))
    assert imported(empty, written(tmp_path / "a.jsonl", exported(store))) == 1
    assert empty.results("1" * 32 + "-folds") == [make_result(cu.Lane())]
    assert empty.data() == [data]
    assert exported(empty) == exported(store, DATA.name) == exported(store)


def test_the_order_does_not_depend_on_the_order_of_training(full, empty):
    for data in (VALIDATION, OTHER, DATA):
        fill(empty, data, backwards=True)
    assert exported(empty) == exported(full)


def test_measurements_have_an_order_too(store, empty):
    measured = {"b": make_measurement(), "a": make_measurement(), "c": make_measurement(estimator="duq", members=1)}
    for place, keys in ((store, "abc"), (empty, "cba")):
        add_data(place)
        for key in keys:
            place.add_measurement(key, DATA.fingerprint, measured[key])
    assert exported(store) == exported(empty)


def test_of_data_that_changed_the_last_version_is_exported(store, empty, tmp_path, notices):
    """A file of both could not be imported; a version without results is none."""
    fill(store)
    before = exported(store)
    changed = add_data(store, replace(OTHER, name=DATA.name))
    assert (exported(store), notices) == (before, [])
    store.add("k", changed.fingerprint, make_result(cu.Lane()))
    assert imported(empty, written(tmp_path / "a.jsonl", exported(store))) == 1
    assert empty.data() == [changed]
    assert notices == [f"{store.path}: left out 11 results of {DATA.name!r} from before the data changed."]


def test_a_name_stands_for_its_options_too(full):
    def names(*given: str) -> list[str]:
        lines = map(json.loads, exported(full, *given).splitlines())
        return [line["name"] for line in lines if line["kind"] == "data"]

    assert names(DATA.name) == [DATA.name, VALIDATION.name]
    assert names(VALIDATION.name) == [VALIDATION.name]
    assert names(OTHER.name, VALIDATION.name) == names(VALIDATION.name, OTHER.name) == [OTHER.name, VALIDATION.name]
    assert names() == [OTHER.name, DATA.name, VALIDATION.name]


def test_an_error_that_is_not_the_mean_of_its_class_errors_is_refused(full, empty, tmp_path):
    lines = [json.loads(line) for line in exported(full, DATA.name).splitlines()]
    scores = next(line["document"]["scores"] for line in lines if line.get("document", {}).get("scores"))
    right = scores["error"]
    scores["error"] = right + 1
    path = written(tmp_path / "a.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
    with refused("a.jsonl", f"{right + 1:.2f} %", f"mean is {right:.2f} %"):
        imported(empty, path)
    assert not empty.keys("results")


def test_an_unknown_name_is_refused_with_the_nearest(full, empty):
    with refused("'digit-lt:20'", "did you mean 'digits-lt:20'?", OTHER.name):
        exported(full, "digit-lt:20")
    with refused("'digits'", "none"):
        exported(empty, "digits")


def of_engine_2(store: Store, data: StoredDataset, key: str = "old") -> None:
    """Add a result of an older training engine."""
    store.add_rows([("results", result_row(key, data.fingerprint, make_result(cu.Lane())) | {"engine": 2})])


def test_results_of_another_engine_are_left_out_with_a_notice(full, caplog):
    cases: list[tuple[tuple[str, ...], str]] = [((), "2 results"), ((DATA.name,), "1 result")]
    before = {names: exported(full, *names) for names, _ in cases}
    of_engine_2(full, DATA)
    of_engine_2(full, OTHER, "older")
    for names, number in cases:
        caplog.clear()
        assert exported(full, *names) == before[names]
        left_out = f"left out {number} of another training engine than this version's, {ENGINE}."
        assert caplog.messages == [f"{full.path}: {left_out}"]


def test_results_of_another_engine_alone_are_refused(full):
    only = add_data(full, fingerprint="o" * 32, name="digits-lt:5")
    of_engine_2(full, only)
    with refused(str(full.path), "engine 2", repr(only.name)):
        exported(full, only.name)


def test_results_of_another_engine_on_other_data_are_not_counted(full, caplog):
    before = exported(full, DATA.name)
    of_engine_2(full, OTHER)
    assert exported(full, DATA.name) == before
    assert caplog.messages == []


def test_data_without_results_are_left_out(store):
    add_data(store)
    assert exported(store) == ""


def test_every_estimate_is_exported_whatever_its_seed(store):
    """And the class vectors that came without one."""
    add_data(store)
    for seed in (0, 7):
        store.add_estimate(str(seed), DATA.fingerprint, make_estimate(seed))
    store.add_estimate("file", DATA.fingerprint, replace(make_estimate(9), results=()))  # nothing was trained for it
    store.add_measurement("m", DATA.fingerprint, make_measurement())
    lines = [json.loads(line) for line in exported(store).splitlines()]
    assert {line["key"]: tuple(line["document"]["raw"]["predictive"]) for line in lines[1:]} == {
        "0": Measurement.of(make_estimate(0)).raw["predictive"],
        "7": Measurement.of(make_estimate(7)).raw["predictive"],
        "m": make_measurement().raw["predictive"],
    }


def test_estimates_without_a_test_split_keep_apart(store):
    """There the results of every estimate are those of one network by folds."""
    data = cu.Data(make_estimate().probabilities[0], make_estimate().labels)
    with open_context(data, Settings(recipe=cu.Recipe("linear", epochs=1, batch=8), store=store)) as context:
        requests = [EstimateRequest("ensemble", 2), EstimateRequest("ensemble", 3), EstimateRequest("ensemble", 2, 1)]
        load_or_estimate(context, requests)
    kinds = [json.loads(line)["kind"] for line in exported(store).splitlines()]
    assert kinds == ["data", *["measurement"] * 3, "result"]


def test_a_document_that_another_version_wrote_is_left_out(store, notices):
    fill(store)
    before = exported(store)
    row = {"key": "new", "engine": ENGINE, "data": DATA.fingerprint, "document": '{"scores": null, "kind": "newer"}'}
    store.add_rows([("results", row)])
    assert exported(store) == before
    assert len(notices) == 1


def test_any_name_is_exchanged_in_ascii(store, empty, tmp_path):
    """A name of a class may come from a folder whose name is in no encoding."""
    data = add_data(store, classes=("a\nb", "\x1b[2J", "\udce4"), name="folder:zwölf\r\n\u2028")
    store.add("k", data.fingerprint, make_result(cu.Lane()))
    text = exported(store)
    assert text.isascii()
    assert text.count("\n") == 2
    assert imported(empty, written(tmp_path / "a.jsonl", text)) == 1
    assert empty.data() == [data]
