"""Folders of pictures through load: what is read is what was written, the rest is refused."""

import os
from itertools import permutations

import numpy as np
import pytest
from pictures import fitted, numbers, picture, pixels, tree
from PIL import Image
from refusals import refused

from class_uncertainty import InputError, load
from class_uncertainty.data.class_names import in_order

pytestmark = pytest.mark.usefixtures("no_global_random", "here")


# Class names in order.


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["10", "2", "1"], ["1", "2", "10"]),
        (["10", "2", "cat"], ["10", "2", "cat"]),
        (["-1", "0.5", "1e1", "2"], ["-1", "0.5", "2", "1e1"]),
        (["1.0", "01", "1"], ["01", "1", "1.0"]),
        (["b", "B", "a", "é"], ["B", "a", "b", "é"]),
        ([], []),
    ],
)
def test_numbers_are_in_order_of_their_size(names, expected):
    assert in_order(names) == expected


def test_the_order_is_of_the_names_alone():
    """'nan' is a number to Python, and smaller than none."""
    assert len({tuple(in_order(names)) for names in permutations(["nan", "1", "2", "inf"])}) == 1


# Folders.


def test_a_flat_folder(here):
    tree(here / "pets", {"cat": 3, "dog": 2, "owl": 4})
    data = load("folder:pets")
    assert data.name == "folder:pets"
    assert data.test is None
    assert data.classes == ("cat", "dog", "owl")
    assert data.train.labels.tolist() == [0] * 3 + [1] * 2 + [2] * 4
    assert numbers(data.train) == list(range(9))
    assert data.train.shape == (3, 4, 4)
    assert load("folder:pets").fingerprint == data.fingerprint


@pytest.mark.parametrize(
    "names", [("train", "test"), ("train", "val"), ("Training", "validation"), ("pets_train", "pets_test_2")]
)
def test_splits_as_folders(here, names):
    train, test = names
    tree(here / "pets", {f"{train}/cat": 3, f"{train}/dog": 2, f"{test}/cat": 1, f"{test}/dog": 2})
    data = load("folder:pets")
    assert numbers(data.train) == [0, 1, 2, 3, 4]
    assert data.train.labels.tolist() == [0, 0, 0, 1, 1]
    assert numbers(data.test) == [5, 6, 7]
    assert data.test.labels.tolist() == [0, 1, 1]


@pytest.mark.parametrize("name", ["train", "train_station", "test"])
def test_a_class_may_be_called_like_a_split(here, name):
    tree(here / "veh", {"bus": 3, "car": 2, name: 4})
    assert load("folder:veh").classes == tuple(sorted(("bus", "car", name)))


def test_a_picture_beside_the_classes_is_refused(here):
    tree(here / "pets", {"cat": 3, "dog": 2})
    (here / "pets" / "notes.txt").write_text("no picture")
    assert len(load("folder:pets").train) == 5
    next((here / "pets" / "cat").iterdir()).rename(here / "pets" / "loose.PNG")
    with refused("loose.PNG lies beside the folders of the classes"):
        load("folder:pets")


def test_of_three_splits_test_is_judged_on(here):
    tree(here / "pets", {"train/a": 2, "train/b": 2, "val/a": 1, "val/b": 1, "test/a": 1, "test/b": 1})
    assert numbers(load("folder:pets").test) == [6, 7]


def test_a_training_folder_alone(here):
    tree(here / "pets", {"train/a": 2, "train/b": 2})
    assert load("folder:pets").test is None


SPLITS = {"train/a": 2, "train/b": 2, "test/a": 1, "test/b": 1}
BESIDE = ("train", "test and validation")
REFUSED = {  # how many images each folder holds, and what is said
    "no folder": ({}, ["pets", "holds no images", "a subfolder"]),
    "no class": ({".": 3}, ["pets holds files ('000.png') and no subfolder", "each class needs one"]),
    "test without train": ({"train": 3, "test/a": 2, "test/b": 2}, [os.path.join("pets", "test"), "train/CLASS"]),
    "one beside splits": (SPLITS | {"unsorted/a": 1}, ["pets", "'unsorted'", *BESIDE]),
    "two beside splits": (SPLITS | {"more": 1, "unsorted/a": 1}, ["pets", "'more'", *BESIDE]),
    "train twice": ({"train/a": 2, "train/b": 2, "training/a": 1, "training/b": 1}, ["pets", "train"]),
    "class of test alone": (SPLITS | {"test/ant": 1}, ["class 'ant' has no training examples"]),
    "one class of both in test": (
        {"train/a": 2, "train/b": 2, "test/a": 1},
        ["test examples are of class 'a'", "folds"],
    ),
    "empty class": ({"cat": 2, "dog": 2, "owl": 0}, ["pets/owl holds no images"]),
    "empty class of train": (SPLITS | {"train/owl": 0}, ["pets/train/owl holds no images"]),
    "empty class of test": (SPLITS | {"test/owl": 0}, ["pets/test/owl holds no images"]),
}


def test_a_class_of_train_alone_has_no_test_examples(here):
    tree(here / "pets", SPLITS | {"train/ant": 2})
    data = load("folder:pets")
    assert data.classes == ("a", "ant", "b")
    assert data.train.counts.tolist() == [2, 2, 2]
    assert data.test.counts.tolist() == [1, 0, 1]


@pytest.mark.parametrize(("images", "parts"), REFUSED.values(), ids=REFUSED)
def test_folders_refused(here, images, parts):
    for folder in ("", *images):
        (here / "pets" / folder).mkdir(parents=True, exist_ok=True)
    tree(here / "pets", images)
    with refused(*parts):
        load("folder:pets")


def test_class_names_as_they_come(here):
    names = ["two words", "über", "日本", "two\nlines", "a,b", "2nd", "10th", "-", "~", "'quoted'", "a=b&c"]
    tree(here / "odd", dict.fromkeys(names, 2))
    data = load("folder:odd")
    assert data.classes == tuple(name.replace("\n", "\\n") for name in sorted(names))
    where = {name: [2 * i, 2 * i + 1] for i, name in enumerate(names)}
    assert numbers(data.train) == [i for name in sorted(names) for i in where[name]]
    assert load("folder:odd").classes == data.classes  # from the cache


def test_classes_that_are_numbers(here):
    tree(here / "numbers", {"10": 2, "2": 3, "1": 4})
    data = load("folder:numbers")
    assert data.classes == ("1", "2", "10")
    assert data.train.counts.tolist() == [4, 3, 2]
    assert numbers(data.train) == [5, 6, 7, 8, 2, 3, 4, 0, 1]


def test_a_name_that_is_not_utf8(here):
    tree(here / "pets", {"cat": 2, "dog": 2})
    try:
        os.rename(here / "pets" / "dog", os.fsencode(here / "pets") + b"/caf\xe9")
        os.rename(here / "pets" / "cat" / "000.png", os.fsencode(here / "pets" / "cat") + b"/\xff.png")
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    for _ in range(2):  # decoded, and from the cache
        data = load("folder:pets")
        assert data.classes == ("caf\\udce9", "cat")
        assert numbers(data.train) == [2, 3, 1, 0]


def test_what_file_browsers_leave_is_ignored(here):
    tree(here / "pets", {"cat": 2, "dog": 2})
    for name in (
        ".DS_Store",
        "Thumbs.db",
        "cat/.hidden.png",
        "cat/Thumbs.db",
        "dog/desktop.ini",
        "dog/.git/x.png",
        ".cache/x.png",
    ):
        (here / "pets" / name).parent.mkdir(exist_ok=True)
        (here / "pets" / name).write_bytes(b"not a picture")
    assert numbers(load("folder:pets").train) == [0, 1, 2, 3]


def test_examples_are_called_by_their_files(here):
    """Relative to the folder, in the order of the labels, and still so when some are taken."""
    tree(here / "pets", {"train/cat/old": 3, "train/dog": 3, "test/cat": 1, "test/dog": 1})
    dataset = load("folder:pets")
    names = [f"train/cat/old/{i:03}.png" for i in range(3)] + [f"train/dog/{i:03}.png" for i in range(3, 6)]
    assert [name.replace(os.sep, "/") for name in dataset.train.names] == names
    assert list(dataset.train.take(np.array([3, 0])).names) == [dataset.train.names[3], dataset.train.names[0]]
    for data in (dataset.train, dataset.test):
        for name, image in zip(data.names, data.inputs, strict=True):
            np.testing.assert_array_equal(image.transpose(1, 2, 0), pixels(int(name[-7:-4])))
    flat = load("folder:pets/train?test=0.4")
    both = {*flat.train.names, *flat.test.names}
    assert {name.replace(os.sep, "/") for name in both} == {name.removeprefix("train/") for name in names}


def test_rows_are_called_by_their_lines(here):
    """Those that are left: here x is the line."""
    (here / "a.csv").write_text("x,label\n2,a\n,b\n\n5,a\n6,b\n7,b\n8,a\n9,b\n10,b\n")
    for options in ("", "&test=0.3"):
        dataset = load(f"csv:a.csv?missing=drop{options}")
        for data in filter(None, (dataset.train, dataset.test)):
            assert list(data.names) == [f"line {int(x)}" for (x,) in data.inputs]
        assert (dataset.test is None) == (options == "")


def test_what_has_no_files_or_lines_has_rows(here):
    """From 0, and those of the file where some were set aside: here x is the row."""
    np.savez(here / "a.npz", X=np.arange(10.0)[:, None], y=np.arange(10) % 2)
    train, test = (data for dataset in [load("npz:a.npz?test=0.4")] for data in (dataset.train, dataset.test))
    for data in (train, test):
        assert list(data.names) == [f"row {int(x)}" for (x,) in data.inputs]


def test_folders_below_a_class_belong_to_it(here):
    tree(here / "pets", {"cat/b/deep": 1, "cat/a": 2, "cat": 1, "dog": 2})
    data = load("folder:pets")
    assert data.classes == ("cat", "dog")
    assert sorted(numbers(data.train)[:4]) == [0, 1, 2, 3]
    assert data.train.labels.tolist() == [0, 0, 0, 0, 1, 1]


def test_a_folder_one_level_too_high_is_noticed(here, notices):
    tree(here / "pets", {"old/cat": 2, "old/dog": 2, "new/cat": 1, "new/dog": 3})
    assert load("folder:pets").classes == ("new", "old")
    (told,) = notices
    assert told.endswith("each has the folders cat, dog: if those are the classes, give pets/new.")
    tree(here / "photos", {"cat/day": 1, "cat/night": 1, "cat": 1, "dog/day": 2, "dog/night": 1})
    load("folder:photos")  # a picture lies directly in a class
    tree(here / "sorted", {"cat/day": 2, "dog/day": 2})
    load("folder:sorted")  # one folder is no list of classes
    assert len(notices) == 1


def link(path, to):
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.symlink_to(to)
    except OSError:
        pytest.skip("no links here")


def test_a_class_may_be_a_link_and_so_may_a_picture(here):
    tree(here / "elsewhere", {"dogs": 2, "one": 1})
    tree(here / "pets", {"cat": 2}, start=3)
    link(here / "pets" / "dog", here / "elsewhere" / "dogs")
    link(here / "pets" / "cat" / "z.png", here / "elsewhere" / "one" / "002.png")
    data = load("folder:pets")
    assert data.classes == ("cat", "dog")
    assert numbers(data.train) == [3, 4, 2, 0, 1]


LINKS = {
    "to its own folder": ("pets/cat/loop", "."),
    "to the folder above": ("pets/cat/loop", ".."),
    "to itself": ("pets/cat/loop", "loop"),
    "to nothing": ("pets/cat/loop", "nowhere.png"),
    "a class to the whole": ("pets/loop", "."),
    "a class to itself": ("pets/loop", "loop"),
    "a class to nothing": ("pets/loop", "nowhere"),
}


@pytest.mark.parametrize("case", LINKS)
def test_a_link_that_leads_nowhere_is_refused_by_name(here, case):
    path, to = LINKS[case]
    tree(here / "pets", {"cat": 2, "dog": 2})
    link(here / path, to)
    with pytest.raises(InputError, match=rf"^{path}(/cat|/loop)? is [^\n]+\.$"):  # where it shows, and no deeper
        load("folder:pets")


def test_pipes_are_refused_by_name_and_not_waited_for(here):
    tree(here / "pets", {"cat": 2, "dog": 2})
    try:
        os.mkfifo(here / "pets" / "dog" / "pipe.png")
    except (AttributeError, OSError):
        pytest.skip("no pipes here")
    with refused("pets/dog/pipe.png"):
        load("folder:pets")


@pytest.mark.parametrize("source", ["folder", "parquet", "npz", "csv"])
@pytest.mark.parametrize("path", ["nowhere", "no/where", "x" * 300, "a\0b"])
def test_no_such_path_is_refused_and_the_data_folder_named(here, source, path):
    with refused(repr(path), f"data folder {here / 'mine'}", "CLASS_UNCERTAINTY_DATA"):
        load(f"{source}:{path}", root=here / "mine")


def test_a_file_is_no_folder(here):
    picture(here / "cat.png", 0)
    with refused("cat.png is not a folder"):
        load("folder:cat.png")


def test_a_text_among_the_pictures_is_refused_by_name(here, own_cache):
    tree(here / "pets", {"cat": 2, "dog": 2})
    (here / "pets" / "dog" / "notes.txt").write_text("a good dog")
    with refused("pets/dog/notes.txt cannot be read as an image"):
        load("folder:pets")
    assert list(own_cache.iterdir()) == []


# Sizes and channels.


def test_without_a_size_the_first_picture_has_it(here):
    for i, (name, size) in enumerate(
        {
            "train/a/0": (5, 7),
            "train/a/1": (9, 9),
            "train/b/2": (5, 7),
            "train/b/3": (3, 3),
            "test/a/4": (20, 8),
            "test/b/5": (5, 7),
        }.items()
    ):
        picture(here / "pets" / f"{name}.png", i, size)
    data = load("folder:pets")
    own = [(5, 7), (9, 9), (5, 7), (3, 3), (20, 8), (5, 7)]
    expected = [fitted(i, (5, 7), size) for i, size in enumerate(own)]
    assert np.array_equal(data.train.inputs, expected[:4])
    assert np.array_equal(data.test.inputs, expected[4:])


def test_large_pictures_become_64_wide(here):
    for i in range(4):
        picture(here / "pets" / f"{'ab'[i % 2]}/{i}.png", i, (70, 65))
    assert np.array_equal(load("folder:pets").train.inputs, [fitted(i, (64, 64), (70, 65)) for i in (0, 2, 1, 3)])


@pytest.mark.parametrize(
    ("options", "side", "mode"), [("size=6", 6, "RGB"), ("channels=1", 4, "L"), ("size=9&channels=1", 9, "L")]
)
def test_size_and_channels(here, options, side, mode):
    tree(here / "pets", {"cat": 2, "dog": 2})
    load("folder:pets")  # nothing of this is taken for the other
    data = load(f"folder:pets?{options}")
    assert np.array_equal(data.train.inputs, [fitted(i, (side, side), (4, 4), mode) for i in range(4)])


@pytest.mark.parametrize("size", ["3", "1025", "0", "-8", "8.5", "big", "8x8", "²", "٨", " 8"])
def test_sizes_refused(here, size):
    tree(here / "pets", {"cat": 2, "dog": 2})
    with refused(f"option 'size' is {size!r}: it must be a whole number from 4 to 1024"):
        load(f"folder:pets?size={size}")


@pytest.mark.parametrize("channels", ["0", "2", "4", "rgb"])
def test_channels_refused(here, channels):
    tree(here / "pets", {"cat": 2, "dog": 2})
    with refused(f"unknown channels {channels!r}", "there are 3, 1"):
        load(f"folder:pets?channels={channels}")


def test_large_images_stay_at_the_size_that_is_asked_for(here):
    """For networks that take large images: the cache holds every pixel, and gives back what was decoded."""
    for i, kind in enumerate(("cat", "cat", "dog", "dog")):
        (here / "pets" / kind).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (1100, 1030), (i, 100, 200)).save(here / "pets" / kind / f"{i}.png")
    for side in (300, 1024):
        first, again = (load(f"folder:pets?size={side}").train for _ in range(2))
        assert first.shape == (3, side, side)
        assert first.fingerprint == again.fingerprint
