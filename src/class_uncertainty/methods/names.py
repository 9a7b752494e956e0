"""The grammar of method names: `row:constant=value@measure:constant=value^power+augmentation*N`.

Everything behind the row may be left out; `*N` stands for N networks together.
"""

import re
from dataclasses import dataclass, replace

from class_uncertainty.errors import InputError, unknown
from class_uncertainty.measures import measure_named, row_with, split_constants
from class_uncertainty.methods.method import Method
from class_uncertainty.methods.registry import MAKERS, METHODS


@dataclass(frozen=True)
class MethodName:
    """A name in its parts, which need not exist; `str` puts them together again."""

    row: str  # of METHODS or of REMEDIES
    measure: str | None = None  # behind "@", with its constants and its power
    augmentations: tuple[str, ...] = ()  # behind each "+"
    networks: int | None = None  # behind "*"
    constants: tuple[str, ...] = ()  # of the row, "name=value" behind each ":"

    def __str__(self) -> str:
        measure = "" if self.measure is None else f"@{self.measure}"
        networks = "" if self.networks is None else f"*{self.networks}"
        row = ":".join([self.row, *self.constants])
        return row + measure + "".join(f"+{name}" for name in self.augmentations) + networks

    @property
    def single(self) -> str:
        """The name without `*N`: that of one network."""
        return str(replace(self, networks=None))


def parse_name(name: str) -> MethodName:
    """The parts of a name. Only the grammar counts: whether they exist is not checked."""
    ensemble = re.fullmatch(r"(.+)\*(\d{1,99})", name)
    driven, *augmentations = (ensemble[1] if ensemble else name).split("+")
    named_row, at, measure = driven.partition("@")
    row, constants = split_constants(named_row)
    networks = int(ensemble[2]) if ensemble else None
    return MethodName(row, measure if at else None, tuple(augmentations), networks, constants)


def named(name: str) -> Method:
    """The method of one network by its name: a row of METHODS with its constants, its measure and augmentations."""
    parts = parse_name(name)
    if parts.networks is not None:
        raise unknown("method", name, METHODS, listing="'cu list methods' lists all")
    method = row_with("method", parts.row, parts.constants, METHODS, MAKERS)
    if parts.measure is not None:
        if not method.can_be_driven:
            raise InputError(f"method {parts.row!r} has no knob for a measure to drive: leave out '@{parts.measure}'.")
        method = method.using(measure_named(parts.measure))
        if parts.constants:
            plain = named(f"{parts.row}@{parts.measure}")
            if replace(method, about=plain.about, origin=plain.origin) == plain:
                lost = f"@{parts.measure} takes the place of what {' and '.join(parts.constants)} sets"
                raise InputError(f"method {name!r}: {lost}; give it as {parts.row}@{parts.measure}.")
    return method.augmented(*parts.augmentations) if parts.augmentations else method
