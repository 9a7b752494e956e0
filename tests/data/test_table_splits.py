"""Tables as splits: what is left out and set aside, before anything is learnt from a column."""

import numpy as np

from class_uncertainty.data.table import Table, is_missing
from class_uncertainty.data.table_splits import TableOptions, encode_splits


def table(**columns):
    arrays = {name: np.array(column, dtype=object) for name, column in columns.items()}
    return Table("a.csv", arrays, {name: is_missing(array) for name, array in arrays.items()})


def numbered(labels, **others):
    return table(x=[str(i) for i in range(len(labels))], label=list(labels), **others)


def test_both_tables_are_encoded_by_the_columns_of_training():
    left_out = []
    train, test = encode_splits(numbered("aab"), numbered("ba"), TableOptions(), left_out, [])
    assert [train.labels.tolist(), test.labels.tolist()] == [[0, 0, 1], [1, 0]]
    assert test.inputs[:, 0].tolist() == [0, 1]
    assert left_out == []


def test_rare_classes_are_left_out_of_both_splits_and_counted():
    left_out = []
    train, test = encode_splits(numbered("aabbc"), numbered("acb"), TableOptions(least=2), left_out, [])
    assert (tuple(train.classes), len(train), len(test)) == (("a", "b"), 4, 2)
    ((option, names),) = [(one.option, one.names) for one in left_out]
    assert option == "?min=2"
    assert "c" in names[0]


def test_incomplete_rows_go_first_since_they_make_classes_rare():
    """Class b has two rows, one of them with a gap."""
    left_out = []
    source = table(x=["1", "2", "3", "", "5", "6", "7"], label=list("aaabbcc"))
    train, _ = encode_splits(source, None, TableOptions(least=2, missing="drop"), left_out, [])
    assert (tuple(train.classes), train.counts.tolist()) == (("a", "c"), [3, 2])
    assert {(one.option, one.number, one.of) for one in left_out} == {("?min=2", 1, 3), ("--missing drop", 1, 7)}


def test_gaps_are_counted_without_a_least_number_too():
    left_out = []
    train, _ = encode_splits(
        table(x=["1", "", "3"], label=list("aba")), None, TableOptions(missing="drop"), left_out, []
    )
    assert len(train) == 2
    assert str(left_out[0]) == "--missing drop left out 1 of 3 rows."


def test_a_share_is_set_aside_by_class_and_the_seed_draws_it():
    source = numbered("a" * 40 + "b" * 20)
    options = TableOptions(share=0.25, seed=1)
    train, test = encode_splits(source, None, options, [], [])
    assert (train.counts.tolist(), test.counts.tolist()) == ([30, 15], [10, 5])
    assert not {*train.inputs[:, 0]} & {*test.inputs[:, 0]}
    other = encode_splits(source, None, TableOptions(share=0.25, seed=2), [], [])[1]
    assert {*test.inputs[:, 0]} != {*other.inputs[:, 0]}


def test_what_is_set_aside_teaches_columns_nothing():
    """Gaps are filled by the median of the training rows."""
    rows = np.arange(60)
    source = table(x=[str(i**2) if i % 5 else "" for i in rows], row=rows.astype(str), label=["a", "b"] * 30)
    train, test = encode_splits(source, None, TableOptions(share=0.5, missing="fill"), [], [])
    taught = train.inputs[:, 1][train.inputs[:, 1] % 5 > 0] ** 2
    filled = np.concatenate([split.inputs[split.inputs[:, 1] % 5 == 0, 0] for split in (train, test)])
    assert len(filled) == 12
    assert {*filled.tolist()} == {np.median(taught)}
    assert np.median(taught) != np.median(rows[rows % 5 > 0] ** 2)  # of all rows


def test_a_group_stays_on_one_side():
    groups = [f"g{i // 3}" for i in range(60)]
    source = numbered((["a"] * 3 + ["b"] * 3) * 10, who=groups)
    train, test = encode_splits(source, None, TableOptions(group="who", share=0.3), [], [])
    assert not {*train.groups} & {*test.groups}
    assert len(test) % 3 == 0
