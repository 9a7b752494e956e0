"""What is judged on: a file of splits, a share set aside; and examples that are there twice."""

import gzip

import numpy as np
import pandas
import pyarrow as arrow
import pytest
import sklearn.datasets  # noqa: F401  # its first import draws random numbers
from pictures import FEATURES, LABELS, SPLIT, arrays, encoded, numbers, picture, pixels, tree
from pyarrow import parquet
from refusals import refused

import class_uncertainty as cu
from class_uncertainty import load

pytestmark = pytest.mark.usefixtures("no_global_random", "here")


# A file of splits.


@pytest.fixture
def pets(here):
    """Pictures 0 to 2 are cats, 3 to 5 dogs; a function writes the file of splits."""
    tree(here / "pets", {"cat": 3, "dog": 3})
    return lambda text: (here / "split.csv").write_bytes(text if isinstance(text, bytes) else text.encode())


def rows(pairs=SPLIT, end="\n"):
    return "".join(f"{path},{split}{end}" for path, split in pairs)


SPLIT_FILES = {
    "without a header": rows(),
    "with one": "Path, split\n" + rows(),
    "of Windows": "\ufeffpath,split\r\n" + rows(end="\r\n"),
    "with blank lines": "\n" + rows().replace("\n", "\n\n"),
    "quoted": rows((f'"{path}"', f'"{split}"') for path, split in SPLIT),
    "dotted": rows((f"./x/../{path}", f" {split.upper()} ") for path, split in SPLIT),
    "without a last newline": rows().rstrip(),
}


@pytest.mark.parametrize("case", SPLIT_FILES)
def test_a_file_of_splits(pets, case):
    pets(SPLIT_FILES[case])
    data = load("folder:pets?split=split.csv")
    assert sorted(zip(numbers(data.train), data.train.labels.tolist(), strict=True)) == [(0, 0), (1, 0), (4, 1), (5, 1)]
    assert sorted(zip(numbers(data.test), data.test.labels.tolist(), strict=True)) == [(2, 0), (3, 1)]


def test_a_changed_file_of_splits_is_read_again(pets):
    pets(rows())
    load("folder:pets?split=split.csv")
    pets(
        rows([*SPLIT[1:3][::-1], SPLIT[0], *SPLIT[3:]])
        .replace("001.png,train", "001.png,TEST")
        .replace("002.png,test", "002.png,train")
    )
    data = load("folder:pets?split=split.csv")
    assert sorted(numbers(data.train)) == [0, 2, 4, 5]
    assert sorted(numbers(data.test)) == [1, 3]


def test_absolute_paths_in_a_file_of_splits(here, pets):
    pets(rows((here / "pets" / path, split) for path, split in SPLIT))
    assert sorted(numbers(load(f"folder:{here / 'pets'}?split={here / 'split.csv'}").test)) == [2, 3]


def test_quoted_names_with_commas_and_newlines(here):
    names = ["a,b.png", "two\nlines.png", 'with "quotes".png', "plain.png"]
    for i, name in enumerate(names):
        picture(here / "odd" / "x,y" / name, i)
        picture(here / "odd" / "z\nz" / name, i + 4)
    (here / "split.csv").write_text(
        "path,split\n"
        + "".join(
            '"{}",{}\n'.format(f"{folder}/{name}".replace('"', '""'), "test" if name == "plain.png" else "train")
            for folder in ("x,y", "z\nz")
            for name in names
        )
    )
    data = load("folder:odd?split=split.csv")
    assert numbers(data.train) == [0, 1, 2, 4, 5, 6]
    assert numbers(data.test) == [3, 7]


def test_a_file_of_splits_without_a_test_split(pets):
    pets(rows((path, "train") for path, _ in SPLIT))
    assert load("folder:pets?split=split.csv").test is None


SPLIT_FILES_REFUSED = {
    "a picture left out": (rows(SPLIT[:-1]), ["split.csv does not list 1 images", "pets/dog/005.png"]),
    "a picture twice": (rows([*SPLIT, SPLIT[0]]), ["split.csv, line 7: 'cat/000.png'", "twice"]),
    "a picture that is not there": (
        rows([*SPLIT, ("cat/9.png", "test")]),
        ["split.csv, line 7: 'cat/9.png' is not an image in pets"],
    ),
    "a picture outside": (
        rows([*SPLIT, ("../out.png", "test")]),
        ["split.csv, line 7: '../out.png' is not an image in pets"],
    ),
    "a folder": (rows([*SPLIT, ("cat", "test")]), ["split.csv, line 7: 'cat' is not an image in pets"]),
    "an unknown split": (
        rows([("cat/000.png", "perhaps"), *SPLIT[1:]]),
        ["split.csv, line 1,", "PATH,SPLIT", "train, test or validation"],
    ),
    "an unknown split below the header": (
        "path,split\n" + rows([*SPLIT, ("x", "y")]),
        ["split.csv, line 8, must be PATH,SPLIT"],
    ),
    "a cell too many": (rows().replace("000.png,train", "000.png,train,3"), ["split.csv, line 1, must be PATH,SPLIT"]),
    "a cell too few": (rows().replace("001.png,train", "001.png"), ["split.csv, line 2, must be PATH,SPLIT"]),
    "semicolons": (rows().replace(",", ";"), ["split.csv, line 1, must be PATH,SPLIT"]),
    "no training": (rows((path, "test") for path, _ in SPLIT), ["split.csv has no line with the split train"]),
    "nothing": ("", ["split.csv does not list 6 images"]),
    "a header alone": ("path,split\n", ["split.csv does not list 6 images"]),
    "not UTF-8": (b"cat/\xff.png,train\n", ["split.csv cannot be read as CSV"]),
    "no text": (encoded(pixels(0)), ["split.csv"]),
}


@pytest.mark.parametrize("case", SPLIT_FILES_REFUSED)
def test_files_of_splits_refused(here, pets, case):
    text, told = SPLIT_FILES_REFUSED[case]
    pets(text)
    picture(here / "out.png", 50)
    with refused(*told):
        load("folder:pets?split=split.csv")


def test_a_file_of_splits_that_is_not_there_or_a_folder(pets):
    with refused("'nowhere.csv' is neither here nor in the data folder"):
        load("folder:pets?split=nowhere.csv")
    with refused("pets is a folder"):
        load("folder:pets?split=pets")


# A test and a validation split.


def test_either_of_two_splits_judges(here):
    counts = {f"{split}/{name}": 2 for split in ("train", "test", "val") for name in ("cat", "dog")}
    tree(here / "pets", counts)
    for options, judging in {"": range(4, 8), "?judge=test": range(4, 8), "?judge=validation": range(8, 12)}.items():
        data = load(f"folder:pets{options}")
        assert (numbers(data.train), numbers(data.test)) == ([*range(4)], [*judging])


def test_either_of_two_parquet_files_judges(here):
    for i, split in enumerate(("train", "test", "validation")):
        table = {"size": [i, i + 0.5, i, i + 0.5], "label": ["a", "b", "a", "b"]}
        parquet.write_table(arrow.table(table), here / f"{split}-0.parquet")
    assert load("parquet:.").test.inputs.ravel().tolist() == [1, 1.5, 1, 1.5]
    assert load("parquet:.?judge=validation").test.inputs.ravel().tolist() == [2, 2.5, 2, 2.5]


def test_a_split_that_is_not_there_cannot_judge(here):
    tree(here / "pets", {"train/cat": 2, "train/dog": 2, "test/cat": 1, "test/dog": 1})
    tree(here / "flat", {"cat": 3, "dog": 3})
    for data, told in {
        "folder:pets?judge=validation": ["pets has no validation split", "?judge=validation"],
        "folder:flat?judge=test": ["flat has no test split"],
        "folder:pets?judge=val": ["'val'", "test, validation"],
        "folder:pets?judge=test&test=0.5": ["pets already has a test split"],
    }.items():
        with refused(*told):
            load(data)


# A share to judge on.


@pytest.mark.parametrize(
    ("share", "held"), [("0.2", [2, 1, 1]), ("0.5", [5, 4, 1]), ("0.01", [1, 1, 1]), ("0.99", [8, 5, 1])]
)
def test_a_share_of_every_class(here, share, held):
    """The nearest whole number of 10, 7 and 3; at least one, and two are left."""
    tree(here / "pets", {"ant": 10, "bee": 7, "cat": 3})
    data = load(f"folder:pets?test={share}")
    assert data.test.counts.tolist() == held
    assert data.train.counts.tolist() == [10 - held[0], 7 - held[1], 3 - held[2]]
    assert sorted(numbers(data.train) + numbers(data.test)) == list(range(20))
    for part in (data.train, data.test):
        assert [int(np.searchsorted([9, 16, 19], i)) for i in numbers(part)] == part.labels.tolist()


def test_the_share_is_drawn_by_the_seed(here):
    tree(here / "pets", {"ant": 20, "bee": 20})
    zero, again, one = (load("folder:pets?test=0.5", seed=seed) for seed in (0, 0, 1))
    assert numbers(zero.test) == numbers(again.test)
    assert numbers(zero.test) != numbers(one.test)
    assert numbers(zero.test) != [*range(10), *range(20, 30)]


@pytest.mark.parametrize("share", ["0", "1", "-0.2", "1.5", "nan", "inf"])
def test_shares_refused(here, share):
    tree(here / "pets", {"cat": 4, "dog": 4})
    with refused(f"test is {float(share):g}", "between 0 and 1"):
        load(f"folder:pets?test={share}")


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_refused(here, seed):
    np.savez(here / "a.npz", X=np.arange(20.0).reshape(10, 2), y=np.arange(10) % 2)
    with refused(f"seed is {seed}"):
        load("npz:a.npz?test=0.2", seed=seed)


@pytest.mark.parametrize("source", ["folder:pets", "npz:a.npz"])
@pytest.mark.parametrize("share", ["20%", "a.csv", "0,2", "yes"])
def test_a_share_that_is_no_number_is_refused_where_no_file_may_stand(here, source, share):
    tree(here / "pets", {"cat": 4, "dog": 4})
    np.savez(here / "a.npz", X=np.arange(20.0).reshape(10, 2), y=np.arange(10) % 2)
    with refused("test", share):
        load(f"{source}?test={share}")


@pytest.mark.parametrize(
    ("spec", "name"), [("digits-lt:20.0", "20"), ("digits-lt:20.00001", "20.00001"), ("digits-lt:2e1", "20")]
)
def test_a_ratio_is_named_as_it_is(spec, name):
    assert load(spec).name == f"digits-lt:{name}"


TABLE = "x,kind,label\n" + "1,u,a\n2,v,b\n" * 6


def test_a_path_is_read_by_what_it_is(here):
    tree(here / "pets", {"cat": 4, "dog": 4})
    (here / "a.csv").write_text(TABLE)
    with gzip.open(here / "b.csv.gz", "wt") as file:
        file.write(TABLE)
    frame = pandas.read_csv(here / "a.csv")
    frame.to_parquet(here / "a.parquet")
    (here / "parts" / "data").mkdir(parents=True)
    frame.to_parquet(here / "parts" / "data" / "train-0.parquet")
    np.savez(here / "a.npz", x=np.eye(4), y=[0, 0, 1, 1])
    paths = {
        "pets": "folder:pets",
        "pets/": "folder:pets",
        "pets?size=32": "folder:pets?size=32",
        "a.csv": "csv:a.csv",
        "b.csv.gz?label=kind": "csv:b.csv.gz?label=kind",
        "a.parquet": "parquet:a.parquet",
        "parts": "parquet:parts",
        "a.npz": "npz:a.npz",
    }
    for path, name in paths.items():
        dataset, named = load(path), load(name)
        assert dataset.name == named.name == name
        assert dataset.train.fingerprint == named.train.fingerprint


def test_a_path_in_the_data_folder_is_read_too(here):
    (here / "root").mkdir()
    (here / "root" / "a.csv").write_text(TABLE)
    assert load("a.csv", root=here / "root").name == "csv:a.csv"


def test_a_name_goes_before_a_folder_of_that_name(here):
    (here / "digits").mkdir()
    assert load("digits").train.is_images


def test_paths_that_are_no_data(here):
    (here / "churn.csv").write_text(TABLE)
    (here / "notes.txt").write_text("")
    with refused("'chrun.csv'", "did you mean 'churn.csv'?"):
        load("chrun.csv?label=kind")
    with refused("'photos/new'"):
        load("photos/new")
    with refused("'notes.txt'", ".csv"):
        load("notes.txt")
    with refused("unknown data 'digit'", "did you mean 'digits'?"):
        load("digit")


def test_options_of_a_name_as_keywords(here):
    (here / "a.csv").write_text(TABLE)
    (here / "b.csv").write_text(TABLE)
    dataset = load("a.csv?test=0.5", label="kind", drop=["label"])
    assert dataset.name == "csv:a.csv?drop=label&label=kind&test=0.5"
    assert dataset.train.columns == ("x",)
    assert len(load("a.csv", test="b.csv").test) == 12
    with refused("'label' twice"):
        load("a.csv?label=kind", label="label")
    with refused("'digits'", "'label'"):
        load("digits", label="kind")
    with refused("test is a DataFrame"):
        load("a.csv", test=pandas.DataFrame({"x": [1]}))


def test_names_of_options_with_odd_characters_are_read_back(here):
    (here / "t.csv").write_text("x,left? 100%&more,0\n" + "1,u,k\n2,v,l\n" * 6)
    dataset = load("t.csv", label="left? 100%&more")
    assert load(dataset.name).train.fingerprint == dataset.train.fingerprint
    assert load("t.csv", label=0).train.classes == ("k", "l")


def test_columns_that_could_be_the_label_are_named_fewest_values_first(here):
    rows = [f"{i},{i % 5},{'uv'[i % 2]}\n" for i in range(40)]
    (here / "a.csv").write_text("id,five,two\n" + "".join(rows))
    with pytest.raises(cu.InputError) as refusal:
        load("a.csv")
    sentence = str(refusal.value)
    assert 0 < sentence.index("two (2 values)") < sentence.index("five (5 values)")
    assert "id (" not in sentence


def test_an_option_may_hold_any_character(here):
    (here / "a.csv").write_text("x,lab&el\n" + "1,0\n2,1\n" * 3)
    data = load("csv:a.csv?label=lab%26el")
    assert len(data.train) == 6
    assert load(data.name).fingerprint == data.fingerprint


def test_a_share_needs_three_of_every_class(here):
    tree(here / "pets", {"cat": 4, "dog": 2})
    with refused("class 'dog' has 2 examples", "three"):
        load("folder:pets?test=0.2")


def test_a_share_beside_a_test_split_is_refused(here):
    tree(here / "pets", {"train/a": 4, "train/b": 4, "test/a": 1, "test/b": 1})
    arrays(here, x_test=FEATURES, y_test=LABELS)
    for spec in ("folder:pets", "npz:arrays.npz"):
        with refused(f"{spec.partition(':')[2]} already has a test split", "--test 0.2"):
            load(f"{spec}?test=0.2")


# Duplicates.


def test_test_pictures_that_are_in_the_train_split_are_counted(here):
    tree(here / "pets", {"train/cat": 3, "train/dog": 3, "test/cat": 2, "test/dog": 2})
    picture(here / "pets" / "test" / "cat" / "x.png", 0)
    picture(here / "pets" / "test" / "cat" / "y.png", 0)
    picture(here / "pets" / "test" / "dog" / "z.png", 1)  # under another label too
    assert load("folder:pets").duplicates == 3


def test_pictures_that_are_in_the_train_split_twice_are_counted_where_folds_judge(here):
    tree(here / "pets", {"cat": 3, "dog": 3})
    assert load("folder:pets").duplicates == 0
    for name, i in {"cat/x": 0, "cat/y": 0, "dog/z": 1}.items():
        picture(here / "pets" / f"{name}.png", i)
    assert load("folder:pets").duplicates == 3
