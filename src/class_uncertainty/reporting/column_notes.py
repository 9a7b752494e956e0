"""What stands below a table of a terminal about its columns; a column that had no room is in no note."""

from collections.abc import Callable, Mapping, Sequence

from class_uncertainty.metrics import FEW, MANY

# (columns) -> a note on them, or what makes one of those that are shown
Notes = Mapping[tuple[str, ...], str | Callable[[Sequence[str]], str]]


def notes_on(notes: Notes, dropped: Sequence[str]) -> list[str]:
    """The notes on columns that are shown."""
    texts = []
    for columns, note in notes.items():
        if shown := [column for column in columns if column not in dropped]:
            texts.append(note if isinstance(note, str) else note(shown))
    return texts


def _on_each(before: str, words: Mapping[str, str], between: str, after: str) -> Callable[[Sequence[str]], str]:
    """A sentence that has words for each column that is shown."""

    def note(columns: Sequence[str]) -> str:
        first, *rest = (words[column] for column in columns)
        return f"{before}{between.join([first if before else first[0].upper() + first[1:], *rest])}{after}"

    return note


def _sizes(columns: Sequence[str]) -> str:
    """'Medium, few: classes with 20 to 100, and fewer than 20 training examples.'"""
    *first, last = (_SIZES[column] for column in columns)
    numbers = f"{', '.join(first)}, and {last}" if first else last
    return f"{', '.join(columns).capitalize()}: classes with {numbers} training examples."


_EXAMPLES = _on_each("", {"train": "train", "test": "test"}, ", ", ": numbers of examples.")
_SHARES = _on_each("", {"rarity": "rarity (μ^C)", "uncertainty": "uncertainty (μ^U)"}, " and ", ": shares of 1.")
_RANKS = _on_each("Rank 1 is the ", {"rank rarity": "rarest", "rank unc.": "most uncertain"}, " or ", ".")
CLASS_NOTES: Notes = {
    ("rarity", "uncertainty"): _SHARES,
    ("rank rarity", "rank unc."): _RANKS,
    ("effective", "rank eff."): "Effective: rarity by the effective number of examples.",
    ("disputed",): "Disputed: how much of the uncertainty is disagreement between networks (epistemic).",
    ("train", "test"): _EXAMPLES,
    ("95 %",): "95 %: the error's interval.",
}
CHANGE_NOTES: Notes = {
    ("train", "test"): _EXAMPLES,
    ("95 %",): "95 %: the interval of the error before.",
    ("its 95 %",): "Its 95 %: the interval of the change, paired.",
}
_CORRELATED = {"ρ ensemble": "with the ensemble's", "ρ error": "with the naive class errors"}
ESTIMATOR_NOTES: Notes = {
    ("trainings",): "Trainings: in units of one network.",
    (*_CORRELATED,): _on_each("ρ: Spearman's correlation of the class uncertainties ", _CORRELATED, ", and ", "."),
    ("ens. beyond N", "err. beyond N"): "Beyond N: the same after the ranks of the counts are regressed out.",
}
_SIZES = {"many": f"more than {MANY}", "medium": f"{FEW} to {MANY}", "few": f"fewer than {FEW}"}
METHOD_NOTES: Notes = {
    ("overall",): "Overall: of all examples.",
    ("trainings",): "Trainings: all that lead to one network, in units of one naive training.",
    (*_SIZES,): _sizes,
    ("worst 10th",): "Worst 10th: of the classes.",
}
