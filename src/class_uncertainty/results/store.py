"""Results in one SQLite file. A result is written in one transaction when its lane ends: a kill loses only what was in flight."""

import dataclasses
import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from class_uncertainty.data import Dataset
from class_uncertainty.errors import InputError, MachineFault
from class_uncertainty.estimation import Estimate
from class_uncertainty.files import make_folder
from class_uncertainty.metrics import Scores
from class_uncertainty.remedies.diagnosis import Mended
from class_uncertainty.training import Recipe, Result
from class_uncertainty.training.keys import ENGINE, key_of

if TYPE_CHECKING:
    from class_uncertainty.training.stack import State

VERSION = 2  # of the file's layout

LAYOUT = """
CREATE TABLE data (fingerprint TEXT PRIMARY KEY, name TEXT, classes TEXT, counts TEXT);
CREATE TABLE results (
    key TEXT PRIMARY KEY, engine INTEGER, data TEXT, method TEXT, lr REAL, seed INTEGER, error REAL, document TEXT
);
CREATE TABLE estimates (
    key TEXT PRIMARY KEY, engine INTEGER, data TEXT, estimator TEXT, members INTEGER, labels_and_probabilities BLOB, results TEXT
);
"""
SINCE_2 = """
CREATE TABLE networks (key TEXT PRIMARY KEY, result TEXT, state BLOB);
CREATE TABLE mended (key TEXT PRIMARY KEY, engine INTEGER, data TEXT, document TEXT);
"""


@dataclasses.dataclass(frozen=True)
class Known:
    """A data set that results are stored of."""

    fingerprint: str
    name: str
    classes: tuple[str, ...]
    counts: tuple[int, ...]


class Store:
    """`with Store(path) as store`: results and estimates by key."""

    def __init__(self, path: str | Path = "runs.sqlite", create: bool = True) -> None:
        self.path = Path(path)
        if not self.path.exists() and not create:
            raise InputError(f"store {self.path} does not exist: 'cu measure', 'cu compare', 'cu fix' and 'cu demo' write one.")
        if self.path.exists() and not self.path.is_file():
            raise InputError(f"store {self.path} is {'a folder' if self.path.is_dir() else 'no file'}: give the name of an SQLite file.")
        make_folder(self.path.parent)
        try:
            self.connection = sqlite3.connect(self.path.absolute(), timeout=30)  # absolute: ':memory:' is a name like any other
        except (OSError, sqlite3.OperationalError) as error:
            raise MachineFault(f"store {self.path} could not be opened: {getattr(error, 'strerror', error)}.") from error
        try:
            with self._faults():
                self._prepare()
        except BaseException:
            self.connection.close()
            raise

    def _prepare(self) -> None:
        """Lay out a new file; refuse one that is not ours."""
        self.connection.execute("BEGIN IMMEDIATE" if self._is_new() else "BEGIN")  # two commands may lay out one file at once
        (version,) = self.connection.execute("PRAGMA user_version").fetchone()
        (tables,) = self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if version > VERSION:
            raise InputError(f"store {self.path} was written by a newer version (layout {version}; this one reads {VERSION}).")
        if version == 0 and tables:
            raise InputError(f"{self.path} is another program's SQLite file: choose another --store.")
        if version < VERSION:
            for statement in filter(str.strip, ((LAYOUT if version == 0 else "") + SINCE_2).split(";")):
                self.connection.execute(statement)
            self.connection.execute(f"PRAGMA user_version = {VERSION}")
        self.connection.commit()

    def _is_new(self) -> bool:
        """Or of an older layout."""
        return self.connection.execute("PRAGMA user_version").fetchone()[0] < VERSION

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """SQLite's errors, and damaged documents, as one sentence."""
        try:
            yield
        except InputError:
            raise
        except sqlite3.OperationalError as error:
            raise MachineFault(f"store {self.path}: {error}; what it held before is intact.") from error
        except (sqlite3.DatabaseError, ValueError, KeyError, TypeError, BadZipFile) as error:
            raise InputError(f"{self.path} is not a store, or it is damaged: {error}.") from error

    def _write(self, statement: str, *values: Any) -> None:
        with self._faults(), self.connection:
            self.connection.execute(statement, values)

    def _read(self, statement: str, *values: Any) -> list[tuple]:
        with self._faults():
            return self.connection.execute(statement, values).fetchall()

    def add_data(self, dataset: Dataset) -> None:
        row = (dataset.fingerprint, dataset.name, json.dumps(dataset.classes), json.dumps(dataset.train.counts.tolist()))
        self._write("INSERT OR REPLACE INTO data VALUES (?, ?, ?, ?)", *row)

    def data(self) -> list[Known]:
        """Every data set, the one written last at the end."""
        rows = self._read("SELECT * FROM data ORDER BY rowid")
        return [Known(f, name, tuple(json.loads(classes)), tuple(json.loads(counts))) for f, name, classes, counts in rows]

    def add(self, key: str, data: str, result: Result) -> None:
        row = (key, ENGINE, data, result.method, result.lr, result.seed, result.error, json.dumps(dataclasses.asdict(result)))
        self._write("INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *row)

    def get(self, key: str) -> Result | None:
        return next(iter(self._results("key = ?", key)), None)

    def results(self, data: str) -> list[Result]:
        """Every result of the data set of that fingerprint, in the order they were first stored."""
        return self._results(f"engine = {ENGINE} AND data = ? ORDER BY rowid", data)

    def _results(self, where: str, value: str) -> list[Result]:
        rows = self._read(f"SELECT document FROM results WHERE {where}", value)
        with self._faults():
            return [_result(json.loads(document)) for (document,) in rows]

    def add_network(self, key: str, result: Result, state: "State") -> None:
        """A trained lane with its weights: what teaches, or is averaged, later."""
        from safetensors.torch import save

        self._write("INSERT OR IGNORE INTO networks VALUES (?, ?, ?)", key, json.dumps(dataclasses.asdict(result)), save(state))

    @property
    def networks(self) -> int:
        """How many are kept with their weights."""
        return int(self._read("SELECT count(*) FROM networks")[0][0])

    def has_network(self, key: str) -> bool:
        return bool(self._read("SELECT 1 FROM networks WHERE key = ?", key))

    def get_network(self, key: str) -> "tuple[Result, State] | None":
        from safetensors import SafetensorError
        from safetensors.torch import load

        for document, blob in self._read("SELECT result, state FROM networks WHERE key = ?", key):
            with self._faults():
                try:
                    return _result(json.loads(document)), load(blob)
                except SafetensorError as error:
                    raise ValueError(error) from error
        return None

    def add_mended(self, key: str, data: str, mended: Mended) -> None:
        self._write("INSERT OR REPLACE INTO mended VALUES (?, ?, ?, ?)", key, ENGINE, data, json.dumps(dataclasses.asdict(mended)))

    def mended(self, data: str) -> list[Mended]:
        """What was mended of the data set of that fingerprint, the last at the end."""
        rows = self._read(f"SELECT document FROM mended WHERE engine = {ENGINE} AND data = ? ORDER BY rowid", data)
        with self._faults():
            return [Mended.from_document(json.loads(document)) for (document,) in rows]

    def add_estimate(self, key: str, data: str, estimate: Estimate) -> None:
        buffer = io.BytesIO()
        own: dict[str, Any] = {f"own.{name}": values for name, values in estimate.own.items()}
        np.savez_compressed(buffer, labels=estimate.labels, probabilities=estimate.probabilities, **own)
        results = [dataclasses.asdict(result) for result in estimate.results]
        document = json.dumps({"results": results, "score": estimate.score, "cost": estimate.cost})
        row = (key, ENGINE, data, estimate.estimator, len(estimate.probabilities), buffer.getvalue(), document)
        self._write("INSERT OR REPLACE INTO estimates VALUES (?, ?, ?, ?, ?, ?, ?)", *row)

    def has_estimate(self, key: str) -> bool:
        """Without reading its probabilities."""
        return bool(self._read("SELECT 1 FROM estimates WHERE key = ?", key))

    def get_estimate(self, key: str) -> Estimate | None:
        return next(iter(self._estimates("key = ?", key)), None)

    def estimates(self, data: str) -> list[Estimate]:
        """Every estimate of the data set of that fingerprint, the one stored last at the end."""
        return self._estimates(f"engine = {ENGINE} AND data = ? ORDER BY rowid", data)

    def _estimates(self, where: str, value: str) -> list[Estimate]:
        rows = self._read(f"SELECT estimator, labels_and_probabilities, results FROM estimates WHERE {where}", value)
        found = []
        for estimator, blob, document in rows:
            with self._faults(), np.load(io.BytesIO(blob)) as arrays:
                known = json.loads(document)
                results = tuple(map(_result, known["results"]))
                own = {name.removeprefix("own."): arrays[name] for name in arrays.files if name.startswith("own.")}
                parts = (arrays["probabilities"], arrays["labels"], results, known["score"], own, known["cost"])
                found.append(Estimate(estimator, *parts))
        return found


def _result(document: dict[str, Any]) -> Result:
    scores, recipe, fold = document["scores"], document["recipe"], document["fold"]
    restored = {
        "scores": Scores(**{**scores, "class_errors": tuple(scores["class_errors"])}) if scores else None,
        "recipe": Recipe(**{**recipe, "drops": tuple(recipe["drops"])}),
        "fold": tuple(fold) if fold else None,
    }
    return Result(**(document | restored))


def estimate_key(estimator: str, lane_keys: list[str]) -> str:
    return key_of(estimator, lane_keys)
