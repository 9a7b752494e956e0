"""Anyone's own data: folders of pictures, Parquet, .npz and CSV files."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from class_uncertainty.data import encoding, folder, npz, parquet, tables
from class_uncertainty.data.cache import cached
from class_uncertainty.data.core import Data, align
from class_uncertainty.data.shaping import hold_out
from class_uncertainty.data.specs import Spec, Splits
from class_uncertainty.errors import InputError


def from_folder(spec: Spec) -> Splits:
    _refuse_test_file(spec)
    found = folder.find(spec.path, spec.file(spec.options["split"]) if "split" in spec.options else None)
    channels = spec.channels

    def split(pictures: folder.Listed, size: tuple[int, int] | None) -> Data:
        labels = [label for _, label in pictures]
        build = lambda: folder.decoding(pictures, size, channels)  # noqa: E731
        files = [file for file, _ in pictures]
        data = cached(spec.argument, files, build, spec.progress, labels=labels, size=size, channels=channels)
        return replace(data, names=np.array([str(file.relative_to(spec.path)) for file in files], dtype=object))

    train = split(found["train"], spec.size)
    judge = found.get("test") or found.get("validation")
    return _judged(spec, train, split(judge, _size_of(train)) if judge else None)


def from_parquet(spec: Spec) -> Splits:
    found = parquet.find(spec.path)
    judge = found.get("test") or found.get("validation")
    if (other := _other_file(spec)) is not None:
        _refuse_second_test(spec, judge is not None)
        judge = [file for files in parquet.find(spec.file(other)).values() for file in files]
    train = found.get("train")
    if not train:
        raise InputError(f"{spec.argument} has no Parquet file for training: name them train-*.parquet, or give one file.")
    image = parquet.image_column([*train, *(judge or [])], spec.options.get("image"))
    _refuse_idle(spec, *(("a table", ("size", "channels")) if image is None else ("pictures", ("categorical", "drop", "missing"))))
    if image is None:
        read = lambda files: tables.from_arrow(str(files[0]), *parquet.table(files))  # noqa: E731
        return _encoded(spec, read(train), read(judge) if judge else None)
    label, channels = spec.options.get("label"), spec.channels

    def split(files: list, size: tuple[int, int] | None) -> Data:
        build = lambda: parquet.decoding(files, label, image, size, channels)  # noqa: E731
        return cached(spec.argument, files, build, spec.progress, label=label, image=image, size=size, channels=channels)

    pictures = split(train, spec.size)
    return _judged(spec, pictures, split(judge, _size_of(pictures)) if judge else None)


def from_npz(spec: Spec) -> Splits:
    _refuse_test_file(spec)
    return _judged(spec, *npz.read(spec.path))


def from_csv(spec: Spec) -> Splits:
    other = _other_file(spec)
    return _encoded(spec, tables.read_csv(spec.path), tables.read_csv(spec.file(other)) if other is not None else None)


def _encoded(spec: Spec, train: tables.Table, test: tables.Table | None) -> Splits:
    label, share = spec.options.get("label", encoding.LABEL), _share(spec)
    if share is not None:
        _refuse_second_test(spec, test is not None)
        train, test = encoding.hold_out(train, label, share, spec.seed)
    return encoding.encode(
        train,
        test,
        label=label,
        categorical=spec.several("categorical"),
        drop=spec.several("drop"),
        missing=spec.options.get("missing", "refuse"),
    )


def _size_of(data: Data) -> tuple[int, int]:
    return data.shape[1], data.shape[2]


def _share(spec: Spec) -> float | None:
    """?test=0.2, where it is a number."""
    try:
        return float(spec.options["test"])
    except (KeyError, ValueError):
        return None


def _other_file(spec: Spec) -> str | None:
    """?test=FILE, where it is no number."""
    return spec.options.get("test") if _share(spec) is None else None


def _refuse_test_file(spec: Spec) -> None:
    if (other := _other_file(spec)) is not None:
        raise InputError(f"option 'test' is {other!r}: of a {spec.source!r} source it is a share, as 0.2.")


def _refuse_idle(spec: Spec, what: str, idle: Iterable[str]) -> None:
    if option := next((option for option in idle if option in spec.options), None):
        raise InputError(f"{spec.argument} holds {what}: leave ?{option}={spec.options[option]} out.")


def _refuse_second_test(spec: Spec, has_test: bool) -> None:
    if has_test and "test" in spec.options:
        raise InputError(f"{spec.argument} has a test split of its own: leave ?test={spec.options['test']} out.")


def _judged(spec: Spec, train: Data, test: Data | None) -> Splits:
    """With the share that is asked for set aside; without any, examples are judged by folds. What has no names has numbers."""
    if train.names is None:
        train = replace(train, names=np.array([f"row {i}" for i in range(len(train))], dtype=object))
    share = _share(spec)
    if share is not None:
        _refuse_second_test(spec, test is not None)
        return hold_out(train, share, spec.seed)
    return align(train, test) if test is not None else (train, None)
