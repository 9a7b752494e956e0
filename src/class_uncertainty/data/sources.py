"""Data by name: 'digits-lt:20' is the source 'digits-lt' with the argument '20'; options follow as '?name=value&...'."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from class_uncertainty.data.core import Data, Dataset
from class_uncertainty.data.digits import digits
from class_uncertainty.data.shaping import long_tail
from class_uncertainty.errors import InputError, unknown


@dataclass(frozen=True)
class Spec:
    """A parsed name: source[:argument][?option=value&...]."""

    source: str
    argument: str
    options: dict[str, str]
    root: Path | None
    seed: int

    @property
    def name(self) -> str:
        """The same data have the same name: 'digits-lt:20.0' is 'digits-lt:20'."""
        try:
            argument = f"{float(self.argument):g}"
        except ValueError:
            argument = self.argument
        query = "&".join(f"{option}={value}" for option, value in sorted(self.options.items()))
        return self.source + (f":{argument}" if argument else "") + (f"?{query}" if query else "")


@dataclass(frozen=True)
class Source:
    about: str
    example: str
    read: Callable[[Spec], tuple[Data, Data]]  # (train, test)
    options: tuple[str, ...] = ()


def load(spec: str, *, root: str | Path | None = None, seed: int = 0) -> Dataset:
    """The data set of that name; `root` is the folder for sources that read files, `seed` draws the subset of a long tail."""
    parsed = _parse(spec, Path(root) if root else None, seed)
    return Dataset(parsed.name, *SOURCES[parsed.source].read(parsed))


def _parse(spec: str, root: Path | None, seed: int) -> Spec:
    head, _, query = spec.partition("?")
    source, _, argument = head.partition(":")
    if source not in SOURCES:
        raise unknown("data", spec, [row.example for row in SOURCES.values()])
    options = dict((part.partition("=")[::2]) for part in query.split("&") if part)
    for option in options:
        if option not in SOURCES[source].options:
            allowed = ", ".join(SOURCES[source].options) or "none"
            raise InputError(f"data {spec!r} has an unknown option {option!r}: {source!r} takes {allowed}.")
    return Spec(source, argument, options, root, seed)


def _digits(spec: Spec) -> tuple[Data, Data]:
    if spec.argument:
        raise InputError(f"'digits:{spec.argument}': 'digits' takes no argument; for a long tail write 'digits-lt:{spec.argument}'.")
    return digits()


def _digits_lt(spec: Spec) -> tuple[Data, Data]:
    train, test = digits()
    return long_tail(train, _ratio(spec), spec.seed), test


def _ratio(spec: Spec) -> float:
    try:
        return float(spec.argument)
    except ValueError:
        raise InputError(f"'{spec.source}:{spec.argument}' needs an imbalance ratio, as in '{SOURCES[spec.source].example}'.") from None


SOURCES: dict[str, Source] = {
    "digits": Source("8 x 8 handwritten digits, 120 training examples a class (comes with scikit-learn)", "digits", _digits),
    "digits-lt": Source("the same with a long tail: the ratio of the largest to the smallest class", "digits-lt:20", _digits_lt),
}
