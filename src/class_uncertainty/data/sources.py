"""SOURCES, the table of data that have names, and load()."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from class_uncertainty.checks import Frame, check, take
from class_uncertainty.data.benchmark_sources import original, places_lt, svci, tailed
from class_uncertainty.data.cache import Progress
from class_uncertainty.data.class_names import notice_twins
from class_uncertainty.data.dataset import Dataset
from class_uncertainty.data.frame_sources import dataset_of, refuse_keywords
from class_uncertainty.data.readers.digits import digits
from class_uncertainty.data.specs import BY, COUNT, RATIO, Source, parse, with_source
from class_uncertainty.data.splits import duplicate
from class_uncertainty.data.user_sources import from_csv, from_folder, from_npz, from_parquet
from class_uncertainty.errors import InputError


def load(
    spec: str | Frame,
    *,
    root: str | Path | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    label: str | int | None = None,
    test: float | Frame | None = None,
    group: str | int | None = None,
    categorical: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    missing: str | None = None,
    repeats: str | None = None,
    min: int | None = None,
) -> Dataset:
    """Load a data set by name, or from a DataFrame.

    Parameters
    ----------
    spec : str or DataFrame
        SOURCE[:ARGUMENT][?OPTION=VALUE&...], as "digits-lt:20", "folder:photos?size=32" or "csv:table.csv?label=kind".
        The command `cu list data` lists every source and option. Or a DataFrame of pandas, polars or Arrow, whose
        columns become features as those of a CSV file do.
    root : str or Path, optional
        The data folder, where relative paths and downloaded files are looked up; by default the environment variable
        CLASS_UNCERTAINTY_DATA, or a folder in the user's cache.
    seed : int
        Draws the subset of a long tail, the share that ?test splits off, and the examples that ?duplicate repeats.
    progress : callable, optional
        Called with (what, done, total) while images are decoded.
    label : str, optional
        Of a DataFrame: the column of classes, 'label' by default. Where data have a name, this option and those that
        follow stand in the name.
    test : float or DataFrame, optional
        Rows to judge on: the share of each class, or another DataFrame. Without it, five folds judge.
    group : str, optional
        The column of what rows belong to, as patients: folds and `test` keep each on one side.
    categorical : str or sequence of str
        Columns of numbers that are names.
    drop : str or sequence of str
        Columns to leave out.
    missing : str, optional
        Missing values: "refuse" (the default), "fill" or "drop" (the row).
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
    check(float | Frame | None, test=test)
    categorical = take(str | list[str], categorical=categorical)
    drop = take(str | list[str], drop=drop)
    columns: dict[str, Any] = {"label": label, "group": group, "categorical": categorical, "drop": drop}
    columns |= {"missing": missing, "repeats": repeats, "min": min}
    if not isinstance(spec, str):
        return dataset_of(spec, seed, test, **columns)
    refuse_keywords(with_source(spec, SOURCES), test=test, **columns)
    parsed = parse(spec, SOURCES, root, seed, progress)
    strength = parsed.share("duplicate")
    splits = SOURCES[parsed.source].read(parsed)
    notice_twins(splits[0].classes)
    folder = parsed.path if parsed.source == "folder" else None
    dataset = Dataset(parsed.name, *splits, tuple(parsed.left_out), folder)
    if not strength:
        return dataset
    if dataset.test is None:
        leak = "there is no test split, and folds would share copies of an example"
        raise InputError(f"?duplicate={parsed.options['duplicate']} cannot be judged, since {leak}: add test=0.2.")
    return replace(dataset, train=duplicate(dataset.train, strength, seed))


VALIDATION = {
    "validation": "first set aside this many training images per class, to judge on instead of the test split"
}
PIXELS = {
    "jpeg": "encode every image as a JPEG file of this quality, 1 to 100, and decode it again",
    "normalise": "mean and deviation: cifar (the usual constants), imagenet, or train (of the training images)",
}
IMAGES = {"size": "pixels per side (the first image's, at most 64)", "channels": "3 (colour, the default) or 1 (grey)"}
SKIP = {"skip": "unreadable: leave out files that cannot be read as images, and count them"}
REPEATS = {"repeats": "drop: leave out training examples that repeat another, or are test examples, and count them"}
LEAST = {"min": "leave out classes with fewer training examples (with ?group, groups), and count them"}
SHARE = {"test": "the share of each class to judge on, as 0.2; without a test split, five folds judge"}
FILE = {"test": "a file to judge on, or the share of each class, as 0.2; without a test split, five folds judge"}
GROUP = {"group": "a column (of .npz, an array) of patients, customers, videos: folds and ?test keep each on one side"}
PATH_GROUP = {
    "group": "what an image belongs to, by its path below its class: the part before a separator, as _, or that a "
    "regular expression has in parentheses"
}
HEADER = {"header": "no, if the first line is data: columns are then called 1, 2 and so on"}
COLUMNS = {
    "label": "the column of class names ('label')",
    "categorical": "columns of numbers that are names, as zip,month",
    "drop": "columns to leave out, as id,name",
    "missing": "missing values: refuse (the default), fill (median, or a category of their own) or drop (the row)",
}
PLACES = {
    "size": "pixels per side (64)",
    "images": "the folder that the paths in the index start from (the data folder)",
    "judge": "test (the default, 36,500 images) or val (7,300)",
}
JUDGE = {"judge": "test or validation: the split to judge on; by default the test split, or the only one of both"}
SPLIT = {"split": "a CSV file of lines PATH,SPLIT, where the split is train or test"}
CIFAR_FILES = "{0}-python.tar.gz or -binary.tar.gz, its unpacked folder, or {1}-train*.parquet and {1}-test*.parquet"
CIFAR10_FILES, CIFAR100_FILES = CIFAR_FILES.format("cifar-10", "cifar10"), CIFAR_FILES.format("cifar-100", "cifar100")
SVHN_FILES = "train_32x32.mat and test_32x32.mat, or svhn-train*.parquet and svhn-test*.parquet"
PLACES_FILES = "Places_LT_train.txt, _val.txt and _test.txt (or .txt.gz), and the images"
FOLDER_FILES = "PATH/CLASS/*.jpg, or PATH/train/CLASS/*.jpg and PATH/test/CLASS/*.jpg"
PARQUET_FILES = "a column of encoded images (bytes, or a struct with bytes) and label; or columns of numbers and text"

SUBSET = PIXELS | VALIDATION
EVERY_SOURCE = {
    "duplicate": "repeat training examples of smaller classes: 0 (none) to 1 (until all are as large as the largest)"
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
        IMAGES | FILE | JUDGE | COLUMNS | {"image": "the column of images, if there are several"} | SKIP | REPEATS
        | LEAST | GROUP,
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
    return None if BY in name else SHAPES.get(name.partition("?")[0].partition(":")[0])
