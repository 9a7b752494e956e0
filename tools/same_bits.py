"""Compare every number that two versions of the package give: python tools/same_bits.py OLD_SRC NEW_SRC.

Each argument is a `src` folder. The commands run in a temporary folder with an empty store. Words may differ, and keys
may be renamed (RENAMED); a number that differs in its last bit is printed, and the exit code is 1.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OUT_OF_FOLD = "--estimator out-of-fold"
SHORT = "--epochs 10 --members 3 --json"
METHODS = "naive,ubrs,ldam-rw,2s-ubrw,cb+mixup,2s-cam-rs,adjusted,ensemble,ensemble-adjusted,distil,cb*2"
TABLE_METHODS = "naive,ubrs,ldam-rw,adjusted,ensemble-adjusted,distil"
ESTIMATORS = "ensemble,online,out-of-fold,snapshot,mc-dropout,duq,bootstrap,single"
COMMANDS = {
    "demo": "demo --json",
    "measure digits": f"measure digits-lt:20 {SHORT}",
    "estimators on digits": f"measure digits-lt:20 --estimators {ESTIMATORS} {SHORT}",
    "compare digits": f"compare digits-lt:20 --methods {METHODS} --seeds 2 {OUT_OF_FOLD} --equal-cost {SHORT}",
    "fix digits": f"fix digits-lt:20 --seeds 2 {SHORT}",
    "train digits": f"train digits-lt:20 --method ubrw --save model {SHORT}",
    "measure a table": f"measure csv:wine.csv?test=0.3 {SHORT}",
    "compare a table": f"compare csv:wine.csv?test=0.3 --methods {TABLE_METHODS} --seeds 2 {SHORT}",
    "fix a table": f"fix csv:wine.csv?test=0.3 --seeds 2 {SHORT}",
    "measure by folds": f"measure csv:wine.csv {SHORT}",
    "compare by folds": f"compare csv:wine.csv --methods {TABLE_METHODS} --seeds 2 --estimator out-of-fold {SHORT}",
    "fix by folds": f"fix csv:wine.csv --seeds 2 {SHORT}",
    "train by folds": f"train csv:wine.csv --method ubrw {SHORT}",
}
RENAMED = {"suspects": "label_issues", "top1": "top1_error"}
IGNORED = {"seconds", "checksum", "prior_error"}  # the first two are timed, the last one is new


def main(old: str, new: str) -> int:
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        trees = {name: (Path(src).resolve(), Path(folder) / name) for name, src in (("old", old), ("new", new))}
        for _, place in trees.values():
            place.mkdir()
            write_table(place / "wine.csv")
        for name, command in COMMANDS.items():
            before, after = (dict(numbers(run(src, command.split(), place))) for src, place in trees.values())
            paths = before.keys() | after.keys()
            wrong = sorted(path for path in paths if before.get(path, "missing") != after.get(path, "missing"))
            differing += len(wrong) or not paths
            print(f"{name}: {len(before):,} numbers, {len(wrong)} differ", flush=True)
            for path in wrong[:10]:
                print(f"  {path}: {before.get(path, 'missing')} became {after.get(path, 'missing')}")
    return 1 if differing else 0


def run(src: Path, words: list[str], place: Path) -> Any:
    """What one command prints as JSON."""
    module = "class_uncertainty.cli.app" if (src / "class_uncertainty/cli").is_dir() else "class_uncertainty.cli"
    environment = os.environ | {"PYTHONPATH": str(src), "CLASS_UNCERTAINTY_CACHE": str(place / "cache")}
    command = [sys.executable, "-m", module, *words]
    ended = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{' '.join(words)} with {src} ended with {ended.returncode}: {ended.stderr}")
    return json.loads(ended.stdout)


def numbers(document: Any, path: str = "") -> Iterator[tuple[str, float | None]]:
    """Every number with its place in the document."""
    if isinstance(document, dict):
        if "class_mean_error" in document:  # the old words: top-1 was called error
            document = {
                name: value for name, value in document.items() if name not in ("class_mean_error", "error")
            } | {"error": document["class_mean_error"], "top1_error": document["error"]}
        for name, value in document.items():
            if name not in IGNORED:
                yield from numbers(value, f"{path}/{RENAMED.get(name, name)}")
    elif isinstance(document, list):
        for place, value in enumerate(document):
            yield from numbers(value, f"{path}/{place}")
    elif not isinstance(document, str):
        yield path, document


def write_table(file: Path) -> None:
    """scikit-learn's wine, unbalanced: 59, 71 and 12 rows, one column of text."""
    from sklearn.datasets import load_wine

    wine = load_wine()
    rows = [i for i in range(len(wine.target)) if wine.target[i] < 2 or i % 4 == 0]
    lines = [",".join([*map(str, wine.data[i]), "red" if i % 3 else "white", f"kind {wine.target[i]}"]) for i in rows]
    file.write_text("\n".join([",".join([*map(str, range(13)), "colour", "label"]), *lines]) + "\n")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
