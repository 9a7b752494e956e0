"""Spec: one parser for all that is named `name:argument?key=value`, and one form of each name."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.data.sources import parse_data, parse_name, shape_of
from class_uncertainty.data.spec import file_stem, names_backbone, paths_named, split_argument, without_options
from class_uncertainty.training.networks.network_name import parse_network
from class_uncertainty.training.recipe import parse_recipe

RESULTS = Path(__file__).parents[2] / "results"
READ: dict[str, tuple[str, Callable[[str], object]]] = {  # kind -> a name with an option, and what reads it
    "data": ("folder:photos?size=32", parse_data),
    "backbone": ("mine.py:make?size=32", lambda text: parse_network("backbone", text)),
    "network": ("timm:resnet18?size=32", lambda text: parse_network("network", text)),
    "recipe": ("images?lr=0.1", parse_recipe),
    "candidate": ("cb-rs?lr=0.1", cu.Candidate),
}


@pytest.mark.parametrize("kind", READ)
@pytest.mark.parametrize(
    ("more", "facts"),
    [
        ("&{key}=3", ["'{key}' twice"]),
        ("&{key}", ["without a value", "{key}=VALUE"]),
        ("&nonsense=", ["without a value", "nonsense=VALUE"]),
        ("&", ["without a value", "KEY=VALUE"]),
        ("&&nonsense=1", ["without a value", "KEY=VALUE"]),
    ],
)
def test_every_kind_of_name_is_refused_alike(kind, more, facts):
    text, read = READ[kind]
    key = text.partition("?")[2].partition("=")[0]
    read(text)
    with refused(f"{kind} '{text}{more.format(key=key)}'", *(fact.format(key=key) for fact in facts)):
        read(text + more.format(key=key))


@pytest.mark.parametrize("kind", READ)
def test_wrong_options_and_values_are_refused_alike(kind):
    text, read = READ[kind]
    head, _, option = text.partition("?")
    key = option.partition("=")[0]
    with refused(f"option '{key}' is 'x': it must be"):
        read(f"{head}?{key}=x")
    with refused("unknown option of", f"'{key}x'", f"did you mean '{key}'?"):
        read(f"{head}?{key}x=1")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("digits-lt:20.0", "digits-lt:20"),
        ("svci20:0250", "svci20:250"),
        ("csv:a.csv?test=0.2&label=kind", "csv:a.csv?label=kind&test=0.2"),
        ("csv:a.csv?label=%6bind", "csv:a.csv?label=kind"),
        ("csv:a.csv?drop=a%26b%2525", "csv:a.csv?drop=a%26b%2525"),
    ],
)
def test_a_name_has_one_form(text, name):
    assert str(parse_data(text)) == name
    assert str(parse_data(name)) == name


@pytest.mark.parametrize("file", sorted(path.name for path in RESULTS.glob("*.jsonl")))
def test_stored_names_are_in_that_form(file):
    lines = (RESULTS / file).read_text().splitlines()
    names = [line["name"] for line in map(json.loads, lines) if line["kind"] == "data"]
    assert names
    assert [str(parse_data(name)) for name in names] == names


@pytest.mark.parametrize(
    ("text", "argument", "options"),
    [
        ("folder:what?", "what?", {}),
        ("folder:what?/x?size=32", "what?/x", {"size": "32"}),
        ("csv:data.csv?raw=true?label=kind", "data.csv?raw=true", {"label": "kind"}),
        ("folder:C:/photos", "C:/photos", {}),
        ("folder:photos?group=(.*%3F)_", "photos", {"group": "(.*?)_"}),
        ("csv:a.csv?label=a=b", "a.csv", {"label": "a=b"}),
    ],
)
def test_paths_and_values_have_question_marks_of_their_own(text, argument, options):
    spec = parse_data(text)
    assert (spec.argument, spec.options) == (argument, options)


@pytest.mark.parametrize(
    ("name", "data", "backbone"),
    [
        ("folder:photos?size=64 by mine.py:make?views=2", "folder:photos?size=64", "mine.py:make?views=2"),
        ("folder:stand by me by timm:x", "folder:stand by me", "timm:x"),
        ("folder:stand by me", "folder:stand by me", ""),
    ],
)
def test_a_backbone_stands_behind_the_data(name, data, backbone):
    named = parse_name(name)
    assert (named.name, str(named.spec), named.backbone) == (name, data, backbone)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("efficientnet-lite0?size=96", True), ("timm:x", True), ("hf:x/y", True), ("a.py:f", True), ("mine", False)],
)
def test_names_of_backbones(name, is_one):
    assert names_backbone(name) is is_one


def test_names_of_data_without_options_and_as_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stand by me").mkdir()
    name = "folder:stand by me?size=32&test=0.2 by efficientnet-lite0?views=2"
    assert without_options(name) == "folder:stand by me by efficientnet-lite0?views=2"
    assert paths_named(name) == [tmp_path / "stand by me"]
    assert paths_named("digits-lt:20", "digits") == []
    assert file_stem(name) == "stand-by-me"
    assert file_stem("csv:tables/churn.csv?label=gone") == "churn"
    assert file_stem("tables/churn.csv") == "churn"
    assert file_stem("digits-lt:20") == "digits-lt-20"
    assert shape_of("digits-lt:20?duplicate=0.5") == (1, 8, 8)
    assert shape_of("digits-lt:20 by mine.py:make") is None


def test_forms_say_which_names_take_an_argument():
    forms = ("mean", "cost:FILE.csv", "ensemble", "ensemble:METHOD")
    for text in ("mean", "cost:a:b.csv", "ensemble", "ensemble:cb:beta=0.9"):
        assert ":".join(part for part in split_argument("goal", text, forms) if part) == text
    for text in ("maen", "mean:", "mean:3"):
        with refused(f"unknown goal '{text}': did you mean 'mean'?"):
            split_argument("goal", text, forms)
    for text, form in {"cost": "cost:FILE.csv", "cost:": "cost:FILE.csv", "ensemble:": "ensemble:METHOD"}.items():
        with refused(f"goal '{text}'", form):
            split_argument("goal", text, forms)


def test_the_paths_that_names_speak_of(tmp_path, monkeypatch):
    """Wherever a name has a path, also in the data folder; of a network of Hugging Face all files in its folder."""
    monkeypatch.chdir(tmp_path)
    for path in ("a=1.csv", "b&c.csv", "data/d.csv", "swin/model.safetensors", "swin/config.json", "net.py", "w.bin"):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text("")

    def names(*texts):
        return {str(path.relative_to(tmp_path.resolve())) for path in read(*texts)}

    def read(*texts):
        return paths_named(*texts, root=tmp_path / "data")

    assert names("csv:a=1.csv?test=b%26c.csv", None) == {"a=1.csv", "b&c.csv"}
    assert names("csv:d.csv") == {"data/d.csv"}
    assert names("cost:w.bin") == {"w.bin"}
    assert names("folder:swin by hf:swin") == {"swin", "swin/model.safetensors", "swin/config.json"}
    assert names("net.py:build?weights=w.bin") == {"net.py", "w.bin"}
    assert names("digits-lt:20", "digits", "mean") == set()
