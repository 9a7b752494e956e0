"""Hugging Face datasets: from a DatasetDict with images to class uncertainties, without a file in between.

    pip install class-uncertainty[datasets]
    python examples/hf_datasets.py

The splits are made here, of scikit-learn's digits, so that nothing is downloaded: `datasets.load_dataset` gives the
same.
"""

import datasets
from PIL import Image

import class_uncertainty as cu

NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def made_of(data: cu.Data) -> datasets.Dataset:
    """A split as the Hub has them: encoded images, and labels with names."""
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)})
    columns = {"image": [Image.fromarray(pixels[0]) for pixels in data.inputs], "label": data.labels}
    return datasets.Dataset.from_dict(columns, features=features)


def main() -> None:
    digits = cu.load("digits-lt:20")
    splits = datasets.DatasetDict(train=made_of(digits.train), test=made_of(digits.test))

    dataset = cu.Dataset.from_hf(splits, image="image", label="label", channels=1)
    print(f"{len(dataset.train)} training images, {len(dataset.test)} test images of {', '.join(dataset.classes)}")

    recipe = cu.Recipe("small-conv", epochs=5, batch=32)  # enough to see it work
    measured = cu.measure(dataset, recipe=recipe, members=2)
    for name, share, count in zip(dataset.classes, measured.estimate.mu, dataset.train.counts, strict=True):
        print(f"  {name:6} {share:.3f}  {count}")


if __name__ == "__main__":
    main()
