"""SOURCES, the table of data that have names; `load` reads what it lists."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from class_uncertainty.checks import Frame, check, is_frame, take
from class_uncertainty.data.cache import Decoding, Progress, cached
from class_uncertainty.data.dataset import Dataset, align, notice_reading
from class_uncertainty.data.examples import Data
from class_uncertainty.data.frame_sources import dataset_of, several
from class_uncertainty.data.images import jpeg
from class_uncertainty.data.readers import cifar, folder, parquet, places, svhn
from class_uncertainty.data.readers.svhn import DIGITS
from class_uncertainty.data.spec import (
    DataSpec,
    Reader,
    Spec,
    Splits,
    data_folder,
    find,
    number,
    one_of,
    parse_spec,
    paths_named,
    read_names,
    read_options,
    read_share_or_file,
    read_text,
    reader,
    split_backbone,
    split_query,
    whole,
    with_options,
)
from class_uncertainty.data.splits import REPEATS_POLICIES, duplicate, long_tail, svci20, validation_split
from class_uncertainty.data.tabular import MISSING_POLICIES
from class_uncertainty.data.user_sources import from_csv, from_folder, from_npz, from_parquet
from class_uncertainty.errors import InputError, nearest, unknown
from class_uncertainty.io import near

# means and deviations of pixels from 0 to 1, by channel; LDAM-DRW and Bag-of-Tricks use cifar for CIFAR-100 too
STATISTICS = {
    "cifar": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "train": None,  # those of the training examples
}
CIFAR = {"cifar10": cifar.CIFAR10, "cifar100": cifar.CIFAR100}


def original(name: str) -> Callable[[DataSpec], Splits]:
    """A reader of cifar10, cifar100 or svhn."""
    return partial(_splits, name)


def tailed(read: Callable[[DataSpec], Splits]) -> Callable[[DataSpec], Splits]:
    """A reader of the same data with a long tail, cut after the validation images are set aside."""

    def read_tailed(spec: DataSpec) -> Splits:
        train, test = _validated(spec, *read(spec))
        return long_tail(train, float(spec.argument), spec.seed), test

    return read_tailed


def svci(spec: DataSpec) -> Splits:
    """SVCI-20, from CIFAR-10 and SVHN, drawn after the validation images of both are set aside."""
    objects, numbers = (Dataset(name, *_validated(spec, *_splits(name, spec))) for name in ("cifar10", "svhn"))
    mixed = svci20(objects, numbers, int(spec.argument), spec.seed)
    return mixed.train, mixed.test


def _validated(spec: DataSpec, train: Data, test: Data | None) -> Splits:
    """With ?validation=N, N training images of each class take the place of the test split."""
    per_class = spec.values.get("validation")
    return (train, test) if per_class is None else validation_split(train, per_class, spec.seed)


def places_lt(spec: DataSpec) -> Splits:
    """Places-LT, from its index files and images."""
    images = spec.file(spec.options["images"]) if "images" in spec.options else spec.root
    size = spec.size or (64, 64)

    def read(split: str) -> Data:
        labelled, classes = places.labelled_files(places.find(spec.root, split), images)
        files, labels = [file for file, _ in labelled], [name for _, name in labelled]
        build = partial(folder.decoding, labelled, size, 3, classes)
        return cached(f"Places-LT {split}", files, build, spec.progress, labels=labels, size=size)

    return align(read("train"), read(spec.options.get("judge", "test")))


def _splits(name: str, spec: DataSpec) -> Splits:
    quality = spec.values.get("jpeg")
    default = "train" if name == "svhn" or spec.name == "svci20" else "cifar"
    fractions = STATISTICS[spec.values.get("normalise", default)]
    statistics = fractions and ([255 * mean for mean in fractions[0]], [255 * deviation for deviation in fractions[1]])

    def read(split: str) -> Data:
        files, decode = _find(name, spec.root, split)

        def build() -> Decoding:
            decoding = decode()
            return decoding if quality is None else replace(decoding, batches=jpeg(decoding.batches, quality))

        data = cached(f"{name} {split}", files, build, spec.progress, jpeg=quality)
        return Data(data.inputs, data.labels, data.classes, statistics=statistics)

    return align(read("train"), read("test"))


def _find(name: str, root: Path, split: str) -> tuple[list[Path], Callable[[], Decoding]]:
    """The files of a split, and the function that decodes them."""
    if name == "svhn":
        if mat := svhn.find(root, split):
            return [mat], partial(svhn.decoding, mat)
    elif place := cifar.find(CIFAR[name], root):
        return cifar.files(CIFAR[name], *place, split), partial(cifar.decoding, CIFAR[name], *place, split)
    files = parquet.by_split(sorted([*root.glob(f"{name}[-_]*.parquet"), *parquet.below(root / name)])).get(split)
    if files:
        classes = svhn.DIGITS if name == "svhn" else CIFAR[name].classes
        return files, partial(parquet.decoding, files, None, size=(32, 32), classes=classes)
    advice = f"'cu data fetch {name}' gets it; --root (in Python root=) or CLASS_UNCERTAINTY_DATA names another folder"
    raise InputError(f"{name} is not in the data folder {root}: {advice}.")


PER_CLASS = 120  # for training, of 174 to 183; the others, 54 to 63 per class, are the test split


def digits(spec: DataSpec) -> Splits:
    """Handwritten digits that come with scikit-learn: 8×8 grey images, always split the same way."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
    data = Data(images, bunch.target, DIGITS)
    order = np.random.RandomState(0).permutation(len(data))
    kept = np.sort(np.concatenate([order[data.labels[order] == c][:PER_CLASS] for c in range(10)]))
    return data.take(kept), data.take(np.setdiff1d(np.arange(len(data)), kept))


FILES = ("csv", "parquet", "npz")  # the endings of files, which are names of sources
RATIO = "an imbalance ratio (largest class to smallest)"
COUNT = "a whole number of examples per class"
SIDES = (4, 1024)  # pixels per side that images are read at


@dataclass(frozen=True)
class Option:
    """What an option does, and how its text is read."""

    about: str
    read: Reader = read_text


@dataclass(frozen=True)
class Source:
    """A row of SOURCES: `argument` says what follows the colon, `expects` which files must exist."""

    about: str
    example: str
    read: Callable[[DataSpec], Splits]
    argument: str = ""  # "" if nothing may follow; RATIO and COUNT are numbers
    options: Mapping[str, Option] = field(default_factory=dict)
    expects: str = ""


@dataclass(frozen=True)
class NamedData:
    """Data by their full name: 'folder:photos by efficientnet-lite0' is the photographs as features of a backbone."""

    name: str  # as typed
    spec: DataSpec
    backbone: str = ""


def load(
    spec: str | Frame,
    *,
    root: str | Path | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    label: str | int | None = None,
    test: float | str | Frame | None = None,
    group: str | int | None = None,
    categorical: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    missing: str | None = None,
    repeats: str | None = None,
    min: int | None = None,
) -> Dataset:
    """Load a data set from a path, by name, or from a DataFrame.

    Parameters
    ----------
    spec : str or DataFrame
        A path such as "churn.csv" or "photos/"; or SOURCE[:ARGUMENT][?OPTION=VALUE&...], such as "digits-lt:20",
        "folder:photos?size=32" or "csv:table.csv?label=kind". The command `cu list data` lists every source and option.
        Or a DataFrame of pandas, polars or Arrow, whose columns become features in the same way as those of a CSV file.
    root : str or Path, optional
        The data folder, where relative paths and downloaded files are looked up; by default the environment variable
        CLASS_UNCERTAINTY_DATA, or a folder in the user's cache.
    seed : int
        Draws the subset of a long tail, the share that `test` splits off, and the examples that ?duplicate repeats.
    progress : callable, optional
        Called with (what, done, total) while images are decoded.
    label : str, optional
        The column of classes, 'label' by default. This option and those below may be part of the name instead.
    test : float, str or DataFrame, optional
        Rows to judge on: the share of each class, another file, or another DataFrame. Without it, five folds judge.
    group : str, optional
        The column of groups, such as patients; folds and `test` keep each group on one side.
    categorical : str or sequence of str
        Columns of numbers that are names.
    drop : str or sequence of str
        Columns to leave out.
    missing : str, optional
        Missing values: "fill" (the default: the median, or a category of their own), "refuse" or "drop" (the row).
    repeats : str, optional
        "drop" leaves out training rows that repeat another in every feature, or are test rows.
    min : int, optional
        Leaves out classes with fewer rows or, with `group`, groups.

    Returns
    -------
    Dataset
        With `train`, and `test` if the source has a test split.

    Examples
    --------
    >>> dataset = cu.load("digits-lt:20")
    >>> dataset.name, len(dataset.train), len(dataset.test)
    ('digits-lt:20', 405, 597)
    >>> dataset.train.counts.tolist()
    [120, 86, 61, 44, 31, 22, 16, 11, 8, 6]

    A DataFrame:

    >>> import pandas
    >>> columns = {"age": [31, 45, 28, 60], "city": ["Oslo", "Rome"] * 2, "churn": ["no", "no", "yes", "yes"]}
    >>> frame = pandas.DataFrame(columns)
    >>> cu.load(frame, label="churn").train.columns
    ('age', 'city=Oslo', 'city=Rome')
    """
    check(str | Frame, spec=spec)
    check(Path | None, root=root)
    check(int, seed=seed)
    check(Callable | None, progress=progress)
    check(float | str | Frame | None, test=test)
    categorical = take(str | list[str], categorical=categorical)
    drop = take(str | list[str], drop=drop)
    columns: dict[str, Any] = {"label": label, "group": group, "categorical": categorical, "drop": drop}
    columns |= {"missing": missing, "repeats": repeats, "min": min}
    if not isinstance(spec, str):
        dataset = dataset_of(spec, seed, test, **columns)
    elif is_frame(test):
        raise InputError("test is a DataFrame, and the data are not: give a file, or a share as 0.2.")
    else:
        options = columns | {"test": test}
        given = {option: ",".join(several(value)) for option, value in options.items() if value not in (None, (), [])}
        dataset = read_data(replace(parse_data(with_options(spec, given), root), seed=seed, progress=progress))
    notice_reading(dataset)
    return dataset


def place_of(dataset: Dataset) -> list[Path] | str:
    """What tells data from others of their name: the full paths of their files, or else their fingerprint."""
    return paths_named(dataset.name) or dataset.fingerprint


def read_data(spec: DataSpec) -> Dataset:
    """The data that a parsed name stands for."""
    spec = replace(spec, left_out=[], noticed=[])  # a spec may be read twice
    splits = SOURCES[spec.name].read(spec)
    folder = spec.path if spec.name == "folder" else None
    dataset = Dataset(str(spec), *splits, tuple(spec.left_out), folder, tuple(spec.noticed))
    strength = spec.values.get("duplicate")
    if not strength:
        return dataset
    if dataset.test is None:
        leak = "there is no test split, and folds would share copies of an example"
        raise InputError(f"?duplicate={spec.options['duplicate']} cannot be judged, since {leak}: add test=0.2.")
    return replace(dataset, train=duplicate(dataset.train, strength, spec.seed))


def parse_name(name: str, root: str | Path | None = None) -> NamedData:
    """The parts of a full name; refuses data of no known kind, and options that they do not have."""
    data, backbone = split_backbone(name)
    return NamedData(name, parse_data(data, root), backbone)


def parse_data(text: str, root: str | Path | None = None) -> DataSpec:
    """The parts of a name, if there is such a source and it takes this argument and these options."""
    escaped = text.encode(errors="backslashreplace").decode()
    if text != escaped:
        raise InputError(f"{escaped!r} is not UTF-8, and results are stored under that name: rename it.")
    place = data_folder(root)
    spec = parse_spec("data", _with_source(text, place))
    if spec.name not in SOURCES:
        raise _unknown_source(text)
    readers = {key: option.read for key, option in SOURCES[spec.name].options.items()}
    values = read_options(repr(spec.name), spec.options, readers)
    return DataSpec(spec.name, _argument(spec), spec.options, values, place)


def _unknown_source(text: str) -> InputError:
    path = split_query(text)[0]
    hint = near(Path(path))
    is_no_name = nearest(path.partition(":")[0], SOURCES) is None
    if os.sep in path or _ending(path) in FILES or (hint and is_no_name):
        return InputError(f"there is no file or folder {path!r}{hint}.")
    if nearest(text, [row.example for row in SOURCES.values()]) is None and is_no_name:
        advice = "give a folder of images, a .csv, .parquet or .npz file, or a name that 'cu list data' shows"
        return InputError(f"there is no file or folder {path!r}, and no data set of that name: {advice}.")
    return unknown("data", text, [row.example for row in SOURCES.values()])


def _with_source(text: str, root: Path) -> str:
    """A path, here or in the data folder, with the source that reads it before it; anything else as it is."""
    path, query = split_query(text)
    found = find(path, root) if path else None
    if found is None or path in SOURCES:
        return text
    options = f"?{query}" if query else ""
    if found.is_dir():
        patterns = ("*.parquet", "data/*.parquet")
        source = "parquet" if any(any(found.glob(pattern)) for pattern in patterns) else "folder"
        return f"{source}:{path.rstrip(os.sep) or path}{options}"
    if (source := _ending(path)) not in FILES:
        raise InputError(
            f"{path!r} is a file of no known kind: give a folder of images, or a .csv, .parquet or .npz file."
        )
    return f"{source}:{path}{options}"


def _ending(path: str) -> str:
    return os.path.splitext(path.removesuffix(".gz"))[1].lstrip(".").lower()


def _argument(spec: Spec) -> str:
    """What follows the colon, in its one form: '20.0' is '20'."""
    source = SOURCES[spec.name]
    given = f"{spec.name}:{spec.argument}" if spec.argument else spec.name
    if spec.argument and not source.argument:
        tail = f"; for a long tail write '{spec.name}-lt:{spec.argument}'" if f"{spec.name}-lt" in SOURCES else ""
        raise InputError(f"{given!r}: {spec.name!r} takes no argument{tail}.")
    try:
        if source.argument == RATIO:
            return repr(float(spec.argument)).removesuffix(".0")
        if source.argument == COUNT:
            return str(int(spec.argument))
        if source.argument and not spec.argument:
            raise ValueError
    except ValueError:
        raise InputError(f"{given!r} needs {source.argument} after the colon, as in {source.example!r}.") from None
    return spec.argument


MOST = 10**9
VALIDATION = {
    "validation": Option(
        "first set aside this many training images per class, to judge on instead of the test split", whole(1, MOST)
    )
}
PIXELS = {
    "jpeg": Option("encode every image as a JPEG file of this quality, 1 to 100, and decode it again", whole(1, 100)),
    "normalise": Option(
        "mean and deviation: cifar (the usual constants), imagenet, or train (of the training images)",
        one_of(STATISTICS),
    ),
}
IMAGES = {
    "size": Option("pixels per side (the first image's, at most 64)", whole(*SIDES)),
    "channels": Option("3 (colour, the default) or 1 (grey)", one_of(("3", "1"))),
}
SKIP = {
    "skip": Option("unreadable: leave out files that cannot be read as images, and count them", one_of(("unreadable",)))
}
REPEATS = {
    "repeats": Option(
        "drop: leave out training examples that repeat another, or are test examples, and count them",
        one_of(REPEATS_POLICIES),
    )
}
LEAST = {
    "min": Option(
        "leave out classes with fewer training examples (with --group, groups), and count them", whole(1, MOST)
    )
}
SHARE = {
    "test": Option(
        "the share of each class to judge on, such as 0.2; without a test split, five folds judge",
        reader(float, "a share such as 0.2"),
    )
}
FILE = {
    "test": Option(
        "a file to judge on, or the share of each class, such as 0.2; without a test split, five folds judge",
        read_share_or_file,
    )
}
GROUP = {
    "group": Option(
        "a column (of .npz, an array) of patients, customers, videos: folds and --test keep each on one side"
    )
}
PATH_GROUP = {
    "group": Option(
        "what an image belongs to, by its path below its class: the part before a separator such as _, or the part "
        "that a regular expression has in parentheses"
    )
}
HEADER = {
    "header": Option("no, if the first line is data: columns are then called 1, 2 and so on", one_of(("yes", "no")))
}
COLUMNS = {
    "label": Option("the column of class names ('label')"),
    "categorical": Option("columns of numbers that are names, such as zip,month", read_names),
    "drop": Option("columns to leave out, such as id,name", read_names),
    "missing": Option(
        "missing values: fill (the default: the median, or a category of their own), refuse or drop (the row)",
        one_of(MISSING_POLICIES),
    ),
}
IMAGE_COLUMN = {"image": Option("the column of images, if there are several")}
PLACES = {
    "size": Option("pixels per side (64)", whole(*SIDES)),
    "images": Option("the folder that the paths in the index start from (the data folder)"),
    "judge": Option("test (the default, 36,500 images) or val (7,300)", one_of(("test", "val"))),
}
JUDGE = {
    "judge": Option(
        "test or validation: the split to judge on; by default the test split, or the only one of both",
        one_of(("test", "validation")),
    )
}
SPLIT = {"split": Option("a CSV file of lines PATH,SPLIT, where the split is train or test")}
CIFAR_FILES = "{0}-python.tar.gz or -binary.tar.gz, its unpacked folder, or {1}-train*.parquet and {1}-test*.parquet"
CIFAR10_FILES, CIFAR100_FILES = CIFAR_FILES.format("cifar-10", "cifar10"), CIFAR_FILES.format("cifar-100", "cifar100")
SVHN_FILES = "train_32x32.mat and test_32x32.mat, or svhn-train*.parquet and svhn-test*.parquet"
PLACES_FILES = "Places_LT_train.txt, _val.txt and _test.txt (or .txt.gz), and the images"
FOLDER_FILES = "PATH/CLASS/*.jpg, or PATH/train/CLASS/*.jpg and PATH/test/CLASS/*.jpg"
PARQUET_FILES = "a column of encoded images (bytes, or a struct with bytes) and label; or columns of numbers and text"

SUBSET = PIXELS | VALIDATION
EVERY_SOURCE = {
    "duplicate": Option(
        "repeat training examples of smaller classes: 0 (none) to 1 (until all are as large as the largest)",
        number(float, "a number", 0, 1),
    )
}

ROWS = {
    "digits": Source("8×8 handwritten digits from scikit-learn, 120 per class", "digits", digits, expects="nothing"),
    "digits-lt": Source(
        "the same with a long tail, largest class to smallest", "digits-lt:20", tailed(digits), RATIO, VALIDATION,
        "nothing"),
    "cifar10": Source(
        "CIFAR-10: 50,000 and 10,000 images, 32×32", "cifar10", original("cifar10"), "", PIXELS, CIFAR10_FILES),
    "cifar10-lt": Source(
        "CIFAR-10 with a long tail", "cifar10-lt:100", tailed(original("cifar10")), RATIO, SUBSET, "as cifar10"),
    "cifar100": Source(
        "CIFAR-100: as many images of 100 classes", "cifar100", original("cifar100"), "", PIXELS, CIFAR100_FILES),
    "cifar100-lt": Source(
        "CIFAR-100 with a long tail", "cifar100-lt:50", tailed(original("cifar100")), RATIO, SUBSET, "as cifar100"),
    "svhn": Source("SVHN: cropped house numbers, 32×32", "svhn", original("svhn"), "", PIXELS, SVHN_FILES),
    "svci20": Source(
        "SVCI-20: CIFAR-10 and SVHN, equal counts, unequal hardness", "svci20:250", svci, COUNT, SUBSET, "as both"),
    "places-lt": Source(
        "Places-LT: 62,500 photographs of 365 places", "places-lt", places_lt, "", PLACES, PLACES_FILES),
    "folder": Source(
        "images in a folder, one subfolder per class", "folder:PATH", from_folder, "a path",
        IMAGES | SHARE | JUDGE | SPLIT | SKIP | REPEATS | LEAST | PATH_GROUP, FOLDER_FILES),
    "parquet": Source(
        "images or a table in Parquet, one file or a folder of them", "parquet:PATH", from_parquet, "a path",
        IMAGES | FILE | JUDGE | COLUMNS | IMAGE_COLUMN | SKIP | REPEATS | LEAST | GROUP,
        PARQUET_FILES),
    "npz": Source(
        "NumPy arrays: uint8 images or numbers", "npz:PATH", from_npz, "a path", SHARE | REPEATS | LEAST | GROUP,
        "x_train, y_train, or X and y (and x_test, y_test), in one .npz file"),
    "csv": Source(
        "a table with a label column", "csv:PATH?label=COLUMN", from_csv, "a path",
        COLUMNS | FILE | HEADER | REPEATS | LEAST | GROUP, "a .csv or .csv.gz file with a header line, or ?header=no"),
}  # fmt: skip
SOURCES: dict[str, Source] = {name: replace(row, options={**row.options, **EVERY_SOURCE}) for name, row in ROWS.items()}
SHAPES = dict.fromkeys(("digits", "digits-lt"), (1, 8, 8))  # of one input, where all data of a source have the same
SHAPES |= dict.fromkeys(("cifar10", "cifar10-lt", "cifar100", "cifar100-lt", "svhn", "svci20"), (3, 32, 32))


def shape_of(name: str) -> tuple[int, ...] | None:
    """The shape of one input of the data of that name, where the name alone tells it."""
    data, backbone = split_backbone(name)
    return None if backbone else SHAPES.get(split_query(data)[0].partition(":")[0])
