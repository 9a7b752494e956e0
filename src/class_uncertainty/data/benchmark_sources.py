"""The paper's data sets, from any published form in the data folder."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from class_uncertainty.data.cache import Decoding, cached
from class_uncertainty.data.dataset import Dataset, align
from class_uncertainty.data.examples import Data
from class_uncertainty.data.images import jpeg
from class_uncertainty.data.readers import cifar, folder, parquet, places, svhn
from class_uncertainty.data.specs import Spec, Splits
from class_uncertainty.data.splits import long_tail, svci20, validation_split
from class_uncertainty.errors import InputError

# means and deviations of pixels from 0 to 1, by channel; LDAM-DRW and Bag-of-Tricks use cifar for CIFAR-100 too
STATISTICS = {
    "cifar": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "train": None,  # those of the training examples
}
CIFAR = {"cifar10": cifar.CIFAR10, "cifar100": cifar.CIFAR100}


def original(name: str) -> Callable[[Spec], Splits]:
    """A reader of cifar10, cifar100 or svhn."""
    return partial(_splits, name)


def tailed(read: Callable[[Spec], Splits]) -> Callable[[Spec], Splits]:
    """A reader of the same data with a long tail, cut after the validation images are set aside."""

    def read_tailed(spec: Spec) -> Splits:
        train, test = _validated(spec, *read(spec))
        return long_tail(train, float(spec.argument), spec.seed), test

    return read_tailed


def svci(spec: Spec) -> Splits:
    """SVCI-20, from CIFAR-10 and SVHN, drawn after the validation images of both are set aside."""
    objects, numbers = (Dataset(name, *_validated(spec, *_splits(name, spec))) for name in ("cifar10", "svhn"))
    mixed = svci20(objects, numbers, int(spec.argument), spec.seed)
    return mixed.train, mixed.test


def _validated(spec: Spec, train: Data, test: Data | None) -> Splits:
    """With ?validation=N, N training images of each class take the place of the test split."""
    per_class = spec.whole("validation", 1, len(train))
    return (train, test) if per_class is None else validation_split(train, per_class, spec.seed)


def places_lt(spec: Spec) -> Splits:
    """Places-LT, from its index files and images."""
    images = spec.file(spec.options["images"]) if "images" in spec.options else spec.root
    size = spec.size or (64, 64)

    def read(split: str) -> Data:
        labelled, classes = places.labelled_files(places.find(spec.root, split), images)
        files, labels = [file for file, _ in labelled], [name for _, name in labelled]
        build = partial(folder.decoding, labelled, size, 3, classes)
        return cached(f"Places-LT {split}", files, build, spec.progress, labels=labels, size=size)

    return align(read("train"), read(spec.one_of("judge", ("test", "val"))))


def _splits(name: str, spec: Spec) -> Splits:
    quality = spec.whole("jpeg", 1, 100)
    default = "train" if name == "svhn" or spec.source == "svci20" else "cifar"
    fractions = STATISTICS[spec.one_of("normalise", STATISTICS, default)]
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
