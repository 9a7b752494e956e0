"""Tables as splits: repeats and rare classes left out, a share set aside, columns encoded by training rows alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from class_uncertainty.data import tabular
from class_uncertainty.data.dataset import LeftOut
from class_uncertainty.data.examples import Data
from class_uncertainty.data.finding import Finding
from class_uncertainty.data.splits import common_classes, distinct_examples, split_indices
from class_uncertainty.data.table import Table


@dataclass(frozen=True)
class TableOptions:
    """What becomes of the columns and rows of a table."""

    label: str = tabular.LABEL
    group: str | None = None
    categorical: Sequence[str] = ()
    drop: Sequence[str] = ()
    missing: str | None = None  # None fills, and says so
    drops_repeats: bool = False
    least: int = 0  # examples that a class must have or, with groups, groups
    share: float | None = None  # that is set aside to judge on
    seed: int = 0


def encode_splits(
    train: Table, test: Table | None, options: TableOptions, left_out: list[LeftOut], noticed: list[Finding]
) -> tuple[Data, Data | None]:
    """(train, test); what options leave out goes into `left_out`, and what a user should know into `noticed`."""
    tables, roles = [train] if test is None else [train, test], (options.label, options.group)
    if not options.least:
        tabular.check_label(train, options.label)
    spoken_for = (*roles, *options.drop, *options.categorical)
    crowded = tabular.crowded_columns(train, [name for name in train.columns if name not in spoken_for])
    if crowded:
        noticed.append(tabular.crowded_found(train, crowded))
        in_both = [name for name in crowded if all(name in table.names for table in tables)]
        options = replace(options, drop=[*options.drop, *in_both])
    given = sum(map(len, tables))
    if (options.least or options.drops_repeats) and options.missing == "drop":  # first, since it may make classes rare
        names = tabular.feature_columns(tables, *roles, options.categorical, options.drop)
        masks = tabular.complete_rows(tables, names, "drop")
        tables = [table.take(np.flatnonzero(mask)) for table, mask in zip(tables, masks, strict=True)]
    complete = sum(map(len, tables))
    if options.drops_repeats:
        tables[0] = _without_repeats(tables, options, left_out)
    if options.least:
        tabular.check_roles(tables, *roles)
        labelled = _labels_alone(tables, options)
        common = common_classes(labelled[0], options.least, train.option("min", options.least), left_out)
        tables = [table.take(np.flatnonzero(common[y.labels])) for table, y in zip(tables, labelled, strict=True)]
    if options.share is not None:  # before anything is learnt from a column
        tabular.check_roles(tables, *roles)
        (labelled_train,) = _labels_alone(tables, options)
        tables = [tables[0].take(rows) for rows in split_indices(labelled_train, options.share, options.seed)]
    splits = tabular.encode(
        tables[0],
        tables[1] if len(tables) > 1 else None,
        label=options.label,
        group=options.group,
        categorical=options.categorical,
        drop=options.drop,
        missing=options.missing,
        noticed=noticed,
    )
    incomplete = given - complete + sum(map(len, tables)) - sum(len(split) for split in splits if split is not None)
    if incomplete:
        left_out.append(LeftOut(train.option("missing", "drop"), "rows", incomplete, given))
    return splits


def _without_repeats(tables: list[Table], options: TableOptions, left_out: list[LeftOut]) -> Table:
    """The training rows, those out that have the features of an earlier one or of a test row."""
    names = tabular.feature_columns(tables, options.label, options.group, options.categorical, options.drop)
    digests = tabular.digests(tables, names, options.categorical)
    train, labelled = tables[0], _labels_alone(tables, options)[0]
    named = replace(labelled, names=np.array(train.row_names(np.arange(len(train))), dtype=object))
    in_test = digests[1] if len(tables) > 1 else None
    option = train.option("repeats", "drop")
    return train.take(distinct_examples(named, digests[0], in_test, option, left_out))


def _labels_alone(tables: Sequence[Table], options: TableOptions) -> list[Data]:
    """The labels and groups of each table, without features."""
    classes, labels = tabular.label_codes(tables, options.label)
    groups = [None if options.group is None else tabular.group_texts(table, options.group) for table in tables]
    return [Data(np.zeros((len(y), 1)), y, classes, groups=g) for y, g in zip(labels, groups, strict=True)]
