"""SOURCES, the table of data that can be named, and load()."""

from pathlib import Path

from class_uncertainty.boundary import checked
from class_uncertainty.data.cache import Progress
from class_uncertainty.data.core import Dataset
from class_uncertainty.data.digits import digits
from class_uncertainty.data.originals import original, places_lt, svci, tailed
from class_uncertainty.data.own import from_csv, from_folder, from_npz, from_parquet
from class_uncertainty.data.specs import COUNT, RATIO, Source, Spec, Splits, parse


@checked
def load(spec: str, *, root: str | Path | None = None, seed: int = 0, progress: Progress | None = None) -> Dataset:
    """The data set of that name; `root` is the folder for sources that read files, `seed` draws the subset of a long tail.

    `progress(what, done, of)` is told how decoding goes on.
    """
    parsed = parse(spec, SOURCES, root, seed, progress)
    return Dataset(parsed.name, *SOURCES[parsed.source].read(parsed))


def _digits(spec: Spec) -> Splits:
    return digits()


TAIL = {
    "validation": "this many training images of each class are set aside before the tail is cut, and judged on instead of the test split"
}
PIXELS = {
    "jpeg": "every image goes through a JPEG file of this quality first (the paper's images probably did, with 95)",
    "normalise": "by which mean and deviation: cifar (the usual constants), imagenet, or train (those of the training images)",
}
PICTURES = {
    "size": "pixels a side; without it the first picture's own, or 64 if it is larger",
    "channels": "3 (colour, the default) or 1 (grey)",
}
SHARE = {"test": "a share of each class to judge on, as 0.2; without a test split, five folds judge"}
FILE = {"test": "a file to judge on, or a share of each class, as 0.2; without a test split, five folds judge"}
COLUMNS = {
    "label": "the column of class names ('label')",
    "categorical": "columns of numbers that are names, as zip,month",
    "drop": "columns to leave out, as id,name",
    "missing": "what to do with missing values: refuse (the default), fill (median, or a category of its own) or drop (the row)",
}
CIFAR_FILES = "{0}-python.tar.gz or -binary.tar.gz, or its unpacked folder, or Parquet: {1}-train*.parquet, {1}-test*.parquet"
SVHN_FILES = "train_32x32.mat and test_32x32.mat, or Parquet: svhn-train*.parquet, svhn-test*.parquet"
CIFAR10_FILES, CIFAR100_FILES = CIFAR_FILES.format("cifar-10", "cifar10"), CIFAR_FILES.format("cifar-100", "cifar100")

SOURCES: dict[str, Source] = {
    "digits": Source("8 x 8 handwritten digits that come with scikit-learn, 120 a class", "digits", _digits, expects="nothing"),
    "digits-lt": Source(
        "the same with a long tail: the ratio of the largest to the smallest class", "digits-lt:20", tailed(_digits), RATIO, TAIL, "nothing"
    ),
    "cifar10": Source("CIFAR-10: 50,000 and 10,000 images, 32 x 32", "cifar10", original("cifar10"), "", PIXELS, CIFAR10_FILES),
    "cifar10-lt": Source(
        "CIFAR-10 with a long tail", "cifar10-lt:100", tailed(original("cifar10")), RATIO, PIXELS | TAIL, "as cifar10"
    ),
    "cifar100": Source("CIFAR-100: the same number of images, 100 classes", "cifar100", original("cifar100"), "", PIXELS, CIFAR100_FILES),
    "cifar100-lt": Source(
        "CIFAR-100 with a long tail", "cifar100-lt:50", tailed(original("cifar100")), RATIO, PIXELS | TAIL, "as cifar100"
    ),
    "svhn": Source("SVHN: house numbers, cropped digits, 32 x 32", "svhn", original("svhn"), "", PIXELS, SVHN_FILES),
    "svci20": Source(
        "SVCI-20: CIFAR-10 and SVHN together, equal counts, unequal hardness", "svci20:250", svci, COUNT, PIXELS, "as cifar10 and svhn"
    ),
    "places-lt": Source(
        "Places-LT: 62,500 photographs of 365 places", "places-lt", places_lt, "",
        {
            "size": "pixels a side (64)",
            "images": "the folder that the paths in the index start from (the data folder)",
            "judge": "test (the default, 36,500 images) or val (7,300)",
        },
        "Places_LT_train.txt, _val.txt and _test.txt (or .txt.gz), and the images",
    ),
    "folder": Source(
        "pictures in a folder, one subfolder a class", "folder:PATH", from_folder, "a path",
        PICTURES | SHARE | {"split": "a CSV file of lines PATH,SPLIT, the split being train or test"},
        "PATH/CLASS/*.jpg, or PATH/train/CLASS/*.jpg and PATH/test/CLASS/*.jpg",
    ),
    "parquet": Source(
        "pictures or a table in Parquet, one file or a folder of them", "parquet:PATH", from_parquet, "a path",
        PICTURES | FILE | COLUMNS | {"image": "the column of pictures, where there are several"},
        "a column of encoded images (bytes, or a struct with bytes) and label; or columns of numbers and text",
    ),
    "npz": Source(
        "NumPy arrays: uint8 images or numbers", "npz:PATH", from_npz, "a path", SHARE,
        "x_train, y_train, or X and y (and x_test, y_test), in one .npz file",
    ),
    "csv": Source(
        "a table with a label column", "csv:PATH?label=COLUMN", from_csv, "a path", COLUMNS | FILE,
        "a .csv or .csv.gz file with a header line",
    ),
}  # fmt: skip
