"""Anyone's own data through load: folders of pictures, Parquet, .npz and CSV; what is read is what was written, the rest is refused."""

import io
import json
import os
import sys
import zipfile
from itertools import permutations

import numpy as np
import pytest
from PIL import Image, ImageOps
from refusals import refused

from class_uncertainty import InputError, load
from class_uncertainty.data.labels import in_order

pytestmark = pytest.mark.usefixtures("no_global_random")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """And the data folder is nobody's own."""
    folder = tmp_path_factory.mktemp("decoded")
    monkeypatch.setenv("CLASS_UNCERTAINTY_CACHE", str(folder))
    monkeypatch.setenv("CLASS_UNCERTAINTY_DATA", str(tmp_path_factory.mktemp("data")))
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Messages then name files without a folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pixels(i, size=(4, 4)):
    """The picture of that number, (H, W, 3): no two are alike."""
    return np.random.default_rng(i).integers(0, 256, (*size, 3), dtype=np.uint8)


def encoded(image, kind="PNG", **options):
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind, **options)
    return file.getvalue()


def picture(path, i, size=(4, 4)):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(pixels(i, size)))


def tree(place, counts, start=0):
    """Folder -> how many pictures; they are numbered in the order of this dict, and so are their names."""
    i = start
    for folder, count in counts.items():
        for _ in range(count):
            picture(place / folder / f"{i:03}.png", i)
            i += 1


def numbers(data, most=100):
    """Which picture each example is."""
    known = {pixels(i).tobytes(): i for i in range(most)}
    return [known[image.transpose(1, 2, 0).tobytes()] for image in data.inputs]


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


@pytest.mark.parametrize("names", [("train", "test"), ("train", "val"), ("Training", "validation"), ("pets_train", "pets_test_2")])
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


def test_a_test_split_without_a_training_split_is_refused(here):
    tree(here / "pets", {"train": 3, "test/a": 2, "test/b": 2})
    with refused(f"{os.path.join('pets', 'test')} has folders of classes, and no folder for training has"):
        load("folder:pets")


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


def test_a_folder_beside_the_splits_is_refused(here):
    tree(here / "pets", {"train/a": 2, "train/b": 2, "test/a": 1, "test/b": 1, "unsorted/a": 1})
    with refused("pets", "'unsorted'", "train, test and validation only"):
        load("folder:pets")


def test_two_folders_beside_the_splits_are_refused(here):
    tree(here / "pets", {"train/a": 2, "train/b": 2, "test/a": 1, "test/b": 1, "more": 1, "unsorted/a": 1})
    with refused("pets", "'more'", "train, test and validation only"):
        load("folder:pets")


def test_two_folders_for_training_are_refused(here):
    tree(here / "pets", {"train/a": 2, "train/b": 2, "training/a": 1, "training/b": 1})
    with refused("pets has a folder for training"):
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
    for name in (".DS_Store", "Thumbs.db", "cat/.hidden.png", "cat/Thumbs.db", "dog/desktop.ini", "dog/.git/x.png", ".cache/x.png"):
        (here / "pets" / name).parent.mkdir(exist_ok=True)
        (here / "pets" / name).write_bytes(b"not a picture")
    assert numbers(load("folder:pets").train) == [0, 1, 2, 3]


def test_files_beside_the_classes_are_left_alone(here):
    tree(here / "pets", {"cat": 2, "dog": 2})
    (here / "pets" / "README.txt").write_text("pets")
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


def test_an_empty_folder_is_refused(here):
    (here / "pets").mkdir()
    with refused("pets", "holds no pictures", "a subfolder"):
        load("folder:pets")


@pytest.mark.parametrize("split", ["", "train/", "test/"])
def test_an_empty_class_is_refused_by_name(here, split):
    tree(here / "pets", {"train/cat": 2, "train/dog": 2, "test/cat": 1, "test/dog": 1} if split else {"cat": 2, "dog": 2})
    (here / "pets" / f"{split}owl").mkdir()
    with refused(f"pets/{split}owl holds no pictures"):
        load("folder:pets")


def test_loose_pictures_alone_are_refused(here):
    tree(here / "pets", {".": 3})
    with refused("pets holds files ('000.png') and no subfolder", "each class needs one"):
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


def test_a_text_among_the_pictures_is_refused_by_name(here, cache):
    tree(here / "pets", {"cat": 2, "dog": 2})
    (here / "pets" / "dog" / "notes.txt").write_text("a good dog")
    with refused("pets/dog/notes.txt cannot be read as an image"):
        load("folder:pets")
    assert list(cache.iterdir()) == []


def test_a_class_in_one_split_only_is_refused_by_name(here):
    tree(here / "a", {"train/cat": 2, "train/dog": 2, "test/cat": 1, "test/dog": 1, "test/ant": 1})
    with refused("class 'ant' has no training examples"):
        load("folder:a")
    tree(here / "b", {"train/cat": 2, "train/dog": 2, "train/ant": 2, "test/cat": 1, "test/dog": 1})
    with refused("class 'ant' has no test examples"):
        load("folder:b")


# Sizes and channels.


def fitted(i, size, own, mode="RGB"):
    image = ImageOps.fit(Image.fromarray(pixels(i, own)).convert(mode), size[::-1], Image.Resampling.BICUBIC)
    return np.asarray(image).reshape(*size, -1).transpose(2, 0, 1)


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


@pytest.mark.parametrize(("options", "side", "mode"), [("size=6", 6, "RGB"), ("channels=1", 4, "L"), ("size=9&channels=1", 9, "L")])
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
    with refused(f"unknown channels {channels!r}", "There are 3, 1"):
        load(f"folder:pets?channels={channels}")


# A file of splits.


SPLIT = [("cat/000.png", "train"), ("cat/001.png", "train"), ("cat/002.png", "test"), ("dog/003.png", "test"), ("dog/004.png", "train")]
SPLIT += [("dog/005.png", "training")]


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
    pets(rows([*SPLIT[1:3][::-1], SPLIT[0], *SPLIT[3:]]).replace("001.png,train", "001.png,TEST").replace("002.png,test", "002.png,train"))
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
    "a picture left out": (rows(SPLIT[:-1]), ["split.csv says nothing of 1 pictures", "pets/dog/005.png"]),
    "a picture twice": (rows([*SPLIT, SPLIT[0]]), ["split.csv, line 7: 'cat/000.png'", "twice"]),
    "a picture that is not there": (rows([*SPLIT, ("cat/9.png", "test")]), ["split.csv, line 7: 'cat/9.png' is no picture in pets"]),
    "a picture outside": (rows([*SPLIT, ("../out.png", "test")]), ["split.csv, line 7: '../out.png' is no picture in pets"]),
    "a folder": (rows([*SPLIT, ("cat", "test")]), ["split.csv, line 7: 'cat' is no picture in pets"]),
    "an unknown split": (rows([("cat/000.png", "perhaps"), *SPLIT[1:]]), ["split.csv, line 1,", "PATH,SPLIT", "train, test or validation"]),
    "an unknown split below the header": ("path,split\n" + rows([*SPLIT, ("x", "y")]), ["split.csv, line 8, must be PATH,SPLIT"]),
    "a cell too many": (rows().replace("000.png,train", "000.png,train,3"), ["split.csv, line 1, must be PATH,SPLIT"]),
    "a cell too few": (rows().replace("001.png,train", "001.png"), ["split.csv, line 2, must be PATH,SPLIT"]),
    "semicolons": (rows().replace(",", ";"), ["split.csv, line 1, must be PATH,SPLIT"]),
    "no training": (rows((path, "test") for path, _ in SPLIT), ["split.csv has no line with the split train"]),
    "nothing": ("", ["split.csv says nothing of 6 pictures"]),
    "a header alone": ("path,split\n", ["split.csv says nothing of 6 pictures"]),
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
    with refused("pets cannot be read as CSV"):
        load("folder:pets?split=pets")


# A share to judge on.


@pytest.mark.parametrize(("share", "held"), [("0.2", [2, 1, 1]), ("0.5", [5, 4, 1]), ("0.01", [1, 1, 1]), ("0.99", [8, 5, 1])])
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


@pytest.mark.parametrize(("spec", "name"), [("digits-lt:20.0", "20"), ("digits-lt:20.00001", "20.00001"), ("digits-lt:2e1", "20")])
def test_a_ratio_is_named_as_it_is(spec, name):
    assert load(spec).name == f"digits-lt:{name}"


def test_a_path_without_its_form(here):
    tree(here / "pets", {"cat": 4, "dog": 4})
    (here / "a.csv").write_text("x,label\n")
    for path, form in (("pets", "folder"), ("a.csv", "csv")):
        with refused(f"'{path}' is a path", f"as in '{form}:{path}'"):
            load(path)


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
        with refused(f"{spec.partition(':')[2]} has a test split of its own", "?test=0.2"):
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


# .npz.


LABELS = [0, 1, 0, 1, 1, 0]
FEATURES = np.arange(12.0).reshape(6, 2)
IMAGES = np.random.default_rng(3).integers(0, 256, (6, 5, 7, 3), dtype=np.uint8)  # (N, H, W, channels)


def arrays(here, **given):
    given = {"x_train": FEATURES, "y_train": LABELS} | given
    np.savez(here / "arrays.npz", **{name: array for name, array in given.items() if array is not None})


def test_npz_with_both_splits(here):
    arrays(here, x_test=FEATURES[:4] + 100, y_test=[1, 0, 1, 1])
    data = load("npz:arrays.npz")
    assert np.array_equal(data.train.inputs, FEATURES.astype(np.float32))
    assert data.train.labels.tolist() == LABELS
    assert np.array_equal(data.test.inputs, FEATURES[:4].astype(np.float32) + 100)
    assert data.test.labels.tolist() == [1, 0, 1, 1]
    assert data.classes == ("0", "1")


@pytest.mark.parametrize(("x", "y"), [("X", "y"), ("x", "y"), ("X", "Y"), ("X_train", "Y_TRAIN")])
def test_npz_with_one_split(here, x, y):
    arrays(here, x_train=None, y_train=None, **{x: FEATURES, y: LABELS})
    data = load("npz:arrays.npz")
    assert data.test is None
    assert np.array_equal(data.train.inputs, FEATURES)


def test_npz_may_be_compressed_and_hold_more(here):
    np.savez_compressed(here / "arrays.npz", X=FEATURES, y=LABELS, note="pets", weights=np.zeros(3))
    assert load("npz:arrays.npz").train.labels.tolist() == LABELS


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (IMAGES, IMAGES.transpose(0, 3, 1, 2)),
        (IMAGES[..., :1], IMAGES[..., :1].transpose(0, 3, 1, 2)),
        (IMAGES.transpose(0, 3, 1, 2), IMAGES.transpose(0, 3, 1, 2)),
        (IMAGES.transpose(0, 3, 1, 2)[:, :1], IMAGES.transpose(0, 3, 1, 2)[:, :1]),
        (IMAGES[..., 0], IMAGES.transpose(0, 3, 1, 2)[:, :1]),
        (np.asfortranarray(IMAGES), IMAGES.transpose(0, 3, 1, 2)),
        (IMAGES.transpose(0, 3, 1, 2)[..., :3], IMAGES.transpose(0, 3, 1, 2)[..., :3]),
    ],
    ids=["NHWC", "NHW1", "NCHW", "N1HW", "NHW", "columns first", "NCHW, three wide"],
)
def test_npz_pictures(here, given, expected):
    arrays(here, x_train=given)
    data = load("npz:arrays.npz").train
    assert data.is_images
    assert np.array_equal(data.inputs, expected)


NPZ_LABELS = {
    "a column, as Keras has them": (np.array(LABELS)[:, None], ("0", "1"), LABELS),
    "unsigned": (np.array(LABELS, dtype=np.uint8), ("0", "1"), LABELS),
    "true and false": (np.array(LABELS, dtype=bool), ("False", "True"), LABELS),
    "text": (np.array(["über", "cat", "über", "cat", "cat", "über"]), ("cat", "über"), [1, 0, 1, 0, 0, 1]),
    "bytes": (np.array([b"dog", b"caf\xc3\xa9"] * 3), ("café", "dog"), [1, 0] * 3),
    "with gaps": (np.array([7, -3, 7, 100, -3, 100]), ("-3", "7", "100"), [1, 0, 1, 2, 0, 2]),
    "numbers as text": (np.array(["10", "2", "10", "2", "9", "9"]), ("2", "9", "10"), [2, 0, 2, 0, 1, 1]),
}


@pytest.mark.parametrize("case", NPZ_LABELS)
def test_npz_labels(here, case):
    given, classes, labels = NPZ_LABELS[case]
    arrays(here, y_train=given)
    data = load("npz:arrays.npz").train
    assert data.classes == classes
    assert data.labels.tolist() == labels


def test_npz_labels_from_1_to_10(here):
    given = np.tile(np.arange(10, 0, -1), 2)
    arrays(here, x_train=np.zeros((20, 1)), y_train=given)
    data = load("npz:arrays.npz")
    assert data.classes == tuple(str(i) for i in range(1, 11))
    assert data.train.labels.tolist() == (given - 1).tolist()


def test_npz_labels_of_two_splits_mean_the_same(here):
    """In the test split alone, 'b' would be the first."""
    arrays(here, y_train=np.array(list("abcabc")), x_test=FEATURES[:4], y_test=np.array(list("cbba")))
    data = load("npz:arrays.npz")
    assert data.train.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert data.test.labels.tolist() == [2, 1, 1, 0]
    arrays(here, y_train=np.array(list("abcabc")), x_test=FEATURES[:2], y_test=np.array(list("cb")))
    with refused("class 'a' has no test examples"):
        load("npz:arrays.npz")


NPZ_REFUSED = {
    "float pictures": ({"x_train": IMAGES / 255}, ["arrays.npz: x_train has shape (6, 5, 7, 3) and type float64: pictures are uint8"]),
    "float pictures in grey": ({"x_train": IMAGES[..., 0] / 255}, ["x_train has shape (6, 5, 7)", "pictures are uint8"]),
    "float pictures to judge on": ({"x_test": IMAGES / 255, "y_test": LABELS}, ["x_test has shape"]),
    "objects": ({"x_train": np.array([{}] * 6)}, ["arrays.npz cannot be read as .npz arrays of numbers or text: "]),
    "labels of objects": ({"y_train": np.array(["cat", 2] * 3, dtype=object)}, ["arrays.npz cannot be read as .npz arrays"]),
    "float labels": ({"y_train": np.array(LABELS) + 0.5}, ["arrays.npz: y_train has shape (6,) and type float64", "whole numbers or text"]),
    "one-hot labels": ({"y_train": np.eye(2, dtype=int)[LABELS]}, ["y_train has shape (6, 2)"]),
    "labels that are not UTF-8": ({"y_train": np.array([b"\xff", b"a"] * 3)}, ["arrays.npz: y_train", "not UTF-8"]),
    "too few labels": ({"y_train": LABELS[:5]}, ["arrays.npz: there are 6 inputs and 5 labels"]),
    "no examples": ({"x_train": FEATURES[:0], "y_train": np.array([], dtype=int)}, ["arrays.npz: there are 0 inputs and 0 labels"]),
    "one number": ({"x_train": np.array(5.0)}, ["arrays.npz: inputs have shape ()"]),
    "not a number": ({"x_train": FEATURES * np.nan}, ["arrays.npz: feature 0 of example 0 is nan"]),
    "text": ({"x_train": np.array([["a", "b"]] * 6)}, ["arrays.npz: inputs have shape (6, 2) and type <U1"]),
    "no labels": ({"y_train": None}, ["arrays.npz holds x_train: it must hold x_train and y_train (and x_test, y_test), or X and y"]),
    "nothing": ({"x_train": None, "y_train": None}, ["arrays.npz holds nothing"]),
    "other names": ({"x_train": None, "y_train": None, "data": FEATURES, "target": LABELS}, ["arrays.npz holds data, target: "]),
    "another shape to judge on": (
        {"x_test": FEATURES[:, :1], "y_test": LABELS},
        ["training examples have shape (2,) and test examples (1,)"],
    ),
}


@pytest.mark.parametrize("case", NPZ_REFUSED)
def test_npz_refused(here, case):
    given, told = NPZ_REFUSED[case]
    arrays(here, **given)
    with refused(*told):
        load("npz:arrays.npz")


def locked(content):
    """The same .npz file, but its members are marked as encrypted."""
    content = bytearray(content)
    for mark, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = content.find(mark)
        while at >= 0:
            content[at + flags] |= 1
            at = content.find(mark, at + 1)
    return bytes(content)


def spoilt(whole):
    """Compressed, and then a run of bytes is overwritten where the pixels are."""
    file = io.BytesIO()
    np.savez_compressed(file, X=np.random.default_rng(1).integers(0, 9, (100, 100)), y=np.arange(100) % 2)
    content = file.getvalue()
    return content[:100] + b"\xff" * 200 + content[300:]


def zipped(**texts):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
    return file.getvalue()


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("alone", ["x_test", "y_test"])
def test_npz_half_a_test_split_is_refused(here, alone):
    np.savez(here / "a.npz", x_train=FEATURES, y_train=LABELS, **{alone: FEATURES if alone == "x_test" else LABELS})
    with refused(f"a.npz holds x_train, y_train, {alone}: it must hold x_train and y_train (and x_test, y_test)"):
        load("npz:a.npz")


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_npz_channels_may_come_last(here, channels):
    pictures = np.arange(6 * 8 * 8 * channels).astype(np.uint8).reshape(6, 8, 8, channels)
    np.savez(here / "a.npz", X=pictures, y=LABELS)
    assert np.array_equal(load("npz:a.npz").train.inputs, pictures.transpose(0, 3, 1, 2))


NPZ_BROKEN = {
    "cut": lambda whole: whole[: len(whole) // 2],
    "without its end": lambda whole: whole[:-10],
    "without its start": lambda whole: whole[40:],
    "a byte changed": lambda whole: whole.replace(FEATURES.tobytes(), FEATURES.tobytes()[::-1]),
    "empty": lambda whole: b"",
    "text": lambda whole: b"x_train, y_train\n1, 2\n",
    "noise": lambda whole: np.random.default_rng(1).bytes(1000),
    "one array, not several": lambda whole: saved(FEATURES),
    "a pickle": lambda whole: b"\x80\x04N.",
    "encrypted": locked,
    "compressed, and spoilt": spoilt,
    "texts by the right names": lambda whole: zipped(x="1, 2", y="3"),
    "texts by the right names and ends": lambda whole: zipped(**{"x.npy": "1, 2", "y.npy": "3"}),
    "half an array": lambda whole: zipped(**{"x.npy": saved(FEATURES)[:-20], "y.npy": saved(np.array(LABELS))}),
}


@pytest.mark.parametrize("case", NPZ_BROKEN)
def test_npz_broken(here, case):
    arrays(here)
    (here / "arrays.npz").write_bytes(NPZ_BROKEN[case]((here / "arrays.npz").read_bytes()))
    with refused("arrays.npz cannot be read as .npz arrays"):
        load("npz:arrays.npz")


def test_npz_that_is_a_folder(here):
    (here / "arrays.npz").mkdir()
    with refused("arrays.npz cannot be read as .npz arrays"):
        load("npz:arrays.npz")


# Parquet.


@pytest.fixture
def write(here):
    """A function that writes columns as a Parquet file; skipped where pyarrow, which is optional, is not there."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def make(name="pets.parquet", names=None, row_group_size=None, **columns):
        table = arrow.table(columns)
        if names is not None:
            features = {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
            table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table, here / name, row_group_size=row_group_size)

    make.arrow = arrow
    return make


def contents(*numbers):
    return [encoded(pixels(i)) for i in numbers]


def struct(*numbers):
    return [{"bytes": content, "path": f"{i}.png"} for i, content in zip(numbers, contents(*numbers), strict=True)]


@pytest.mark.parametrize("layout", ["struct", "bytes alone in a struct", "binary", "large_binary"])
def test_parquet_pictures(write, layout):
    column = {
        "struct": lambda: struct(*range(6)),
        "bytes alone in a struct": lambda: [{"bytes": content} for content in contents(*range(6))],
        "binary": lambda: write.arrow.array(contents(*range(6)), write.arrow.binary()),
        "large_binary": lambda: write.arrow.array(contents(*range(6)), write.arrow.large_binary()),
    }[layout]()
    write(image=column, label=LABELS)
    data = load("parquet:pets.parquet")
    assert data.test is None
    assert numbers(data.train) == list(range(6))
    assert data.train.labels.tolist() == LABELS
    assert data.classes == ("0", "1")


def test_parquet_pictures_of_several_kinds(write):
    kinds = [("PNG", {}), ("WEBP", {"lossless": True}), ("BMP", {}), ("JPEG", {}), ("TIFF", {}), ("PPM", {})]
    column = [encoded(pixels(i), kind, **options) for i, (kind, options) in enumerate(kinds)]
    write(image=column, label=LABELS)
    expected = [np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).transpose(2, 0, 1) for content in column]
    assert np.array_equal(load("parquet:pets.parquet").train.inputs, expected)


def test_parquet_size_and_channels(write):
    write(image=contents(*range(6)), label=LABELS)
    assert np.array_equal(load("parquet:pets.parquet?size=7&channels=1").train.inputs, [fitted(i, (7, 7), (4, 4), "L") for i in range(6)])


def test_rows_of_several_parquet_files_are_called_by_both(write):
    for part in range(3):
        write(f"numbers/part-{part}.parquet", x=[10.0 * part, 10.0 * part + 1], label=["b", "a"])
    for spec in ("parquet:numbers", "parquet:numbers?test=0.4"):
        data = load(spec).train
        assert list(data.names) == [f"part-{int(x) // 10}.parquet, row {int(x) % 10}" for (x,) in data.inputs]


def test_parquet_of_several_files(write):
    for part in range(3):
        write(f"pets/part-{part}.parquet", image=struct(2 * part, 2 * part + 1), label=[1, 0])
    data = load("parquet:pets")
    assert numbers(data.train) == list(range(6))
    assert data.train.labels.tolist() == [1, 0] * 3


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("train-00000-of-00001", "test-00000-of-00001"),
        ("data/train-00000-of-00001", "data/validation-00000-of-00001"),
        ("train/0000", "test/0000"),
        ("pets_train", "pets_val"),
    ],
)
def test_parquet_splits(write, train, test):
    write(f"pets/{train}.parquet", image=struct(0, 1, 2, 3), label=["b", "b", "c", "c"])
    write(f"pets/{test}.parquet", image=struct(4, 5), label=["c", "b"])
    data = load("parquet:pets")
    assert data.classes == ("b", "c")
    assert (numbers(data.train), data.train.labels.tolist()) == ([0, 1, 2, 3], [0, 0, 1, 1])
    assert (numbers(data.test), data.test.labels.tolist()) == ([4, 5], [1, 0])


def test_parquet_with_a_file_to_judge_on(write):
    write("a.parquet", image=struct(0, 1, 2, 3), label=[0, 0, 1, 1])
    write("b.parquet", image=struct(4, 5), label=[1, 0])
    data = load("parquet:a.parquet?test=b.parquet")
    assert numbers(data.test) == [4, 5]
    with refused("'c.parquet' is neither here nor in the data folder"):
        load("parquet:a.parquet?test=c.parquet")


def test_parquet_with_a_share_to_judge_on(write):
    write(image=struct(*range(6)), label=LABELS)
    data = load("parquet:pets.parquet?test=0.3")
    assert data.test.counts.tolist() == [1, 1]
    assert sorted(numbers(data.train) + numbers(data.test)) == list(range(6))


@pytest.mark.parametrize("test", ["0.2", "other.parquet"])
def test_parquet_with_two_tests_is_refused(write, test):
    write("pets/train.parquet", image=struct(*range(6)), label=LABELS)
    write("pets/test.parquet", image=struct(6, 7), label=[0, 1])
    write("other.parquet", image=struct(6, 7), label=[0, 1])
    with refused("pets has a test split of its own", f"?test={test}"):
        load(f"parquet:pets?test={test}")


def test_parquet_names_of_hugging_face(write):
    """In their own order, which need not be the alphabet's."""
    write(image=struct(*range(6)), label=LABELS, names=["zebra", "ant"])
    data = load("parquet:pets.parquet")
    assert data.classes == ("zebra", "ant")
    assert data.train.labels.tolist() == LABELS


def test_parquet_names_of_both_splits(write):
    names = ["zebra", "ant", "10", "9"]
    write("pets/train.parquet", image=struct(*range(8)), label=[0, 1, 2, 3] * 2, names=names)
    write("pets/test.parquet", image=struct(*range(8, 12)), label=[3, 2, 1, 0], names=names)
    data = load("parquet:pets")
    assert data.classes == tuple(names)
    assert data.test.labels.tolist() == [3, 2, 1, 0]


def test_parquet_names_in_another_order_mean_the_same(write):
    write("pets/train.parquet", image=struct(*range(6)), label=LABELS, names=["zebra", "ant"])
    write("pets/test.parquet", image=struct(6, 7, 8), label=[0, 1, 1], names=["ant", "zebra"])
    data = load("parquet:pets")
    assert [data.classes[label] for label in data.train.labels] == [["zebra", "ant"][label] for label in LABELS]
    assert [data.classes[label] for label in data.test.labels] == ["ant", "zebra", "zebra"]


def test_parquet_a_name_without_pictures_is_refused(write):
    write(image=struct(*range(6)), label=LABELS, names=["zebra", "ant", "bee"])
    with refused("class 'bee' has no training examples"):
        load("parquet:pets.parquet")


@pytest.mark.parametrize("metadata", [b"", b"[]", b"{}", b"\xff", b'{"info": {"features": []}}', b'{"info": {"features": {"label": {}}}}'])
def test_parquet_metadata_without_names(write, metadata):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = write.arrow.table({"image": struct(*range(6)), "label": LABELS}).replace_schema_metadata({b"huggingface": metadata})
    parquet.write_table(table, "pets.parquet")
    assert load("parquet:pets.parquet").classes == ("0", "1")


PARQUET_LABELS = {
    "text": (["über", "cat"] * 3, ("cat", "über"), [1, 0] * 3),
    "numbers as text": (["10", "9"] * 3, ("9", "10"), [1, 0] * 3),
    "gaps": ([7, -3, 7, 100, -3, 100], ("-3", "7", "100"), [1, 0, 1, 2, 0, 2]),
    "true and false": ([True, False] * 3, ("False", "True"), [1, 0] * 3),
}


@pytest.mark.parametrize("encoding", ["plain", "dictionary"])
@pytest.mark.parametrize("case", PARQUET_LABELS)
def test_parquet_labels(write, case, encoding):
    given, classes, labels = PARQUET_LABELS[case]
    column = write.arrow.array(given)
    write(image=struct(*range(6)), label=column.dictionary_encode() if encoding == "dictionary" else column)
    data = load("parquet:pets.parquet")
    assert data.classes == classes
    assert data.train.labels.tolist() == labels


@pytest.mark.parametrize("column", ["label", "fine_label", "labels", "target", "class"])
def test_parquet_columns_that_are_taken_for_labels(write, column):
    write(image=struct(*range(6)), number=list(range(6)), **{column: LABELS})
    assert load("parquet:pets.parquet").train.labels.tolist() == LABELS


def test_parquet_label_by_name(write):
    write(image=struct(*range(6)), label=LABELS, kind=["x", "y", "y", "x", "x", "y"])
    load("parquet:pets.parquet")
    assert load("parquet:pets.parquet?label=kind").classes == ("x", "y")
    with refused("unknown label column 'kin': did you mean 'kind'?"):
        load("parquet:pets.parquet?label=kin")


def test_parquet_image_by_name(write):
    write(front=struct(*range(6)), back=struct(*range(6, 12)), label=LABELS)
    assert numbers(load("parquet:pets.parquet?image=back").train) == list(range(6, 12))
    assert numbers(load("parquet:pets.parquet?image=front").train) == list(range(6))
    with refused("columns front, back all hold pictures", "?image=COLUMN"):
        load("parquet:pets.parquet")
    with refused("unknown image column 'fron': did you mean 'front'?"):
        load("parquet:pets.parquet?image=fron")


@pytest.mark.parametrize("size", ["", "&size=4"])
@pytest.mark.parametrize("column", ["label", "meta", "kind"])
def test_parquet_a_column_that_holds_no_pictures_is_refused(write, column, size):
    write(image=struct(*range(6)), label=LABELS, meta=[{"width": 4}] * 6, kind=["x"] * 6)
    with refused(column if column == "meta" else "pets.parquet"):
        load(f"parquet:pets.parquet?image={column}{size}")


def broken(at, content, number=6):
    """Rows of which one holds something else."""
    column = contents(*range(number))
    column[at] = content
    return column


@pytest.mark.parametrize("size", ["", "?size=4"])
@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize("layout", ["struct", "binary"])
def test_parquet_a_missing_picture_is_refused_by_row(write, layout, at, size):
    column = broken(at, None)
    write(image=[{"bytes": content, "path": "x.png"} for content in column] if layout == "struct" else column, label=LABELS)
    with refused(f"pets.parquet, row {at}, cannot be read as an image: there are no bytes"):
        load(f"parquet:pets.parquet{size}")


def test_parquet_a_missing_picture_after_a_batch_of_them(write):
    column = contents(0) * 260
    column[256] = None
    write(image=column, label=[0, 1] * 130)
    with refused("pets.parquet, row 256, cannot be read as an image: there are no bytes"):
        load("parquet:pets.parquet")


def test_parquet_a_struct_that_is_missing_altogether(write):
    write(image=[*struct(0, 1, 2, 3), None, *struct(5)], label=LABELS)
    with refused("pets.parquet, row 4, cannot be read as an image: there are no bytes"):
        load("parquet:pets.parquet")


@pytest.mark.parametrize("content", [b"", b"no picture", encoded(pixels(3))[:60]], ids=["empty", "text", "cut"])
def test_parquet_a_broken_picture_of_the_second_file_is_named(write, cache, content):
    write("pets/a.parquet", image=contents(*range(6)), label=LABELS)
    write("pets/b.parquet", image=broken(4, content), label=LABELS, row_group_size=2)
    with refused(f"{os.path.join('pets', 'b.parquet')}, row 4, cannot be read as an image: "):
        load("parquet:pets")
    assert list(cache.iterdir()) == []


PARQUET_LABELS_REFUSED = {
    "missing": ([0, 1, None, 1, 0, 1], "pets.parquet has no label in row 2: every picture needs one"),
    "missing text": (["a", "b", "a", "b", "a", None], "pets.parquet has no label in row 5"),
    "fractions": ([0.5, 1.0] * 3, "pets.parquet has float64 in column 'label': labels are whole numbers or text"),
    "lists": ([[0], [0, 1]] * 3, "pets.parquet"),
    "lists of one": ([[0], [1]] * 3, "pets.parquet"),
    "structs": ([{"name": "cat"}, {"name": "dog"}] * 3, "pets.parquet"),
}


@pytest.mark.parametrize("case", PARQUET_LABELS_REFUSED)
def test_parquet_labels_refused(write, case):
    labels, told = PARQUET_LABELS_REFUSED[case]
    write(image=struct(*range(6)), label=labels)
    with refused(told, "label"):
        load("parquet:pets.parquet")


@pytest.mark.parametrize("label", [2, -1])
def test_parquet_a_label_without_a_name_is_refused(write, label):
    write(image=struct(*range(6)), label=[0, 1, 0, label, 1, 0], names=["cat", "dog"])
    with refused(f"pets.parquet has the label {label} in row 3: its 2 classes run from 0 to 1"):
        load("parquet:pets.parquet")


@pytest.mark.parametrize("option", ["categorical=label", "drop=kind", "missing=fill"])
def test_parquet_options_of_tables_are_refused_for_pictures(write, option):
    write(image=struct(*range(6)), label=LABELS)
    with refused(f"pets.parquet holds pictures: leave ?{option} out"):
        load(f"parquet:pets.parquet?{option}")


@pytest.mark.parametrize("option", ["size=4", "channels=1"])
def test_parquet_options_of_pictures_are_refused_for_tables(write, option):
    write(length=list(range(6)), label=LABELS)
    with refused(f"pets.parquet holds a table: leave ?{option} out"):
        load(f"parquet:pets.parquet?{option}")


@pytest.mark.parametrize(("column", "told"), [("length", "has inf in row 2"), ("label", "has nothing in row 2")])
def test_parquet_a_fault_in_the_second_file_of_a_table_is_named(write, column, told):
    write("pets/train-0.parquet", length=[1.0, 2.0, 3.0, 4.0], label=[0, 1, 0, 1])
    second = {"length": [1.0, 2.0, 3.0], "label": [0, 1, 0]}
    second[column] = [second[column][0], second[column][1], float("inf") if column == "length" else None]
    write("pets/train-1.parquet", **second)
    with refused(f"{os.path.join('pets', 'train-1.parquet')}: column '{column}' {told}"):
        load("parquet:pets")


def test_nothing_is_learnt_from_the_rows_that_are_set_aside(here):
    """Categories and medians are those of the training rows."""
    rows = [(f"only{i}", i % 2) for i in range(40)]
    (here / "a.csv").write_text("city,size,label\n" + "".join(f"{city},{i},{label}\n" for i, (city, label) in enumerate(rows)))
    data = load("csv:a.csv?test=0.25")
    cities = [name for name in data.train.columns if name.startswith("city=")]
    assert len(cities) == len(data.train) == 30
    assert data.test.inputs[:, [data.train.columns.index(name) for name in cities]].sum() == 0


def test_parquet_without_labels_is_refused(write):
    write(image=struct(*range(6)), species=LABELS)
    with refused("pets.parquet has no column called label", "?label=COLUMN", "image, species"):
        load("parquet:pets.parquet")


def test_parquet_without_rows_is_refused(write):
    write(image=write.arrow.array([], write.arrow.binary()), label=write.arrow.array([], write.arrow.int64()))
    with refused("pets.parquet has no rows"):
        load("parquet:pets.parquet")


def test_parquet_files_that_disagree_are_refused(write):
    write("pets/a.parquet", image=struct(0, 1), label=[0, 1])
    write("pets/b.parquet", image=struct(2, 3), label=["0", "1"])
    names = [os.path.join("pets", name) for name in ("a.parquet", "b.parquet")]
    with refused(f"{names[0]} and {names[1]} disagree on their schema: label"):
        load("parquet:pets")
    write("pets/b.parquet", image=struct(2, 3), label=[0, 1], more=[1, 2])
    with refused(f"{names[0]} and {names[1]} disagree on their schema: more"):
        load("parquet:pets")
    write("pets/b.parquet", label=[0, 1], image=struct(2, 3))
    with refused("the order of columns"):
        load("parquet:pets")


def test_parquet_splits_that_disagree_are_refused(write):
    write("pets/train.parquet", image=struct(*range(6)), label=LABELS)
    write("pets/test.parquet", image=struct(6, 7), label=["0", "1"])
    with refused("train.parquet", "test.parquet", "disagree on their schema: label"):
        load("parquet:pets")


def test_parquet_names_that_say_their_split_and_names_that_do_not(write):
    write("pets/train.parquet", image=struct(*range(6)), label=LABELS)
    write("pets/more.parquet", image=struct(6, 7), label=[0, 1])
    with refused("train.parquet names its split and", "more.parquet does not"):
        load("parquet:pets")


def test_parquet_without_training_files_is_refused(write, here):
    write("pets/test.parquet", image=struct(*range(6)), label=LABELS)
    with refused("pets has no Parquet file for training", "train-*.parquet"):
        load("parquet:pets")
    assert load("parquet:pets/test.parquet").test is None  # but it may be named
    (here / "none").mkdir()
    with refused("none holds no .parquet file"):
        load("parquet:none")


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:-4] + b"XXXX",
        lambda whole: whole[:-200] + bytes(192) + whole[-8:],
        lambda whole: b"",
        lambda whole: b"a,b\n1,2\n",
    ],
    ids=["cut", "the last bytes", "the footer", "empty", "CSV"],
)
def test_parquet_broken(write, here, damage):
    write(image=struct(*range(6)), label=LABELS)
    (here / "pets.parquet").write_bytes(damage((here / "pets.parquet").read_bytes()))
    with refused("pets.parquet cannot be read as Parquet: "):
        load("parquet:pets.parquet")


def test_parquet_with_damaged_pages(write, here):
    """The footer is whole, so that only reading tells."""
    write(image=struct(*range(6)), label=LABELS)
    whole = (here / "pets.parquet").read_bytes()
    (here / "pets.parquet").write_bytes(whole[:4] + bytes(500) + whole[504:])
    with refused("pets.parquet"):
        load("parquet:pets.parquet")


@pytest.mark.parametrize("missing", ["pyarrow", "pyarrow.parquet"])
def test_parquet_without_pyarrow(write, monkeypatch, missing):
    write(image=struct(*range(6)), label=LABELS)
    monkeypatch.setitem(sys.modules, missing, None)
    with refused("Parquet files need pyarrow: install it with pip install 'class-uncertainty[parquet]'"):
        load("parquet:pets.parquet")


def test_parquet_tables(write):
    write("a.parquet", age=[1.5, 2.5, 3.5, 4.5], city=["x", "y", "x", "y"], label=["u", "u", "v", "v"])
    write("b.parquet", age=[9.0, 8.0], city=["y", "z"], label=["v", "u"])
    data = load("parquet:a.parquet?test=b.parquet")
    assert data.train.columns == ("age", "city=x", "city=y")
    assert data.train.inputs.tolist() == [[1.5, 1, 0], [2.5, 0, 1], [3.5, 1, 0], [4.5, 0, 1]]
    assert data.test.inputs.tolist() == [[9, 0, 1], [8, 0, 0]]
    assert load("parquet:a.parquet?label=city&drop=label").classes == ("x", "y")


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
    (here / "root" / "split.csv").write_text(rows())
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
    assert load("folder:pets?test=0.5&size=4").name == load("folder:pets?size=4&test=0.5").name == "folder:pets?size=4&test=0.5"


# Options.


OPTIONS_REFUSED = {
    "folder:pets?sise=4": ["unknown option of 'folder' 'sise': did you mean 'size'?", "size, channels, test, split"],
    "folder:pets?label=x": ["unknown option of 'folder' 'label'"],
    "npz:pets?size=4": ["unknown option of 'npz' 'size': There are test"],
    "csv:pets?image=x": ["unknown option of 'csv' 'image'"],
    "parquet:pets?split=x": ["unknown option of 'parquet' 'split'"],
    "folder:pets?size=4&size=5": ["has the option 'size' twice"],
    "folder:pets?size=4&test=0.2&size=4": ["has the option 'size' twice"],
    "folder:pets?size=": ["write size=VALUE"],
    "folder:pets?size=4&test": ["write test=VALUE"],
    "folder": ["'folder' needs a path after a colon, as in 'folder:PATH'"],
    "folder:": ["'folder' needs a path after a colon"],
    "csv:?label=x": ["'csv' needs a path after a colon"],
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
