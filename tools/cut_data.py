"""Cut a data folder down to what some data sets draw, so that it can travel to a machine that is lent for an hour.

    python tools/cut_data.py FOLDER SMALL cifar100-lt:50 "cifar100-lt:50?validation=50"

Every training image that none of the data sets uses is replaced by one black image. Positions and labels stay, so that
all draws stay the same: data sets loaded from SMALL have the fingerprints that they have in FOLDER. CIFAR and SVHN in
Parquet, as in docs/data.md; test files are copied whole.
"""

import argparse
import io
import shutil
from pathlib import Path

import numpy as np
import pyarrow as arrow
from numpy.typing import NDArray
from PIL import Image
from pyarrow import parquet

import class_uncertainty as cu

BASES = {
    "cifar10": ("cifar10", "cifar10-lt", "svci20"),
    "cifar100": ("cifar100", "cifar100-lt"),
    "svhn": ("svhn", "svci20"),
}
IMAGES = ("image", "img")  # the column's name


def used_images(folder: Path, base: str, specs: list[str]) -> NDArray[np.bool_]:
    """Which training images of CIFAR or SVHN the data sets use, to train or to judge."""
    digests = []
    for spec in specs:
        dataset = cu.load(spec, root=folder)
        digests += [part.digests for part in (dataset.train, dataset.test) if part is not None]
    return np.isin(cu.load(base, root=folder).train.digests, np.concatenate(digests))


def without(file: Path, target: Path, used: NDArray[np.bool_]) -> None:
    """A Parquet file whose other images are black."""
    table = parquet.read_table(file)
    name = next(name for name in IMAGES if name in table.column_names)
    column = table[name].combine_chunks()
    side = Image.open(io.BytesIO(column[0]["bytes"].as_py())).size
    Image.new("RGB", side).save(black := io.BytesIO(), "WEBP", lossless=True)
    content = [
        value.as_py() if kept else black.getvalue() for value, kept in zip(column.field("bytes"), used, strict=True)
    ]
    fields = list(column.type)
    parts = [
        arrow.array(content, field.type) if field.name == "bytes" else column.field(field.name) for field in fields
    ]
    place, field = table.column_names.index(name), table.schema.field(name)
    table = table.set_column(place, field, arrow.StructArray.from_arrays(parts, fields=fields))
    parquet.write_table(table, target, compression="zstd", use_dictionary=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("small", type=Path)
    parser.add_argument("data", nargs="+", help="data sets, as 'cu list data' lists them")
    given = parser.parse_args()
    given.small.mkdir(parents=True, exist_ok=True)
    for base, sources in BASES.items():
        if specs := [spec for spec in given.data if spec.partition(":")[0] in sources]:
            used, start = used_images(given.folder, base, specs), 0
            for file in sorted(given.folder.glob(f"{base}-train*.parquet")):
                rows = parquet.read_metadata(file).num_rows
                without(file, given.small / file.name, used[start : start + rows])
                start += rows
            for file in given.folder.glob(f"{base}-test*.parquet"):
                shutil.copy(file, given.small)
            print(f"{base}: {used.sum():,} of {len(used):,} training images")
    print(f"{given.small}: {sum(file.stat().st_size for file in given.small.iterdir()) / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
