"""Lines that are wrong, cut, or do not fit are refused with their numbers, and nothing is added."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from example_results import DATA, add_data
from refusals import refused
from runs.exchanged import OTHER, imported, written

import class_uncertainty as cu
from class_uncertainty.runs.result_lines import check_export, export_lines, import_lines, read_lines
from class_uncertainty.runs.store import StoredDataset
from class_uncertainty.training.keys import ENGINE, lane_key

Change = Callable[[dict[str, Any]], Any]


# what is no export


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
    **{
        f"{kind} with {field} {value}": (
            kind,
            lambda line, field=field, value=value: line["document"].update({field: value}),
            (field if field != "lr" else "learning rate",),
        )
        for kind, field, value in (
            *(("result", "lr", rate) for rate in (math.nan, math.inf, 0, -0.1)),
            *(("result", field, -1) for field in ("seed", "seconds", "cost", "folds", "diverged")),
            *(("result", field, math.nan) for field in ("seconds", "cost", "loss")),
            *(("result", field, 1e13) for field in ("seconds", "cost", "loss")),
            *(("measurement", "lr", rate) for rate in (math.nan, -1)),
            *(("measurement", field, -1) for field in ("seed", "cost", "members")),
            *(("measurement", "class_errors", errors) for errors in ([1, 2, 101], [1, -2, 3], [math.nan] * 3)),
        )
    },
    **{
        f"scores with {field} {value}": (
            "result",
            lambda line, field=field, value=value: line["document"]["scores"].update({field: value}),
            (field,),
        )
        for field, value in (
            ("class_errors", [-1.0, 50.0, 50.0]),
            ("class_errors", [math.nan] * 3),
            ("class_errors", [1.0, 2.0, math.inf]),
            ("top1_error", 101.0),
            ("few", -1.0),
            ("worst", math.nan),
            ("ece", -0.5),
            ("nll", math.inf),
            ("spread", -1.0),
        )
    },
    "no uncertainty": ("measurement", lambda line: line["document"]["raw"].update(own=[math.nan]), ("own",)),
    "a method of 4,097 characters": ("result", lambda line: line["document"].update(method="x" * 4097), ("method",)),
    "such a network": ("measurement", lambda line: line["document"]["recipe"].update(network="x" * 4097), ("network",)),
    "such data": ("data", lambda line: line.update(name="x" * 4097), ("name",)),
    "negative counts": ("data", lambda line: line.update(counts=[1, -2, 3]), ("-2",)),
    "no examples": ("data", lambda line: line.update(counts=[1, 0, 3]), ("count",)),
    "recipe": ("result", lambda line: line["document"]["recipe"].update(epochs=-1), ("epochs",)),
    "document": ("result", lambda line: line.update(document=[1]), ()),
    "no document": ("measurement", lambda line: line.update(document=None), ()),
    "vectors": ("measurement", lambda line: line["document"].update(raw=[1]), ()),
    "a vector": ("measurement", lambda line: line["document"]["raw"].update(predictive="abc"), ("predictive", "'a'")),
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
def test_what_is_no_line_is_refused_with_its_number(case, tmp_path):
    content, facts = WRONG_TEXT[case]
    with refused("a.jsonl, line 3,", *facts):
        read_lines(written(tmp_path / "a.jsonl", b"\n \n" + content + b"\n"))


@pytest.mark.parametrize("case", WRONG_LINE)
def test_a_wrong_line_is_refused_with_its_number(case, lines, tmp_path):
    kind, change, facts = WRONG_LINE[case]
    change(lines[kind])
    number = list(lines).index(kind) + 1
    with refused(f"a.jsonl, line {number},", *facts):
        read_lines(written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines.values()))))


def test_a_class_without_test_examples_has_no_error(lines, tmp_path):
    lines["result"]["document"]["scores"] |= {"class_errors": [math.nan, 20.0, 40.0], "error": 30.0}
    lines["measurement"]["document"]["class_errors"] = [math.nan, 20.0, 40.0]
    assert len(read_lines(written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines.values()))))) == 3


def test_a_cut_file_is_refused_with_the_number_of_its_last_line(lines, tmp_path):
    text = "".join(json.dumps(line) + "\n" for line in lines.values())
    assert len(read_lines(written(tmp_path / "a.jsonl", text[:-1]))) == 3  # only the end of the line is missing
    for end in (-2, -200):
        with refused("a.jsonl, line 3,"):
            read_lines(written(tmp_path / "a.jsonl", text[:end]))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", " \r\n\t\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_ends_of_lines_and_byte_order_marks_do_not_matter(start, end, lines, tmp_path):
    text = start + "".join(json.dumps(line, ensure_ascii=False) + end for line in lines.values())
    assert len(read_lines(written(tmp_path / "a.jsonl", text))) == 3


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_file_is_refused(content, tmp_path):
    """It may be what is left of a copy that failed."""
    with refused("a.jsonl is empty"):
        read_lines(written(tmp_path / "a.jsonl", content))


def test_no_file_is_refused(tmp_path):
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
def test_lines_that_do_not_fit_are_refused_and_nothing_is_added(case, lines, empty, tmp_path):
    change, facts = WRONG_TOGETHER[case]
    change(lines)
    file = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines.values())))
    before = empty.path.read_bytes()
    with refused("a.jsonl", *facts):
        imported(empty, file)
    assert empty.path.read_bytes() == before


def test_other_data_under_a_name_of_the_store_are_refused(lines, empty, tmp_path):
    file = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines.values())))
    add_data(empty, OTHER, name=DATA.name)
    with refused("a.jsonl", empty.path, DATA.name, DATA.fingerprint, OTHER.fingerprint):
        imported(empty, file)
    assert empty.results(DATA.fingerprint) == []


def test_data_that_the_store_has_need_no_line(lines, empty, tmp_path):
    add_data(empty)
    add_data(empty, OTHER, name=DATA.name)  # of one name, which the store had before
    data = lines.pop("data")
    assert imported(empty, written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines.values())))) == 2
    assert imported(empty, written(tmp_path / "a.jsonl", json.dumps(data))) == 0


def test_an_export_is_replaced_by_one_that_has_all_its_results(full, tmp_path):
    lines = list(export_lines(full))
    for content in ("", "".join(lines), lines[0]):
        check_export(written(tmp_path / "a.jsonl", content), lines)
    check_export(tmp_path / "new.jsonl", lines)
    with refused("a.jsonl", "1 line ", "--force"):
        check_export(written(tmp_path / "a.jsonl", "".join(lines)), lines[:-1])
    for content in ("\n", "{}", '{"name": 1}'):
        with refused("a.jsonl", "--force"):
            check_export(written(tmp_path / "a.jsonl", content), lines)


LEDGER = Path(__file__).parents[2] / "results" / "cifar100-lt-50.jsonl"


def test_exported_results_have_the_keys_that_their_lanes_have_today(empty):
    lines = read_lines(LEDGER)
    counts = {line.data: line.value.counts for line in lines if isinstance(line.value, StoredDataset)}
    assert import_lines(empty, lines, "here").added > 0
    results = [line for line in lines if isinstance(line.value, cu.Result) and line.value.method in ("naive", "crt")]
    assert results
    for result, key, fingerprint in results:
        assert isinstance(result, cu.Result)
        assert (result.recipe.schedule, result.recipe.average) == ("drops", 0)
        lane, stats = cu.Lane(result.method, result.seed, result.lr, result.fold), cu.Stats(counts[fingerprint])
        assert lane_key(fingerprint, lane, result.recipe, stats, result.device) == key
