"""The statements that bring a file of any layout up to date."""

import sqlite3
from contextlib import closing

import pytest

from class_uncertainty.runs.store_layout import FIRST, SEALED, VERSION, upgrades


def tables(connection: sqlite3.Connection) -> dict[str, list[str]]:
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {name: [column[1] for column in connection.execute(f"PRAGMA table_info({name})")] for name in names}


@pytest.mark.parametrize("layout", range(VERSION + 1))
def test_a_file_of_any_layout_becomes_one_of_the_newest(layout: int) -> None:
    older = upgrades(0)[: len(upgrades(0)) - len(upgrades(layout))]
    with closing(sqlite3.connect(":memory:")) as connection, closing(sqlite3.connect(":memory:")) as new:
        for statement in [*older, *upgrades(layout)]:
            connection.execute(statement)
        for statement in upgrades(0):
            new.execute(statement)
        assert tables(connection) == tables(new)


def test_every_table_has_what_its_checksum_covers_and_the_checksum() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in upgrades(0):
            connection.execute(statement)
        columns = tables(connection)
    assert columns.keys() == SEALED.keys()
    assert all({*names, "checksum"} <= set(columns[table]) for table, names in SEALED.items())


def test_the_newest_layout_needs_nothing() -> None:
    assert upgrades(VERSION) == []
    assert max(FIRST.values()) <= VERSION
