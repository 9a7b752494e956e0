"""Options of DataFrames as keywords: the name of the data set has all of them."""

import pandas
import pytest
from refusals import refused

from class_uncertainty.data.frame_sources import data_of, dataset_of, table_options

FRAME = pandas.DataFrame({"x": range(8), "z": list("uv") * 4, "y": list("aab") * 2 + ["a", "b"]})


def test_the_name_tells_all_options_and_no_others():
    dataset = dataset_of(FRAME, 3, test=0.25, label="y", categorical=["x"], drop=("z",), group=None)
    assert dataset.name.startswith("frame")
    for option in ("label=y", "categorical=x", "drop=z", "test=0.25"):
        assert option in dataset.name
    assert "group" not in dataset.name
    assert len(dataset.test) == 2


def test_a_test_frame_is_a_split_and_no_option():
    dataset = dataset_of(FRAME, 0, test=FRAME.head(3), label="y")
    assert (len(dataset.train), len(dataset.test)) == (8, 3)
    assert "test" not in dataset.name
    with refused("the test DataFrame"):
        dataset_of(FRAME, 0, test=FRAME[["x"]], label="y")


def test_what_is_left_out_is_kept_with_the_data():
    few = pandas.concat([FRAME, FRAME.head(1).assign(y="c")])
    (part,) = dataset_of(few, 0, label="y", min=2).left_out
    assert (part.option, part.number) == ("min=2", 1)
    assert tuple(data_of(few, label="y", min=2).classes) == ("a", "b")


def test_labels_may_be_numbers_and_columns_one_or_several():
    options = table_options(label=3, group=4, categorical="x", drop=["p", "q"], min=2, share=0.5)
    assert (options.label, options.group, options.categorical, options.drop) == ("3", "4", ["x"], ["p", "q"])
    assert (options.least, options.share) == (2, 0.5)
    assert (table_options().label, table_options().missing, table_options().least) == ("label", None, 0)


@pytest.mark.parametrize(
    ("keywords", "parts"), [({"missing": "fil"}, ["fil", "fill", "refuse"]), ({"min": 0}, ["min is 0", "from 1"])]
)
def test_wrong_values_are_named(keywords, parts):
    with refused(*parts):
        table_options(**keywords)
