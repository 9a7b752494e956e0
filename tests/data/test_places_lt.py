"""Places-LT from its index, with pictures there or elsewhere."""

import gzip

import numpy as np
import pytest
from PIL import Image

from class_uncertainty import InputError, load


@pytest.fixture
def small_places(tmp_path, rng):
    """An index of three classes, zipped, and its pictures."""
    lines = {
        "train": "train/bar/1.jpg 0\ntrain/bar/2.jpg 0\ntrain/attic/3.jpg 1\ntrain/attic/4.jpg 1\n",
        "test": "val/bar/a b.jpg 0\nval/attic/b.jpg 1\n",
        "val": "val/bar/c.jpg 0\nval/bar/d.jpg 0\nval/attic/e.jpg 1\n",
    }
    for split, text in lines.items():
        (tmp_path / f"Places_LT_{split}.txt.gz").write_bytes(gzip.compress(text.encode()))
        for line in text.splitlines():
            file = tmp_path / line.rpartition(" ")[0]
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (90, 80, 3), dtype=np.uint8)).save(file)
    return tmp_path


def test_places_lt(small_places):
    dataset = load("places-lt?size=16", root=small_places)
    assert dataset.classes == ("bar", "attic")  # by label, not by name
    assert dataset.train.labels.tolist() == [0, 0, 1, 1]
    assert dataset.test.inputs.shape == (2, 3, 16, 16)
    assert load("places-lt", root=small_places).train.shape == (3, 64, 64)
    assert load("places-lt?judge=val", root=small_places).test.labels.tolist() == [0, 0, 1]


def test_places_lt_with_its_pictures_elsewhere(small_places, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("pictures")
    for part in ("train", "val"):
        (small_places / part).rename(elsewhere / part)
    with pytest.raises(InputError, match=r"4 of the 4 images in .* do not exist"):
        load("places-lt", root=small_places)
    assert len(load(f"places-lt?images={elsewhere}", root=small_places).train) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a/b/c.jpg ²", "line 1, must be a path, a blank and a label from 0 to 364"),
        (". 1", "line 1: '.' leads out of"),
        ("../../secret.jpg 0\n", "line 1: '../../secret.jpg' leads out of"),
        ("/etc/secret.jpg 0\n", "leads out of"),
        ("train/bar/1.jpg 0\ntrain/attic/3.jpg\n", "line 2, must be a path, a blank and a label from 0 to 364"),
        ("train/bar/1.jpg 365\n", "line 1, must be a path"),
        ("train/bar/1.jpg 0\ntrain/attic/3.jpg 0\n", "line 2: label 0 is 'attic' here and 'bar' before"),
        ("train/bar/1.jpg 0\ntrain/bar/99.jpg 0\n", "1 of the 2 images in .* do not exist, .*99.jpg"),
        ("", "is empty"),
    ],
)
def test_bad_index_is_named(text, message, small_places):
    (small_places / "Places_LT_train.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        load("places-lt", root=small_places)


def test_a_truncated_index_is_named(small_places):
    file = small_places / "Places_LT_train.txt.gz"
    file.write_bytes(file.read_bytes()[:-12])
    with pytest.raises(InputError, match=r"Places_LT_train.txt.gz cannot be read"):
        load("places-lt", root=small_places)
