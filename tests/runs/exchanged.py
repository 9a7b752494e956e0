"""Exports of stores, and stores made of them."""

from dataclasses import replace
from pathlib import Path

from example_results import DATA

from class_uncertainty.runs import Store
from class_uncertainty.runs.result_lines import export_lines, import_lines, read_lines

VALIDATION = replace(DATA, fingerprint="5" * 32, name="digits-lt:20?validation=0.2")
OTHER = replace(DATA, fingerprint="0" * 32, name="cifar10-lt:100")


def exported(store: Store, *names: str) -> str:
    return "".join(export_lines(store, names))


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def imported(store: Store, path: Path) -> int:
    return import_lines(store, read_lines(path), str(path)).added
