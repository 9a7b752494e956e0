"""Results in one SQLite file. A result is written in one transaction when its lane ends: a kill loses running lanes.

Every row has a checksum over its key and content. A row that does not match it is dropped with a notice and counts as
missing. Probabilities, which may be larger than SQLite's largest value, are files in a folder beside the store.
"""

import dataclasses
import io
import json
import sqlite3
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Dataset
from class_uncertainty.data.readers.npz import arrays_in
from class_uncertainty.errors import InputError, MachineFault, notice
from class_uncertainty.estimation import Estimate
from class_uncertainty.files import abandoned, check_folder, checksum, file_crcs, parse_json, write_together
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.sqlite_faults import connect, sqlite_faults
from class_uncertainty.runs.store_layout import FIRST, FIXES, SEALED, UNREADABLE, VERSION, upgrades
from class_uncertainty.runs.stored_rows import (
    StoredDataset,
    dataset_row,
    document_row,
    npy,
    parse_dataset,
    parse_fix_report,
    parse_measurement,
    parse_network,
    parse_result,
    result_row,
    seal,
)
from class_uncertainty.text import reason
from class_uncertainty.training import Result
from class_uncertainty.training.keys import ENGINE

if TYPE_CHECKING:
    from class_uncertainty.training.networks.stack import State

OF_DATA = f"engine = {ENGINE} AND data = ?"  # rows of this engine on the data set of a fingerprint


class Store:
    """`with Store(path) as store`: results and estimates by key. `create` opens it to add to it, a new one too."""

    def __init__(self, path: str | Path = "runs.sqlite", create: bool = True) -> None:
        self.path = Path(path)
        self.unverified = set[tuple[str, str]]()  # rows that were read without a checksum: an older version wrote them
        self.layout = VERSION  # an older one where the file cannot be written to
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
                self._open()
            if create:
                self.check_engine()
        except BaseException:
            self.connection.close()
            raise

    def begin(self) -> None:
        """Create the file where there is none, with the names of the data: results follow."""
        if self.is_in_memory:
            data = self.data()
            self.connection.close()
            self.is_in_memory = False
            self._connect(create=True)
            self.add_rows(("data", dataset_row(stored)) for stored in data)

    def _open(self) -> None:
        try:
            self._prepare()
        except sqlite3.OperationalError as error:
            if "readonly" not in str(error):
                raise
            self.layout = self._version()
            if self.layout < FIRST["checksums"] - 1:
                raise

    def _prepare(self) -> None:
        """Lay out a new file; refuse one that is not ours."""
        # two processes may lay out one file at once
        self.connection.execute("BEGIN IMMEDIATE" if self._version() < VERSION else "BEGIN")
        version = self._version()
        (tables,) = self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if version > VERSION:
            layouts = f"layout {version}; this one reads {VERSION}"
            raise InputError(f"store {self.path} was written by a newer version ({layouts}).")
        if version == 0 and tables:
            raise InputError(f"{self.path} is another program's SQLite file: choose another store.")
        if version < VERSION:
            for statement in upgrades(version):
                self.connection.execute(statement)
            self.connection.execute(f"PRAGMA user_version = {VERSION}")
        self.connection.execute("COMMIT")

    def _version(self) -> int:
        return int(self.connection.execute("PRAGMA user_version").fetchone()[0])

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        if self.unverified:
            number = len(self.unverified)
            rows = "a row that was read has" if number == 1 else f"{number:,} rows that were read have"
            notice(f"{self.path}: {rows} no checksum, since an older version wrote them.")

    def _faults(self) -> AbstractContextManager[None]:
        return sqlite_faults(self.path, self.connection)

    def _write(self, table: str, row: dict[str, Any], last: bool = False) -> None:
        """One row with its checksum, in the place of any of its key, which may be damaged; or as the last of all."""
        if table != "data":
            self.begin()
        with self._faults(), nullcontext() if self.is_batch else self.connection:
            self._insert(table, row, last)

    def _insert(self, table: str, row: dict[str, Any], last: bool) -> None:
        row = row | {"checksum": seal(table, row)}
        insert = f"INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
        assignments = ", ".join(f"{name} = excluded.{name}" for name in row)
        update = f" ON CONFLICT ({SEALED[table][0]}) DO UPDATE SET {assignments}"
        statement = f"INSERT OR REPLACE {insert}" if last else f"INSERT {insert}{update}"
        self.connection.execute(statement, list(row.values()))

    def _cell(self, query: str, *values: Any) -> Any:
        """The first value of the first row; None where there is no row."""
        with self._faults():
            row = self.connection.execute(query, values).fetchone()
        return None if row is None else row[0]

    def _rows(self, table: str, where: str = "TRUE", *values: Any) -> list[dict[str, Any]]:
        """The rows that match their checksums, each key once; others are dropped."""
        if self.layout < FIRST.get(table, 0):
            return []
        names = ("rowid", *SEALED[table], "checksum" if self.layout >= FIRST["checksums"] else "NULL")
        query = f"SELECT {', '.join(names)} FROM {table} WHERE {where} ORDER BY rowid"
        with self._faults():
            cursor = self.connection.execute(query, values)
            rows = {row[1]: dict(zip(("rowid", *SEALED[table], "checksum"), row, strict=True)) for row in cursor}
        sound = []
        for key, row in rows.items():
            if row["checksum"] is None:
                self.unverified.add((table, str(key)))
            elif row["checksum"] != seal(table, row):
                self._drop(table, row, "does not match its checksum")
                continue
            sound.append(row)
        return sound

    def _drop(self, table: str, row: dict[str, Any], why: str) -> None:
        """Remove a damaged row with a notice, unless another process has replaced it meanwhile."""
        notice(f"{self.path}: row {row['rowid']} of {table!r} {why}, and counts as missing.")
        delete = f"DELETE FROM {table} WHERE rowid = ? AND checksum IS ?"
        with suppress(sqlite3.Error), self.connection:  # the store may be read-only
            self.connection.execute(delete, (row["rowid"], row["checksum"]))

    def _read(self, table: str, parse: Any, where: str = "TRUE", *values: Any) -> dict[str, Any]:
        """What `parse` makes of rows, or of their documents, by key. One that it cannot read counts as missing."""
        parsed = {}
        for row in self._rows(table, where, *values):
            try:
                parsed[row[SEALED[table][0]]] = parse(parse_json(row["document"]) if "document" in row else row)
            except UNREADABLE as error:
                if row["checksum"] is not None:  # it is as it was written: another version may read it
                    notice(f"{self.path}: row {row['rowid']} of {table!r} counts as missing: {reason(error)}.")
                    continue
                self._drop(table, row, f"cannot be read ({reason(error)})")
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
        return list(self._read("results", parse_result, OF_DATA, data).values())

    @property
    def finished(self) -> int:
        """How many results there are, of the data sets that `data` lists and of others that judged a choice."""
        return int(self._cell(f"SELECT count(*) FROM results WHERE engine = {ENGINE}"))

    def add_network(self, key: str, result: Result, state: "State") -> None:
        """A trained lane with its weights: what teaches, or is averaged, later."""
        from safetensors.torch import save

        self._write("networks", {"key": key, "result": json.dumps(dataclasses.asdict(result)), "state": save(state)})

    def add_measurement(self, key: str, data: str, measurement: Measurement) -> None:
        """The class vectors of an estimate, whose probabilities need not be stored."""
        self._write("measurements", document_row(key, data, measurement))

    def measurements(self, data: str) -> list[Measurement]:
        """Every measurement of the data set of that fingerprint, in the order they were first stored."""
        return list(self._read("measurements", parse_measurement, OF_DATA, data).values())

    def has(self, table: str, key: str) -> bool:
        return self._cell(f"SELECT 1 FROM {table} WHERE key = ?", key) is not None

    def keys(self, table: str) -> set[str]:
        """The keys of all rows that match their checksums."""
        return {str(row[SEALED[table][0]]) for row in self._rows(table)}

    def add_rows(self, rows: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Rows with their tables, all of them or none."""
        self.begin()
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
        """Reports of `cu fix` on the data set of that fingerprint, the last one at the end; without older versions'."""
        stored = self._read(FIXES, parse_fix_report, OF_DATA, data).values()
        reports = [report for report in stored if report is not None]
        if stored and not reports:
            notice(f"{self.path}: what an older version of 'cu fix' found is not shown; run 'cu fix' again to see it.")
        return reports

    def add_estimate(self, key: str, data: str, estimate: Estimate) -> None:
        """Probabilities first: a row without its file would be no estimate."""
        for left in abandoned(self.estimates_folder, "*.partial"):
            left.unlink(missing_ok=True)
        file = self._file(key)
        crcs = write_together({file: npy(estimate.probabilities)})[file]
        self.sound.add(key)
        buffer = io.BytesIO()
        scores = {f"own.{name}": values for name, values in estimate.extra_scores.items()}
        np.savez_compressed(buffer, labels=estimate.labels, **scores)  # type: ignore[arg-type]
        document: dict[str, Any] = {
            "results": [dataclasses.asdict(result) for result in estimate.results],
            "score": estimate.score,
        }
        document |= {"cost": estimate.cost, "probabilities": checksum(key, crcs)}
        row = {"key": key, "engine": ENGINE, "data": data, "estimator": estimate.estimator}
        row |= {"members": len(estimate.probabilities), "labels_and_probabilities": buffer.getvalue()}
        self._write("estimates", row | {"results": json.dumps(document)}, last=True)

    def get_estimate(self, key: str) -> Estimate | None:
        return self._read("estimates", self._estimate, "key = ?", key).get(key)

    def estimates(self, data: str) -> list[Estimate]:
        """Every estimate of the data set of that fingerprint, the one stored last at the end."""
        return list(self._read("estimates", self._estimate, OF_DATA, data).values())

    def _estimate(self, row: dict[str, Any]) -> Estimate:
        document = parse_json(row["results"])
        results = tuple(map(parse_result, document["results"]))
        parts = arrays_in(row["labels_and_probabilities"])
        p = parts.get("probabilities")  # of layouts before 3
        if p is None:
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
