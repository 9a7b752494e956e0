"""Folders without labels: what is no readable file is skipped with its reason, opened by nobody, and counted."""

import os
import socket
from pathlib import Path

import numpy as np
import pytest
from pictures import encoded, numbers, pixels, tree
from refusals import refused

from class_uncertainty import Data, InputError, load, predict, train
from class_uncertainty.data.readers.folder import entries, read_entry
from class_uncertainty.data.readers.unlabelled import Unlabelled, read_unlabelled
from class_uncertainty.training import Recipe

pytestmark = pytest.mark.usefixtures("here")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(path))


ODD = {  # how each is made, and the reason that is given
    "cat/broken.png": (lambda path: path.symlink_to("nowhere.png"), "broken link"),
    "cat/itself.png": (lambda path: path.symlink_to(path.name), "link to itself"),
    "cat/loop": (lambda path: path.symlink_to("."), "a folder that contains the link"),
    "cat/pipe": (pipe, "a pipe"),
    "dog/endless.png": (lambda path: path.symlink_to("/dev/zero"), "a device"),
    "dog/pipe.png": (pipe, "a pipe"),
    "dog/socket.png": (listening, "a socket"),
    "dog/to-pipe.png": (lambda path: path.symlink_to("pipe.png"), "a pipe"),
    "dog/up": (lambda path: path.symlink_to(".."), "a folder that contains the link"),
    "dog/upper": (lambda path: path.symlink_to("../.."), "a folder that contains the link"),
    "dog/zero.png": (lambda path: path.write_bytes(b""), "empty"),
}


def odd_folder(place: Path) -> None:
    """Four pictures of cats and dogs, a link to one more, and every kind of entry that cannot be read."""
    tree(place, {"cat": 2, "dog": 2})
    tree(place.parent / "elsewhere", {".": 1}, start=4)
    (place / "dog" / "link.png").symlink_to(place.parent / "elsewhere" / "004.png")  # which is no fault
    for path, (make, _) in ODD.items():
        make(place / path)


def read(place: Path) -> tuple[Unlabelled, Data]:
    """The unlabelled images of a folder, and those that were read as training examples."""
    unlabelled = read_unlabelled(place, (3, 4, 4), None)
    images = np.concatenate(list(unlabelled.batches))
    return unlabelled, Data(images, np.arange(len(images)) % 2)


def test_what_is_no_readable_file_is_skipped_with_its_reason(here):
    odd_folder(here / "pets")
    unlabelled, images = read(here / "pets")
    assert numbers(images) == [0, 1, 2, 3, 4]
    assert unlabelled.read_names == [f"cat/00{i}.png" for i in (0, 1)] + ["dog/002.png", "dog/003.png", "dog/link.png"]
    reasons = {unlabelled.names[place]: why for place, why in unlabelled.skipped.items()}
    assert reasons.keys() == ODD.keys()
    assert [path for path, (_, reason) in ODD.items() if path not in reasons[path] or reason not in reasons[path]] == []


def test_a_file_that_may_not_be_read_is_skipped(here, monkeypatch):
    tree(here / "pets", {"cat": 2})
    read_bytes = Path.read_bytes

    def forbidden(path: Path) -> bytes:  # root may read whatever it likes
        if path.name == "000.png":
            raise PermissionError(13, "Permission denied", str(path))
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    unlabelled, images = read(here / "pets")
    assert numbers(images) == [1]
    assert "Permission denied" in unlabelled.skipped[0]


def test_each_folder_is_read_once_and_under_its_own_name(here):
    """Whatever links lead to it: two folders that link to each other, several links to one elsewhere, links upwards."""
    tree(here / "pets", {"cat": 2, "dog": 2})
    tree(here / "elsewhere", {"deep": 1}, start=4)
    for link, target in {
        "cat/a": "../dog",
        "dog/a": "../cat",
        "also": "cat",
        "far": "../elsewhere",
        "farther": "../elsewhere/deep",
        "up": "..",
    }.items():
        (here / "pets" / link).symlink_to(target)
    (here / "link").symlink_to("pets")
    for place in ("pets", "link"):
        unlabelled, images = read(here / place)
        assert sorted(numbers(images)) == [0, 1, 2, 3, 4]
        assert [Path(name).parts[0] for name in unlabelled.read_names[:4]] == ["cat", "cat", "dog", "dog"]
        assert len(unlabelled.skipped) == 5


def test_a_folder_that_cannot_be_listed_is_counted(here, monkeypatch):
    tree(here / "pets", {"cat": 2, "dog": 2})
    saved = train(load("folder:pets"), recipe=Recipe("small-conv", 1, 4))
    list_folder = os.listdir

    def closed(folder: str | Path) -> list[str]:
        if Path(folder).name == "dog":
            raise PermissionError(13, "Permission denied")
        return list_folder(folder)

    monkeypatch.setattr(os, "listdir", closed)
    unlabelled, images = read(here / "pets")
    assert numbers(images) == [0, 1]
    (why,) = unlabelled.skipped.values()
    assert "listed" in why
    with refused("dog"):
        predict(saved, here / "pets" / "dog")


def test_predictions_leave_odd_entries_out_and_count_them(here):
    tree(here / "train", {"cat": 2, "dog": 2}, start=10)
    train(load("folder:train"), recipe=Recipe("small-conv", 1, 4), save="model")
    odd_folder(here / "pets")
    predicted = predict("model", here / "pets")
    assert len(predicted.names) == 5
    assert any("11 of 16" in note for note in predicted.notes)


@pytest.mark.parametrize("path", [path for path in ODD if path != "dog/zero.png"])
def test_training_refuses_an_odd_entry_and_names_the_option_that_leaves_it_out(here, path):
    tree(here / "pets", {"cat": 2, "dog": 2})
    make, reason = ODD[path]
    if path == "dog/to-pipe.png":
        pipe(here / "pipe.png")
        (here / "pets" / path).symlink_to(here / "pipe.png")
    else:
        make(here / "pets" / path)
    with refused(path, reason, "?skip=unreadable"):
        load("folder:pets")
    dataset = load("folder:pets?skip=unreadable")
    assert numbers(dataset.train) == [0, 1, 2, 3]
    assert [(part.number, part.of, part.names) for part in dataset.left_out] == [(1, 5, (path,))]


def test_a_pipe_that_takes_the_place_of_an_image_is_not_opened(here):
    """Whoever lists a folder and reads its files later still opens none that blocks."""
    (here / "a.png").write_bytes(encoded(pixels(0)))
    (entry,) = [entry for entry in entries(here) if entry.suffix == ".png"]
    entry.unlink()
    pipe(entry)
    with pytest.raises(InputError, match="pipe"):
        read_entry(entry)
