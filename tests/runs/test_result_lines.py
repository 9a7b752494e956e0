"""Results as JSON lines: the same bytes after any exchange, and one sentence for whatever is no export."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from example_results import DATA, RECIPE, STATS, add_data, fill, make_estimate, make_measurement, make_result
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.files import check_writable
from class_uncertainty.runs import Store
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import load_or_estimate
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.result_lines import EXPORTED, export_lines, import_lines, read_ledger, read_lines
from class_uncertainty.runs.stored_rows import StoredDataset
from class_uncertainty.training.keys import ENGINE, lane_key

VALIDATION = replace(DATA, fingerprint="5" * 32, name="digits-lt:20?validation=0.2")
OTHER = replace(DATA, fingerprint="0" * 32, name="cifar10-lt:100")
Change = Callable[[dict[str, Any]], Any]


def exported(store: Store, *names: str) -> str:
    return "".join(export_lines(store, names))


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.fixture
def full(store: Store) -> Store:
    for data in (DATA, OTHER, VALIDATION):
        fill(store, data)
    return store


@pytest.fixture
def empty(tmp_path: Path) -> Store:
    return Store(tmp_path / "empty.sqlite")


def imported(store: Store, path: Path) -> int:
    return import_lines(store, read_lines(path), str(path))


def test_a_file_of_one_store_makes_another_that_writes_the_same_file(full: Store, empty: Store, tmp_path: Path) -> None:
    text = exported(full)
    file = written(tmp_path / "a.jsonl", text)
    assert imported(empty, file) == 3 * 11
    assert exported(empty) == text
    assert imported(empty, file) == 0
    assert exported(empty) == text
    for data in (DATA, OTHER, VALIDATION):
        assert sorted(empty.by_key("results", data.fingerprint)) == sorted(full.by_key("results", data.fingerprint))
    assert sorted(empty.data(), key=lambda data: data.name) == [OTHER, DATA, VALIDATION]


def test_a_store_lacks_nothing_of_its_own_export(full: Store, tmp_path: Path) -> None:
    before = full.path.read_bytes()
    assert imported(full, written(tmp_path / "a.jsonl", exported(full))) == 0
    assert full.path.read_bytes() == before


def test_a_measurement_comes_beside_an_estimate_that_differs_from_it(empty: Store, tmp_path: Path) -> None:
    """The results that came with it used its numbers, which the same training need not give here."""
    fill(empty)
    first, *_ = Measurement.of(make_estimate()).raw["predictive"]
    changed = exported(empty).replace(json.dumps(first), json.dumps(first / 2))
    assert imported(empty, written(tmp_path / "a.jsonl", changed)) == 1
    assert first / 2 in [one.raw["predictive"][0] for one in empty.measurements(DATA.fingerprint)]


def test_a_line_that_comes_twice_is_added_once(full: Store, empty: Store, tmp_path: Path) -> None:
    """Of two that differ under one key, the first one stays."""
    lines = exported(full, DATA.name).splitlines()
    other = json.loads(lines[-1])
    other["document"]["loss"] = 99.0
    again = read_lines(written(tmp_path / "a.jsonl", "\n".join([*lines, *lines, json.dumps(other)])))
    assert import_lines(empty, again, "a") == 2 * 11
    assert exported(empty) == exported(full, DATA.name)


def test_the_order_does_not_depend_on_the_order_of_training(full: Store, empty: Store) -> None:
    for data in (VALIDATION, OTHER, DATA):
        fill(empty, data, backwards=True)
    assert exported(empty) == exported(full)


def test_measurements_have_an_order_too(store: Store, empty: Store) -> None:
    measured = {"b": make_measurement(), "a": make_measurement(), "c": make_measurement(estimator="duq", members=1)}
    for place, keys in ((store, "abc"), (empty, "cba")):
        add_data(place)
        for key in keys:
            place.add_measurement(key, DATA.fingerprint, measured[key])
    assert exported(store) == exported(empty)


def test_two_data_sets_of_one_name_have_an_order_too(store: Store, empty: Store) -> None:
    twins = [replace(OTHER, name=DATA.name), DATA]
    for place, order in ((store, twins), (empty, twins[::-1])):
        for data in order:
            add_data(place, data)
            place.add(data.fingerprint, data.fingerprint, make_result(cu.Lane()))
    assert exported(store) == exported(empty)


def test_a_name_stands_for_its_options_too(full: Store) -> None:
    def names(*given: str) -> list[str]:
        lines = map(json.loads, exported(full, *given).splitlines())
        return [line["name"] for line in lines if line["kind"] == "data"]

    assert names(DATA.name) == [DATA.name, VALIDATION.name]
    assert names(VALIDATION.name) == [VALIDATION.name]
    assert names(OTHER.name, VALIDATION.name) == names(VALIDATION.name, OTHER.name) == [OTHER.name, VALIDATION.name]
    assert names() == [OTHER.name, DATA.name, VALIDATION.name]


def test_an_error_that_is_not_the_mean_of_its_class_errors_is_refused(
    full: Store, empty: Store, tmp_path: Path
) -> None:
    lines = [json.loads(line) for line in exported(full, DATA.name).splitlines()]
    scores = next(line["document"]["scores"] for line in lines if line.get("document", {}).get("scores"))
    right = scores["error"]
    scores["error"] = right + 1
    path = written(tmp_path / "a.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
    with refused("a.jsonl", f"{right + 1:.2f} %", f"mean is {right:.2f} %"):
        imported(empty, path)
    assert not empty.keys("results")


def test_an_unknown_name_is_refused_with_the_nearest(full: Store, empty: Store) -> None:
    with refused("'digit-lt:20'", "did you mean 'digits-lt:20'?", OTHER.name):
        exported(full, "digit-lt:20")
    with refused("'digits'", "none"):
        exported(empty, "digits")


def test_results_of_another_engine_are_not_left_out_silently(full: Store) -> None:
    with full.connection:
        full.connection.execute("INSERT INTO results (key, engine, data) VALUES ('old', 2, 'x')")
    with refused(str(full.path), "engine 2", "'x'"):
        exported(full)


def test_results_of_another_engine_on_other_data_are_no_hindrance(full: Store) -> None:
    before = exported(full, DATA.name)
    with full.connection:
        row = ("old", 2, OTHER.fingerprint)
        full.connection.execute("INSERT INTO results (key, engine, data) VALUES (?, ?, ?)", row)
    assert exported(full, DATA.name) == before
    for names in ((), (OTHER.name,), (DATA.name, OTHER.name)):
        with refused("engine 2", repr(OTHER.name)):
            exported(full, *names)


def test_data_without_results_are_left_out(store: Store) -> None:
    add_data(store)
    assert exported(store) == ""


def test_every_estimate_is_exported_whatever_its_seed(store: Store) -> None:
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


def test_estimates_without_a_test_split_keep_apart(store: Store) -> None:
    """There the results of every estimate are those of one network by folds."""
    data = cu.Data(make_estimate().probabilities[0], make_estimate().labels)
    with open_context(data, cu.Recipe("linear", epochs=1, batch=8), store) as context:
        requests = [EstimateRequest("ensemble", 2), EstimateRequest("ensemble", 3), EstimateRequest("ensemble", 2, 1)]
        load_or_estimate(context, requests)
    kinds = [json.loads(line)["kind"] for line in exported(store).splitlines()]
    assert kinds == ["data", *["measurement"] * 3, "result"]


def test_a_document_that_another_version_wrote_is_left_out(store: Store, notices: list[str]) -> None:
    fill(store)
    before = exported(store)
    row = {"key": "new", "engine": ENGINE, "data": DATA.fingerprint, "document": '{"scores": null, "kind": "newer"}'}
    store.add_rows([("results", row)])
    assert exported(store) == before
    assert len(notices) == 1


def test_any_name_is_exchanged_in_ascii(store: Store, empty: Store, tmp_path: Path) -> None:
    """A name of a class may come from a folder whose name is in no encoding."""
    data = add_data(store, classes=("a\nb", "\x1b[2J", "\udce4"), name="folder:zwölf\r\n\u2028")
    store.add("k", data.fingerprint, make_result(cu.Lane()))
    text = exported(store)
    assert text.isascii()
    assert text.count("\n") == 2
    assert imported(empty, written(tmp_path / "a.jsonl", text)) == 1
    assert empty.data() == [data]


def test_a_ledger_of_files(full: Store, tmp_path: Path) -> None:
    files = [written(tmp_path / str(i), exported(full, data.name)) for i, data in enumerate((OTHER, VALIDATION))]
    ledger = read_ledger(files)
    assert ledger.data == {OTHER.name: OTHER, VALIDATION.name: VALIDATION}
    for seed in (0, 1):
        lane = cu.Lane("ubrw", seed, 0.2)
        measured = ledger.measurement(OTHER.name, RECIPE, EstimateRequest())
        assert ledger.results(OTHER.name, lane, RECIPE, measured.stats(OTHER.counts)).get(lane.seed) == make_result(
            lane, STATS
        )
    assert ledger.measurement(OTHER.name, RECIPE, EstimateRequest(members=2)) == Measurement.of(make_estimate())
    line = json.loads(exported(full).splitlines()[0]) | {"fingerprint": "1" * 32}
    with refused("other.jsonl", OTHER.name):
        read_ledger([*files, written(tmp_path / "other.jsonl", json.dumps(line))])


# what is no export


@pytest.fixture
def lines() -> dict[str, dict[str, Any]]:
    """One line of each kind."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "runs.sqlite") as store:
        add_data(store)
        store.add("r", DATA.fingerprint, make_result(cu.Lane()))
        store.add_measurement("m", DATA.fingerprint, make_measurement())
        return {line["kind"]: line for line in map(json.loads, export_lines(store))}


WRONG_TEXT = {
    "no JSON": (b"{", ()),
    "a word": (b"result", ()),
    "no object": (b"[1, 2]", ("list",)),
    "a text": (b'"result"', ("str",)),
    "null": (b"null", ()),
    "no UTF-8": (b'{"kind": "\xff"}', ()),
    "deep": (b"[" * 100_000, ()),
    "long": (b"9" * 5000, ()),
    "a database": (b"SQLite format 3\0", ()),
}
WRONG_LINE: dict[str, tuple[str, Change, tuple[str, ...]]] = {
    **{
        f"{kind} without {field}": (kind, lambda line, field=field: line.pop(field), (repr(field),))
        for kind, fields in {
            "data": ("kind", "fingerprint", "name", "classes", "counts"),
            "result": ("kind", "key", "engine", "data", "document"),
            "measurement": ("kind", "key", "engine", "data", "document"),
        }.items()
        for field in fields
    },
    **{
        f"{kind}'s document without {field}": (
            kind,
            lambda line, field=field: line["document"].pop(field),
            (repr(field),),
        )
        for kind, fields in {
            "result": ("method", "seed", "scores", "recipe", "plan", "uncertainty", "device"),
            "measurement": ("estimator", "members", "lr", "recipe", "score", "raw", "class_errors"),
        }.items()
        for field in fields
    },
    "unknown kind": ("result", lambda line: line.update(kind="network"), ("'network'", "measurement")),
    "kind of another type": ("result", lambda line: line.update(kind=["result"]), ("measurement",)),
    "another engine": ("result", lambda line: line.update(engine=ENGINE + 1), (str(ENGINE + 1), str(ENGINE))),
    "engine in words": ("measurement", lambda line: line.update(engine=str(ENGINE)), (str(ENGINE),)),
    "unknown field": ("result", lambda line: line["document"].update(best=1), ("'best'",)),
    "unknown field of data": ("data", lambda line: line.update(root="x"), ("'root'",)),
    "seed of too many bits": ("result", lambda line: line["document"].update(seed=10**30), ("seed",)),
    "rate in words": ("result", lambda line: line["document"].update(lr="0.1"), ("lr",)),
    "error in words": ("result", lambda line: line["document"]["scores"].update(error="low"), ("error",)),
    "error that is none": ("result", lambda line: line["document"]["scores"].update(error=math.nan), ("error", "100")),
    "no number among errors": ("result", lambda line: line["document"]["scores"].update(class_errors=["a"] * 3), ()),
    "recipe": ("result", lambda line: line["document"]["recipe"].update(epochs=-1), ("epochs",)),
    "document": ("result", lambda line: line.update(document=[1]), ()),
    "no document": ("measurement", lambda line: line.update(document=None), ()),
    "vectors": ("measurement", lambda line: line["document"].update(raw=[1]), ()),
    "a vector": ("measurement", lambda line: line["document"]["raw"].update(predictive="abc"), ("raw",)),
    "score": ("measurement", lambda line: line["document"].update(score="predictve"), ("'predictive'",)),
    "classes": ("data", lambda line: line.update(classes="abc"), ()),
    "counts": ("data", lambda line: line.update(counts=[1.5, 2, 3]), ("counts",)),
    "a number as key": ("result", lambda line: line.update(key=5), ("key",)),
    "a number as data": ("result", lambda line: line.update(data=None), ("data",)),
    "surrogate in a key": ("result", lambda line: line.update(key="\ud800"), ()),
    "surrogate in data": ("measurement", lambda line: line.update(data="\ud800"), ()),
    "surrogate in a name": ("data", lambda line: line.update(name="\ud800"), ()),
    "surrogate in a method": ("result", lambda line: line["document"].update(method="\ud800"), ()),
    "escapes": ("result", lambda line: line.update(kind="\x1b[2J\n"), ("\\x1b[2J",)),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_TEXT)
def test_what_is_no_line_is_refused_with_its_number(case: str, tmp_path: Path) -> None:
    content, facts = WRONG_TEXT[case]
    with refused("a.jsonl, line 3,", *facts):
        read_lines(written(tmp_path / "a.jsonl", b"\n \n" + content + b"\n"))


@pytest.mark.parametrize("case", WRONG_LINE)
def test_a_wrong_line_is_refused_with_its_number(case: str, lines: dict, tmp_path: Path) -> None:
    kind, change, facts = WRONG_LINE[case]
    change(lines[kind])
    number = list(lines).index(kind) + 1
    with refused(f"a.jsonl, line {number},", *facts):
        read_lines(written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines.values()))))


def test_a_cut_file_is_refused_with_the_number_of_its_last_line(lines: dict, tmp_path: Path) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines.values())
    assert len(read_lines(written(tmp_path / "a.jsonl", text[:-1]))) == 3  # only the end of the line is missing
    for end in (-2, -200):
        with refused("a.jsonl, line 3,"):
            read_lines(written(tmp_path / "a.jsonl", text[:end]))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", " \r\n\t\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_ends_of_lines_and_byte_order_marks_do_not_matter(start: str, end: str, lines: dict, tmp_path: Path) -> None:
    text = start + "".join(json.dumps(line, ensure_ascii=False) + end for line in lines.values())
    assert len(read_lines(written(tmp_path / "a.jsonl", text))) == 3


def test_an_empty_file_has_no_lines(tmp_path: Path, empty: Store) -> None:
    assert imported(empty, written(tmp_path / "a.jsonl", "")) == 0


def test_no_file_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "results.jsonl", "")
    with refused("result.jsonl does not exist", "results.jsonl"):
        read_lines(tmp_path / "result.jsonl")
    with refused(tmp_path, "a folder"):
        read_lines(tmp_path)


WRONG_TOGETHER: dict[str, tuple[Callable[[dict[str, Any]], Any], tuple[str, ...]]] = {
    "data without a line": (lambda lines: lines.pop("data"), (DATA.fingerprint,)),
    "another data set's result": (lambda lines: lines["result"].update(data="9" * 32), ("9" * 32,)),
    "other data of the same name": (
        lambda lines: lines.update(again=lines["data"] | {"fingerprint": "9" * 32}),
        (DATA.name, DATA.fingerprint, "9" * 32),
    ),
    "fewer counts": (lambda lines: lines["data"].update(counts=[1, 2]), (DATA.name, "2", "3")),
    "fewer errors": (
        lambda lines: lines["result"]["document"]["scores"].update(class_errors=[1.0, 2.0]),
        (DATA.name, "2", "3"),
    ),
    "fewer uncertainties": (
        lambda lines: lines["measurement"]["document"]["raw"].update(predictive=[1.0, 2.0]),
        (DATA.name, "2", "3"),
    ),
    "nested": (
        lambda lines: lines["result"]["document"]["plan"].update(deep=json.loads("[" * 600 + "]" * 600)),
        ("nested",),
    ),
}


@pytest.mark.parametrize("case", WRONG_TOGETHER)
def test_lines_that_do_not_fit_are_refused_and_nothing_is_added(
    case: str, lines: dict, empty: Store, tmp_path: Path
) -> None:
    change, facts = WRONG_TOGETHER[case]
    change(lines)
    file = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines.values())))
    before = empty.path.read_bytes()
    with refused("a.jsonl", *facts):
        imported(empty, file)
    assert empty.path.read_bytes() == before


def test_other_data_under_a_name_of_the_store_are_refused(lines: dict, empty: Store, tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines.values())))
    add_data(empty, OTHER, name=DATA.name)
    with refused("a.jsonl", empty.path, DATA.name, DATA.fingerprint, OTHER.fingerprint):
        imported(empty, file)
    assert empty.results(DATA.fingerprint) == []


def test_data_that_the_store_has_need_no_line(lines: dict, empty: Store, tmp_path: Path) -> None:
    add_data(empty)
    add_data(empty, OTHER, name=DATA.name)  # of one name, which the store had before
    data = lines.pop("data")
    assert imported(empty, written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines.values())))) == 2
    assert imported(empty, written(tmp_path / "a.jsonl", json.dumps(data))) == 0


def test_an_export_is_told_by_its_beginning(full: Store, tmp_path: Path) -> None:
    check_writable(written(tmp_path / "a.jsonl", exported(full)), EXPORTED, "export")
    check_writable(written(tmp_path / "a.jsonl", ""), EXPORTED, "export")
    for content in ("\n", "{}", '{"name": 1}'):
        with refused("a.jsonl", "export"):
            check_writable(written(tmp_path / "a.jsonl", content), EXPORTED, "export")


LEDGER = Path(__file__).parents[2] / "results" / "cifar100-lt-50.jsonl"


def test_results_from_before_recipes_had_a_schedule_are_found_again(empty: Store) -> None:
    """They are read with the defaults of the fields that they lack, and have the keys that their lanes have today."""
    lines = read_lines(LEDGER)
    counts = {line.data: line.value.counts for line in lines if isinstance(line.value, StoredDataset)}
    assert import_lines(empty, lines, "here") > 0
    results = [line for line in lines if isinstance(line.value, cu.Result) and line.value.method in ("naive", "crt")]
    assert results
    for result, key, fingerprint in results:
        assert isinstance(result, cu.Result)
        assert (result.recipe.schedule, result.recipe.average) == ("drops", 0)
        lane, stats = cu.Lane(result.method, result.seed, result.lr, result.fold), cu.Stats(counts[fingerprint])
        assert lane_key(fingerprint, lane, result.recipe, stats, result.device) == key
