"""What options leave out, each counted; groups by columns, arrays and paths; and a first line that looks like data."""

import json
import logging

import numpy as np
import pytest
from commands import SHORT
from pictures import FEATURES, encoded, numbers, picture, pixels, struct, tree
from refusals import refused

from class_uncertainty import load, predict, train
from class_uncertainty.training import Recipe

pytestmark = pytest.mark.usefixtures("here")


# Unreadable images.


@pytest.fixture
def spoilt(here):
    """Eight pictures of cats and dogs, and a text, an empty file and a broken link among them."""
    tree(here / "pets", {"cat": 4, "dog": 4})
    (here / "pets" / "cat" / "000a.txt").write_text("notes")
    (here / "pets" / "cat" / "0.png").write_bytes(b"")
    (here / "pets" / "dog" / "gone.png").symlink_to("nowhere.png")
    return here / "pets"


def test_all_files_that_cannot_be_read_are_named_with_the_option_that_helps(spoilt):
    with refused("pets/dog/gone.png is not a readable file", "?skip=unreadable leaves out"):
        load("folder:pets")
    (spoilt / "dog" / "gone.png").unlink()
    with refused("2 files cannot be read as images: pets/cat/0.png (", "pets/cat/000a.txt (", "?skip=unreadable"):
        load("folder:pets")


@pytest.mark.parametrize("time", ["first", "from the cache"])
def test_what_cannot_be_read_is_skipped_and_counted(spoilt, time):
    for _ in range(1 if time == "first" else 2):
        data = load("folder:pets?skip=unreadable")
    assert numbers(data.train) == list(range(8))
    assert data.train.labels.tolist() == [0] * 4 + [1] * 4
    assert data.train.names[0] == "cat/000.png"
    (part,) = data.left_out
    assert (part.option, part.number, part.of, part.what) == ("?skip=unreadable", 3, 11, "images")
    assert str(part) == "?skip=unreadable left out 3 of 11 images: dog/gone.png, cat/0.png, cat/000a.txt."


def test_nothing_is_left_out_where_all_can_be_read(here):
    tree(here / "pets", {"cat": 3, "dog": 3})
    data = load("folder:pets?skip=unreadable")
    assert data.left_out == ()
    assert data.fingerprint == load("folder:pets").fingerprint


def test_images_of_parquet_are_skipped_and_their_rows_keep_their_numbers(here, write):
    images = struct(*range(8))
    images[1]["bytes"], images[4]["bytes"] = b"", None
    write(image=images, label=[0, 1] * 4)
    with refused("2 files cannot be read as images: pets.parquet, row 1, (", "?skip=unreadable"):
        load("parquet:pets.parquet")
    data = load("parquet:pets.parquet?skip=unreadable").train
    assert numbers(data) == [0, 2, 3, 5, 6, 7]
    assert data.names.tolist() == [f"row {i}" for i in (0, 2, 3, 5, 6, 7)]


def test_what_is_skipped_needs_no_group(here):
    for i in range(12):
        picture(here / "pets" / ("cat", "dog")[i % 2] / f"v{i // 2}_{i}.png", i)
    (here / "pets" / "cat" / "notes.txt").write_text("no image, and no group")
    data = load("folder:pets?skip=unreadable&group=_")
    assert sorted(data.train.groups.tolist()) == sorted(f"v{i // 2}" for i in range(12))
    assert str(data.left_out[0]) == "?skip=unreadable left out 1 of 13 images: cat/notes.txt."


def test_nothing_can_be_read(here):
    for name in ("cat/a.png", "dog/b.png"):
        (here / "pets" / name).parent.mkdir(parents=True)
        (here / "pets" / name).write_bytes(b"x")
    with refused("pets has no image that can be read", "cat/a.png"):
        load("folder:pets?skip=unreadable")
    with refused("unknown skip 'unreadible': did you mean 'unreadable'?"):
        load("folder:pets?skip=unreadible")


# Rare classes.


def test_rare_classes_are_named_with_the_option_that_helps(here):
    tree(here / "pets", {"cat": 4, "dog": 1, "elk": 3, "fox": 1})
    with refused("2 classes have fewer than two training examples, dog (1), fox (1)", "?min=2 leaves out"):
        load("folder:pets")
    with refused("2 classes have fewer than three examples, dog (1), fox (1)", "?min=3 leaves out"):
        load("folder:pets?test=0.3")
    data = load("folder:pets?min=2")
    assert data.classes == ("cat", "elk")
    assert data.train.labels.tolist() == [0] * 4 + [1] * 3
    assert str(data.left_out[0]) == "?min=2 left out 2 of 4 classes: dog (1), fox (1)."
    with refused("?min=9 leaves out every class", "'cat', has 4"):
        load("folder:pets?min=9")
    with refused("option 'min' is '0'"):
        load("folder:pets?min=0")


def test_rare_classes_go_from_both_splits_and_empty_folders_with_them(here):
    tree(here / "pets", {"train/cat": 3, "train/dog": 1, "train/elk": 3, "test/cat": 1, "test/dog": 2, "test/elk": 1})
    (here / "pets" / "train" / "yak").mkdir()
    with refused("pets/train/yak holds no images", "?min=2"):
        load("folder:pets")
    data = load("folder:pets?min=2")
    assert data.test.counts.tolist() == [1, 1]
    assert numbers(data.test) == [7, 10]


def test_rows_of_rare_classes_are_left_out_before_anything_is_learnt(here):
    rows = "".join(f"{i},{'uv'[i % 2]},c{i % 3}\n" for i in range(12))
    (here / "a.csv").write_text(f"x,label,kind\n{rows}99,w,odd\n")
    data = load("csv:a.csv?min=2")
    assert data.train.columns == ("x", "kind=c0", "kind=c1", "kind=c2")
    (here / "b.csv").write_text(f"x,label,kind\n{rows}")
    assert data.fingerprint == load("csv:b.csv").fingerprint
    np.savez(here / "a.npz", X=np.arange(9.0)[:, None], y=[0, 0, 0, 0, 1, 1, 1, 1, 7])
    assert load("npz:a.npz?min=2").classes == ("0", "1")


def test_rows_with_missing_values_are_counted(here):
    (here / "a.csv").write_text("x,label\n1,u\n2,u\n,u\n4,v\n5,v\n,w\n6,w\n")
    data = load("csv:a.csv?missing=drop&min=2")
    assert [str(part) for part in data.left_out] == [
        "?min=2 left out 1 of 3 classes: w (1).",
        "--missing drop left out 2 of 7 rows.",
    ]
    assert data.train.counts.tolist() == [2, 2]


# Groups.


def rows(n=24):
    """Eight patients of three rows; classes by patient."""
    return [(i // 3, i, "uv"[i // 3 % 2]) for i in range(n)]


def sides(data):
    return set(data.train.groups), set(data.test.groups)


def test_groups_of_tables(here, write):
    text = "".join(f"p{p},{x},{y}\n" for p, x, y in rows())
    (here / "a.csv").write_text(f"patient,x,label\n{text}")
    patients, x, labels = zip(*rows(), strict=True)
    write("a.parquet", patient=[f"p{p}" for p in patients], x=[float(value) for value in x], label=labels)
    csv, parquet = (load(f"{form}:a.{form}?group=patient&test=0.3") for form in ("csv", "parquet"))
    assert csv.fingerprint == parquet.fingerprint
    assert csv.train.columns == ("x",)
    train_side, test_side = sides(csv)
    assert train_side.isdisjoint(test_side)
    assert len(train_side | test_side) == 8
    folds = load("csv:a.csv?group=patient").train
    assert all(len(set(folds.folds[5][folds.groups == patient])) == 1 for patient in train_side)
    with refused("no column 'patiemt' in a.csv for group: did you mean 'patient'?"):
        load("csv:a.csv?group=patiemt")
    with refused("group 'label' is the label of a.csv"):
        load("csv:a.csv?group=label")


def test_a_row_without_a_group_is_refused(here):
    (here / "a.csv").write_text("patient,x,label\np,1,u\n,2,v\n,3,v\n")
    with refused("column 'patient' has '' in line 3, and in 1 more rows", "the group"):
        load("csv:a.csv?group=patient")


def test_groups_on_both_sides_of_a_given_split_are_refused(here):
    for name in ("a", "b"):
        (here / f"{name}.csv").write_text("patient,x,label\n" + "".join(f"p{p},{x},{y}\n" for p, x, y in rows()))
    with refused("8 groups are in both splits, p0, p1, p2, p3, p4 and 3 more"):
        load("csv:a.csv?test=b.csv&group=patient")


def test_groups_of_arrays(here):
    patients, x, y = zip(*rows(), strict=True)
    arrays = {"X": np.array(x)[:, None], "y": y}
    np.savez(here / "a.npz", **arrays, Patient=patients)
    assert load("npz:a.npz?group=patient").train.groups.tolist() == [str(p) for p in patients]
    np.savez(here / "b.npz", x_train=arrays["X"], y_train=y, x_test=FEATURES[:4, :1], y_test=list("uvuv"),
             p_train=patients, p_test=[90, 91, 92, 93])  # fmt: skip
    assert load("npz:b.npz?group=p").test.groups.tolist() == ["90", "91", "92", "93"]
    with refused("a.npz holds x, y, patient", "no array 'video'"):
        load("npz:a.npz?group=video")


PATTERNS = {
    "_": [f"p{i}" for i in range(6)],
    "-": [f"p{i}_{i % 2}" for i in range(6)],
    "([0-9])_": [str(i) for i in range(6)],
    r"^p(\d+)": [str(i) for i in range(6)],
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_groups_of_images_by_their_names(here, pattern):
    for i in range(12):
        picture(here / "pets" / ("cat", "dog")[i % 2] / f"p{i // 2}_{i // 2 % 2}-{i}.png", i)
    data = load(f"folder:pets?group={pattern}").train
    assert sorted(set(data.groups)) == PATTERNS[pattern]
    assert data.counts.tolist() == [6, 6]


def test_groups_of_images_by_the_folder_below_their_class(here):
    for i in range(12):
        picture(here / "pets" / "train" / ("cat", "dog")[i % 2] / f"video{i // 2}" / f"{i}.png", i)
    assert set(load("folder:pets?group=/").train.groups) == {f"video{i}" for i in range(6)}


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("x", ["6 of 6 paths have no group by --group x", "000.png, 001.png, 002.png and 3 more"]),
        ("(", ["group '(' is no regular expression"]),
        ("(a)(b)", ["has 2 groups in parentheses", "give one"]),
        ("(z*)", ["6 of 6 paths have no group"]),
    ],
)
def test_patterns_refused(here, pattern, parts):
    tree(here / "pets", {"cat": 3, "dog": 3})
    with refused(*parts):
        load(f"folder:pets?group={pattern}")


def test_groups_of_images_in_parquet(here, write):
    write(image=struct(*range(12)), label=[0, 1] * 6, owner=[i // 2 for i in range(12)])
    assert load("parquet:pets.parquet?group=owner").train.groups.tolist() == [str(i // 2) for i in range(12)]
    with refused("unknown group column 'ownr': did you mean 'owner'?"):
        load("parquet:pets.parquet?group=ownr")


def test_with_groups_min_counts_groups(here):
    text = "".join(f"p{p},{x},{y}\n" for p, x, y in rows()) + "q,1,w\nq,2,w\nq,3,w\n"
    (here / "a.csv").write_text(f"patient,x,label\n{text}")
    with refused("class 'w' has one group alone", "?min=2"):
        load("csv:a.csv?group=patient")
    data = load("csv:a.csv?group=patient&min=2")
    assert str(data.left_out[0]) == "?min=2 left out 1 of 3 classes: w (1 group)."
    with refused("there are 4 groups, and 5 folds need as many"):
        (here / "b.csv").write_text("patient,x,label\n" + "".join(f"p{p},{x},{y}\n" for p, x, y in rows(12)))
        load("csv:b.csv?group=patient")


# Headers.


IRIS = "5.1,3.5,setosa\n4.9,3.0,setosa\n4.7,3.2,setosa\n6.3,3.3,virginica\n5.8,2.7,virginica\n"


def test_a_table_without_a_header(here, caplog):
    (here / "a.csv").write_text(IRIS)
    with caplog.at_level(logging.WARNING, "class_uncertainty"):
        data = load("csv:a.csv?header=no&label=3")
        assert caplog.messages == []
        load("csv:a.csv?label=setosa")
    told = "a.csv: line 1 is taken for the names of columns, and looks like data (5.1, 3.5, setosa)"
    assert caplog.messages == [f"{told}: add ?header=no if it is."]
    assert len(data.train) == 5
    assert data.train.columns == ("1", "2")
    assert data.train.names.tolist() == [f"line {i}" for i in range(1, 6)]
    with refused("a.csv has no column 'label'", "3 (2 values)"):
        load("csv:a.csv?header=no")


@pytest.mark.parametrize(
    ("header", "warns"),
    [("x,y,label", 0), ("0,1,2", 0), ("2019,2020,label", 0), ("id,7,label", 1), ("1,3,label", 1), ("-1e3,y,label", 1)],
)
def test_numbers_above_numbers_look_like_data_unless_they_count(here, caplog, header, warns):
    (here / "a.csv").write_text(f"{header}\n1,2,u\n3,4,u\n5,6,v\n7,8,v\n")
    load(f"csv:a.csv?label={header.split(',')[2]}")
    assert len(caplog.messages) == warns


def test_new_rows_of_a_table_without_a_header_have_none(here):
    (here / "a.csv").write_text(IRIS)
    train(load("csv:a.csv?header=no&label=3"), recipe=Recipe("linear", 1, 4), save="model")
    (here / "new.csv").write_text("5.1,3.5\n4.9,3.0\n")
    assert len(predict("model", "new.csv").names) == 2
    (here / "named.csv").write_text("2,1\n3.5,5.1\n3.0,4.9\n")
    assert np.array_equal(predict("model", "named.csv").probabilities, predict("model", "new.csv").probabilities)


def test_all_uneven_lines_and_mixed_columns_are_counted(here):
    (here / "a.csv").write_text("x,label\n1,u\n2\n3,u,v\n4\n")
    with refused("line 3 has 1 cells", "and 2 more lines have another number"):
        load("csv:a.csv")
    (here / "b.csv").write_text("x,y,label\n1,a,u\nb,2,v\n")
    with refused("b.csv: 2 columns cannot be used (column 'x' has 'b' in line 3", "?categorical=x,y"):
        load("csv:b.csv")


# On the command line.


def test_commands_count_what_is_left_out(here, spoilt, run):
    picture(spoilt / "elk" / "1.png", 50)
    (spoilt / "dog" / "x.png").write_bytes(encoded(pixels(0)))  # a cat too
    data = "folder:pets?skip=unreadable&min=2"
    _, out, _ = run(f"check '{data}' --json")
    findings = {finding["kind"]: finding for finding in json.loads(out)["findings"]}
    assert findings["unreadable"]["examples"] == ["dog/gone.png", "cat/0.png", "cat/000a.txt"]
    assert findings["rare-classes"]["examples"] == ["elk (1)"]
    assert findings["two-labels"]["examples"] == ["cat/000.png (cat) = dog/x.png (dog)"]
    _, out, _ = run(f"measure {data} {SHORT} --estimator single --json")
    counted = [(part["option"], part["number"]) for part in json.loads(out)["left_out"]]
    assert counted == [("?skip=unreadable", 3), ("?min=2", 1)]


@pytest.mark.parametrize("numbers", [(1, 2, 3, 4), (0, 1, 2, 3), (7, 4, 12, 5)])
def test_a_first_column_that_only_numbers_rows_is_left_out(here, caplog, numbers):
    """As R and pandas write it."""
    rows = ["0.5,a", "0.1,b", "0.2,a", "0.3,b"]
    (here / "a.csv").write_text("\n".join([",x,label", *(f"{i},{row}" for i, row in zip(numbers, rows, strict=True))]))
    with caplog.at_level(logging.WARNING, "class_uncertainty"):
        data = load("csv:a.csv").train
    assert caplog.messages == ["a.csv: column 1 has no name and only numbers the rows: it is left out."]
    assert (data.columns, data.inputs.ravel().tolist()) == (("x",), pytest.approx([0.5, 0.1, 0.2, 0.3]))
    assert data.names[1] == "line 3"


@pytest.mark.parametrize("cells", ["1 1 2 3", "1 2 3.5 4", "-1 2 3 4", "a b c d", "1 2 3 "])
def test_any_other_column_without_a_name_is_refused(here, cells):
    rows = [f"{cell},0,{'ab'[i % 2]}" for i, cell in enumerate(cells.split(" "))]
    (here / "a.csv").write_text("\n".join([",x,label", *rows]))
    with refused("column 1 has no name"):
        load("csv:a.csv")
