"""One transaction for many rows of a store: a commit waits for the disk, however little it holds."""

from collections.abc import Iterator
from contextlib import contextmanager

from class_uncertainty.runs.store import Store


@contextmanager
def together(store: Store) -> Iterator[None]:
    """What is written to the store inside is committed at the end, also after an error: every row is whole."""
    store.is_batch = True
    try:
        yield
    finally:
        store.is_batch = False
        store.add_rows([])
