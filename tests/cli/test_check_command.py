"""`cu check`: all problems of real files at once, and the exit code that scripts look at."""

import json

import numpy as np
import pytest
from pictures import picture, tree

HEADER = "name,id,age,size,city,churned"


def table(place, rows=120):
    """A column of names, one of numbers, a gap, a mixed column, and classes that differ by case."""
    lines = [HEADER]
    for i in range(rows):
        age = "" if i == 5 else 20 + i % 30
        size = "large" if i == 7 else i % 4
        lines.append(f"p{i},{i},{age},{size},{'ab'[i % 2]},{('no', 'No', 'yes')[i % 3]}")
    place.write_text("\n".join(lines))


def kinds(document):
    return {finding["kind"]: finding for finding in document["findings"]}


def checked(run, *words):
    code, out, err = run("check", *words, "--json")
    assert (code, err) == (0, "")
    return kinds(json.loads(out))


def test_all_problems_of_a_table_are_found_at_once(run, tmp_path):
    table(tmp_path / "t.csv")
    findings = checked(run, "t.csv", "--label", "churned")
    assert set(findings) == {"mixed-columns", "missing-values", "id-columns", "twin-names"}
    assert findings["mixed-columns"]["examples"] == ["size"]
    assert findings["missing-values"]["examples"] == ["age"]
    findings = checked(run, "t.csv", "--label", "churned", "--drop", "name,size")
    assert set(findings) == {"missing-values", "id-columns", "twin-names"}
    assert findings["id-columns"]["examples"] == ["id"]


@pytest.fixture
def photos(tmp_path):
    """Images with a copy under two labels, one in both splits, one within training, and a file that is none."""
    tree(tmp_path / "photos", {"train/cat": 6, "train/dog": 6, "test/cat": 6, "test/dog": 5})
    for place, seed in (("train/dog/label", 1), ("train/cat/label", 1), ("train/cat/a", 2), ("test/cat/a", 2)):
        picture(tmp_path / "photos" / f"{place}.png", 900 + seed)
    picture(tmp_path / "photos" / "train" / "cat" / "b.png", 902)
    (tmp_path / "photos" / "train" / "cat" / "broken.png").write_text("no image")
    return tmp_path / "photos"


def test_all_problems_of_images_are_found_at_once(run, photos):
    findings = checked(run, "photos")
    numbers = {kind: finding["number"] for kind, finding in findings.items()}
    assert numbers == {"two-labels": 1, "test-copies": 1, "copies": 1, "unreadable": 1}
    (example,) = findings["two-labels"]["examples"]
    assert all(part in example for part in ("train/cat/label.png (cat)", "train/dog/label.png (dog)"))


def test_people_see_each_finding_and_its_examples(run, photos):
    code, out, err = run("check photos")
    assert (code, err) == (0, "")
    assert [line.split(":")[0] for line in out.splitlines() if line.startswith("!")] == [
        "! two-labels",
        "! test-copies",
        "! unreadable",
        "! copies",
    ]
    assert "train/cat/label.png (cat) = train/dog/label.png (dog)" in out


def test_nothing_is_wrong(run, tmp_path):
    rows = [f"{i * i}.5,{'ab'[i % 2]}" for i in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["x,label", *rows]))
    code, out, _ = run("check t.csv --fail-on copies,two-labels")
    assert code == 0
    assert "!" not in out


@pytest.mark.parametrize(
    ("fail_on", "expected"), [("twin-names", 4), ("copies,missing-values", 4), ("two-labels", 0), ("unreadable", 0)]
)
def test_a_script_can_fail_on_kinds(run, tmp_path, fail_on, expected):
    table(tmp_path / "t.csv")
    code, out, _ = run(f"check t.csv --label churned --fail-on {fail_on} --json")
    assert (code, bool(json.loads(out)["findings"])) == (expected, True)


def test_an_unknown_kind_is_refused_with_the_nearest(run):
    code, out, err = run("check nowhere.csv --fail-on two-label")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert all(part in err for part in ("'two-label'", "did you mean 'two-labels'?", "missing-values"))


def test_groups_in_both_splits_and_rare_classes_are_findings(run, tmp_path):
    rng = np.random.default_rng(0)
    for name, who, rare in (("train", "abc", "x"), ("test", "cde", "")):
        rows = [f"{x:.4f},{who[i % 3]},{'uv'[i % 2]}" for i, x in enumerate(rng.normal(size=30))]
        rows += ["1.5,z,rare"] if rare else []
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,who,label", *rows]))
    findings = checked(run, "train.csv", "--test", "test.csv", "--group", "who")
    assert findings["rare-classes"]["number"] == 1
    assert findings["shared-groups"]["examples"] == ["c"]
    assert run("measure train.csv --test test.csv --group who")[0] == 2


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (("nowhere",), ("'nowhere'", "folder of images", "'cu list data'")),
        (("empty",), ("empty holds no images", "subfolder")),
        (("t.csv",), ("'label'", "--label", "churned (3 values)")),
        (("t.csv", "--label", "name"), ("'name'", "120 different values", "--label", "churned (3 values)")),
    ],
)
def test_what_cannot_be_checked_is_refused_with_what_would_work(run, tmp_path, words, facts):
    table(tmp_path / "t.csv")
    (tmp_path / "empty").mkdir()
    code, out, err = run("check", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert [fact for fact in facts if fact not in err] == []


def test_other_commands_tell_of_the_first_findings_and_name_the_command(run, tmp_path):
    """On stdout for people, on stderr beside JSON."""
    table(tmp_path / "t.csv")
    command = "measure t.csv --label churned --drop size --members 2 --estimator out-of-fold --recipe logistic"
    code, out, _ = run(command)
    assert code == 0
    assert out.count("\n! ") + out.startswith("! ") == 3
    assert "cu check 't.csv?label=churned&drop=size'" in " ".join(out.split())
    code, out, err = run(f"{command} --json")
    json.loads(out)
    assert (code, err.count("cu: ! ")) == (0, 3)
