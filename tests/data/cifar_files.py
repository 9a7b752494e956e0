"""CIFAR in every form in which it is published, with few images."""

import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
from PIL import Image

N = 20  # images in a batch: two a class


def pickled(batches, key="labels", protocol=2):
    """As the originals are: protocol 2, bytes for keys, a list of labels."""
    return {
        name: pickle.dumps({b"data": pixels, key.encode(): labels.tolist(), b"batch_label": b"x"}, protocol)
        for name, (pixels, labels) in batches.items()
    }


def binary(batches, before=1):
    return {
        f"{name}.bin": np.column_stack([*[labels * 0] * (before - 1), labels, pixels]).astype(np.uint8).tobytes()
        for name, (pixels, labels) in batches.items()
    }


def write(folder: Path, contents: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


def archive(file: Path, contents: dict[str, bytes]) -> Path:
    with tarfile.open(file, "w:gz") as tar:
        for name, content in contents.items():
            info = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file


def parquet(file: Path, pixels, labels, form="PNG"):
    def encoded(image):
        stream = io.BytesIO()
        Image.fromarray(image.reshape(3, 32, 32).transpose(1, 2, 0)).save(stream, form, lossless=True)
        return stream.getvalue()

    images = pyarrow.array([{"bytes": encoded(image), "path": None} for image in pixels])
    pyarrow.parquet.write_table(pyarrow.table({"img": images, "label": pyarrow.array(labels)}), file)


FORMS = {
    "pickles": lambda root, batches: write(root / "cifar-10-batches-py", pickled(batches)),
    "newer pickles": lambda root, batches: write(root / "cifar-10-batches-py", pickled(batches, protocol=4)),
    "archive of pickles": lambda root, batches: archive(root / "cifar-10-python.tar.gz", pickled(batches)),
    "binaries": lambda root, batches: write(root / "cifar-10-batches-bin", binary(batches)),
    "archive of binaries": lambda root, batches: archive(root / "cifar-10-binary.tar.gz", binary(batches)),
    "Parquet, several files": lambda root, batches: [
        parquet(root / f"cifar10-{'test' if 'test' in name else 'train'}-{name}.parquet", *batch)
        for name, batch in batches.items()
    ],
    "Parquet in a folder, WebP": lambda root, batches: [
        (root / "cifar10").mkdir(exist_ok=True),
        *(
            parquet(root / "cifar10" / f"{'test' if 'test' in name else 'train'}-{name}.parquet", *batch, form="WEBP")
            for name, batch in batches.items()
        ),
    ],
}
