"""SQLite's errors as one sentence: what failed, and whether the store is intact."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from class_uncertainty.errors import InputError, MachineFault
from class_uncertainty.files import make_folder


def connect(store: Path, place: str) -> sqlite3.Connection:
    """Open the file of a store, or ':memory:' in its place."""
    if place != ":memory:":
        make_folder(store.parent)
    try:
        connection = sqlite3.connect(place, timeout=30)
    except (OSError, sqlite3.OperationalError) as error:
        why = getattr(error, "strerror", error)
        raise MachineFault(f"store {store} could not be opened: {why}.") from error
    # text that is damaged is found by a checksum, not by SQLite
    connection.text_factory = lambda raw: raw.decode(errors="surrogateescape")
    return connection


@contextmanager
def sqlite_faults(store: Path, connection: sqlite3.Connection) -> Iterator[None]:
    """Turn an error of SQLite into a MachineFault, or an InputError where the file is no store."""
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.DataError) as error:
        intact = "; what it held before is intact" if _is_intact(connection) else ""
        raise MachineFault(f"store {store}: {error}{intact}.") from error
    except sqlite3.DatabaseError as error:
        # SQLite's word for a read that the disk refused, too
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_CORRUPT:
            told = f"store {store} could not be read: the disk has failed, or the file is damaged"
            raise MachineFault(f"{told} ({error}).") from error
        raise InputError(f"{store} is not a store, or it is damaged: {error}.") from error


def _is_intact(connection: sqlite3.Connection) -> bool:
    """By SQLite's own check of every page, once what failed is rolled back."""
    try:
        connection.rollback()
        return bool(connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok")
    except sqlite3.Error:
        return False
