"""What reading left out because an option allowed it: counted, and the first few named."""

from dataclasses import dataclass

from class_uncertainty.text import enumerated

FEW = 5  # names in a sentence


@dataclass(frozen=True)
class LeftOut:
    """'?skip=unreadable left out 3 of 2,527 images: a.txt, b.png and c.png.'"""

    option: str
    what: str  # images, rows or classes
    number: int
    of: int
    names: tuple[str, ...] = ()  # of all, or of the first few, as they are listed

    def __str__(self) -> str:
        named = f": {enumerated(self.names, FEW, self.number)}" if self.names else ""
        return f"{self.option} left out {self.number:,} of {self.of:,} {self.what}{named}."
