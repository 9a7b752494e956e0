"""The user's own data: folders of images, Parquet, .npz and CSV files."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from class_uncertainty.data.cache import Decoding, cached_readable
from class_uncertainty.data.dataset import LeftOut, align
from class_uncertainty.data.examples import Data
from class_uncertainty.data.frame_sources import table_options
from class_uncertainty.data.readers import folder, npz, parquet
from class_uncertainty.data.readers.csv_file import read_csv
from class_uncertainty.data.spec import DataSpec, Splits
from class_uncertainty.data.splits import common_classes, distinct_examples, split_off, without_classes
from class_uncertainty.data.table import advised
from class_uncertainty.data.table_splits import TableOptions, encode_splits
from class_uncertainty.errors import InputError
from class_uncertainty.text import in_list

Size = tuple[int, int]
F = TypeVar("F")  # the files of a split
SKIP = "?skip=unreadable"
TABLE_OPTIONS = ("label", "group", "categorical", "drop", "missing", "repeats", "min")


def from_folder(spec: DataSpec) -> Splits:
    """Images in one subfolder per class."""
    split_file = spec.file(spec.options["split"]) if "split" in spec.options else None
    splits = folder.find(spec.path, split_file, empty="min" in spec.options)

    def read(labelled: folder.LabelledFiles, size: Size | None) -> Data:
        present, broken = folder.without_broken(labelled, "skip" in spec.options, SKIP)
        files, labels = [file for file, _ in present], [label for _, label in present]
        data, skipped = _decoded(spec, files, partial(folder.decoding, present), size, labels=labels)
        names = np.array([str(file.relative_to(spec.path)) for file in files], dtype=object)
        gone = [*(str(file.relative_to(spec.path)) for file in broken), *names[sorted(skipped)]]
        if gone:
            spec.left_out.append(LeftOut(SKIP, "images", len(gone), len(labelled), tuple(map(in_list, gone))))
        readable = [one for i, one in enumerate(present) if i not in skipped]  # others need no group
        pattern = spec.options.get("group")
        groups = np.array(folder.groups(spec.path, readable, pattern), dtype=object) if pattern else None
        return replace(data, names=np.delete(names, list(skipped)), groups=groups)

    return _image_splits(spec, read, splits["train"], _judging(spec, splits))


def from_parquet(spec: DataSpec) -> Splits:
    """Images or a table in Parquet files."""
    splits = parquet.find(spec.path)
    test = _judging(spec, splits)
    if (test_file := _test_file(spec)) is not None:
        _refuse_second_test(spec, test is not None)
        test = [file for files in parquet.find(spec.file(test_file)).values() for file in files]
    if not (train := splits.get("train")):
        raise InputError(f"{spec.argument} has no training file: name them train-*.parquet, or give one file.")
    image = parquet.image_column([*train, *(test or [])], spec.options.get("image"))
    if image is None:
        _refuse_options(spec, "a table", ("size", "channels", "skip"))
        into = (_table_options(spec, test is not None), spec.left_out, spec.noticed)
        return encode_splits(parquet.table(train), parquet.table(test) if test else None, *into)
    _refuse_options(spec, "images", ("categorical", "drop", "missing"))

    def read(files: list[Path], size: Size | None) -> Data:
        options: dict[str, Any] = {"label": spec.options.get("label"), "image": image}
        data, skipped = _decoded(spec, files, partial(parquet.decoding, files, **options), size, **options)
        names = np.array([f"row {i}" for i in range(len(data) + len(skipped))], dtype=object)
        if skipped:
            spec.left_out.append(LeftOut(SKIP, "images", len(skipped), len(names), tuple(names[sorted(skipped)])))
        column = spec.options.get("group")
        groups = np.delete(parquet.groups(files, column), list(skipped)) if column else None
        return replace(data, names=np.delete(names, list(skipped)), groups=groups)

    return _image_splits(spec, read, train, test)


def from_npz(spec: DataSpec) -> Splits:
    """Arrays in one .npz file."""
    return _with_test(spec, *npz.read_splits(spec.path, spec.options.get("group")))


def from_csv(spec: DataSpec) -> Splits:
    """A table in a CSV file, and perhaps a test table in another."""
    has_header = spec.options.get("header") != "no"
    test_file = _test_file(spec)
    test = None if test_file is None else read_csv(spec.file(test_file), has_header)
    return encode_splits(read_csv(spec.path, has_header), test, _table_options(spec), spec.left_out, spec.noticed)


def _decoded(
    spec: DataSpec, files: list[Path], build: Callable[..., Decoding], size: Size | None, **about: Any
) -> tuple[Data, dict[int, str]]:
    """Images from the cache, and those that were skipped, by their places among all."""
    options: dict[str, Any] = {"size": size, "channels": int(spec.options.get("channels", 3))}
    unreadable: dict[str, Any] = {"advice": SKIP}
    key = about | options
    if "skip" in spec.options:
        unreadable = {"skipped": {}}
        key["skip"] = True
    return cached_readable(spec.argument, files, partial(build, **options, **unreadable), spec.progress, **key)


def _image_splits(spec: DataSpec, read: Callable[[Any, Size | None], Data], train: Any, test: Any) -> Splits:
    """Test images get the size of the training images."""
    train_data = read(train, spec.size)
    return _with_test(spec, train_data, read(test, (train_data.shape[1], train_data.shape[2])) if test else None)


def _table_options(spec: DataSpec, has_test: bool = False) -> TableOptions:
    share = _test_share(spec)
    _refuse_second_test(spec, share is not None and has_test)
    options = {name: spec.values[name] for name in TABLE_OPTIONS if name in spec.values}
    return table_options(**options, share=share, seed=spec.seed)


def _judging(spec: DataSpec, splits: Mapping[str, F]) -> F | None:
    """The split that judges: that of ?judge, or else the test split, or a validation split where there is no other."""
    if "judge" not in spec.options:
        return splits.get("test") or splits.get("validation")
    name = spec.options["judge"]
    if not splits.get(name):
        raise InputError(f"{spec.argument} has no {name} split: leave out ?judge={name}.")
    return splits[name]


def _test_share(spec: DataSpec) -> float | None:
    """The share of each class to judge on, if it is given."""
    test = spec.values.get("test")
    return test if isinstance(test, float) else None


def _test_file(spec: DataSpec) -> str | None:
    """The file to judge on, if it is given."""
    test = spec.values.get("test")
    return test if isinstance(test, str) else None


def _refuse_options(spec: DataSpec, content: str, options: Iterable[str]) -> None:
    """Refuse options that have no effect on such content."""
    if option := next((option for option in options if option in spec.options), None):
        raise InputError(f"{spec.argument} holds {content}: leave out {advised(option, spec.options[option])}.")


def _refuse_second_test(spec: DataSpec, has_test: bool) -> None:
    if has_test and "test" in spec.options:
        given = advised("test", spec.options["test"])
        raise InputError(f"{spec.argument} already has a test split: leave out {given}.")


def _with_test(spec: DataSpec, train: Data, test: Data | None) -> Splits:
    """The splits, with the given share of `train` as the test split; examples without names are numbered."""
    if train.names is None:
        train = replace(train, names=np.array([f"row {i}" for i in range(len(train))], dtype=object))
    if test is not None:
        train, test = align(train, test)
    if "repeats" in spec.options:  # before classes are counted, and before a share is set aside
        in_test = None if test is None else test.digests
        train = train.take(distinct_examples(train, train.digests, in_test, "?repeats=drop", spec.left_out))
    if least := spec.values.get("min"):
        common = common_classes(train, least, f"?min={least}", spec.left_out)
        train, test = without_classes(train, common), None if test is None else without_classes(test, common)
    if (share := _test_share(spec)) is not None:
        _refuse_second_test(spec, test is not None)
        return split_off(train, share, spec.seed)
    return train, test
