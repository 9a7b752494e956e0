"""The command line as a whole: wrong input, outputs, and how options are named."""

import re
import subprocess
import sys
from inspect import signature
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from commands import run_in_turn
from example_results import fill
from typer.main import get_command
from typer.models import OptionInfo

from class_uncertainty.cli.app import app, data_app, results_app
from class_uncertainty.runs import Store

WRONG = {
    "method": ("compare digits-lt:20 --methods naive,ubr", "unknown method 'ubr': did you mean 'ubrw'?"),
    "constant": ("compare digits-lt:20 --methods naive,cb:bet=0.9", "unknown constant 'bet': did you mean 'beta'?"),
    "constant of train": ("train digits --method cb:beta=2", "method 'cb:beta=2': beta is 2: "),
    "no constants": ("train digits --method naive:beta=2", "'naive' takes no constants"),
    "constant of a remedy": ("compare digits --methods ensemble:tau=2", "takes no constant"),
    "method of train": ("train digits --method nave", "did you mean 'naive'?"),
    "data": ("measure digit-lt:20", "unknown data 'digit-lt:20': did you mean 'digits-lt:20'?"),
    "ratio": ("measure digits-lt:x", "needs an imbalance ratio"),
    "too steep": ("measure digits-lt:500", "leaves class '9' 0 of 120 examples"),
    "option of data": ("measure digits?size=3", "unknown option of 'digits' 'size': there is only duplicate"),
    "estimator": ("measure digits --estimator ensembel", "did you mean 'ensemble'?"),
    "members": ("measure digits --members 0", "members is 0"),
    "folds": ("measure digits --estimator out-of-fold --members 1", "members is 1: for out-of-fold"),
    "score": ("measure digits --score preditive", "unknown score 'preditive': did you mean 'predictive'?"),
    "score of another": ("measure digits --score kernel", "unknown score 'kernel'"),
    "score of compare": ("compare digits --score epistemc --methods ubrw", "did you mean 'epistemic'?"),
    "score of train": ("train digits --score true-clas --method ubrw", "did you mean 'true-class'?"),
    "one of the estimators": (
        "measure digits --estimators single,onlin",
        "unknown estimator 'onlin': did you mean 'online'?",
    ),
    "estimators repeat": ("measure digits --estimators single,online,single", "estimator single is given twice"),
    "no estimators": ("measure digits --estimators ,", "no estimator is given"),
    "too few folds among them": (
        "measure digits --estimators out-of-fold --members 1",
        "members is 1: for out-of-fold",
    ),
    "rates of one": ("measure digits --lrs 0.1,0.4", "--lrs is 0.1,0.4: without --estimators give one learning rate"),
    "rate of measure": ("measure digits --lrs -1", "learning rate is -1"),
    "estimators and estimator": (
        "measure digits --estimators single,online --estimator duq",
        "leave out --estimator and --score",
    ),
    "estimators and score": (
        "measure digits --estimators single --score aleatoric",
        "leave out --estimator and --score",
    ),
    "no file": ("measure digits --estimator probabilities", "write probabilities:FILE"),
    "missing file": (
        "measure digits --estimator probabilities:none.npy",
        "none.npy does not exist: give probabilities:FILE",
    ),
    "measure of a method": (
        "compare digits --methods ubrw@prodct",
        "unknown measure 'prodct': did you mean 'product'?",
    ),
    "augmentation": ("compare digits --methods naive+mixp", "unknown augmentation 'mixp': did you mean 'mixup'?"),
    "measure of nothing": ("compare digits --methods naive@product", "@product"),
    "epochs": ("measure digits --epochs 0", "epochs is 0"),
    "epochs word": ("measure digits --epochs three", "--epochs is 'three': it must be a whole number from 1"),
    "members word": ("measure digits --members 1.5", "--members is '1.5': it must be a whole number from 1"),
    "views": ("measure digits --views 11", "--views is 11: it must be a whole number from 1 to 10"),
    "trainings word": ("fix digits --trainings few", "--trainings is 'few': it must be a finite number"),
    "runs of a row": ("reproduce table1 --seeds 0", "--seeds is 0: it must be a whole number from 1 to 1,000"),
    "rate 0": ("compare digits --lrs 0", "learning rate is 0"),
    "rate below 0": ("compare digits --lrs 0.1,-2", "learning rate is -2"),
    "rate nan": ("train digits --lr nan", "--lr is nan: it must be a finite number above 0"),
    "rate word": ("compare digits --lrs fast", "learning rate 'fast' is not a number: give one above 0"),
    "no rate": ("compare digits --lrs ,", "no learning rate is given"),
    "seeds repeat": ("compare digits --seeds 0,1,0", "seed 0 is given twice"),
    "seeds word": (
        "compare digits --seeds many",
        "seed 'many' is not a whole number: give how many, from 1 to 1,000, or which",
    ),
    "no seeds": ("compare digits --seeds 0", "seeds is 0"),
    "seed below 0": ("compare digits --seeds 1,-1", "seed is -1"),
    "methods repeat": ("compare digits --methods naive,naive", "method naive is given twice"),
    "seed too large": ("train digits --seed 18446744073709551616", "seed is 18446744073709551616"),
    "save to a folder": ("train digits --epochs 1 --save .", "as in 'model'"),
    "too many members": (
        "measure digits --members 1000000",
        "members is 1000000: it must be a whole number from 1 to 1,000",
    ),
    "store is a folder": ("measure digits --store .", "store . is a folder"),
    "kind": ("list method", "unknown kind 'method': did you mean 'methods'? There are data, methods, "),
    "name of a kind": ("list data cifar", "unknown name in 'cu list data' 'cifar': did you mean 'cifar10'?"),
    "data to fetch": ("data fetch cifar", "unknown data to fetch 'cifar': did you mean 'cifar10'?"),
    "no such folder": ("measure folder:nowhere", "'nowhere' is neither here nor in the data folder"),
    "no such data": (
        "measure cifar10 --root .",
        "cifar10 is not in the data folder .: 'cu data fetch cifar10' gets it",
    ),
    "no store": ("report", "store runs.sqlite does not exist"),
    "no store to export": ("results export a.jsonl", "store runs.sqlite does not exist"),
    "no file to import": ("results import a.jsonl", "a.jsonl does not exist"),
    "command of results": (
        "results exprt a.jsonl",
        "unknown command 'exprt': did you mean 'export'? There are export, import.",
    ),
    "option": (
        "measure digits --memebrs 3",
        "unknown option of 'cu measure' '--memebrs': did you mean '--members'? There are --members, ",
    ),
    "command": ("mesure digits", "unknown command 'mesure': did you mean 'measure'? There are demo, check, "),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_sentence_and_exit_code_2(case, run, tmp_path):
    args, sentence = WRONG[case]
    code, out, err = run(args)
    assert code == 2
    assert sentence in " ".join(err.split())
    assert "Traceback" not in err
    assert err.count("\n") == 1
    assert out == ""


@pytest.mark.parametrize(
    ("command", "options", "sentence"),
    [
        ("fix", "--trainings 0", "trainings is 0"),
        ("fix", "--device gpu", "device 'gpu'"),
        ("measure", "--device gpu", "device 'gpu'"),
        ("compare", "--device gpu", "device 'gpu'"),
        ("compare", "--device mps --on ray", "device is 'mps'"),
        ("measure", "--estimator ensemble:", "write ensemble:METHOD"),
        ("measure", "--epochs 0", "epochs is 0"),
        ("measure", "--estimators ensembles", "unknown estimator 'ensembles': did you mean 'ensemble'?"),
        ("measure", "--estimators online=predictiv", "did you mean 'predictive'?"),
    ],
)
def test_options_are_refused_before_data_are_read(command, options, sentence, run):
    code, out, err = run(command, "folder:nowhere", *options.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert "nowhere" not in err


def test_a_device_that_is_none_is_refused_before_an_experiment_begins(run, tmp_path):
    code, out, err = run("reproduce if1a --device gpu --root nowhere")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "device 'gpu'" in err
    assert not list(tmp_path.glob("*.sqlite"))
    assert not Path("runs.sqlite").exists()


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ("measure digits --store file/runs.sqlite", "file is not a folder"),
        ("train digits --epochs 1 --save file/model", "file is not a folder"),
        ("report --out file/report.html --store good.sqlite", "file is not a folder"),
        ("report --figures file --store good.sqlite", "file is not a folder"),
        ("report --out good.sqlite --store good.sqlite", "must end in .html"),
        ("report --out t.csv --store good.sqlite", "must end in .html"),
        ("results export t.csv --store good.sqlite", "t.csv"),
        ("results export file/a.jsonl --store good.sqlite", "file is not a folder"),
        ("fix csv:t.csv --epochs 1 --report t.csv", "must end in .html"),
        ("measure csv:t.csv --epochs 1 --profile t.csv", "t.csv"),
        ("train csv:t.csv --epochs 1 --save mine", "mine.json exists"),
        ("adjust p.npz --counts 2,1 --out q.npz", "q.npz exists"),
    ],
)
def test_outputs_never_replace_something_else(args, sentence, run, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "t.csv").write_text("a,label\n" + "1,u\n2,v\n" * 5)
    (tmp_path / "mine.json").write_text("{}")
    for name in "pq":
        np.savez(f"{name}.npz", probabilities=[[0.5, 0.5]])
    with Store("good.sqlite") as store:
        fill(store)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    code, _, err = run(args)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) <= {"runs.sqlite"}


def test_a_message_is_one_line_whatever_a_file_is_called(run, tmp_path):
    (tmp_path / "a\nb").mkdir()
    code, _, err = run("measure", "folder:a\nb")
    assert code == 2
    assert err.count("\n") == 1
    assert "a\\nb" in err


def test_no_option_is_named_by_its_metavar():
    """Typer 0.27 would make --NETWORK of an option `network` whose metavar is the same word."""
    from typer.main import get_command

    commands = [get_command(app)]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
        for option in command.params:
            if option.param_type_name == "option":
                assert (option.metavar or "").lower() not in (option.name, *option.opts), (command.name, option.name)
    assert len(commands) > 10


USAGE_ERRORS = [
    "fix nosuch",
    "fix digits-lt:20 --seeds 0",
    "compare digits-lt:20 --seeds 0",
    "compare digits-lt:20 --against nosuch",
    "measure digits-lt:20 --budget soon",
    "fix digits-lt:20 --goal meen",
    "fix digits-lt:20 --deploy nosuch",
    "fix digits-lt:20 --on nosuch",
    "measure digits-lt:20 --on ray --profile trace.json",
    "compare digits-lt:20 --shard 3/2",
    "train digits-lt:20 --recipe nosuch",
    "train digits-lt:20 --recipe images?epochs=2 --epochs 3",
    "train digits-lt:20 --pretrained",
    "clean --older-than soon",
]


def test_a_usage_error_does_not_wait_for_torch():
    """What one of them imports, all after it show."""
    ends = run_in_turn(USAGE_ERRORS)
    assert [(code, "torch" in heavy) for code, heavy in ends] == [(2, False)] * len(USAGE_ERRORS)


WRITTEN = {  # by option, the commands that write there
    "--out": ("predict", "adjust", "report", "card", "export"),
    "--save": ("train", "fix", "audit"),
    "--report": ("fix", "audit", "measure", "compare"),
    "--figures": ("report",),
    "--profile": ("measure", "compare", "train", "fix"),
    "--folder": ("demo",),
}
READ = {"--root", "--store", "--unseen", "--costs", "--baseline"}


def test_a_path_to_write_has_one_name_in_all_commands():
    """--out is the file that a command is for; others are named after what they hold."""
    named: dict[str, set[str]] = {}
    for command in [one.callback for group in (app, data_app, results_app) for one in group.registered_commands]:
        assert command is not None
        for name, parameter in signature(command).parameters.items():
            hint = parameter.annotation
            kinds = {Path} & {getattr(hint, "__origin__", None), *get_args(getattr(hint, "__origin__", None))}
            options = [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, OptionInfo)]
            if kinds and options and not options[0].hidden:
                named.setdefault(f"--{name}", set()).add(command.__name__)
    named["--report"] |= named.pop("--page")  # what the parameter of some commands is called
    written = {option: users for option, users in named.items() if option not in READ}
    assert written == {option: set(users) for option, users in WRITTEN.items()}


USAGE = {
    "no such option": (
        "clean --chache",
        "unknown option of 'cu clean' '--chache': did you mean '--cache'? "
        "There are --cache, --older-than, --yes, --json, --help.",
    ),
    "an option that is like none": (
        "clean --dry=3",
        "unknown option of 'cu clean' '--dry': there are --cache, --older-than, --yes, --json, --help.",
    ),
    "option of no command": (
        "--vresion",
        "unknown option of 'cu' '--vresion': did you mean '--version'? There are --version, --help.",
    ),
    "option of a command of results": (
        "results import a.jsonl --stor b.sqlite",
        "unknown option of 'cu results import' '--stor': did you mean '--store'? There are --store, --json, --help.",
    ),
    "no argument": (
        "fix",
        "'cu fix' needs DATA: a folder of images, a .csv, .parquet or .npz file, or a name from 'cu list data'.",
    ),
    "no second argument": (
        "predict model",
        "'cu predict' needs EXAMPLES: an image, a folder of images, or a .csv, .parquet, .npz or .npy file.",
    ),
    "none of several": ("results import", "'cu results import' needs FILE.jsonl: what 'cu results export' wrote."),
    "command of data": ("data fech", "unknown command 'fech': did you mean 'fetch'? There is only fetch."),
    "no value": (
        "train digits --budget",
        "option '--budget' requires an argument: stop after 90s, 25m or 1h30m; the same command resumes.",
    ),
    "a value of a flag": (
        "list --json=yes",
        "option '--json' does not take a value: print one JSON document and nothing else.",
    ),
    "a list with a space": (
        "compare digits --methods naive, ubrs",
        "'cu compare' takes DATA, and got 'ubrs' beyond that: names in a list have commas and no spaces between them.",
    ),
    "an argument where none is": (
        "demo online",
        "'cu demo' takes no argument, and got 'online' beyond that: names in a list have commas and no spaces "
        "between them.",
    ),
    "one dash": (
        "card model -out a.md",
        "unknown option of 'cu card' '-out': did you mean '--out'? There are --out, --force, --json, --help.",
    ),
}


@pytest.mark.parametrize("case", USAGE)
def test_the_whole_answer_is_one_sentence(case, run):
    words, sentence = USAGE[case]
    assert run(words) == (2, "", f"cu: {sentence}\n")


def test_hidden_options_are_not_offered(run):
    code, _, err = run("fix digits --prio equal")
    assert code == 2
    assert "--goal" in err
    assert "--prior" not in err


def needy(group: Any, *words: str) -> list[tuple[str, ...]]:
    """The words of every command that needs an argument."""
    names = [(*words, name) for name, row in group.commands.items() if any(one.required for one in row.params)]
    groups = [(name, row) for name, row in group.commands.items() if hasattr(row, "commands")]
    return names + [found for name, row in groups for found in needy(row, *words, name)]


@pytest.mark.parametrize("words", needy(get_command(app)), ids=" ".join)
def test_every_command_says_what_it_needs(words, run):
    code, out, err = run(" ".join(words))
    assert (code, out) == (2, "")
    assert re.fullmatch(rf"cu: 'cu {' '.join(words)}' needs [A-Z.jsonl]+: .+\.\n", err), err


def test_arguments_beyond_the_last_are_named(run):
    code, out, err = run("fix digits left over")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "'cu fix' takes DATA, and got 'left over' beyond that" in err


def test_a_command_is_called_cu_however_it_was_started():
    command = [sys.executable, "-m", "class_uncertainty", "fix"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("cu: 'cu fix' needs DATA: ")


@pytest.mark.parametrize("group", ["", "results", "data"])
def test_a_group_without_a_command_shows_its_help(group, run):
    _, shown, err = run(group)
    assert err == ""
    code, asked, _ = run(f"{group} --help")
    assert code == 0
    assert shown.strip() == asked.strip()
    assert "Usage: " in asked
