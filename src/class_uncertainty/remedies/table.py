"""REMEDIES: what can be made of trained networks, beside the methods that train them."""

import re
from dataclasses import dataclass

from class_uncertainty.errors import InputError
from class_uncertainty.methods import named
from class_uncertainty.training import DISTIL

MOST = 1000  # networks


@dataclass(frozen=True)
class Remedy:
    """Networks of one method, alone or together, adjusted for the counts or not; or one that learns from all of them, adjusted."""

    about: str
    adjusts: bool
    together: int = 0  # networks; 0: as many as measure uncertainty
    mean: str = "geometric"  # of them
    method: str = "naive"
    distils: bool = False

    def trainings(self, members: int) -> float:
        """In naive ones, where that many measure; a teacher's pass forward is a third of a student's step."""
        return members + 1 + members / 3 if self.distils else self.together or members


REMEDIES: dict[str, Remedy] = {
    "adjusted": Remedy("the naive network, its probabilities divided by N ** tau", adjusts=True, together=1),
    "ensemble": Remedy("naive members together: their geometric mean", adjusts=False),
    "ensemble-adjusted": Remedy("the same, divided by N ** tau", adjusts=True),
    "ensemble-arithmetic": Remedy("naive members together: their arithmetic mean", adjusts=False, mean="arithmetic"),
    "ensemble-arithmetic-adjusted": Remedy("the same, divided by N ** tau", adjusts=True, mean="arithmetic"),
    DISTIL: Remedy("one network that learns what naive members say together, divided by N ** tau", adjusts=True, distils=True),
}


def remedy_named(name: str) -> Remedy | None:
    """A row of REMEDIES, or 'METHOD*5', so many networks of a method together, 'adjusted*5' too; None where it is a method."""
    if name in REMEDIES:
        return REMEDIES[name]
    found = re.fullmatch(r"(.+)\*(\d+)", name)
    if not found:
        if (base := re.split("[@+]", name)[0]) in REMEDIES:
            raise InputError(f"{name!r}: {base!r} is a remedy, made of naive networks, and takes no measure or augmentation.")
        return None
    method, number = found[1], int(found[2])
    if not 2 <= number <= MOST:
        raise InputError(f"{name!r} is an ensemble of {number}: it takes from 2 to {MOST:,}.")
    if method in REMEDIES and method != "adjusted":
        raise InputError(f"{name!r} is an ensemble of ensembles or students: --members says how many {method!r} has.")
    if method == "adjusted":
        return Remedy(f"{number} naive networks together, divided by N ** tau", adjusts=True, together=number)
    named(method)
    return Remedy(f"{number} networks of {method} together", adjusts=False, together=number, method=method)
