"""Compare every number that two versions of the package compute: python tools/same_bits.py OLD NEW [WORD...]

OLD is a `src` folder or a file of frozen numbers. NEW is a `src` folder, or a `.json` file in which to freeze the
numbers of OLD. WORDs choose the commands whose names contain one of them. The commands run in order, in a temporary
folder for each version, and each data set has a store that is empty at first. The tool compares each number of the JSON
documents, and the keys of everything that each command stored: a needless training is one key more. Words may differ,
and fields may be renamed (RENAMED). Differences are printed, and the exit code is 1.
"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

RESULTS = Path(__file__).parents[1] / "results" / "architectures.jsonl"
SHORT = "--epochs 10 --members 3"
SHORT_FIX = "--epochs 10 --trainings 12 --seeds 2"
ROWS = "naive,ubrs,ldam-rw,2s-ubrw,cb+mixup,2s-cam-rs,adjusted,ensemble,ensemble-adjusted,distil,cb*2"
TABLE_ROWS = "naive,ubrs,ldam-rw,adjusted,ensemble-adjusted,distil"
CHOSEN = "--methods naive,ubrw,cb-rs --lrs 0.05,0.1 --choose-lr --seeds 2"
ESTIMATORS = "ensemble,online,out-of-fold,snapshot,mc-dropout,duq,bootstrap,single"
TREES = "--recipe forest --candidates naive,balanced-softmax"
COMMANDS = {
    "demo": "demo",
    "measure digits": f"measure digits-lt:20 {SHORT} --store digits.sqlite",
    "estimators on digits": f"measure digits-lt:20 --estimators {ESTIMATORS} {SHORT} --store digits.sqlite",
    "compare digits": f"compare digits-lt:20 --methods {ROWS} --seeds 2 --equal-cost {SHORT} --store digits.sqlite",
    "choose rates on digits": f"compare digits-lt:20 {CHOSEN} {SHORT} --store chosen.sqlite",
    "fix digits": f"fix digits-lt:20 {SHORT_FIX} --save fixed --store fixed.sqlite",
    "train digits": "train digits-lt:20 --method ubrw --epochs 10 --save trained --store trained.sqlite",
    "predict digits": "predict trained digits.npy --prior equal --out digits.csv",
    "audit": "audit predictions.npz --counts 120,60,30,20,15,12,10,8,7,6",
    "adjust": "adjust predictions.npz --counts 120,60,30,20,15,12,10,8,7,6 --out adjusted.npz",
    "measure a table": f"measure csv:wine.csv?test=0.3 {SHORT} --store wine.sqlite",
    "compare a table": f"compare csv:wine.csv?test=0.3 --methods {TABLE_ROWS} --seeds 2 {SHORT} --store wine.sqlite",
    "fix a table": f"fix csv:wine.csv?test=0.3 {SHORT_FIX} --recipe features --store wine-fix.sqlite",
    "fix a table by trees": f"fix csv:cancer.csv?test=0.3 --trainings 8 {TREES} --save trees --store cancer.sqlite",
    "predict a table": "predict trees cancer.csv --out cancer-predictions.csv",
    "fix by cost": "fix csv:cancer.csv?test=0.3 --trainings 8 --recipe logistic --goal overall --store cost.sqlite",
    "measure by folds": f"measure csv:iris.csv {SHORT} --store iris.sqlite",
    "compare by folds": f"compare csv:iris.csv --methods {TABLE_ROWS} --seeds 2 {SHORT} --store iris.sqlite",
    "fix by folds": "fix csv:iris.csv --trainings 12 --store iris-fix.sqlite",
    "train by folds": "train csv:iris.csv --method ubrw --epochs 10 --store iris-train.sqlite",
    "measure photographs": "measure folder:photos --backbone efficientnet-lite0 --members 3 --store photos.sqlite",
    "fix photographs": "fix folder:photos --backbone efficientnet-lite0 --trainings 8 --store photos-fix.sqlite",
    "import": f"results import {RESULTS} --store stored.sqlite",
    "reproduce what is stored": "reproduce table1 --stored --store stored.sqlite",
}
RENAMED: dict[str, str] = {}  # fields, from the old name to the new one
IGNORED = {"seconds", "checksum", "parameters", "difference"}  # timed, hashed, or younger than the old version


Outcome = dict[str, float | None]


def main(old: str, new: str, *words: str) -> int:
    chosen = {name: command for name, command in COMMANDS.items() if not words or any(word in name for word in words)}
    if new.endswith(".json"):
        Path(new).write_text(json.dumps(dict(outcomes(old, chosen))))
        return 0
    differing = 0
    for (name, before), (_, after) in zip(outcomes(old, chosen), outcomes(new, chosen), strict=True):
        wrong = sorted(path for path in before.keys() | after.keys() if differs(before, after, path))
        differing += len(wrong) or not before
        keys = sum(path.startswith("key ") for path in before)
        print(f"{name}: {len(before) - keys:,} numbers, {keys:,} keys, {len(wrong)} differ", flush=True)
        for path in wrong[:10]:
            print(f"  {path}: {before.get(path, 'missing')} became {after.get(path, 'missing')}")
    return 1 if differing else 0


def outcomes(version: str, commands: dict[str, str]) -> Iterator[tuple[str, Outcome]]:
    """Every command's outcome by a `src` folder, or as it was frozen."""
    if version.endswith(".json"):
        frozen = json.loads(Path(version).read_text())
        yield from ((name, frozen[name]) for name in commands)
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_data(place)
        for name, command in commands.items():
            yield name, outcome(Path(version).resolve(), command.split(), place)


def differs(before: Outcome, after: Outcome, path: str) -> bool:
    return before.get(path, "missing") != after.get(path, "missing")


def outcome(src: Path, words: list[str], place: Path) -> Outcome:
    """The numbers that a command prints, and the keys in the stores beside it once it has ended."""
    printed = dict(numbers(run(src, words, place)))
    return printed | {f"key {store.name} {key}": None for store in place.rglob("*.sqlite") for key in keys(store)}


def run(src: Path, words: list[str], place: Path) -> Any:
    """What one command prints as JSON."""
    environment = os.environ | {"PYTHONPATH": str(src), "CLASS_UNCERTAINTY_CACHE": str(place / "cache")}
    command = [sys.executable, "-m", "class_uncertainty", *words, "--json"]
    ended = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{' '.join(words)} with {src} ended with {ended.returncode}: {ended.stderr}")
    return json.loads(ended.stdout)


def keys(store: Path) -> Iterator[str]:
    """The table and the key of every row."""
    connection = sqlite3.connect(store)
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        column = "key" if "key" in columns else "fingerprint"
        yield from (f"{table} {key}" for (key,) in connection.execute(f"SELECT {column} FROM {table}"))
    connection.close()


def numbers(document: Any, path: str = "") -> Iterator[tuple[str, float | None]]:
    """Every number with its place in the document."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name not in IGNORED:
                yield from numbers(value, f"{path}/{RENAMED.get(name, name)}")
    elif isinstance(document, list):
        for place, value in enumerate(document):
            yield from numbers(value, f"{path}/{place}")
    elif not isinstance(document, str):
        yield path, document


def write_data(place: Path) -> None:
    """Three unbalanced tables, a folder of photographs, predictions of ten classes, and digits without labels."""
    wine = load_wine()
    kept = (wine.target < 2) | (np.arange(len(wine.target)) % 4 == 0)
    colours = np.where(np.arange(len(wine.target)) % 3, "red", "white")
    write_table(place / "wine.csv", np.column_stack([wine.data, colours])[kept], wine.target[kept])
    cancer = load_breast_cancer()
    kept = (cancer.target == 1) | (np.arange(len(cancer.target)) % 5 == 0)
    write_table(place / "cancer.csv", cancer.data[kept][:, :8], cancer.target[kept])
    iris = load_iris()
    kept = (iris.target == 0) | (np.arange(len(iris.target)) % 3 == 0)
    write_table(place / "iris.csv", iris.data[kept], iris.target[kept])
    random = np.random.default_rng(0)
    for label, count in (("coarse", 24), ("fine", 12), ("plain", 8)):
        (place / "photos" / label).mkdir(parents=True)
        cells = {"coarse": 4, "fine": 25, "plain": 1}[label]
        for i in range(count):
            pattern = random.integers(0, 256, (cells, cells, 3)).repeat(100 // cells, 0).repeat(100 // cells, 1)
            noisy = np.clip(pattern + random.normal(0, 20, (100, 100, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(place / "photos" / label / f"{i}.png")
    digits = load_digits()
    labels = digits.target[:600]
    logits = 2.0 * np.eye(10)[labels] + random.normal(size=(600, 10))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.savez(place / "predictions.npz", probabilities=p, labels=labels)
    np.save(place / "digits.npy", (digits.images[:40, None] * 15).astype(np.uint8))


def write_table(file: Path, columns: np.ndarray, labels: np.ndarray) -> None:
    """The columns, and the label as text behind them."""
    header = ",".join([*(f"c{i}" for i in range(columns.shape[1])), "label"])
    lines = [",".join([*map(str, row), f"kind {label}"]) for row, label in zip(columns, labels, strict=True)]
    file.write_text("\n".join([header, *lines]) + "\n")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
