"""Whether two stores hold the same results, networks and probabilities, bit for bit; only the seconds may differ."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from class_uncertainty.io import parse_json


def contents(store: Path) -> dict[tuple[str, str], Any]:
    """Every row and file of a store by its table and key, without the time that it took and the way that it came."""
    found: dict[tuple[str, str], Any] = {}
    with closing(sqlite3.connect(store)) as connection:
        for key, document in connection.execute("SELECT key, document FROM results"):
            found["results", key] = _timeless(parse_json(document))
        for key, result, state in connection.execute("SELECT key, result, state FROM networks"):
            found["networks", key] = _timeless(parse_json(result)), state
        for key, members in connection.execute("SELECT key, members FROM estimates"):
            found["estimates", key] = members
    for file in store.with_name(store.name + ".estimates").glob("*.npy"):
        found["probabilities", file.stem] = file.read_bytes()
    return found


def _timeless(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in ("seconds", "imported")}
