"""Pictures in Parquet through load: what is read is what was written, the rest is refused."""

import io
import os

import numpy as np
import pytest
from pictures import LABELS, contents, encoded, fitted, numbers, pixels, struct
from PIL import Image
from refusals import refused

from class_uncertainty import load

pytestmark = pytest.mark.usefixtures("no_global_random", "here")


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
    assert np.array_equal(
        load("parquet:pets.parquet?size=7&channels=1").train.inputs, [fitted(i, (7, 7), (4, 4), "L") for i in range(6)]
    )


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
    with refused("pets already has a test split", f"--test {test}"):
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


@pytest.mark.parametrize(
    "metadata", [b"", b"[]", b"{}", b"\xff", b'{"info": {"features": []}}', b'{"info": {"features": {"label": {}}}}']
)
def test_parquet_metadata_without_names(write, metadata):
    from pyarrow import parquet

    table = write.arrow.table({"image": struct(*range(6)), "label": LABELS}).replace_schema_metadata(
        {b"huggingface": metadata}
    )
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
    with refused("columns front, back all hold images", "?image=COLUMN"):
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
    write(
        image=[{"bytes": content, "path": "x.png"} for content in column] if layout == "struct" else column,
        label=LABELS,
    )
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
def test_parquet_a_broken_picture_of_the_second_file_is_named(write, own_cache, content):
    write("pets/a.parquet", image=contents(*range(6)), label=LABELS)
    write("pets/b.parquet", image=broken(4, content), label=LABELS, row_group_size=2)
    with refused(f"{os.path.join('pets', 'b.parquet')}, row 4, cannot be read as an image: "):
        load("parquet:pets")
    assert list(own_cache.iterdir()) == []


PARQUET_LABELS_REFUSED = {
    "missing": ([0, 1, None, 1, 0, 1], "pets.parquet has no label in row 2"),
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
    with refused(f"pets.parquet has the label {label} in row 3", "0 to 1"):
        load("parquet:pets.parquet")


@pytest.mark.parametrize(
    ("option", "typed"),
    [("categorical=label", "?categorical=label"), ("drop=kind", "--drop kind"), ("missing=fill", "--missing fill")],
)
def test_parquet_options_of_tables_are_refused_for_pictures(write, option, typed):
    write(image=struct(*range(6)), label=LABELS)
    with refused("pets.parquet holds images", typed):
        load(f"parquet:pets.parquet?{option}")
