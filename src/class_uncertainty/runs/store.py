"""Results in one SQLite file. A result is written in one transaction when its lane ends: a kill loses running lanes.

Every row has a checksum over its key and content. A row that does not match it is dropped with a notice and counts as
missing. Probabilities, which may be larger than SQLite's largest value, are files in a folder beside the store.
"""

import io
import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Dataset
from class_uncertainty.data.readers.npz import arrays_in
from class_uncertainty.errors import InputError, MachineFault, notice
from class_uncertainty.estimation import Estimate
from class_uncertainty.io import (
    BlockCrcs,
    Bytes,
    abandoned,
    check_folder,
    checksum,
    file_crcs,
    from_document,
    parse_json,
    write_together,
)
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.sqlite_faults import connect, sqlite_faults
from class_uncertainty.text import reason
from class_uncertainty.training import Result
from class_uncertainty.training.keys import ENGINE

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from class_uncertainty.training.networks.stack import State

VERSION = 5  # of the file's layout
RUNNING = ".running"  # how the folder of checkpoints beside a store ends
FIXES = "fixes"  # the table of fix reports
LAYOUT = f"""
CREATE TABLE data (fingerprint TEXT PRIMARY KEY, name TEXT, classes TEXT, counts TEXT, checksum TEXT);
CREATE TABLE results (
    key TEXT PRIMARY KEY, engine INTEGER, data TEXT, method TEXT, lr REAL, seed INTEGER, error REAL, document TEXT,
    checksum TEXT
);
CREATE TABLE estimates (
    key TEXT PRIMARY KEY, engine INTEGER, data TEXT, estimator TEXT, members INTEGER,
    labels_and_probabilities BLOB, results TEXT, checksum TEXT
);
CREATE TABLE networks (key TEXT PRIMARY KEY, result TEXT, state BLOB, checksum TEXT);
CREATE TABLE {FIXES} (key TEXT PRIMARY KEY, engine INTEGER, data TEXT, document TEXT, checksum TEXT);
CREATE TABLE measurements (key TEXT PRIMARY KEY, engine INTEGER, data TEXT, document TEXT, checksum TEXT);
"""  # probabilities are files: the blob holds labels and the estimator's extra scores
SEALED = {  # what the checksum of a row covers
    "data": ("fingerprint", "name", "classes", "counts"),
    "results": ("key", "engine", "data", "document"),
    "estimates": ("key", "engine", "data", "estimator", "labels_and_probabilities", "results"),
    "networks": ("key", "result", "state"),
    FIXES: ("key", "engine", "data", "document"),
    "measurements": ("key", "engine", "data", "document"),
}
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)  # what a document that is none of ours may raise
OF_DATA = f"engine = {ENGINE} AND data = ?"  # rows of this engine on the data set of a fingerprint
WRITTEN = 2**22  # bytes of probabilities that are written at once


@dataclass(frozen=True)
class StoredDataset:
    """A data set with stored results."""

    fingerprint: str
    name: str
    classes: tuple[str, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, dataset: Dataset) -> "StoredDataset":
        return cls(dataset.fingerprint, dataset.name, dataset.classes, tuple(dataset.train.counts.tolist()))


class Store:
    """`with Store(path) as store`: results and estimates by key. `create` opens it to add to it, a new one too."""

    def __init__(self, path: str | Path = "runs.sqlite", create: bool = True) -> None:
        self.path = Path(path)
        self.sound = set[str]()  # files of probabilities that match their checksum
        self.is_batch = False  # whether rows wait to be committed together
        if not self.path.exists() and not create:
            writers = "'cu measure', 'cu compare', 'cu fix', 'cu demo' and 'cu results import' write one"
            raise InputError(f"store {self.path} does not exist: {writers}.")
        if self.path.exists() and not self.path.is_file():
            kind = "a folder" if self.path.is_dir() else "no file"
            raise InputError(f"store {self.path} is {kind}: give the name of an SQLite file.")
        self.is_in_memory = not self.path.exists()  # until there is a result to write: a refusal leaves no file
        if self.is_in_memory:
            check_folder(self.path)
        self._connect(create)

    def _connect(self, create: bool) -> None:
        place = ":memory:" if self.is_in_memory else str(self.path.absolute())  # ':memory:' may be a file's name
        self.connection = connect(self.path, place)
        try:
            with self._faults():
                self._prepare()
            if create:
                self.check_engine()
        except BaseException:
            self.connection.close()
            raise

    def create_file(self) -> None:
        """Create the file where there is none, with the names of the data: results follow."""
        if self.is_in_memory:
            data = self.data()
            self.connection.close()
            self.is_in_memory = False
            self._connect(create=True)
            self.add_rows(("data", dataset_row(stored)) for stored in data)

    def _prepare(self) -> None:
        """Lay out a new file; refuse one that is not ours, or has another layout."""
        version = self._version()
        if version not in (0, VERSION):
            advice = "choose another store, or use the version of class-uncertainty that wrote it"
            raise InputError(f"store {self.path} has layout {version}, and this version reads {VERSION}: {advice}.")
        # two processes may lay out one file at the same time
        self.connection.execute("BEGIN IMMEDIATE" if version == 0 else "BEGIN")
        (tables,) = self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if self._version() == 0:
            if tables:
                raise InputError(f"{self.path} is another program's SQLite file: choose another store.")
            for statement in LAYOUT.strip().removesuffix(";").split(";"):
                self.connection.execute(statement)
            self.connection.execute(f"PRAGMA user_version = {VERSION}")
        self.connection.execute("COMMIT")

    def _version(self) -> int:
        return int(self.connection.execute("PRAGMA user_version").fetchone()[0])

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def _faults(self) -> AbstractContextManager[None]:
        return sqlite_faults(self.path, self.connection)

    def _write(self, table: str, row: dict[str, Any], last: bool = False) -> None:
        """One row with its checksum, in the place of any of its key, which may be damaged; or as the last of all."""
        if table != "data":
            self.create_file()
        with self._faults(), nullcontext() if self.is_batch else self.connection:
            self._insert(table, row, last)

    def _insert(self, table: str, row: dict[str, Any], last: bool) -> None:
        row = row | {"checksum": seal(table, row)}
        into = f"INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
        if last:
            statement = f"INSERT OR REPLACE {into}"
        else:
            assignments = ", ".join(f"{name} = excluded.{name}" for name in row)
            statement = f"INSERT {into} ON CONFLICT ({SEALED[table][0]}) DO UPDATE SET {assignments}"
        self.connection.execute(statement, list(row.values()))

    def _cell(self, query: str, *values: Any) -> Any:
        """The first value of the first row; None where there is no row."""
        with self._faults():
            row = self.connection.execute(query, values).fetchone()
        return None if row is None else row[0]

    def _rows(self, table: str, where: str = "TRUE", *values: Any) -> list[dict[str, Any]]:
        """The rows that match their checksums, each key once; others are dropped."""
        columns = ("rowid", *SEALED[table], "checksum")
        query = f"SELECT {', '.join(columns)} FROM {table} WHERE {where} ORDER BY rowid"
        with self._faults():
            stored = [dict(zip(columns, row, strict=True)) for row in self.connection.execute(query, values)]
        rows = {row[SEALED[table][0]]: row for row in stored}
        sound = []
        for row in rows.values():
            if row["checksum"] == seal(table, row):
                sound.append(row)
            else:
                self._drop(table, row)
        return sound

    def _drop(self, table: str, row: dict[str, Any]) -> None:
        """Remove a damaged row with a notice, unless another process has replaced it meanwhile."""
        notice(f"{self.path}: row {row['rowid']} of {table!r} does not match its checksum, and counts as missing.")
        delete = f"DELETE FROM {table} WHERE rowid = ? AND checksum IS ?"
        with suppress(sqlite3.Error), self.connection:  # the store may be read-only
            self.connection.execute(delete, (row["rowid"], row["checksum"]))

    def _read(self, table: str, parse: Any, where: str = "TRUE", *values: Any) -> dict[str, Any]:
        """What `parse` makes of rows, or of their documents, by key. One that it cannot read counts as missing."""
        parsed = {}
        for row in self._rows(table, where, *values):
            try:
                parsed[row[SEALED[table][0]]] = parse(parse_json(row["document"]) if "document" in row else row)
            except UNREADABLE as error:  # it is as it was written: another version may read it
                notice(f"{self.path}: row {row['rowid']} of {table!r} counts as missing: {reason(error)}.")
        return parsed

    def add_data(self, dataset: Dataset) -> None:
        try:
            self._write("data", dataset_row(StoredDataset.of(dataset)), last=True)
        except MachineFault:  # a store that can only be read may know it already
            if all(stored.fingerprint != dataset.fingerprint for stored in self.data()):
                raise

    def data(self) -> list[StoredDataset]:
        """Every data set, the one written last at the end."""
        return list(self._read("data", parse_dataset).values())

    def by_key(self, table: str, data: str) -> dict[str, Any]:
        """The values of a table on the data set of that fingerprint, by key, in the order they were first stored."""
        parse = {"results": parse_result, "measurements": parse_measurement, "estimates": self._estimate}
        return self._read(table, parse[table], OF_DATA, data)

    def add(self, key: str, data: str, result: Result) -> None:
        self._write("results", result_row(key, data, result))

    def get(self, key: str) -> Result | None:
        return self._read("results", parse_result, "key = ?", key).get(key)

    def results(self, data: str) -> list[Result]:
        """Every result of the data set of that fingerprint, in the order they were first stored."""
        return list(self.by_key("results", data).values())

    @property
    def finished(self) -> int:
        """How many results there are, of the data sets that `data` lists and of others that judged a choice."""
        return int(self._cell(f"SELECT count(*) FROM results WHERE engine = {ENGINE}"))

    def add_network(self, key: str, result: Result, state: "State") -> None:
        """A trained lane with its weights: what teaches, or is averaged, later."""
        from safetensors.torch import save

        self._write("networks", {"key": key, "result": json.dumps(asdict(result)), "state": save(state)})

    def add_measurement(self, key: str, data: str, measurement: Measurement) -> None:
        """The class vectors of an estimate, whose probabilities need not be stored."""
        self._write("measurements", document_row(key, data, measurement))

    def measurements(self, data: str) -> list[Measurement]:
        """Every measurement of the data set of that fingerprint, in the order they were first stored."""
        return list(self.by_key("measurements", data).values())

    def has(self, table: str, key: str) -> bool:
        return self._cell(f"SELECT 1 FROM {table} WHERE key = ?", key) is not None

    def keys(self, table: str) -> set[str]:
        """The keys of all rows that match their checksums."""
        return {str(row[SEALED[table][0]]) for row in self._rows(table)}

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Commit the rows that are added inside together at the end, also after an error: every row is whole.

        A commit waits for the disk, however little it holds.
        """
        self.is_batch = True
        try:
            yield
        finally:
            self.is_batch = False
            with self._faults():
                self.connection.commit()

    def add_rows(self, rows: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Rows with their tables, all of them or none."""
        self.create_file()
        with self._faults(), self.connection:
            for table, row in rows:
                self._insert(table, row, last=False)

    def check_engine(self, only: Collection[str] | None = None) -> None:
        """Refuse results of another training engine than this one; `only` of the data of these fingerprints."""
        for data, engine in self.of_other_engines(only):
            name = next((stored.name for stored in self.data() if stored.fingerprint == data), data)
            engines = f"training engine {engine} on {name!r}, and this version has {ENGINE}"
            export = f"; 'cu results export FILE.jsonl --store {self.path}' writes those of {ENGINE} for it"
            advice = f"move it, or choose another store{export if self.finished else ''}"
            raise InputError(f"store {self.path} has results of {engines}: {advice}.")

    def of_other_engines(self, only: Collection[str] | None = None) -> list[tuple[str, int]]:
        """The fingerprint and the engine of each result of another training engine than this one."""
        with self._faults():
            others = self.connection.execute(f"SELECT data, engine FROM results WHERE engine != {ENGINE}").fetchall()
        return [(data, engine) for data, engine in others if only is None or data in only]

    @property
    def networks(self) -> int:
        """How many are kept with their weights."""
        return int(self._cell("SELECT count(*) FROM networks"))

    def get_network(self, key: str) -> "tuple[Result, State] | None":
        return self._read("networks", parse_network, "key = ?", key).get(key)

    def diverged_network(self, key: str) -> Result | None:
        """The result of a network, if it is stored and diverged; its weights are read only then."""
        result = self._cell("SELECT result FROM networks WHERE key = ?", key)
        if result is None or '"diverged": null' in str(result):
            return None
        network = self.get_network(key)
        return network[0] if network and network[0].diverged is not None else None

    def add_fix_report(self, key: str, data: str, fix_report: FixReport) -> None:
        self._write(FIXES, document_row(key, data, fix_report), last=True)

    def fix_reports(self, data: str) -> list[FixReport]:
        """Reports of `cu fix` on the data set of that fingerprint, the last one at the end."""
        return list(self._read(FIXES, parse_fix_report, OF_DATA, data).values())

    def add_estimate(self, key: str, data: str, estimate: Estimate) -> None:
        """Probabilities first: a row without its file would be no estimate."""
        for left in abandoned(self.estimates_folder, "*.partial"):
            left.unlink(missing_ok=True)
        file = self._file(key)
        crcs = BlockCrcs()
        write_together({file: crcs.of(npy(estimate.probabilities))})
        self.sound.add(key)
        buffer = io.BytesIO()
        scores = {f"own.{name}": values for name, values in estimate.extra_scores.items()}
        np.savez_compressed(buffer, labels=estimate.labels, **scores)  # type: ignore[arg-type]
        document = {
            "results": [asdict(result) for result in estimate.results],
            "score": estimate.score,
            "cost": estimate.cost,
            "probabilities": checksum(key, crcs.crcs),
        }
        row = {
            "key": key,
            "engine": ENGINE,
            "data": data,
            "estimator": estimate.estimator,
            "members": len(estimate.probabilities),
            "labels_and_probabilities": buffer.getvalue(),
            "results": json.dumps(document),
        }
        self._write("estimates", row, last=True)

    def get_estimate(self, key: str) -> Estimate | None:
        return self._read("estimates", self._estimate, "key = ?", key).get(key)

    def estimates(self, data: str) -> list[Estimate]:
        """Every estimate of the data set of that fingerprint, the one stored last at the end."""
        return list(self.by_key("estimates", data).values())

    def _estimate(self, row: dict[str, Any]) -> Estimate:
        document = parse_json(row["results"])
        results = tuple(map(parse_result, document["results"]))
        parts = arrays_in(row["labels_and_probabilities"])
        p = self._probabilities(row["key"], document["probabilities"])
        extra = {name.removeprefix("own."): values for name, values in parts.items() if name.startswith("own.")}
        return Estimate(row["estimator"], p, parts["labels"], results, document["score"], extra, document["cost"])

    @property
    def estimates_folder(self) -> Path:
        return self.path.with_name(self.path.name + ".estimates")

    def _file(self, key: str) -> Path:
        return self.estimates_folder / f"{key}.npy"

    def _probabilities(self, key: str, wanted: str) -> NDArray[np.float32]:
        """Mapped into memory, once all of its blocks have been found as they were written."""
        file = self._file(key)
        if not file.is_file():
            raise ValueError(f"{file} is not there")
        try:
            if key not in self.sound and checksum(key, file_crcs(file)) != wanted:
                raise ValueError(f"{file} does not match its checksum")
            self.sound.add(key)
            return np.load(file, mmap_mode="r")
        except OSError as error:
            raise MachineFault(f"{file} could not be read: {error.strerror}.") from error


def dataset_row(stored: StoredDataset) -> dict[str, Any]:
    return {name: json.dumps(value) if isinstance(value, tuple) else value for name, value in asdict(stored).items()}


def document_row(key: str, data: str, value: "DataclassInstance") -> dict[str, Any]:
    """A row whose document holds a value; `data` is the fingerprint of its data set."""
    return {"key": key, "engine": ENGINE, "data": data, "document": json.dumps(asdict(value))}


def result_row(key: str, data: str, result: Result) -> dict[str, Any]:
    columns = {"method": result.method, "lr": result.lr, "seed": result.seed, "error": result.error}
    return document_row(key, data, result) | columns


def npy(p: NDArray[np.float32]) -> Iterator[Bytes]:
    """(T, N, C) as a .npy file, in pieces."""
    header, size = io.BytesIO(), max(1, WRITTEN // (4 * p.shape[2]))
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": p.shape})
    yield header.getvalue()
    for member in p:
        for start in range(0, len(member), size):
            yield np.ascontiguousarray(member[start : start + size], dtype="<f4").data


def parse_dataset(row: dict[str, Any]) -> StoredDataset:
    lists = {name: parse_json(row[name]) for name in ("classes", "counts")}
    return from_document(StoredDataset, {"fingerprint": row["fingerprint"], "name": row["name"], **lists})


def parse_network(row: dict[str, Any]) -> "tuple[Result, State]":
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return from_document(Result, parse_json(row["result"])), load(row["state"])
    except SafetensorError as error:
        raise ValueError(error) from error


def parse_fix_report(document: dict[str, Any]) -> FixReport:
    return from_document(FixReport, document)


def parse_measurement(document: dict[str, Any]) -> Measurement:
    vectors = {score: tuple(values) for score, values in document["raw"].items()}
    return from_document(Measurement, document | {"raw": vectors})


def parse_result(document: dict[str, Any]) -> Result:
    return from_document(Result, document)


def seal(table: str, row: dict[str, Any]) -> str:
    """The checksum of a row."""
    values = (row[name] for name in SEALED[table])
    return checksum(table, *(value if isinstance(value, bytes) else str(value) for value in values))
