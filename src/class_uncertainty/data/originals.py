"""The paper's data sets, from whichever of their forms lies in the data folder."""

from collections.abc import Callable
from pathlib import Path

from class_uncertainty.data import cifar, folder, parquet, places, svhn
from class_uncertainty.data.cache import Decoding, cached
from class_uncertainty.data.core import Data, Dataset, align
from class_uncertainty.data.images import jpeg
from class_uncertainty.data.shaping import long_tail, svci20, validation_split
from class_uncertainty.data.specs import Spec, Splits
from class_uncertainty.errors import InputError

STATISTICS = {  # of pixels from 0 to 1, by channel
    "cifar": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),  # as LDAM-DRW and Bag-of-Tricks have them, for CIFAR-100 too
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "train": None,  # those of the training examples
}
CIFAR = {"cifar10": cifar.CIFAR10, "cifar100": cifar.CIFAR100}


def original(name: str) -> Callable[[Spec], Splits]:
    """A reader of cifar10, cifar100 or svhn."""

    def read(spec: Spec) -> Splits:
        return _splits(name, spec)

    return read


def tailed(read: Callable[[Spec], Splits]) -> Callable[[Spec], Splits]:
    """The same data with a long tail, judged on a validation split cut before it where one is asked for."""

    def read_tailed(spec: Spec) -> Splits:
        train, test = read(spec)
        per_class = spec.whole("validation", 1, len(train))
        if per_class is not None:
            train, test = validation_split(train, per_class, spec.seed)
        return long_tail(train, float(spec.argument), spec.seed), test

    return read_tailed


def svci(spec: Spec) -> Splits:
    objects, numbers = (Dataset(name, *_splits(name, spec)) for name in ("cifar10", "svhn"))
    mixed = svci20(objects, numbers, int(spec.argument), spec.seed)
    return mixed.train, mixed.test


def places_lt(spec: Spec) -> Splits:
    pictures = spec.file(spec.options["images"]) if "images" in spec.options else spec.root
    size = spec.size or (64, 64)

    def split(which: str) -> Data:
        listed, classes = places.listed(places.find(spec.root, which), pictures)
        build = lambda: folder.decoding(listed, size, 3, classes)  # noqa: E731
        return cached(
            f"Places-LT {which}", [file for file, _ in listed], build, spec.progress, labels=[name for _, name in listed], size=size
        )

    return align(split("train"), split(spec.one_of("judge", ("test", "val"))))


def _splits(name: str, spec: Spec) -> Splits:
    quality = spec.whole("jpeg", 1, 100)
    own = "train" if name == "svhn" else "cifar"
    by_channel = STATISTICS[spec.one_of("normalise", STATISTICS, default="train" if spec.source == "svci20" else own)]
    statistics = by_channel and ([255 * mean for mean in by_channel[0]], [255 * deviation for deviation in by_channel[1]])

    def split(which: str) -> Data:
        files, decode = _find(name, spec.root, which)

        def build() -> Decoding:
            found = decode()
            return found if quality is None else Decoding(found.labels, found.classes, found.shape, jpeg(found.batches, quality))

        data = cached(f"{name} {which}", files, build, spec.progress, jpeg=quality)
        return Data(data.inputs, data.labels, data.classes, statistics=statistics)

    return align(split("train"), split("test"))


def _find(name: str, root: Path, split: str) -> tuple[list[Path], Callable[[], Decoding]]:
    """The files of a split, and how they are decoded."""
    if name == "svhn":
        if mat := svhn.find(root, split):
            return [mat], lambda: svhn.decoding(mat)
    elif place := cifar.find(CIFAR[name], root):
        return cifar.files(CIFAR[name], *place, split), lambda: cifar.decoding(CIFAR[name], *place, split)
    files = parquet.by_split(sorted([*root.glob(f"{name}[-_]*.parquet"), *parquet.below(root / name)])).get(split)
    if files:
        classes = svhn.DIGITS if name == "svhn" else CIFAR[name].classes
        return files, lambda: parquet.decoding(files, None, size=(32, 32), classes=classes)
    raise InputError(
        f"{name} is not in the data folder {root}: 'cu data fetch {name}' gets it; --root or CLASS_UNCERTAINTY_DATA names another folder."
    )
