"""'DATA by BACKBONE': photographs become features; smaller images stay pixels; what was decided is said."""

from pathlib import Path

import numpy as np
import pytest
from pictures import picture
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.training.networks import user_code
from class_uncertainty.training.networks.user_code import trust
from class_uncertainty.workflows.load_named import load_named, with_backbone

FACTORY = """
from torch import nn

def pooled():
    return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten()), {"size": 24}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLASS_UNCERTAINTY_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine.py").write_text(FACTORY)
    monkeypatch.setattr(user_code, "_named", {})
    trust("mine.py:pooled")
    return tmp_path


def photographs(here, side):
    for i in range(8):
        picture(here / "photos" / "ab"[i % 2] / f"{i}.png", i, (side, side + 10))


@pytest.mark.parametrize(("side", "decoded"), [(100, 24), (12, 12)])
def test_images_are_read_at_the_size_of_the_backbone_at_most(here, side, decoded):
    photographs(here, side)
    dataset = load_named("folder:photos by mine.py:pooled")
    assert dataset.name == "folder:photos by mine.py:pooled"
    assert dataset.train.shape == (12,)
    assert dataset.train.picture(0).shape == (3, decoded, decoded)
    assert dataset.train.embedding.images == (decoded, decoded)


def test_photographs_of_the_data_folder(here, tmp_path):
    photographs(here, 100)
    (here / "elsewhere").mkdir()
    (here / "photos").rename(here / "elsewhere" / "photos")
    dataset = load_named("folder:photos by mine.py:pooled", root=here / "elsewhere")
    assert dataset.train.picture(0).shape == (3, 24, 24)


def test_a_size_that_is_given_counts(here):
    photographs(here, 100)
    assert load_named("folder:photos?size=48 by mine.py:pooled").train.picture(0).shape == (3, 48, 48)


def test_both_splits_and_named_data(here):
    dataset = load_named("digits-lt:20 by mine.py:pooled")
    assert (dataset.train.shape, dataset.test.shape) == ((12,), (12,))
    assert np.array_equal(load_named("digits-lt:20").train.labels, dataset.train.labels)


def test_photographs_become_features_of_the_small_backbone(here):
    photographs(here, 100)
    assert with_backbone("folder:photos", None, None, pixels=False).name == "folder:photos by efficientnet-lite0"


@pytest.mark.parametrize(
    ("data", "backbone", "pixels"),
    [
        ("folder:photos", "none", False),
        ("folder:photos", None, True),
        ("folder:photos?size=64", None, False),
        ("digits", None, False),
    ],
)
def test_who_wants_pixels_gets_them(here, data, backbone, pixels):
    photographs(here, 100)
    assert with_backbone(data, backbone, None, pixels).name == data


def test_small_images_stay_pixels(here):
    photographs(here, 90)
    assert with_backbone("folder:photos", None, None, False).name == "folder:photos"


def test_missing_photographs_are_refused_before_they_are_looked_at(here):
    with refused("'missing' is neither here nor in the data folder"):
        with_backbone("folder:missing", None, None, pixels=False)


def test_views_are_an_option_of_the_backbone(here):
    assert with_backbone("digits", "a.py:f", 2, False).name == "digits by a.py:f?views=2"
    assert with_backbone("digits", "a.py:f?size=9", 2, False).backbone == "a.py:f?size=9&views=2"
    with refused("--views is 2", "--backbone"):
        with_backbone("digits", None, 2, False)
    with refused("unknown backbone 'lite'"):
        with_backbone("digits", "lite", None, False)


def test_photographs_through_the_commands(here, run, forbid_training):
    """Features are made once, and named in what is saved. A report does not run the code that makes them."""
    photographs(here, 100)
    by = ("folder:photos", "--backbone", "mine.py:pooled", "--epochs", "1")
    assert run("measure", *by, "--members", "2")[0] == 0
    forbid_training()
    assert run("measure", *by, "--members", "2")[0] == 0
    assert run("report")[0] == 0
    page = (here / "report.html").read_text()
    assert "folder:photos by mine.py:pooled" in page
    assert "Training images of the worst classes" not in page


@pytest.mark.parametrize("embedded", [True, False])
def test_new_photographs_pass_through_the_same_backbone(here, run, embedded, monkeypatch):
    photographs(here, 100)
    by = ("folder:photos", "--backbone", "mine.py:pooled", "--epochs", "1")
    code, *_ = run("train", *by, "--save", "model", *(["--embed-weights"] if embedded else []))
    assert code == 0
    features = load_named("folder:photos by mine.py:pooled").train
    np.savez("features.npz", x=features.inputs)
    assert (cu.restore("model").backbone is not None) is embedded
    photos = {Path(name).name: p for name, p in _predicted("photos")}
    if not embedded:
        p = cu.predict("model", "features.npz").probabilities
        expected = dict(zip([Path(name).name for name in features.names], p, strict=True))
        assert photos.keys() == expected.keys()
        assert all(np.allclose(photos[name], expected[name], atol=1e-6) for name in photos)
    (here / "mine.py").write_text(FACTORY.replace("AdaptiveAvgPool2d", "AdaptiveMaxPool2d"))
    monkeypatch.setattr(user_code, "_named", {})
    with refused("mine.py", "SHA-256", "trust_code"):
        cu.predict("model", "photos")
    with refused("mine.py", "SHA-256", "model.json"):
        cu.predict("model", "photos", trust_code=True)
    trust("mine.py:pooled")
    with refused("mine.py:pooled", "other code" if embedded else "other weights or code"):
        cu.predict("model", "photos")


def _predicted(place):
    predicted = cu.predict("model", place)
    return zip(predicted.names, predicted.probabilities, strict=True)


def test_files_that_cannot_be_read_are_skipped(here, run):
    photographs(here, 100)
    assert run("train", "folder:photos", "--backbone", "none", "--epochs", "1", "--save", "model")[0] == 0
    for name in ("a/bad.png", "b/worse.jpg"):
        (here / "photos" / name).write_bytes(b"no image")
    predicted = cu.predict("model", "photos")
    assert len(predicted.names) == len(predicted.probabilities) == 8
    assert not any("bad" in name or "worse" in name for name in predicted.names)
    assert [note for note in predicted.notes if "Skipped 2 of 10 files" in note]
    assert sum("cannot be read as an image" in note for note in predicted.notes) == 2
    with refused("bad.png cannot be read as an image"):
        cu.predict("model", "photos/a/bad.png")
    for file in here.glob("photos/*/[0-9].png"):
        file.unlink()
    with refused("has no files that can be read"):
        cu.predict("model", "photos")


def test_what_cannot_be_saved_is_refused_before_training(here, run, forbid_training):
    photographs(here, 100)
    forbid_training()
    code, _, err = run("train", "folder:photos", "--backbone", "none", "--save", "model", "--embed-weights")
    assert (code, "there is none" in err) == (2, True)
    code, _, err = run("measure", "folder:photos", "--backbone", "efficientnet-lite00")
    assert (code, "did you mean 'efficientnet-lite0'" in err) == (2, True)
