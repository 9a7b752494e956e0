"""SQLite's errors as one sentence: what failed, and whether the store is intact."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from class_uncertainty.errors import InputError, MachineFault, notice
from class_uncertainty.io import make_folder

PATIENCE, LIMIT = 2, 30  # seconds until a wait for another process is reported, and until it ends


class WaitingConnection(sqlite3.Connection):
    """A connection that waits for locks of other processes: silently at first, then with a notice, up to a limit.

    Its timeout is PATIENCE, so that Ctrl-C need not wait for the limit.
    """

    store = Path()

    def execute(self, *statement: Any) -> sqlite3.Cursor:
        began = time.monotonic()
        is_reported = False
        while True:
            try:
                return super().execute(*statement)
            except sqlite3.OperationalError as error:
                if not is_locked(error) or time.monotonic() - began >= LIMIT:
                    raise
            if not is_reported:
                notice(f"store {self.store} is locked by another process; waiting up to {LIMIT:g} s for it.")
                is_reported = True

    def commit(self) -> None:
        """Commit what is open, if anything is. SQLite waits for readers, too, before it commits."""
        if self.in_transaction:
            self.execute("COMMIT")

    def __exit__(self, *raised: Any) -> Literal[False]:
        """Commit, or roll back after an exception."""
        if raised[0] is None:
            self.commit()
        return super().__exit__(*raised)


def is_locked(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def connect(store: Path, place: str) -> sqlite3.Connection:
    """Open the file of a store, or ':memory:' in its place."""
    if place != ":memory:":
        make_folder(store.parent)
    try:
        connection = sqlite3.connect(place, PATIENCE, factory=WaitingConnection)
    except (OSError, sqlite3.OperationalError) as error:
        why = getattr(error, "strerror", error)
        raise MachineFault(f"store {store} could not be opened: {why}.") from error
    connection.store = store
    # text that is damaged is found by a checksum, not by SQLite
    connection.text_factory = lambda raw: raw.decode(errors="surrogateescape")
    return connection


@contextmanager
def sqlite_faults(store: Path, connection: sqlite3.Connection) -> Iterator[None]:
    """Turn an error of SQLite into a MachineFault, or an InputError where the file is no store."""
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.DataError) as error:
        if is_locked(error):
            connection.rollback()
            waited = f"another process has locked it for {LIMIT:g} s"
            raise MachineFault(f"store {store}: {waited}. Nothing stored is lost: run the command again.") from error
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
