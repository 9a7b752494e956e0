"""No command runs code that only a file names: a planted file would leave a mark."""

import json
import py_compile
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from own_networks import swin_folder
from pictures import picture
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.cli.app import app
from class_uncertainty.cli.list_commands import KINDS
from class_uncertainty.runs import Store
from class_uncertainty.runs.result_lines import export_lines
from class_uncertainty.training.networks import network_table, user_code
from class_uncertainty.training.networks.classifier import Ensemble
from class_uncertainty.training.networks.network_table import sealed, sealed_as_named
from class_uncertainty.training.networks.user_code import adopt, code_hash, named, trust, trust_code
from class_uncertainty.training.saved_model import model_checksum
from class_uncertainty.workflows.load_named import load_named
from class_uncertainty.workflows.model_card import model_card

HARMLESS = """
from torch import nn

def small():
    return nn.Sequential(nn.Conv2d(1, 3, 3, stride=2), nn.ReLU())

def pooled():
    return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten()), {"size": 16}

def other():
    open("mark", "w").close()
"""
PLANTED = 'open("mark", "w").close()\n' + HARMLESS
QUICK = ("--epochs", "1", "--root", ".")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Files that name code.py, made by a user who trusted it; then someone else replaced it."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("CLASS_UNCERTAINTY_CACHE", str(folder / "cache"))
        patch.setattr(user_code, "_named", {})
        Path("code.py").write_text(HARMLESS)
        for i in range(8):
            picture(Path("photos") / "ab"[i % 2] / f"{i}.png", i, (20, 24))
        digits = cu.load("digits-lt:20")
        recipe = cu.Recipe("code.py:small", epochs=1, batch=32)
        trained = cu.train(digits, recipe=recipe, store="store.sqlite", save="network")
        cu.measure(digits, members=2, recipe=recipe, store="store.sqlite")
        several = cu.fit(digits.train, [cu.Lane(seed=seed) for seed in range(2)], recipe=recipe)
        cu.save(Ensemble([several.module(0), several.module(1)]), "ensemble")
        photos = cu.load("folder:photos").train
        features = cu.Dataset("folder:photos by code.py:pooled", cu.embed(photos, "code.py:pooled"))
        head = cu.train(features, recipe=cu.Recipe("linear", epochs=1, batch=4), store="features.sqlite")
        cu.save(head, "head")
        cu.save(head, "embedded", embed_weights=True)
        cu.measure(features, members=2, recipe=cu.Recipe("linear", epochs=1, batch=4), store="features.sqlite")
        np.save("new.npy", digits.test.inputs[:2])
        cu.predict(trained, "new.npy")
        Path("code.py").write_text(PLANTED)
    return folder


@pytest.fixture
def planted(made, tmp_path, monkeypatch):
    """A copy of these files, and a process that trusts nothing yet."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLASS_UNCERTAINTY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(user_code, "_named", {})
    network_table._row_of.cache_clear()
    return tmp_path


STORES = {"a network": "store.sqlite", "a backbone": "features.sqlite"}
READERS = {
    "report": ("report",),
    "report of one data set": ("report", "digits-lt:20"),
    "report of features": ("report", "folder:photos by code.py:pooled"),
    "results export": ("results", "export", "out.jsonl"),
    "measure": ("measure", "digits-lt:20", "--members", "2", *QUICK),
    "compare": ("compare", "digits-lt:20", "--methods", "naive", "--seeds", "1", *QUICK),
    "train": ("train", "digits-lt:20", *QUICK),
    "fix": ("fix", "digits-lt:20", "--candidates", "naive", "--trainings", "3", "--seeds", "1", *QUICK),
    "reproduce": ("reproduce", "table2", "--stored"),
}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("command", READERS)
def test_commands_on_a_store(command, store, planted, run):
    code, _, _ = run(*READERS[command], "--store", STORES[store])
    assert code in (0, 2)
    assert not (planted / "mark").exists()


@pytest.mark.parametrize("store", STORES)
def test_a_file_of_results_and_what_is_shown_of_it(store, planted, run):
    """The name and the stored number of parameters are shown."""
    assert run("results export out.jsonl --store", STORES[store])[0] == 0
    assert run("results import out.jsonl --store new.sqlite")[0] == 0
    assert run("report --store new.sqlite --out page.html")[0] == 0
    page = (planted / "page.html").read_text()
    if store == "a network":
        assert "code.py:small, 70 parameters" in page  # 3 * 9 + 3 of the convolution, 10 * 3 + 10 of the head
    assert not (planted / "mark").exists()


MODELS = ("network", "ensemble", "head", "embedded")
ASKING = {
    "predict": lambda model: ("predict", model, "photos" if model in ("head", "embedded") else "new.npy"),
    "export": lambda model: ("export", model, "--to", "pt2"),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("command", ASKING)
def test_commands_that_need_the_code_of_a_model(command, model, planted, run):
    """Without the option the file, its hash and the option are named; with it, other code than it was is refused."""
    call = ASKING[command](model)
    code, _, err = run(*call)
    assert code == 2
    assert all(part in err for part in ("code.py", "SHA-256", "--trust-code"))
    code, _, err = run(*call, "--trust-code")
    assert code == 2
    assert all(part in err for part in ("code.py", "SHA-256", f"{model}.json"))
    assert not (planted / "mark").exists()


@pytest.mark.parametrize("model", MODELS)
def test_a_card_is_written_without_the_code(model, planted, run):
    assert run("card", model, "--out", "card.md")[0] == 0
    card = (planted / "card.md").read_text()
    assert ("code.py:small" if model in ("network", "ensemble") else "code.py:pooled") in card
    assert not (planted / "mark").exists()


@pytest.mark.parametrize("model", MODELS)
def test_restore(model, planted):
    if model == "head":  # its features need no code
        assert cu.restore(model).classes == ("a", "b")
    else:
        with refused("code.py", "SHA-256", "trust_code"):
            cu.restore(model)
    with refused("code.py", "SHA-256", f"{model}.json"):
        cu.restore(model, trust_code=True)
    assert not (planted / "mark").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_lists_look_at_no_file(kind, planted, run):
    (planted / "store.sqlite").rename(planted / "runs.sqlite")
    assert run("list", kind)[0] == 0
    assert not (planted / "mark").exists()


@pytest.mark.parametrize("model", MODELS)
def test_trusted_code_runs_if_it_is_that_of_the_model(model, planted, run):
    (planted / "code.py").write_text(HARMLESS)
    assert run(*ASKING["predict"](model), "--trust-code")[0] == 0


def forged(model: Path, **fields: object) -> None:
    """A description that someone edited, with the checksum that it had."""
    file = model.with_suffix(".json")
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


def rewritten(model: Path, **fields: object) -> None:
    """One with a checksum that matches."""
    forged(model, **fields)
    document = json.loads(model.with_suffix(".json").read_text())
    forged(model, checksum=model_checksum(document, model.with_suffix(".safetensors").read_bytes()))


def test_the_checksum_is_compared_before_code_runs(planted):
    (planted / "code.py").write_text(HARMLESS)
    forged(planted / "network", network="code.py:other")
    with refused("network.safetensors", "network.json", "damaged"):
        cu.restore("network", trust_code=True)
    assert not (planted / "mark").exists()


def test_trust_in_one_function_is_not_trust_in_the_others(planted):
    """A model with a matching checksum may name any function of a file that is trusted."""
    (planted / "code.py").write_text(HARMLESS)
    cu.restore("network", trust_code=True)
    rewritten(planted / "network", network="code.py:other")
    with refused("code.py", "other()", "trust_code"):
        cu.restore("network")
    assert not (planted / "mark").exists()


def test_a_plain_model_that_was_edited_to_name_code(planted, run):
    cu.train(cu.load("digits-lt:20"), recipe=cu.Recipe("small-conv", epochs=1, batch=32), save="plain")
    document = json.loads((planted / "plain.json").read_text()) | {"network": "code.py:small", "architecture": "0" * 16}
    content = (planted / "plain.safetensors").read_bytes()
    document["checksum"] = model_checksum(document, content)
    (planted / "plain.json").write_text(json.dumps(document))
    for options in ("", "--trust-code"):
        code, _, err = run(f"predict plain new.npy {options}")
        assert code == 2
        assert "code.py" in err
    assert not (planted / "mark").exists()


def test_a_model_without_the_hash_of_its_code(planted):
    (planted / "code.py").write_text(HARMLESS)
    rewritten(planted / "network", code={})
    with refused("code.py", "not recorded"):
        cu.restore("network", trust_code=True)


@pytest.mark.parametrize("model", MODELS)
def test_the_bytes_that_were_hashed_run(model, planted, monkeypatch):
    """A file that is replaced as soon as it was read is not run, whatever looks at it later."""
    file = planted / "code.py"
    file.write_text(HARMLESS)

    def read_and_replace(name: str, code: bytes) -> None:
        trust_code(name, code)
        file.write_text(PLANTED)

    monkeypatch.setattr("class_uncertainty.training.model_files.trust_code", read_and_replace)
    example = "photos" if model in ("head", "embedded") else "new.npy"
    restored = cu.restore(model, trust_code=True)
    assert len(cu.predict(restored, example).classes) in (2, 10)
    assert file.read_text() == PLANTED
    assert not (planted / "mark").exists()


@pytest.mark.parametrize("typed", ["--network", "--backbone"])
def test_a_file_that_changes_while_a_command_runs(typed, planted, run, monkeypatch):
    """What it was when the command began runs to the end, and what is saved names its hash."""
    file = planted / "code.py"
    file.write_text(HARMLESS)

    def read_and_replace(*given: object, **options: object) -> object:
        file.write_text(PLANTED)
        return load_named(*given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("class_uncertainty.cli.running.Running.loader.__wrapped__.__defaults__", (read_and_replace,))
    call = {
        "--network": "train digits-lt:20 --network code.py:small",
        "--backbone": "train folder:photos --backbone code.py:pooled",
    }
    assert run(call[typed], "--save", "saved", *QUICK)[0] == 0
    assert file.read_text() == PLANTED
    assert not (planted / "mark").exists()
    saved = json.loads((planted / "saved.json").read_text())
    assert saved["code"] == {"code.py": code_hash(HARMLESS.encode())}


def test_another_process_runs_the_same_bytes(planted):
    """A worker gets the code itself, whatever lies where it works."""
    (planted / "code.py").write_text(HARMLESS)
    recipe = sealed(cu.Recipe("code.py:small", epochs=1, batch=32))
    given = named()
    (planted / "code.py").write_text(PLANTED)
    user_code._named.clear()  # as a process that starts
    with refused("code.py", "SHA-256"):
        sealed_as_named(recipe)
    adopt(given)
    assert sealed_as_named(recipe) == recipe
    (planted / "code.py").unlink()
    assert sealed_as_named(recipe) == recipe
    assert not (planted / "mark").exists()


def test_a_model_that_is_saved_again_vouches_for_no_code(planted):
    """Its code may have been replaced."""
    cu.save(cu.restore("head"), "again")
    assert json.loads((planted / "again.json").read_text())["code"] == {}
    with refused("code.py", "not recorded"):
        cu.restore("again", trust_code=True)


def test_a_recipe_out_of_a_result_names_nothing(planted):
    """Whoever wrote the result named its network, not who trains by it."""
    with Store(planted / "store.sqlite") as store:
        recipe = store.results(store.data()[0].fingerprint)[0].recipe
    assert recipe.fingerprint
    with refused("code.py", "SHA-256"):
        cu.train(cu.load("digits-lt:20"), recipe=recipe)
    assert not (planted / "mark").exists()


def test_a_changed_file_is_another_key(planted, run):
    """A command that goes on after a change of the code trains anew."""
    (planted / "code.py").write_text(HARMLESS)
    call = ("compare", "digits-lt:20", "--methods", "naive", "--seeds", "1", "--network", "code.py:small", *QUICK)
    counts = []
    for code in (HARMLESS, HARMLESS, HARMLESS + "\n# changed"):
        (planted / "code.py").write_text(code)
        assert run(*call, "--store", "keys.sqlite")[0] == 0
        with Store(planted / "keys.sqlite") as store:
            counts.append(store.finished)
    assert counts == [1, 1, 2]


def test_the_same_bytes_elsewhere_are_not_trusted(planted):
    """They may look beside themselves for more code."""
    (planted / "code.py").write_text(HARMLESS)
    (planted / "theirs").mkdir()
    (planted / "theirs" / "code.py").write_text(HARMLESS)
    trust("code.py:small")
    rewritten(planted / "network", network="theirs/code.py:small")
    with refused("theirs", "SHA-256", "trust_code"):
        cu.restore("network")


def test_a_model_downloads_nothing_that_its_user_did_not_ask_for(planted):
    asked = []

    def built(name: str, weights: object, download: bool, pretrained: bool = True) -> object:
        asked.append(download)
        raise cu.InputError("nothing is built.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("class_uncertainty.training.networks.backbones.from_hugging_face", built)
        rewritten(planted / "network", network="hf:a/b?download=yes")
        for options in ({}, {"trust_code": True}):
            with refused("hf:a/b"):
                cu.restore("network", **options)
    assert asked == [False, True]


def test_bytecode_beside_the_file_does_not_run(planted):
    """Python would take it for the file's own, by a date and a size that anyone can write."""
    file = planted / "code.py"
    file.write_text(PLANTED)
    cached = Path(py_compile.compile(str(file), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH))
    file.write_text(HARMLESS)
    assert cached.exists()
    cu.restore("network", trust_code=True)
    assert not (planted / "mark").exists()


def test_a_file_that_is_typed_for_training_runs(planted, run):
    assert run("train digits-lt:20 --network code.py:small", *QUICK)[0] == 0
    assert (planted / "mark").exists()


@pytest.mark.parametrize("typed", ["--network", "--backbone"])
def test_code_in_a_folder_of_transformers_never_runs(typed, tmp_path, run):
    """Not even that of a folder that is typed: a file of one's own can import it."""
    folder = swin_folder(tmp_path)
    (folder / "planted.py").write_text(PLANTED)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "planted", "auto_map": {"AutoConfig": "planted.C", "AutoModel": "planted.M"}}
    (folder / "config.json").write_text(json.dumps(config))
    code, _, err = run("train digits-lt:20", typed, "hf:swin", *QUICK)
    assert code == 2
    assert all(part in err for part in ("hf:swin", "code", "PATH.py:FACTORY"))
    assert not list(tmp_path.rglob("mark"))


def test_weights_that_would_run_code(planted, run):
    class Leaves:
        def __reduce__(self) -> tuple[object, tuple[str, str]]:
            return open, ("mark", "w")

    torch.save({"weight": Leaves()}, "weights.pth")
    code, _, err = run("train digits-lt:20 --network efficientnet-lite0?weights=weights.pth --pretrained")
    assert code == 2
    assert "weights.pth" in err
    assert not (planted / "mark").exists()


# every command x every kind of file


KINDS_OF_FILES = {  # and the source that reads each as data
    "store": ("store.sqlite", "csv"),
    "store of features": ("features.sqlite", "csv"),
    "store under way": ("half.sqlite", "csv"),
    "checkpoint": ("checkpoint.safetensors", "npz"),
    "results": ("results.jsonl", "csv"),
    "model": ("network", "parquet"),
    "ensemble": ("ensemble.json", "csv"),
    "head": ("head.safetensors", "npz"),
    "model with its backbone": ("embedded", "parquet"),
    "card": ("card.md", "csv"),
    "predictions": ("predictions.csv", "csv"),
    "pickled array": ("pickled.npy", "npz"),
    "pickled arrays": ("pickled.npz", "npz"),
    "pickled weights": ("weights.pth", "npz"),
    "data folder": ("photos", "folder"),
    "folder of Transformers": ("swin", "folder"),
}
STOPS = "--store s.sqlite --budget 0.01s"  # what a command reads is read by then
TRAINS = (
    "{0} --store {1}",
    f"{{0}} --root {{1}} {STOPS}",
    f"{{0}} --backbone hf:{{1}} {STOPS}",
    f"{{0}} --network hf:{{1}} {STOPS}",
    f"{{0}} --network 'efficientnet-lite0?weights={{1}}' --pretrained {STOPS}",
    f"{{0}} --profile {{1}} {STOPS}",
)
DIGITS = "digits-lt:20 --epochs 1"
TAKES = {
    "demo": ("demo --folder {0}",),
    "check": ("check {0}", "check {1}:{0}"),
    "measure": (*TRAINS, "measure {1}:{0} --epochs 1 --store s.sqlite"),
    "compare": (*TRAINS, "compare {1}:{0} --methods naive --epochs 1 --store s.sqlite"),
    "train": (*TRAINS, "train {1}:{0} --epochs 1 --store s.sqlite", f"train {DIGITS} --store s.sqlite --save {{0}}"),
    "fix": (*TRAINS, "fix {1}:{0} --epochs 1 --store s.sqlite", "fix digits-lt:20 --goal cost:{0} --store s.sqlite"),
    "report": ("report --store {0}", "report {1}:{0} --store store.sqlite", "report --store store.sqlite --out {0}"),
    "predict": (
        "predict {0} new.npy --force",
        "predict plain {0} --force",
        "predict plain new.npy --prior {0} --force",
        "predict head {0} --force",
    ),
    "adjust": (
        "adjust {0} --force",
        "adjust predictions.csv --counts {0} --force",
        "adjust predictions.csv --unseen {0} --force",
        "adjust predictions.csv --prior {0} --force",
    ),
    "audit": (
        "audit {0}",
        "audit predictions.csv --baseline {0}",
        "audit predictions.csv --costs {0}",
        "audit predictions.csv --counts {0}",
        "audit predictions.csv --prior {0}",
    ),
    "card": ("card {0} --out new.md --force", "card network --out {0}"),
    "export": ("export {0} --to pt2 --force", "export plain --to pt2 --out {0}"),
    "reproduce": (
        "reproduce table2 --stored --store {0}",
        "reproduce places --stored --network hf:{0} --store s.sqlite",
    ),
    "clean": ("clean {0} --yes",),
    "list": ("list {0}",),
    "data fetch": ("data fetch {0}",),
    "results export": ("results export out.jsonl --force --store {0}", "results export {0} --store store.sqlite"),
    "results import": ("results import {0} --store new.sqlite", "results import results.jsonl --store {0}"),
}
WORK = {
    "measure": f"measure {DIGITS} --members 2",
    "compare": f"compare {DIGITS} --methods naive --seeds 1",
    "train": f"train {DIGITS}",
    "fix": f"fix {DIGITS} --candidates naive --trainings 2 --seeds 1",
}
RELIABILITY = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text()


def commands(group: object, before: str = "") -> Iterator[str]:
    """The names of all commands of the app, as they are typed."""
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} ")
        else:
            yield before + name


class Leaves:
    """Its pickle opens a file when it is read."""

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, ("mark", "w")


@pytest.fixture(scope="module")
def everything(made, tmp_path_factory):
    """A file of every kind, each with code or the name of code in it."""
    folder = tmp_path_factory.mktemp("everything") / "files"
    shutil.copytree(made, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("CLASS_UNCERTAINTY_CACHE", str(folder / "cache"))
        patch.setattr(user_code, "_named", {})
        (folder / "code.py").write_text(HARMLESS)
        digits, recipe = cu.load("digits-lt:20"), cu.Recipe("code.py:small", epochs=3, batch=32)
        with pytest.raises(cu.Unfinished):
            cu.compare(digits, methods=["naive"], seeds=1, recipe=recipe, store="half.sqlite", budget=1e-9)
        (checkpoint,) = folder.glob("half.sqlite*/*.safetensors")
        shutil.copy(checkpoint, "checkpoint.safetensors")
        cu.train(digits, recipe=cu.Recipe("small-conv", epochs=1, batch=32), save="plain")
        with Store(folder / "store.sqlite") as store:
            Path("results.jsonl").write_text("".join(export_lines(store)))
        Path("card.md").write_text(model_card(Path("network")))
        labels = ",".join(f"p({name})" for name in digits.classes)
        rows = f"code.py:small,0,{','.join(['0.1'] * 10)}\n" * 3
        Path("predictions.csv").write_text(f"example,label,{labels}\n{rows}")
        Path("predictions.json").write_text(json.dumps({"predictions": "predictions.csv", "model": "code.py:small"}))
        pickled = np.array([Leaves()], dtype=object)
        np.save("pickled.npy", pickled)
        np.savez("pickled.npz", x=pickled, X=pickled, y=pickled, probabilities=pickled)
        torch.save({"weight": Leaves()}, "weights.pth")
        for place in (swin_folder(folder), folder / "photos"):
            for name in ("planted.py", "code.py", "__init__.py", "sitecustomize.py"):
                (place / name).write_text(PLANTED)
        config = json.loads(Path("swin/config.json").read_text())
        auto_map = {name: f"planted.{name}" for name in ("AutoConfig", "AutoModel", "AutoImageProcessor")}
        Path("swin/config.json").write_text(json.dumps(config | {"model_type": "planted", "auto_map": auto_map}))
        Path("swin/preprocessor_config.json").write_text(json.dumps({"auto_map": auto_map}))
        Path("code.py").write_text(PLANTED)
    return folder


def test_every_command_and_every_kind_of_file_is_tried():
    """A new command fails this test until it is listed."""
    assert set(TAKES) == set(commands(typer.main.get_command(app)))
    cells = sum(map(len, TAKES.values())) * len(KINDS_OF_FILES)
    assert f"files of {len(KINDS_OF_FILES)} kinds with planted code, wherever {len(TAKES)} commands" in RELIABILITY
    assert f"| {cells} | {cells} | `pytest tests/cli/test_user_code.py` |" in RELIABILITY


@pytest.mark.parametrize("command", TAKES)
def test_no_command_runs_code_out_of_a_file(command, everything, tmp_path, run, monkeypatch):
    """Each is given each file wherever it takes one, in one process, and ends with its sentence or its work."""
    if command == "demo":  # a minute of work on data that come with the package
        monkeypatch.setattr("class_uncertainty.cli.running.Running.prepare", no_work)
    for file, source in KINDS_OF_FILES.values():
        shutil.copytree(everything, tmp_path / "files")
        monkeypatch.chdir(tmp_path / "files")
        monkeypatch.setenv("CLASS_UNCERTAINTY_CACHE", str(tmp_path / "files" / "cache"))
        for line in TAKES[command]:
            first, second = (WORK[command], file) if line.startswith("{0}") else (file, source)
            code, _, err = run(line.format(first, second))
            assert code in (0, 1, 2, 3), (line, file, err)
            assert "Traceback" not in err
            assert not list(tmp_path.rglob("mark")), (line, file)
        shutil.rmtree(tmp_path / "files")


def no_work(*_: object) -> None:
    raise cu.InputError("enough.")
