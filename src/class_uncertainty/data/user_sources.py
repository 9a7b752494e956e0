"""The user's own data: folders of images, Parquet, .npz and CSV files."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from class_uncertainty.data import tabular
from class_uncertainty.data.cache import cached
from class_uncertainty.data.dataset import Data, align
from class_uncertainty.data.readers import folder, npz, parquet
from class_uncertainty.data.readers.csv_file import read_csv
from class_uncertainty.data.specs import Spec, Splits
from class_uncertainty.data.subsets import split_off
from class_uncertainty.data.table import Table
from class_uncertainty.errors import InputError

Size = tuple[int, int]


def from_folder(spec: Spec) -> Splits:
    """Images in one subfolder per class."""
    _refuse_test_file(spec)
    splits = folder.find(spec.path, spec.file(spec.options["split"]) if "split" in spec.options else None)

    def read(labelled: folder.LabelledFiles, size: Size | None) -> Data:
        files, labels = [file for file, _ in labelled], [label for _, label in labelled]
        options: dict[str, Any] = {"size": size, "channels": spec.channels}
        build = partial(folder.decoding, labelled, **options)
        data = cached(spec.argument, files, build, spec.progress, labels=labels, **options)
        return replace(data, names=np.array([str(file.relative_to(spec.path)) for file in files], dtype=object))

    return _image_splits(spec, read, splits["train"], splits.get("test") or splits.get("validation"))


def from_parquet(spec: Spec) -> Splits:
    """Images or a table in Parquet files."""
    splits = parquet.find(spec.path)
    test = splits.get("test") or splits.get("validation")
    if (test_file := _test_file(spec)) is not None:
        _refuse_second_test(spec, test is not None)
        test = [file for files in parquet.find(spec.file(test_file)).values() for file in files]
    if not (train := splits.get("train")):
        raise InputError(f"{spec.argument} has no training file: name them train-*.parquet, or give one file.")
    image = parquet.image_column([*train, *(test or [])], spec.options.get("image"))
    if image is None:
        _refuse_options(spec, "a table", ("size", "channels"))
        return _encoded(spec, parquet.table(train), parquet.table(test) if test else None)
    _refuse_options(spec, "images", ("categorical", "drop", "missing"))

    def read(files: list[Path], size: Size | None) -> Data:
        label = spec.options.get("label")
        options: dict[str, Any] = {"label": label, "image": image, "size": size, "channels": spec.channels}
        return cached(spec.argument, files, partial(parquet.decoding, files, **options), spec.progress, **options)

    return _image_splits(spec, read, train, test)


def from_npz(spec: Spec) -> Splits:
    """Arrays in one .npz file."""
    _refuse_test_file(spec)
    return _with_test(spec, *npz.read_splits(spec.path))


def from_csv(spec: Spec) -> Splits:
    """A table in a CSV file, and perhaps a test table in another."""
    test_file = _test_file(spec)
    return _encoded(spec, read_csv(spec.path), None if test_file is None else read_csv(spec.file(test_file)))


def _image_splits(spec: Spec, read: Callable[[Any, Size | None], Data], train: Any, test: Any) -> Splits:
    """Test images get the size of the training images."""
    train_data = read(train, spec.size)
    return _with_test(spec, train_data, read(test, (train_data.shape[1], train_data.shape[2])) if test else None)


def _encoded(spec: Spec, train: Table, test: Table | None) -> Splits:
    label, share = spec.options.get("label", tabular.LABEL), _test_share(spec)
    if share is not None:
        _refuse_second_test(spec, test is not None)
        train, test = tabular.split_off(train, label, share, spec.seed)
    columns = {option: spec.several(option) for option in ("categorical", "drop")}
    return tabular.encode(train, test, label=label, missing=spec.one_of("missing", tabular.MISSING_POLICIES), **columns)


def _test_share(spec: Spec) -> float | None:
    """?test=0.2, if it is a number."""
    try:
        return float(spec.options["test"])
    except (KeyError, ValueError):
        return None


def _test_file(spec: Spec) -> str | None:
    """?test=FILE, if it is not a number."""
    return spec.options.get("test") if _test_share(spec) is None else None


def _refuse_test_file(spec: Spec) -> None:
    if (test_file := _test_file(spec)) is not None:
        raise InputError(f"option 'test' is {test_file!r}: for a {spec.source!r} source it is a share, as 0.2.")


def _refuse_options(spec: Spec, content: str, options: Iterable[str]) -> None:
    """Refuse options that have no effect on such content."""
    if option := next((option for option in options if option in spec.options), None):
        raise InputError(f"{spec.argument} holds {content}: leave out ?{option}={spec.options[option]}.")


def _refuse_second_test(spec: Spec, has_test: bool) -> None:
    if has_test and "test" in spec.options:
        raise InputError(f"{spec.argument} already has a test split: leave out ?test={spec.options['test']}.")


def _with_test(spec: Spec, train: Data, test: Data | None) -> Splits:
    """The splits, with the given share of `train` as the test split; examples without names are numbered."""
    if train.names is None:
        train = replace(train, names=np.array([f"row {i}" for i in range(len(train))], dtype=object))
    if (share := _test_share(spec)) is not None:
        _refuse_second_test(spec, test is not None)
        return split_off(train, share, spec.seed)
    return align(train, test) if test is not None else (train, None)
