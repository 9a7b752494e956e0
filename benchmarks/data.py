"""Reading data: first load against the `datasets` library, second load from the cache, and a folder of 20,000 small
pictures.

    python benchmarks/data.py FOLDER        FOLDER holds cifar10-train.parquet and cifar10-test.parquet

Both readers run side by side, alternating, each round with an empty cache; the ratio is of medians. Memory is that of a
process of its own.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 3
PICTURES = 20_000


def first_load(root: Path) -> float:
    """Seconds to decode all 60,000 images with an empty cache."""
    from class_uncertainty import load

    with tempfile.TemporaryDirectory() as cache:
        os.environ["CLASS_UNCERTAINTY_CACHE"] = cache
        began = time.perf_counter()
        dataset = load("cifar10", root=root)
        took = time.perf_counter() - began
        assert len(dataset.train) == 50_000
        return took


def first_load_of_datasets(root: Path) -> float:
    """The same by `datasets` and Pillow, in one thread, into one array a split."""
    import datasets
    import numpy as np

    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as cache:
        files = {split: str(root / f"cifar10-{split}.parquet") for split in ("train", "test")}
        began = time.perf_counter()
        splits = datasets.load_dataset("parquet", data_files=files, cache_dir=cache)
        for split in splits.values():
            pixels = np.stack([np.asarray(row["image"].convert("RGB")) for row in split])
        took = time.perf_counter() - began
        assert pixels.shape == (10_000, 32, 32, 3)
        return took


MEMORY = """
import json, sys, time
def memory(field):  # megabytes: VmRSS now, VmHWM at the most since it was last reset (Linux)
    return next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith(field))
def from_now():
    open("/proc/self/clear_refs", "w").write("5")
    return memory("VmRSS")
"""

SECOND = """
import class_uncertainty
before = from_now()
began = time.perf_counter()
dataset = class_uncertainty.load("cifar10", root=sys.argv[1])
took = time.perf_counter() - began
print(json.dumps({"seconds": took, "megabytes": memory("VmHWM") - before}))
"""

OWN = """
import class_uncertainty as cu, torch
recipe, lanes = cu.Recipe("small-conv", epochs=1, batch=32, crop=1), [cu.Lane(seed=s) for s in range(5)]
few = cu.Data(torch.zeros(64, 3, 32, 32, dtype=torch.uint8).numpy(), [0, 1] * 32)
cu.fit(few, lanes, recipe=recipe)
rest = from_now()
cu.fit(few, lanes, recipe=recipe)
networks = memory("VmHWM") - rest  # what training takes however few the examples
before, last = from_now(), 0.0
def decoded(what, done, total):
    global last
    last = time.perf_counter()
dataset = cu.load("folder:" + sys.argv[1], progress=decoded)
dataset.fingerprint, dataset.duplicates
starts, decoding = time.perf_counter() - last, memory("VmHWM") - before
cu.fit(dataset.train, lanes, recipe=recipe)
array = dataset.train.inputs.nbytes / 2**20
training = memory("VmHWM") - before - networks
print(json.dumps({"starts": starts, "array": array, "decoding": decoding, "training": training, "networks": networks}))
"""


def alone(script: str, *args: str) -> dict[str, float]:
    """What a script prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", MEMORY + script, *args], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def write_folder(root: Path, folder: Path) -> None:
    """Real images as PNG files, a folder a class."""
    from PIL import Image

    from class_uncertainty import load

    train = load("cifar10", root=root).train
    for i in range(PICTURES):
        file = folder / train.classes[train.labels[i]] / f"{i}.png"
        file.parent.mkdir(exist_ok=True)
        Image.fromarray(train.inputs[i].transpose(1, 2, 0)).save(file)


def main(root: Path) -> None:
    times: dict[str, list[float]] = {"ours": [], "datasets": []}
    for _ in range(ROUNDS):
        times["datasets"].append(first_load_of_datasets(root))
        times["ours"].append(first_load(root))
    ours, theirs = (statistics.median(times[name]) for name in ("ours", "datasets"))
    rounds = ", ".join(f"{b / a:.2f}" for a, b in zip(times["ours"], times["datasets"], strict=True))
    print(
        f"first load of 60,000 images: {theirs / ours:.2f} x as fast as datasets + Pillow (rounds {rounds}); limit 1.5"
    )
    with tempfile.TemporaryDirectory() as place:
        os.environ["CLASS_UNCERTAINTY_CACHE"] = f"{place}/cache"
        alone(SECOND, str(root))
        again = alone(SECOND, str(root))
        print(f"second load: {again['seconds']:.3f} s (limit 0.2), {again['megabytes']:.1f} MB more memory (limit 50)")
        (folder := Path(place) / "pictures").mkdir()
        write_folder(root, folder)
        photos = alone(OWN, str(folder))
        decoding, training = (photos["decoding"] / photos["array"], photos["training"] / photos["array"])
        print(
            f"folder of {PICTURES:,} pictures: training starts {photos['starts']:.2f} s after the last is decoded; "
            f"memory {decoding:.2f} x the decoded array then, {training:.2f} x in training (limit 2), "
            f"beside {photos['networks']:.0f} MB that five lanes take however few the examples"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else os.environ["CLASS_UNCERTAINTY_DATA"]))
