"""A data set as the first line of a command says it."""

from class_uncertainty.data import Dataset
from class_uncertainty.data.folding import FOLDS
from class_uncertainty.data.spec import short_name


def describe_data(dataset: Dataset) -> str:
    """'photos: 2,022 training and 505 test images, 6 classes of 110 to 475, features by efficientnet-lite0'."""
    train, test = dataset.train, dataset.test
    if train.is_images or train.embedding is not None:
        noun = "images"
    elif train.encoding:
        noun = "rows"
    else:
        noun = "examples"
    if test is None:
        size = f"{len(train):,} {noun}, judged by {FOLDS} folds"
    else:
        size = f"{len(train):,} training and {len(test):,} test {noun}"
    columns = f", {len(train.encoding):,} columns" if train.encoding else ""
    least, most = int(train.counts.min()), int(train.counts.max())
    each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    features = f", features by {train.embedding.backbone}" if train.embedding is not None else ""
    return f"{short_name(dataset.name)}: {size}{columns}, {len(dataset.classes):,} classes of {each}{features}"
