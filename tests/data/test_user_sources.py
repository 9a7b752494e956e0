"""CSV files through load, where files are looked for, options, and when a cache is made anew."""

import os

import numpy as np
import pytest
from pictures import FEATURES, LABELS, SPLIT, numbers, picture, struct, tree
from refusals import refused

from class_uncertainty import load

pytestmark = pytest.mark.usefixtures("no_global_random", "here")


# CSV.


CSV = "age,kind,label\n1,x,u\n2,y,u\n3,x,v\n4,y,v\n"


def test_csv(here):
    (here / "a.csv").write_text(CSV)
    data = load("csv:a.csv")
    assert data.test is None
    assert data.classes == ("u", "v")
    assert data.train.columns == ("age", "kind=x", "kind=y")
    assert data.train.inputs.tolist() == [[1, 1, 0], [2, 0, 1], [3, 1, 0], [4, 0, 1]]


def test_csv_options(here):
    (here / "a.csv").write_text(CSV)
    data = load("csv:a.csv?label=kind&drop=label")
    assert data.classes == ("x", "y")
    assert data.train.columns == ("age",)
    assert load("csv:a.csv?drop=kind&categorical=age").train.columns == ("age=1", "age=2", "age=3", "age=4")
    with refused("no column 'knd' in a.csv for label", "did you mean 'kind'?"):
        load("csv:a.csv?label=knd")


def test_csv_with_a_file_to_judge_on(here):
    (here / "a.csv").write_text(CSV)
    (here / "b.csv").write_text("label,age,kind\nv,9,y\nu,8,x\n")
    data = load("csv:a.csv?test=b.csv")
    assert data.test.inputs.tolist() == [[9, 0, 1], [8, 1, 0]]
    assert data.test.labels.tolist() == [1, 0]


def test_csv_with_a_share_to_judge_on(here):
    (here / "a.csv").write_text("label,age\n" + "".join(f"{'uv'[i % 2]},{i}\n" for i in range(20)))
    data = load("csv:a.csv?test=0.3")
    assert data.test.counts.tolist() == [3, 3]
    assert sorted([*data.train.inputs[:, 0], *data.test.inputs[:, 0]]) == list(range(20))


def test_nothing_is_learnt_from_the_rows_that_are_set_aside(here):
    """Categories and medians are those of the training rows."""
    rows = [(f"only{i}", i % 2) for i in range(40)]
    (here / "a.csv").write_text(
        "city,size,label\n" + "".join(f"{city},{i},{label}\n" for i, (city, label) in enumerate(rows))
    )
    data = load("csv:a.csv?test=0.25")
    cities = [name for name in data.train.columns if name.startswith("city=")]
    assert len(cities) == len(data.train) == 30
    assert data.test.inputs[:, [data.train.columns.index(name) for name in cities]].sum() == 0


# Where files are.


def write_csv(folder, first):
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("a.csv", "b.csv"):
        (folder / name).write_text(f"age,label\n{first},u\n2,u\n3,v\n4,v\n")


def first_of(spec, **where):
    data = load(spec, **where)
    return data.train.inputs[0, 0], None if data.test is None else data.test.inputs[0, 0]


def test_paths_are_looked_for_here_then_in_the_data_folder(here, monkeypatch):
    write_csv(here / "root" / "deep", 10)
    write_csv(here / "environment" / "deep", 20)
    monkeypatch.setenv("CLASS_UNCERTAINTY_DATA", str(here / "environment"))
    spec = "csv:deep/a.csv?test=deep/b.csv"
    assert first_of(spec) == (20, 20)
    assert first_of(spec, root="root") == (10, 10)
    assert first_of(spec, root=here / "root") == (10, 10)
    write_csv(here / "deep", 30)
    assert first_of(spec, root="root") == (30, 30)
    assert first_of(f"csv:{here / 'root' / 'deep' / 'a.csv'}", root="environment") == (10, None)


def test_every_source_and_the_file_of_splits_look_in_the_data_folder(here, write):
    tree(here / "root" / "pets", {"cat": 3, "dog": 3})
    (here / "root" / "split.csv").write_text("".join(f"{pet},{split}\n" for pet, split in SPLIT))
    np.savez(here / "root" / "a.npz", X=FEATURES, y=LABELS)
    write("root/a.parquet", image=struct(*range(6)), label=LABELS)
    assert sorted(numbers(load("folder:pets?split=split.csv", root="root").test)) == [2, 3]
    assert load("npz:a.npz", root="root").train.labels.tolist() == LABELS
    assert numbers(load("parquet:a.parquet", root="root").train) == list(range(6))


@pytest.mark.parametrize("name", ["what?", "a?b", "a?b&c=d:e", "x=1&y=2", "C:pets", "a?b=c?", "50% ?"])
def test_paths_with_marks_that_options_have(here, name):
    try:
        tree(here / name, {"cat": 2, "dog": 2})
    except OSError:
        pytest.skip("this file system does not take such a name")
    (here / name / "a.csv").write_text(CSV)
    assert numbers(load(f"folder:{name}?size=4").train) == [0, 1, 2, 3]
    assert load(f"csv:{name}/a.csv").classes == ("u", "v")
    assert load(f"csv:{name}/a.csv?label=kind").classes == ("x", "y")
    assert numbers(load(f"folder:{name}").train) == [0, 1, 2, 3]


def test_a_name_that_says_all_of_it(here):
    tree(here / "pets", {"cat": 4, "dog": 4})
    assert (
        load("folder:pets?test=0.5&size=4").name
        == load("folder:pets?size=4&test=0.5").name
        == "folder:pets?size=4&test=0.5"
    )


# Options.


OPTIONS_REFUSED = {
    "folder:pets?sise=4": [
        "unknown option of 'folder' 'sise': did you mean 'size'?",
        "size, channels, test, judge, split",
    ],
    "folder:pets?label=x": ["unknown option of 'folder' 'label'"],
    "npz:pets?size=4": ["unknown option of 'npz' 'size': there are test"],
    "csv:pets?image=x": ["unknown option of 'csv' 'image'"],
    "parquet:pets?split=x": ["unknown option of 'parquet' 'split'"],
    "folder:pets?size=4&size=5": ["has the option 'size' twice"],
    "folder:pets?size=4&test=0.2&size=4": ["has the option 'size' twice"],
    "folder:pets?size=": ["write size=VALUE"],
    "folder:pets?size=4&test": ["write test=VALUE"],
    "folder": ["'folder' needs a path after the colon, as in 'folder:PATH'"],
    "folder:": ["'folder' needs a path after the colon"],
    "csv:?label=x": ["'csv' needs a path after the colon"],
    "Folder:pets": ["unknown data 'Folder:pets': did you mean 'folder:PATH'?"],
}


@pytest.mark.parametrize("spec", OPTIONS_REFUSED)
def test_options_refused(here, spec):
    tree(here / "pets", {"cat": 2, "dog": 2})
    with refused(*OPTIONS_REFUSED[spec]):
        load(spec)


# The cache, through load.


def test_progress_is_told_of_both_splits_and_ends_at_the_total(here):
    tree(here / "pets", {"train/cat": 3, "train/dog": 2, "test/cat": 1, "test/dog": 1})
    told = []
    load("folder:pets", progress=lambda *news: told.append(news))
    assert told == [("pets", 5, 5), ("pets", 2, 2)]
    load("folder:pets", progress=lambda *news: told.append(news))
    assert len(told) == 2  # decoded once


def test_pictures_that_come_go_and_move_are_seen(here):
    tree(here / "pets", {"cat": 3, "dog": 3})
    load("folder:pets")
    picture(here / "pets" / "cat" / "new.png", 50)
    assert numbers(load("folder:pets").train) == [0, 1, 2, 50, 3, 4, 5]
    (here / "pets" / "cat" / "000.png").unlink()
    assert numbers(load("folder:pets").train) == [1, 2, 50, 3, 4, 5]
    os.rename(here / "pets" / "cat" / "new.png", here / "pets" / "dog" / "new.png")
    assert load("folder:pets").train.counts.tolist() == [2, 4]
    picture(here / "pets" / "cat" / "001.png", 60)
    assert numbers(load("folder:pets").train)[0] == 60
    os.rename(here / "pets" / "dog", here / "pets" / "ant")
    assert load("folder:pets").classes == ("ant", "cat")


def test_a_parquet_file_written_anew_is_seen(write):
    write(image=struct(*range(6)), label=LABELS)
    load("parquet:pets.parquet")
    write(image=struct(*range(6, 12)), label=LABELS)
    assert numbers(load("parquet:pets.parquet").train) == list(range(6, 12))
