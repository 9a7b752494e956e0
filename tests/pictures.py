"""Pictures that can be told apart, as files, folders and columns; arrays with labels."""

import io

import numpy as np
from PIL import Image, ImageOps

LABELS = [0, 1, 0, 1, 1, 0]
FEATURES = np.arange(12.0).reshape(6, 2)
SPLIT = [
    ("cat/000.png", "train"),
    ("cat/001.png", "train"),
    ("cat/002.png", "test"),
    ("dog/003.png", "test"),
    ("dog/004.png", "train"),
]
SPLIT += [("dog/005.png", "training")]


def pixels(i, size=(4, 4)):
    """The picture of that number, (H, W, 3): no two are alike."""
    return np.random.default_rng(i).integers(0, 256, (*size, 3), dtype=np.uint8)


def encoded(image, kind="PNG", **options):
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind, **options)
    return file.getvalue()


def picture(path, i, size=(4, 4)):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(pixels(i, size)))


def tree(place, counts, start=0):
    """Folder -> how many pictures; they are numbered in the order of this dict, and so are their names."""
    i = start
    for folder, count in counts.items():
        for _ in range(count):
            picture(place / folder / f"{i:03}.png", i)
            i += 1


def numbers(data, most=100):
    """Which picture each example is."""
    number_of = {pixels(i).tobytes(): i for i in range(most)}
    return [number_of[image.transpose(1, 2, 0).tobytes()] for image in data.inputs]


def fitted(i, size, own, mode="RGB"):
    image = ImageOps.fit(Image.fromarray(pixels(i, own)).convert(mode), size[::-1], Image.Resampling.BICUBIC)
    return np.asarray(image).reshape(*size, -1).transpose(2, 0, 1)


def arrays(here, **given):
    given = {"x_train": FEATURES, "y_train": LABELS} | given
    np.savez(here / "arrays.npz", **{name: array for name, array in given.items() if array is not None})


def contents(*numbers):
    return [encoded(pixels(i)) for i in numbers]


def struct(*numbers):
    return [{"bytes": content, "path": f"{i}.png"} for i, content in zip(numbers, contents(*numbers), strict=True)]
