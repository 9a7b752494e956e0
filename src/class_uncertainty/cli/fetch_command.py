"""`cu data fetch`: the original files of a data set."""

from typing import Annotated

from class_uncertainty.cli.options import JSON, ROOT, argument


def fetch(
    name: Annotated[str, argument("cifar10, cifar100 or svhn.", "NAME")], root: ROOT = None, as_json: JSON = False
) -> None:
    """Download the original files of a data set and check them.

    cu data fetch cifar10
    """
    from class_uncertainty.data.download import fetch as download
    from class_uncertainty.data.spec import data_folder
    from class_uncertainty.reporting import terminal

    with terminal.progress_bars("bytes") as progress:
        files = [str(file) for file in download(name, data_folder(root), progress)]
    if as_json:
        terminal.print_json({"files": files})
    else:
        terminal.say(*(f"{file} is there, with its published checksum" for file in files))
