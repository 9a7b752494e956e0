"""The baselines of Table I in Bag-of-Tricks' own tables, which the paper builds on."""

from collections.abc import Iterable
from dataclasses import dataclass

from class_uncertainty.paper.outcomes import Outcome
from class_uncertainty.paper.printed_tables import CB_FOCAL, TABLE_1

# Errors by column of Table I: of its older data (Cui's draw, JPEG, ImageNet's statistics), and of its present data
# (Cao's draw), which this package uses. From documents/trick_gallery.md, and for `naive` on present data its README (an
# earlier trick_gallery.md has 25.19 29.64 56.15 61.68).
_CAM = ("18.55 23.59 53.25 58.38", "19.28 23.10 53.27 58.05")
BAG_OF_TRICKS = {
    "naive": ("24.81 30.12 57.65 61.76", "23.55 28.05 56.22 62.27"),
    "cb-rs": ("23.38 30.35 61.07 66.47", "21.92 27.55 60.54 64.76"),
    "pb-rs": ("24.06 29.35 56.92 60.90", "21.43 28.02 56.88 60.96"),
    "focal": ("24.12 30.88 59.46 62.59", "22.09 28.44 58.21 62.78"),
    "cb:beta={cross}": ("22.91 29.80 57.98 61.50", "22.52 29.52 56.22 61.03"),
    CB_FOCAL: ("21.71 26.83 57.70 62.11", "21.01 24.80 57.63 61.44"),
    "ldam": ("23.15 29.37 57.86 61.24", "20.99 26.34 56.41 61.12"),
    "ldam-rw": ("20.31 24.61 54.46 59.08", "18.40 22.27 52.71 57.53"),
    "2s-cb-rs": ("21.18 27.08 54.26 58.66", "19.27 24.93 54.58 59.36"),
    "2s-pb-rs": ("21.82 27.73 54.60 59.20", "19.47 26.15 54.79 59.59"),
    "2s-cam-rs": _CAM,
    "2s-cam-rs-bot": _CAM,
    "2s-csce": ("20.71 26.66 54.77 59.36", "20.18 25.18 53.20 58.38"),
    "2s-focal": ("22.25 27.97 58.51 62.41", "20.68 28.85 56.39 62.47"),
    "2s-cb-focal:beta={beta}:gamma={gamma}": ("20.75 26.69 56.68 62.19", "18.62 24.57 55.01 61.94"),
    "balanced-softmax": ("20.07 23.63 54.55 56.82", "18.89 22.46 53.45 57.01"),
}


@dataclass(frozen=True)
class Published:
    """A baseline at Bag-of-Tricks' learning rate, and what has been published for it."""

    ours: Outcome
    error: float  # ours
    older: float
    present: float

    @property
    def from_paper(self) -> float | None:
        """Our error less the paper's, in points, if it has one."""
        return self.error - self.ours.cell.printed.mean if self.ours.cell.printed else None

    @property
    def nearest(self) -> float:
        """Our error less the nearest published one, the paper's among them, in points."""
        differences = (self.error - self.older, self.error - self.present, self.from_paper)
        return min((difference for difference in differences if difference is not None), key=abs)


def published(outcomes: Iterable[Outcome]) -> list[Published]:
    """The baselines of Table I among these outcomes that have been run under "paper"."""
    rows = []
    for one in outcomes:
        values = BAG_OF_TRICKS.get(one.cell.row.method) if one.cell.data in TABLE_1.columns else None
        if values and one.protocol == "paper" and one.mean is not None:
            column = TABLE_1.columns.index(one.cell.data)
            rows.append(Published(one, one.mean, *(float(errors.split()[column]) for errors in values)))
    return rows
