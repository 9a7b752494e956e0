"""Data.from_hf and Dataset.from_hf with real splits of the library `datasets`."""

import subprocess
import sys

import numpy as np
import pytest
from optional import optional
from PIL import Image
from refusals import refused

import class_uncertainty as cu

datasets = optional("datasets")


def images(labels=(0, 1, 0, 1), side=8, names=("dog", "cat", "emu")):
    features = {"image": datasets.Image(), "label": datasets.ClassLabel(names=list(names))}
    pixels = [Image.fromarray(np.full((side, side, 3), 10 * i, dtype=np.uint8)) for i in range(len(labels))]
    columns = {"image": pixels, "label": list(labels), "patient": [f"p{i // 2}" for i in range(len(labels))]}
    features["patient"] = datasets.Value("string")
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


def table():
    columns = {"x": [[1.0, 2.0], [3.0, 4.0], [5.0, 7.0], [1.0, 1.0]], "city": ["Rome", "Oslo", "Rome", "Rome"]}
    return datasets.Dataset.from_dict(columns | {"kind": ["v", "u", "v", "u"]})


def test_images_with_the_names_and_the_order_of_class_label():
    data = cu.Data.from_hf(images(), image="image", label="label", group="patient")
    assert (data.classes, data.labels.tolist(), data.shape) == (("dog", "cat"), [0, 1, 0, 1], (3, 8, 8))
    assert data.inputs[:, 0, 0, 0].tolist() == [0, 10, 20, 30]
    assert data.groups.tolist() == ["p0", "p0", "p1", "p1"]


def test_rows_that_were_selected_are_those_that_are_read():
    chosen = images((0, 1, 2, 1, 2)).select([4, 2, 1, 3])
    data = cu.Data.from_hf(chosen)
    assert data.inputs[:, 0, 0, 0].tolist() == [40, 20, 10, 30]
    assert (data.classes, data.labels.tolist()) == (("cat", "emu"), [1, 1, 0, 0])


def test_image_files_are_followed(tmp_path):
    for i in range(4):
        folder = tmp_path / ("cat", "dog")[i % 2]
        folder.mkdir(exist_ok=True)
        Image.fromarray(np.full((100, 100), 60 * i, dtype=np.uint8)).save(folder / f"{i}.png")
    split = datasets.load_dataset("imagefolder", data_dir=str(tmp_path), split="train", cache_dir=str(tmp_path / "c"))
    data = cu.Data.from_hf(split, size=16, channels=1)
    assert (data.shape, data.classes) == ((1, 16, 16), ("cat", "dog"))
    assert sorted(data.inputs[:, 0, 0, 0].tolist()) == [0, 60, 120, 180]
    next((tmp_path / "cat").iterdir()).unlink()
    with refused("the Hugging Face data set, row"):
        cu.Data.from_hf(split)


def test_splits_become_a_data_set_with_the_classes_of_both():
    splits = datasets.DatasetDict(train=images((0, 1, 0, 1)), test=images((1, 0), side=12))
    dataset = cu.Dataset.from_hf(splits)
    assert (dataset.classes, dataset.test.shape, dataset.test.labels.tolist()) == (("dog", "cat"), (3, 8, 8), [1, 0])
    assert cu.Dataset.from_hf(images()).test is None


def test_a_table_has_text_numbers_and_lists_as_features():
    data = cu.Data.from_hf(table(), label="kind")
    assert data.columns == ("x[0]", "x[1]", "city=Oslo", "city=Rome")
    assert data.inputs[1].tolist() == [3, 4, 1, 0]
    assert (data.classes, data.labels.tolist(), data.label) == (("u", "v"), [1, 0, 1, 0], "kind")
    dropped = cu.Data.from_hf(table(), label="kind", drop="x")
    assert dropped.columns == ("city=Oslo", "city=Rome")


def test_rows_that_an_option_leaves_out_are_counted():
    split = datasets.Dataset.from_dict({"x": [1.0, None, 3.0, 4.0, 5.0], "label": [0, 0, 0, 1, 1]})
    with refused("values are missing (x 1)", "missing='fill'"):
        cu.Data.from_hf(split, missing="refuse")
    dataset = cu.Dataset.from_hf(split, missing="drop")
    assert (len(dataset.train), [left.number for left in dataset.left_out]) == (4, [1])


@pytest.mark.parametrize(
    ("given", "options", "parts"),
    [
        (lambda: images((0, -1)), {}, ["label -1 in row 1", "numbered from 0"]),
        (table, {}, ["no column 'label'", "label='COLUMN'"]),
        (table, {"label": "kimd"}, ["'kimd'", "did you mean 'kind'?"]),
        (table, {"label": "x"}, ["column 'x'", "whole numbers or text"]),
        (table, {"label": "kind", "image": "city"}, ["column 'city'", "feature Image"]),
        (table, {"label": "kind", "size": 8}, ["holds a table", "leave out size"]),
        (images, {"drop": "patient"}, ["holds images", "leave out drop"]),
        (images, {"channels": 2}, ["channels is 2", "3 (colour)"]),
        (images, {"group": "pateint"}, ["'pateint'", "did you mean 'patient'?"]),
        (lambda: images().to_iterable_dataset(), {}, ["streamed"]),
        (lambda: datasets.DatasetDict(train=images()), {}, ["splits train", "ds['train']", "Dataset.from_hf"]),
        (lambda: images().select([]), {}, ["no rows"]),
    ],
)
def test_what_cannot_be_used_is_refused(given, options, parts):
    with refused(*parts):
        cu.Data.from_hf(given(), **options)


def test_the_library_is_not_imported_by_the_package():
    code = "import sys; import class_uncertainty.data.hf_sources; sys.exit('datasets' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
