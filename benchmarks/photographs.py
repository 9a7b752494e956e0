"""`cu fix` on about 1,000 photographs, beside one pass of them through the backbone. Expected: at most three times it.

    python benchmarks/photographs.py DATA_FOLDER

CIFAR-10 from the data folder is cut to 260 to 26 images a class, and enlarged to 200 x 160 pixels. One pass means that
every file is read, decoded at 224 pixels and passes through EfficientNet-Lite0, in a process of its own as `cu fix` is.
Then the same command runs again, which embeds and trains nothing.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

import class_uncertainty as cu

LARGEST, RATIO, TESTED, SIZE = 260, 10, 25, (200, 160)
PASS = "import sys; from class_uncertainty.workflows.load_named import load_named; load_named(sys.argv[1])"
DATA = "folder:photos"


def write_photographs(folder: str, place: Path) -> int:
    """Enlarged images of each split in a folder for each class; how many there are."""
    full, number = cu.load("cifar10", root=folder), 0
    assert full.test is not None
    for split, data, largest, ratio in (("train", full.train, LARGEST, RATIO), ("test", full.test, TESTED, 1)):
        few = data.take([i for c in range(len(data.classes)) for i in (data.labels == c).nonzero()[0][:largest]])
        for i, image in enumerate((cut := cu.long_tail(few, ratio)).inputs):
            file = place / split / cut.classes[cut.labels[i]] / f"{i}.jpg"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.transpose(1, 2, 0)).resize(SIZE, Image.Resampling.BICUBIC).save(file, quality=95)
        number += len(cut)
    return number


def seconds(place: Path, cache: str, *arguments: str) -> float:
    """Of a Python process, with a cache of its own."""
    environment = os.environ | {"CLASS_UNCERTAINTY_CACHE": str(place / cache)}
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main(folder: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        number = write_photographs(folder, place / "photos")
        one_pass = seconds(place, "pass", "-c", PASS, f"{DATA} by efficientnet-lite0")
        fix = ("-m", "class_uncertainty", "fix", DATA, "--save", "model")
        first, second = (seconds(place, "fix", *fix) for _ in range(2))
    print(f"{number:,} photographs: one pass {one_pass:.1f} s, cu fix {first:.1f} s, again {second:.1f} s")
    print(f"ratio {first / one_pass:.2f}, 3 at most expected")
    sys.exit(first > 3 * one_pass)


if __name__ == "__main__":
    main(*sys.argv[1:])
