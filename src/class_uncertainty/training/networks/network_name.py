"""NetworkName: a network that is not the package's own, to train or as a backbone: 'timm:NAME?size=96'."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from class_uncertainty.data.examples import VIEWS
from class_uncertainty.data.spec import (
    LITE0,
    Reader,
    names_backbone,
    one_of,
    parse_spec,
    read_options,
    reader,
    split_argument,
    split_query,
    whole,
)
from class_uncertainty.errors import unknown
from class_uncertainty.training.networks.preprocessing import SIDES

BACKBONE = "backbone"
FORMS = (LITE0, "timm:NAME", "hf:NAME_OR_FOLDER", "PATH.py:FACTORY")
READERS: dict[str, Reader] = {
    "size": whole(*SIDES),
    "views": whole(*VIEWS),
    "weights": reader(Path, "a file"),
    "download": one_of(("no", "yes")),
}


@dataclass(frozen=True)
class NetworkName:
    """Who makes a network, which one, and what its options say."""

    text: str
    source: str  # efficientnet-lite0, timm, hf or a Python file
    argument: str  # the name of a model, its folder, or a function of the file
    size: int | None = None
    views: int | None = None
    weights: Path | None = None
    download: str = "no"

    @property
    def is_code(self) -> bool:
        """Whether a function of the user makes it."""
        return self.source.endswith(".py")


def parse_network(kind: str, text: str, others: Iterable[str] = ()) -> NetworkName:
    """The parts of the name of a network, or of a backbone; `others` are names that a refusal lists too."""
    if not names_backbone(text):
        raise unknown(kind, text, [*others, *FORMS])
    code = code_of(text)
    if code:
        source, argument = str(code[0]), code[1]
    else:
        source, argument = split_argument(kind, split_query(text)[0], FORMS)
    readers = READERS if kind == BACKBONE else {key: READERS[key] for key in READERS if key != "views"}
    return NetworkName(text, source, argument, **read_options(f"a {kind}", parse_spec(kind, text).options, readers))


def code_of(name: str) -> tuple[Path, str] | None:
    """The file and the function of 'PATH.py:FACTORY?option=value'; None for any other name."""
    file, _, factory = split_query(name)[0].rpartition(":")
    return (Path(file), factory) if file.endswith(".py") else None
