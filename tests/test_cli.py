"""The command line as a user types it."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch

import class_uncertainty as cu
from class_uncertainty import cli
from class_uncertainty.data import SOURCES
from class_uncertainty.results import Store

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """cu ARGS in an empty folder -> (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["cu", *args])
        monkeypatch.setattr(sys.stdout, "reconfigure", lambda **_: None, raising=False)
        monkeypatch.setattr(sys.stderr, "reconfigure", lambda **_: None, raising=False)
        with pytest.raises(SystemExit) as ended:
            cli.main()  # typer ends every command with SystemExit
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def test_measure(run: Run) -> None:
    code, out, err = run("measure", "digits-lt:20", "--epochs", "2", "--members", "2")
    assert (code, err) == (0, "")
    for word in ("μ^C", "μ^U", "effective", "epistemic share", "rank U", "0.2864", "Spearman"):
        assert word in out
    code, out, err = run("measure", "digits-lt:20", "--epochs", "2", "--members", "2", "--json")
    document = json.loads(out)
    assert [row["count"] for row in document["classes"]] == [120, 86, 61, 44, 31, 22, 16, 11, 8, 6]
    assert sum(row["uncertainty"] for row in document["classes"]) == pytest.approx(1)
    assert document["members"] == 2


def test_compare(run: Run) -> None:
    options = (
        "compare",
        "digits-lt:20",
        "--epochs",
        "2",
        "--members",
        "2",
        "--methods",
        "naive,cb-rs,ubrs",
        "--seeds",
        "2",
        "--lrs",
        "0.1,0.2",
    )
    code, out, err = run(*options)
    assert (code, err) == (0, "")
    assert "vs cb-rs" in out
    assert "at least 5 are needed" in out
    code, out, err = run(*options, "--json")
    rows = json.loads(out)["methods"]
    assert [(row["method"], row["lr"], row["runs"]) for row in rows] == [
        (m, lr, 2) for m in ("naive", "cb-rs", "ubrs") for lr in (0.1, 0.2)
    ]
    naive, ubrs = rows[0], rows[4]
    assert ubrs["gain"] == pytest.approx(naive["error"] - ubrs["error"])
    assert ubrs["counterpart"] == "cb-rs"
    assert 0 <= ubrs["aso"] <= 1
    assert naive["gain"] is None


def test_train_restore_and_report(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("train", "digits-lt:20", "--method", "ubrw", "--save", "models/digits", "--epochs", "2", "--members", "2")
    assert code == 0
    assert "wrote models/digits.safetensors" in out
    module, test = cu.restore(tmp_path / "models/digits"), cu.load("digits-lt:20").test
    error = 100 * (module(torch.from_numpy(test.inputs)).argmax(1).numpy() != test.labels).mean()
    code, out, _ = run("train", "digits-lt:20", "--method", "ubrw", "--epochs", "2", "--members", "2", "--json")
    assert json.loads(out)["result"]["scores"]["error"] == pytest.approx(error)
    code, out, err = run("report", "--figures", "figures", "--json")
    assert (code, err) == (0, "")
    files = [Path(file) for file in json.loads(out)["files"]]
    assert files[0].read_text().startswith("<!doctype html>")
    assert {file.suffix for file in files[1:]} == {".svg", ".png"}
    assert all(file.stat().st_size > 1000 for file in files)


def test_demo(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole tour, two epochs and three methods long; a second one trains nothing."""
    monkeypatch.setattr(cli, "DEMO", "naive,cb-rs,ubrs")
    recipes = {"images": cu.Recipe("small-conv", epochs=2, batch=32)}
    monkeypatch.setattr(cu.training.recipe, "RECIPES", recipes)
    code, out, err = run("demo")
    assert (code, err) == (0, "")
    assert "cu-demo/report.html" in out
    assert "digits-lt:20" in Path("cu-demo/report.html").read_text()
    monkeypatch.setattr(cu.training.loop, "_train", lambda *_: pytest.fail("trained again"))
    code, out, _ = run("demo", "--json")
    assert code == 0
    assert set(json.loads(out)) == {"measure", "compare", "report"}


@pytest.mark.parametrize(("command", "table"), [("methods", cu.METHODS), ("measures", cu.MEASURES), ("datasets", SOURCES)])
def test_lists(command: str, table: dict, run: Run) -> None:
    code, out, _ = run(command)
    assert code == 0
    assert all(name in out for name in table)
    assert {row["name"] for row in json.loads(run(command, "--json")[1])} == set(table)


WRONG = {
    "method": (("compare", "digits-lt:20", "--methods", "naive,ubr"), "unknown method 'ubr': did you mean 'ubrw'?"),
    "method of train": (("train", "digits", "--method", "nave"), "did you mean 'naive'?"),
    "data": (("measure", "digit-lt:20"), "unknown data 'digit-lt:20': did you mean 'digits-lt:20'?"),
    "ratio": (("measure", "digits-lt:x"), "needs an imbalance ratio"),
    "too steep": (("measure", "digits-lt:500"), "leaves class '9' 0 of 120 examples"),
    "option of data": (("measure", "digits?size=3"), "has the option 'size': 'digits' takes none"),
    "estimator": (("measure", "digits", "--estimator", "ensembel"), "did you mean 'ensemble'?"),
    "members": (("measure", "digits", "--members", "0"), "members is 0"),
    "epochs": (("measure", "digits", "--epochs", "0"), "epochs is 0"),
    "rate 0": (("compare", "digits", "--lrs", "0"), "learning rate is 0"),
    "rate below 0": (("compare", "digits", "--lrs", "0.1,-2"), "learning rate is -2"),
    "rate nan": (("train", "digits", "--lr", "nan"), "learning rate is nan"),
    "rate word": (("compare", "digits", "--lrs", "fast"), "learning rate 'fast' is not a number"),
    "no rate": (("compare", "digits", "--lrs", ","), "no learning rate is given"),
    "seeds repeat": (("compare", "digits", "--seeds", "0,1,0"), "seed 0 is given twice"),
    "seeds word": (("compare", "digits", "--seeds", "many"), "seed 'many' is not a whole number"),
    "no seeds": (("compare", "digits", "--seeds", "0"), "--seeds is 0"),
    "seed below 0": (("compare", "digits", "--seeds", "1,-1"), "seed is -1"),
    "methods repeat": (("compare", "digits", "--methods", "naive,naive"), "method naive is given twice"),
    "seed too large": (("train", "digits", "--seed", "18446744073709551616"), "seed is 18446744073709551616"),
    "save to no name": (("train", "digits", "--epochs", "1", "--save", "."), "'.' names no file"),
    "no store": (("report",), "store runs.sqlite does not exist"),
    "option": (("measure", "digits", "--memebrs", "3"), "No such option"),
    "command": (("mesure", "digits"), "No such command 'mesure'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_sentence_and_exit_code_2(case: str, run: Run, tmp_path: Path) -> None:
    args, sentence = WRONG[case]
    code, out, err = run(*args)
    assert code == 2
    assert sentence in " ".join(err.split())
    assert "Traceback" not in err
    if "No such" not in sentence:
        assert err.count("\n") == 1
        assert out == ""


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("measure", "digits", "--store", "file/runs.sqlite"), "store file/runs.sqlite could not be opened"),
        (("train", "digits", "--epochs", "1", "--save", "file/model"), "could not be written"),
        (("report", "--out", "file/report.html", "--store", "good.sqlite"), "could not be written"),
    ],
)
def test_faults_of_the_machine_are_exit_code_1(args: tuple[str, ...], sentence: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run("train", "digits", "--epochs", "1", "--store", "good.sqlite")[0] == 0
    code, _, err = run(*args)
    assert code == 1
    assert sentence in err
    assert err.count("\n") == 1


def test_a_full_disk_behind_stdout() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "class_uncertainty.cli", "methods"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_saving_is_tried_before_anything_is_trained(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run("train", "digits", "--method", "ubrw", "--save", "file/model")[0] == 1
    with Store("runs.sqlite") as store:
        assert store.estimates(store.data()[0].fingerprint) == []


@pytest.mark.parametrize("command", [["--help"], ["--version"], ["methods"], ["measures"], ["datasets"], ["compare", "--help"]])
def test_light_commands_import_nothing_heavy(command: list[str]) -> None:
    heavy = "{'torch', 'scipy', 'sklearn', 'altair', 'jinja2', 'vl_convert'}"
    code = f"import sys; sys.argv = ['cu', *{command}]\nfrom class_uncertainty.cli import main\ntry: main()\nexcept SystemExit: pass\n"
    done = subprocess.run(
        [sys.executable, "-c", code + f"print('heavy', {heavy} & set(sys.modules))"], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("heavy set()\n")


def test_a_terminal_sees_progress_and_a_pipe_does_not(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "class_uncertainty.cli", "train", "digits-lt:20", "--epochs", "3", "--store", str(tmp_path / "s")]
    leader, follower = pty.openpty()
    with subprocess.Popen(command, stderr=follower, stdout=subprocess.DEVNULL, env=os.environ | {"TERM": "xterm"}):
        os.close(follower)
        assert b"training naive" in screen(leader)
    quiet = subprocess.run(command, capture_output=True, text=True, check=True)
    assert quiet.stderr == ""


def screen(leader: int) -> bytes:
    """All that was written to a pseudo-terminal until its other end closed."""
    seen = b""
    with os.fdopen(leader, "rb", buffering=0) as terminal, suppress(OSError):  # Linux ends such a file with an error
        while part := terminal.read(4096):
            seen += part
    return seen


def test_a_terminal_without_greek_gets_question_marks_not_a_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "class_uncertainty.cli", "measure", "digits-lt:20", "--epochs", "1", "--members", "2"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "?^U" in done.stdout
