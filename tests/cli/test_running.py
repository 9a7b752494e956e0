"""What the commands share: budgets, progress on a terminal, and what a stop leaves."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from example_results import DATA, export_text, fill
from optional import optional

import class_uncertainty as cu
from class_uncertainty import Unfinished, text
from class_uncertainty.runs import Store
from class_uncertainty.training.checkpoints import Checkpoints, LaneState


@pytest.fixture
def short_seconds(monkeypatch):
    """A budget of 1s ends with the first epoch."""
    monkeypatch.setattr(text, "seconds", {"1s": 1e-9, "1h": 3600.0}.get)


@pytest.mark.usefixtures("short_seconds")
def test_a_budget_stops_cleanly_and_the_same_command_goes_on(run, tmp_path):
    command = "measure digits-lt:20 --epochs 3 --members 2 --budget"
    code, out, err = run(f"{command} 1s")
    assert (code, out.count("\n")) == (3, 1)
    assert (
        "cu: the budget is spent with 0 of 2 networks trained; runs.sqlite keeps what has finished "
        "(0 results, 0 networks), checkpoints keep what has not, and the same command goes on from there." in err
    )
    assert len(list((tmp_path / "runs.sqlite.running").iterdir())) == 2
    assert run(f"{command} 1h")[0] == 0
    assert not (tmp_path / "runs.sqlite.running").exists()


def test_what_a_stop_leaves_is_gone_when_all_is_done(run, tmp_path):
    """Lanes that had ended before it too; and a trace that nothing was traced for is spoken of."""
    command = "compare digits-lt:20 --methods naive --seeds 12 --epochs 8"
    assert run(f"{command} --budget 1s")[0] in (0, 3)
    assert run(command)[0] == 0
    assert not (tmp_path / "runs.sqlite.running").exists()
    code, _, err = run(f"{command} --profile trace.json")
    assert (code, err) == (0, "cu: nothing was trained, so trace.json was not written.\n")
    assert run(f"{command} --profile trace.txt")[0] == 2
    assert run(f"{command} --profile runs.sqlite")[0] == 2


@pytest.mark.parametrize(
    "command",
    ["compare digits-lt:20", "measure digits-lt:20 --estimators ensemble,snapshot,online", "fix digits-lt:20"],
)
def test_a_budget_holds_for_any_number_of_epochs(run, command):
    began = time.monotonic()
    code, _, err = run(f"{command} --epochs 1000000000 --budget 1s")
    assert code == 3
    assert "the budget is spent" in err
    assert time.monotonic() - began < 10  # about 2, where nothing else runs


def test_more_epochs_than_anyone_trains(run):
    code, _, err = run("compare digits-lt:20 --epochs", str(10**30), "--budget", "1s")
    assert code == 2
    assert str(10**30) in err


@pytest.mark.parametrize("budget", ["", "0", "soon", "5x", "-3m", "1m1h", "1.5m", "9" * 400])
def test_a_budget_that_is_no_time(run, budget):
    code, _, err = run("measure digits-lt:20 --budget", budget)
    assert code == 2
    assert f"budget is {budget!r}" in err
    assert "1h30m" in err


def test_what_is_known_is_printed_before_a_budget_ends_a_command(run, monkeypatch):
    """On stdout for people; beside --json it stays empty."""
    from class_uncertainty.workflows import fix as workflow

    def spent(*_: object) -> None:
        raise Unfinished("the budget is spent")

    monkeypatch.setattr(workflow, "train_networks", spent)
    command = "fix digits-lt:20 --epochs 2 --candidates naive,cb-rs --seeds 1"
    code, out, err = run(command)
    assert code == 3
    assert "\nKnown so far:\nAll 2 candidates" in out
    assert "All 2 candidates, 5 folds" in out
    assert "One network is kept" in out
    assert err.startswith("cu: the budget is spent; runs.sqlite keeps what has finished")
    assert run(f"{command} --json")[:2] == (3, "")


@pytest.mark.usefixtures("short_seconds")
def test_rows_that_are_stored_are_printed_when_others_are_not_trained(run):
    command = "compare digits-lt:20 --seeds 1 --epochs 3"
    assert run(f"{command} --methods naive")[0] == 0
    code, out, _ = run(f"{command} --methods naive,cb-rs --budget 1s")
    assert code == 3
    assert "\nKnown so far:\n" in out
    assert "naive" in out
    assert "cb-rs" not in out


def test_ctrl_c_prints_what_is_known(tmp_path):
    """On a terminal, in the middle of a fix, once the candidates have been judged: the bar, and the last rung."""
    words = ["fix", "digits-lt:20", "--epochs", "5", "--candidates", "naive,cb-rs"]
    files = ("--report", str(tmp_path / "r.html"), "--store", str(tmp_path / "s"))
    command = [sys.executable, "-m", "class_uncertainty", *words, *files]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    leader, follower = pty.openpty()
    with subprocess.Popen(command, stderr=follower, stdout=subprocess.PIPE, text=True, env=environment) as process:
        os.close(follower)
        seen, stopped = b"", False  # Linux ends such a file with an error
        with os.fdopen(leader, "rb", buffering=0) as terminal, suppress(OSError):
            while part := terminal.read(4096):
                seen += part
                if b"training naive networks" in seen and not stopped:
                    process.send_signal(signal.SIGINT)
                    stopped = True
        out, _ = process.communicate()
    text = seen.decode()
    assert process.returncode == 130
    assert "training candidates" in text
    assert "All 2 candidates, 5 folds" in out
    assert text.rstrip().endswith("goes on from there.")


@pytest.mark.parametrize(
    "command",
    [
        "compare npz:unread.npz",
        "measure npz:unread.npz",
        "fix npz:unread.npz",
        "train npz:unread.npz",
        "reproduce if1a",
        "reproduce if1a --stored",
        "reproduce if1a --plan",
        "results import a.jsonl",
        "results export b.jsonl",
        "report --out b.html",
        f"report {DATA.name} --out b.html",
    ],
)
def test_a_store_of_another_engine_is_refused_before_data_are_read(run, command):
    with Store("runs.sqlite") as store:
        fill(store)
        store.connection.execute("UPDATE results SET engine = 2")
        for table in ("estimates", "measurements"):
            store.connection.execute(f"DELETE FROM {table}")
        store.connection.commit()
    Path("unread.npz").write_text("no data")
    Path("a.jsonl").write_bytes(export_text())
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    code, out, err = run(command)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"store runs.sqlite has results of training engine 2 on {DATA.name!r}" in err
    assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


NOT_FOR_TABLES = ("--methods", "2s-cam-rs-bot", "--seeds", "1")
REFUSED = {
    "a mistyped path": "measure csv:churm.csv",
    "an unknown column": "train csv:churn.csv?label=lable",
    "a store in a new folder": "measure csv:churm.csv --store new/runs.sqlite",
    "a page of another format": "fix csv:churn.csv --report new/page.pdf",
    "a model that is a folder": "fix csv:churn.csv --save .",
    "costs that are missing": "fix csv:churn.csv --goal cost:none.csv",
    "candidates of other data": "fix csv:churn.csv --candidates naive?network=resnet32",
    "a method for images": f"compare csv:churn.csv {NOT_FOR_TABLES}",
    "a trace that is a table": "train csv:churn.csv --profile churn.csv",
    "an import that is a table": "results import churn.csv",
    "a trace over the user's file": "train csv:churn.csv --recipe features --epochs 2 --profile mine.json",
    "a model over the user's file": "train csv:churn.csv --recipe logistic --save mine",
    "a page over the user's file": "fix csv:churn.csv --report mine.html",
    "a model over its data": "train csv:mine.json --save mine --force",
    "a model over test data": "train csv:churn.csv?test=mine.json --save mine --force",
    "a model over a goal": "fix csv:churn.csv --goal prior:mine.json --save mine --force",
    "a page over its data": "fix csv:mine.html --report new/../mine.html --force",
    "a trace over its data": "measure csv:mine.json --profile ./mine.json --force",
    "a model and a trace": "train csv:churn.csv --save new --profile new.json",
    "a model and a store": "train csv:churn.csv --save new --store new.json",
    "a trace and a store": "train csv:churn.csv --profile new.json --store ./new.json",
    "a trace of another format": "measure csv:churn.csv --profile new.txt",
    "no store": "report --out new/page.html",
    "an experiment without data": "reproduce if2 --only cifar10-lt:99",
}


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED.keys())
def test_a_command_that_is_refused_leaves_nothing_behind(run, words):
    rows = "".join(f"{i % 9},{i % 7},{'yes' if i % 4 else 'no'}\n" for i in range(40))
    for name in ("churn.csv", "mine.json", "mine.html"):
        Path(name).write_text(f"age,calls,label\n{rows}")
    before = contents()
    code, _, err = run(words)
    assert (code, err.count("\n")) == (2, 1)
    assert contents() == before
    assert not any(path.is_dir() for path in Path().iterdir())


def test_the_store_is_there_while_networks_train(run, monkeypatch):
    """'cu clean' takes checkpoints whose store is not open for left behind."""
    seen = []
    save = Checkpoints.save

    def look(checkpoints: Checkpoints, lanes: Mapping[str, LaneState]) -> None:
        seen.append(Path("runs.sqlite").is_file())
        save(checkpoints, lanes)

    monkeypatch.setattr(Checkpoints, "save", look)
    assert run("train digits-lt:20 --epochs 1")[0] == 0
    assert seen
    assert all(seen)


def contents() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def write_tables(*folders: str) -> None:
    """Two data sets of one name, which differ."""
    for number, folder in enumerate(folders, start=1):
        Path(folder).mkdir()
        rows = "".join(f"{i % (6 + number)},{i * number % 11},{'yes' if i % 4 else 'no'}\n" for i in range(60))
        Path(folder, "churn.csv").write_text(f"age,calls,label\n{rows}")


def test_another_model_is_replaced_by_force_alone(run):
    """Refused before anything is trained or stored; the same command is never refused, also when its data change."""
    write_tables("a", "b")
    command = "train csv:a/churn.csv --recipe logistic --save m"
    assert run(command)[0] == 0
    before = contents()
    others = ("train csv:b/churn.csv --recipe logistic --save m", f"{command} --seed 1", "fix csv:a/churn.csv --save m")
    for other in others:
        code, _, err = run(f"{other} --store new/runs.sqlite")
        assert (code, err.count("\n")) == (2, 1)
        assert "m.safetensors was made from csv:a/churn.csv" in err
        assert "--force" in err
        assert contents() == before
    with open("a/churn.csv", "a") as table:
        table.write("1,2,yes\n")
    assert run(command)[0] == 0
    assert run(f"{others[0]} --force")[0] == 0
    assert cu.restore("m").about["data"] == "csv:b/churn.csv"
    assert run(command)[0] == 2


def test_data_of_one_name_have_pages_of_their_own(run):
    """Nobody is refused for a default, and a page that is named is kept."""
    write_tables("a", "b")
    Path("report.html").write_text("mine")
    for data in ("csv:a/churn.csv", "csv:b/churn.csv"):
        assert run(f"measure {data} --recipe logistic --members 2")[0] == 0
        for _ in range(2):
            assert run("report", data)[0] == run("report")[0] == 0
    first, other = sorted(Path().glob("churn*.html"), key=lambda page: len(page.name))
    assert first.name == "churn.html"
    assert "csv:a/churn.csv" in first.read_text()
    assert "csv:b/churn.csv" in other.read_text()
    assert Path("report.html").read_text() == "mine"
    assert len(list(Path().glob("report-*.html"))) == 1
    code, _, err = run("report csv:b/churn.csv --out churn.html")
    assert (code, err.count("\n")) == (2, 1)
    assert "churn.html was made from csv:a/churn.csv" in err
    assert run("report csv:b/churn.csv --out churn.html --force")[0] == 0
    assert "csv:b/churn.csv" in Path("churn.html").read_text()


def test_predictions_of_other_examples_or_options_stay(run):
    write_tables("a", "b")
    assert run("train csv:a/churn.csv --recipe logistic --save m")[0] == 0
    predict = "predict m a/churn.csv"
    assert run(predict)[0] == run(predict)[0] == 0
    first = Path("churn-predictions.csv").read_bytes()
    assert run(f"{predict} --prior equal")[0] == run("predict m b/churn.csv")[0] == 0
    assert len(list(Path().glob("churn-predictions*.csv"))) == len(list(Path().glob("churn-predictions*.json"))) == 3
    assert Path("churn-predictions.csv").read_bytes() == first
    code, _, err = run("predict m b/churn.csv --out churn-predictions.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert "a/churn.csv by m" in err
    adjust = "adjust churn-predictions.csv --prior"
    for prior in ("equal", "equal", "0.5,0.5"):
        assert run(adjust, prior)[0] == 0
    assert len(list(Path().glob("churn-predictions-adjusted*.csv"))) == 2
    audit = "audit churn-predictions.csv --save audit.json --report audit.html"
    assert run(audit)[0] == run(audit)[0] == 0
    for words in ("--save audit.json", "--report audit.html"):
        code, _, err = run(f"audit churn-predictions-adjusted.csv {words}")
        assert (code, "made from churn-predictions.csv" in err) == (2, True)
        assert run(f"audit churn-predictions-adjusted.csv {words} --force")[0] == 0


TRAINED = "train csv:churn.csv --recipe logistic --save m"
PREDICTED = "predict m churn.csv --out p.csv"
WRITTEN = {  # what is run before, the command, and all that it writes
    "a model": ([], TRAINED, ["m.safetensors", "m.json"]),
    "a page and figures": (
        ["measure csv:churn.csv --recipe logistic --members 2"],
        "report csv:churn.csv --out page.html --figures f",
        ["page.html", "f/csv-churn-csv-classes.svg"],
    ),
    "predictions": ([TRAINED], PREDICTED, ["p.csv", "p.json"]),
    "adjusted predictions": ([TRAINED, PREDICTED], "adjust p.csv --out q.csv", ["q.csv", "q.json"]),
    "adjusted arrays": ([TRAINED, PREDICTED], "adjust p.csv --out q.npz", ["q.npz"]),
    "an audit": ([TRAINED, PREDICTED], "audit p.csv --save a.json --report a.html", ["a.json", "a.html"]),
    "a card": ([TRAINED], "card m --out card.md", ["card.md"]),
    "a program for torch": ([TRAINED], "export m --out m.pt2", ["m.pt2"]),
    "a program in ONNX": ([TRAINED], "export m --out m.onnx", ["m.onnx"]),
    "results": ([TRAINED], "results export r.jsonl", ["r.jsonl"]),
    "a trace": ([], "train csv:churn.csv --recipe features --epochs 2 --profile t.json", ["t.json"]),
    "a fix": (
        [],
        "fix csv:churn.csv --recipe logistic --candidates naive --seeds 1 --trainings 6 --save f --report f.html",
        ["f.safetensors", "f.json", "f.html"],
    ),
}


@pytest.mark.parametrize(("before", "command", "files"), WRITTEN.values(), ids=WRITTEN.keys())
def test_what_the_user_changed_is_replaced_by_force_alone(before, command, files, run):
    if "onnx" in command:
        optional("onnxruntime")
    write_tables("here")
    Path("here/churn.csv").rename("churn.csv")
    for earlier in (*before, command, command):
        assert run(earlier)[0] == 0
    for file in files:
        Path(file).write_bytes(Path(file).read_bytes() + b" ")
        changed = contents() | {"runs.sqlite": b""}
        code, _, err = run(command)
        assert (code, err.count("\n")) == (2, 1)
        assert Path(file).stem in err
        assert "--force" in err
        assert contents() | {"runs.sqlite": b""} == changed
        assert run(f"{command} --force")[0] == 0
        assert not Path(file).read_bytes().endswith(b" ")


def test_a_trace_of_other_lanes_or_data_stays(run):
    write_tables("a", "b")
    train = "train csv:a/churn.csv --recipe features --epochs 2 --profile t.json"
    assert run(train)[0] == run(train)[0] == 0
    trace = Path("t.json").read_bytes()
    assert json.loads(trace)["traceEvents"]
    for other in (f"{train} --seed 1", f"{train} --epochs 3".replace("--epochs 2 ", ""), train.replace("a/", "b/")):
        code, _, err = run(f"{other} --store new/runs.sqlite")
        assert (code, "t.json" in err, "--force" in err) == (2, True, True)
        assert (Path("t.json").read_bytes(), Path("new").exists()) == (trace, False)
    measure = "measure csv:b/churn.csv --recipe features --epochs 2 --members 2 --profile t.json"
    assert run(measure)[0] == 2
    assert run(f"{measure} --force")[0] == 0
    assert Path("t.json").read_bytes() != trace


@pytest.mark.parametrize("words", ["train csv:d.json --save far/d", "measure csv:d.json --profile far/d.json"])
def test_data_in_the_data_folder_are_not_even_replaced_by_force(words, run):
    write_tables("far")
    Path("far/churn.csv").rename("far/d.json")
    before = contents()
    assert run(f"{words} --root far --force")[0] == 2
    assert contents() == before


def test_data_of_one_spelling_in_two_data_folders_are_two(run):
    write_tables("a", "b")
    page = "report csv:churn.csv --out page.html --root"
    for root in ("a", "b"):
        assert run(f"measure csv:churn.csv --recipe logistic --members 2 --root {root}")[0] == 0
    assert run(f"{page} a")[0] == run(f"{page} a")[0] == 0
    before = contents()
    assert run(f"{page} b")[0] == 2
    assert contents() == before


def test_an_export_of_another_model_stays(run):
    write_tables("a")
    for name, seed in (("m", "0"), ("n", "1")):
        assert run(f"train csv:a/churn.csv --epochs 1 --recipe features --seed {seed} --save {name}")[0] == 0
    export = "export m --to pt2"
    assert run(export)[0] == run(export)[0] == 0
    before = Path("m.pt2").read_bytes()
    code, _, err = run("export n --out m.pt2")
    assert (code, "m.pt2" in err, "--force" in err) == (2, True, True)
    assert Path("m.pt2").read_bytes() == before
    assert run("export n --out m.pt2 --force")[0] == 0
    assert run("card m --out m.json --force")[0] == 2  # it is read
