"""Findings: what is wrong with data, and the option or command that deals with it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from class_uncertainty.errors import InputError, notice

KINDS = {  # in the order in which findings are listed
    "two-labels": "identical examples of different classes, counted under no other kind",
    "test-copies": "test examples that repeat a training example",
    "shared-groups": "groups that are in both splits",
    "no-test": "classes without test examples",
    "few-test": "classes with fewer than five test examples",
    "unreadable": "files that cannot be read as images, or are too large",
    "rare-classes": "classes with too few training examples",
    "mixed-columns": "columns that mix numbers and text, or cannot be read otherwise",
    "missing-values": "columns with missing values",
    "id-columns": "columns that look like identifiers",
    "twin-names": "class names that differ only in case, spaces or invisible characters",
    "small-images": "images smaller than the backbone takes",
    "left-out": "data that an option leaves out",
    "copies": "training examples that repeat another",
    "constant-columns": "columns with a single value",
}


@dataclass(frozen=True)
class Finding:
    """A problem of the data.

    Attributes
    ----------
    kind : str
        What `cu check --fail-on` names.
    sentence : str
        What was found.
    advice : str
        The option or command that deals with it.
    number : int
        How many examples, classes, files or columns are affected.
    examples : tuple of str
        Which ones.
    is_minor : bool
        Whether only `cu check` reports it.

    Examples
    --------
    >>> data = cu.Data([[1.0], [1.0], [2.0], [3.0]], ["cat", "dog", "cat", "dog"])
    >>> finding = cu.check(data).findings[0]
    >>> finding.kind, finding.number, finding.examples
    ('two-labels', 1, ('example 0 (cat) = example 1 (dog)',))
    """

    kind: str
    sentence: str
    advice: str
    number: int
    examples: tuple[str, ...] = ()
    is_minor: bool = False

    def __str__(self) -> str:
        return f"{self.sentence}: {self.advice}."


def notice_findings(findings: Iterable[Finding]) -> None:
    """Log each finding."""
    for finding in findings:
        notice(str(finding))


class DataProblem(InputError):
    """Data that cannot be used as they are.

    `relief` has the options that make the data readable, None for one to remove. With them `cu check` finds further
    problems. `findings` are the problems that these options hide.
    """

    def __init__(self, sentence: str, relief: Mapping[str, str | None], findings: tuple[Finding, ...] = ()) -> None:
        super().__init__(sentence)
        self.relief = relief
        self.findings = findings
