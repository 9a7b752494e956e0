"""REMEDIES: what can be made of trained networks, as rows beside the methods that train them."""

from dataclasses import dataclass

from class_uncertainty.errors import InputError
from class_uncertainty.methods import named, parse_name
from class_uncertainty.training import DISTIL
from class_uncertainty.training.stages import distillation_cost

MAX_NETWORKS = 1000


@dataclass(frozen=True)
class Remedy:
    """Networks of one method, averaged and perhaps adjusted for the counts, or distilled into one student."""

    about: str
    adjusts: bool
    together: int = 0  # networks that are averaged; 0: as many as measure uncertainty
    mean: str = "geometric"  # "" leaves one network as it is
    method: str = "naive"
    distils: bool = False

    def trainings(self, members: int) -> float:
        """The cost in naive trainings, where that many members measure."""
        return distillation_cost(members) if self.distils else self.together or members


REMEDIES: dict[str, Remedy] = {
    "adjusted": Remedy("one naive network, its probabilities divided by N ** tau", adjusts=True, together=1),
    "ensemble": Remedy("geometric mean of naive members", adjusts=False),
    "ensemble-adjusted": Remedy("the same, divided by N ** tau", adjusts=True),
    "ensemble-arithmetic": Remedy("arithmetic mean of naive members", adjusts=False, mean="arithmetic"),
    "ensemble-arithmetic-adjusted": Remedy("the same, divided by N ** tau", adjusts=True, mean="arithmetic"),
    DISTIL: Remedy("one network taught by naive members, divided by N ** tau", adjusts=True, distils=True),
}


def find_remedy(name: str) -> Remedy | None:
    """A row of REMEDIES, or an ensemble: 'METHOD*5' or 'adjusted*5'. None where the name is a method's."""
    if name in REMEDIES:
        return REMEDIES[name]
    parts = parse_name(name)
    number, method = parts.networks, parts.single
    if number is None:
        if parts.row in REMEDIES:
            reason = "is a remedy, made of naive networks, and takes no constant, measure or augmentation"
            raise InputError(f"{name!r}: {parts.row!r} {reason}.")
        return None
    if not 2 <= number <= MAX_NETWORKS:
        raise InputError(f"{name!r} is an ensemble of {number}: it takes from 2 to {MAX_NETWORKS:,}.")
    if method == "adjusted":
        about = f"geometric mean of {number} naive networks, divided by N ** tau"
        return Remedy(about, adjusts=True, together=number)
    if method in REMEDIES:
        advice = f"--members (in Python members=) says how many {method!r} has"
        raise InputError(f"{name!r} is an ensemble of ensembles or students: {advice}.")
    named(method)
    return Remedy(f"geometric mean of {number} networks of {method}", adjusts=False, together=number, method=method)
