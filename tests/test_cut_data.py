"""A data folder that is cut down gives the same data sets."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
from PIL import Image

import class_uncertainty as cu

TOOL = Path(__file__).parents[1] / "tools" / "cut_data.py"


def write(file: Path, number: int, seed: int) -> None:
    """Random images of ten classes, in two row groups."""
    pixels = np.random.default_rng(seed).integers(0, 256, (number, 32, 32, 3), dtype=np.uint8)
    images = []
    for image in pixels:
        Image.fromarray(image).save(content := io.BytesIO(), "PNG")
        images.append({"bytes": content.getvalue(), "path": None})
    columns = {"image": images, "label": pyarrow.array(np.arange(number) % 10)}
    pyarrow.parquet.write_table(pyarrow.table(columns), file, row_group_size=number // 2)


def test_data_sets_are_the_same_from_the_small_folder(tmp_path):
    full, small = tmp_path / "full", tmp_path / "small"
    full.mkdir()
    for file, number, seed in (("train-0", 100, 0), ("train-1", 60, 1), ("test", 20, 2)):
        write(full / f"cifar10-{file}.parquet", number, seed)
    names = ["cifar10-lt:4", "cifar10-lt:4?validation=2"]
    done = subprocess.run([sys.executable, TOOL, full, small, *names], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in names:
        assert cu.load(name, root=small).fingerprint == cu.load(name, root=full).fingerprint
    assert cu.load("cifar10", root=small).fingerprint != cu.load("cifar10", root=full).fingerprint
    sizes = [sum(file.stat().st_size for file in folder.glob("*train*")) for folder in (small, full)]
    assert sizes[0] < 0.8 * sizes[1]
