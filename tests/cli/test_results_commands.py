"""`cu results export` and `cu results import`, between stores and through files that are no exports."""

import json
from pathlib import Path

import pytest
from commands import SHORT
from example_results import DATA, add_data, fill, make_measurement, make_result

from class_uncertainty import Lane
from class_uncertainty.runs import Store
from class_uncertainty.runs.store import result_row
from class_uncertainty.training.keys import ENGINE


@pytest.fixture
def full(run):
    """In a folder with the store runs.sqlite and its export a.jsonl."""
    with Store("runs.sqlite") as store:
        fill(store)
    assert run("results export a.jsonl")[0] == 0
    return run


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_what_is_measured_and_compared_here_is_reported_there(run, forbid_training):
    """Estimates are exported as class vectors; the other store has the same results, and exports the same bytes."""
    assert run(f"measure digits-lt:20 {SHORT}")[0] == 0
    assert run(f"compare digits-lt:20 {SHORT} --methods naive,ubrs --seeds 2")[0] == 0
    code, out, err = run("results export a.jsonl --json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {"file": "a.jsonl", "lines": 1 + 1 + 4}
    kinds = [json.loads(line)["kind"] for line in Path("a.jsonl").read_text().splitlines()]
    assert kinds == ["data", "measurement", *["result"] * 4]
    for added in (5, 0):
        code, out, err = run("results import a.jsonl --store new/b.sqlite --json")
        assert (code, err) == (0, "")
        assert json.loads(out) == {"store": "new/b.sqlite", "values": 5, "added": added, "differing": 0}
    assert run("results export b.jsonl --store new/b.sqlite")[0] == 0
    assert Path("b.jsonl").read_bytes() == Path("a.jsonl").read_bytes()
    forbid_training()
    again = ("compare", "digits-lt:20", "--epochs", "2", "--methods", "naive,cb-rs", "--seeds", "2", "--json")
    assert run("report --store new/b.sqlite --json")[0] == 0
    naive = run(*(word.replace("naive,cb-rs", "naive") for word in again), "--store", "new/b.sqlite")
    assert (naive[0], json.loads(naive[1])["methods"][0]["runs"]) == (0, 2)


def test_people_read_how_much_was_written_and_added(full):
    code, out, _ = full("results", "export", "a.jsonl", "--data", DATA.name)
    assert (code, "12" in out, "a.jsonl" in out) == (0, True, True)
    code, out, _ = full("results", "import", "a.jsonl", "a.jsonl", "--store", "b.sqlite")
    assert (code, "11 of 22" in out, "b.sqlite" in out) == (0, True, True)


def test_lines_with_other_numbers_are_told_and_not_taken(full):
    text = Path("a.jsonl").read_text()
    first = json.dumps(make_measurement().raw["predictive"][1])
    Path("b.jsonl").write_text(text.replace(first, "0.5"))
    assert "0 of 11" in full("results", "import", "a.jsonl")[1]
    code, out, _ = full("results", "import", "b.jsonl")
    assert (code, "1 of them with other numbers: the stored ones were kept" in " ".join(out.split())) == (0, True)
    code, out, _ = full("results", "import", "b.jsonl", "--json")
    assert json.loads(out) == {"store": "runs.sqlite", "values": 11, "added": 0, "differing": 1}


def test_data_are_exported_by_name(full):
    with Store("runs.sqlite") as store:
        for name, fingerprint in ((f"{DATA.name}?validation=0.2", "5" * 32), ("digits", "0" * 32)):
            fill(store, add_data(store, name=name, fingerprint=fingerprint))

    def names(*data: str) -> list[str]:
        assert (
            full("results", "export", "b.jsonl", "--force", *(word for name in data for word in ("--data", name)))[0]
            == 0
        )
        lines = map(json.loads, Path("b.jsonl").read_text().splitlines())
        return [line["name"] for line in lines if line["kind"] == "data"]

    assert names(DATA.name) == [DATA.name, f"{DATA.name}?validation=0.2"]
    assert names("digits", f"{DATA.name}?validation=0.2") == ["digits", f"{DATA.name}?validation=0.2"]
    assert names() == ["digits", DATA.name, f"{DATA.name}?validation=0.2"]


def test_a_store_without_results_exports_no_file(run):
    """An empty file could not be imported."""
    with Store("runs.sqlite") as empty:
        empty.create_file()
    code, out, err = run("results export a.jsonl")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "runs.sqlite has no results" in err
    assert not Path("a.jsonl").exists()


def test_a_store_of_two_engines_is_rescued_by_an_export(full):
    """What this version trained reaches a store that can be added to; its refusal says how."""
    with Store("runs.sqlite") as store:
        store.add_rows([("results", result_row("old", DATA.fingerprint, make_result(Lane())) | {"engine": ENGINE - 1})])
    code, _, err = full("compare", DATA.name)
    assert (code, "'cu results export FILE.jsonl --store runs.sqlite'" in err) == (2, True)
    code, _, err = full("results", "export", "b.jsonl", "--store", "runs.sqlite")
    assert (code, "left out 1 result of another training engine" in err) == (0, True)
    assert Path("b.jsonl").read_bytes() == Path("a.jsonl").read_bytes()
    assert full("results", "import", "b.jsonl", "--store", "new.sqlite")[0] == 0
    with Store("runs.sqlite", create=False) as mixed, Store("new.sqlite") as rescued:
        assert rescued.by_key("results", DATA.fingerprint) == mixed.by_key("results", DATA.fingerprint)
        assert len(rescued.measurements(DATA.fingerprint)) == 2  # an estimate is one in the new store


def test_windows_ends_of_lines(full):
    Path("w.jsonl").write_bytes(Path("a.jsonl").read_bytes().replace(b"\n", b"\r\n"))
    assert json.loads(full("results", "import", "w.jsonl", "--store", "b.sqlite", "--json")[1])["added"] == 11


EXPORT, IMPORT = ("results", "export"), ("results", "import")
WRONG = {
    "no store": ((*EXPORT, "new.jsonl", "--store", "none.sqlite"), "store none.sqlite does not exist"),
    "unknown data": ((*EXPORT, "new.jsonl", "--data", "digit-lt:20"), "did you mean 'digits-lt:20'?"),
    "another format": ((*EXPORT, "new.xlsx"), ".jsonl"),
    "no export": ((*EXPORT, "notes.jsonl"), "notes.jsonl"),
    "a store": ((*EXPORT, "runs.sqlite"), ".jsonl"),
    "a folder": ((*EXPORT, "folder"), "folder is a folder"),
    "below a file": ((*EXPORT, "notes.txt/a.jsonl"), "notes.txt is not a folder"),
    "no file": ((*IMPORT, "b.jsonl"), "b.jsonl does not exist"),
    "a folder to read": ((*IMPORT, "folder"), "folder is a folder"),
    "no line": ((*IMPORT, "notes.txt"), "notes.txt, line 1,"),
    "a store to read": ((*IMPORT, "runs.sqlite"), "runs.sqlite is a store: 'cu results export"),
    "an empty file": ((*IMPORT, "empty.jsonl"), "empty.jsonl is empty"),
    "an empty file among others": (
        (*IMPORT, "a.jsonl", "empty.jsonl", "--store", "new.sqlite"),
        "empty.jsonl is empty",
    ),
    "JSON over many lines": ((*IMPORT, "pretty.jsonl"), "each line must be one JSON object"),
    "a list": ((*IMPORT, "list.jsonl"), "each line must be one JSON object"),
    "cut": ((*IMPORT, "cut.jsonl"), "cut.jsonl, line 12,"),
    "one of two": ((*IMPORT, "a.jsonl", "cut.jsonl", "--store", "new.sqlite"), "cut.jsonl, line 12,"),
    "another engine": ((*IMPORT, "engine.jsonl"), "engine.jsonl, line 2,"),
    "surrogates": ((*IMPORT, "surrogates.jsonl"), "surrogates.jsonl, line 1,"),
    "unnamed data": ((*IMPORT, "unnamed.jsonl"), "unnamed.jsonl has results of the data 999"),
    "other data": ((*IMPORT, "other.jsonl"), f"two data sets called {DATA.name!r}"),
    "other data for a new store": (
        (*IMPORT, "a.jsonl", "other.jsonl", "--store", "new.sqlite"),
        f"a.jsonl and other.jsonl has two data sets called {DATA.name!r}",
    ),
    "unnamed data for a new store": (
        (*IMPORT, "unnamed.jsonl", "--store", "new/new.sqlite"),
        "unnamed.jsonl has results of the data 999",
    ),
    "too long a name": ((*IMPORT, "x" * 300), "does not exist"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_refused_is_one_sentence_and_nothing_is_written(case, full, tmp_path):
    text = Path("a.jsonl").read_text()
    Path("folder").mkdir()
    for name in ("notes.txt", "notes.jsonl"):
        Path(name).write_text("Results, by hand.\n")
    Path("empty.jsonl").write_text("\n")
    Path("pretty.jsonl").write_text(json.dumps(json.loads(text.splitlines()[0]), indent=2))
    Path("list.jsonl").write_text(json.dumps([json.loads(line) for line in text.splitlines()]))
    Path("cut.jsonl").write_text(text[:-9])
    Path("engine.jsonl").write_text(text.replace('"engine": ', '"engine": 9'))
    Path("surrogates.jsonl").write_text(text.replace(DATA.name, "\\ud800"))
    Path("unnamed.jsonl").write_text(text.replace(f'"data": "{DATA.fingerprint}"', f'"data": "{"9" * 32}"'))
    Path("other.jsonl").write_text(text.replace(DATA.fingerprint, "9" * 32))
    before, folders = contents(tmp_path), sorted(tmp_path.iterdir())
    args, sentence = WRONG[case]
    code, out, err = full(*args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert (contents(tmp_path), sorted(tmp_path.iterdir())) == (before, folders)


def test_no_subcommand_is_help(run):
    _, out, err = run("results")
    assert all(name in out + err for name in ("export", "import"))
