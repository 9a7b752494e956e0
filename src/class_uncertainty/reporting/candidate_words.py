"""What a candidate does, in words."""

from class_uncertainty.methods import named, parse_name
from class_uncertainty.text import short
from class_uncertainty.training.candidate import Candidate


def describe_candidate(candidate: Candidate) -> str:
    """Its method, its augmentations, and what it changes in the recipe."""
    words, fields = [named(candidate.method).about], candidate.fields
    if augmentations := parse_name(candidate.method).augmentations:
        words.append(f"with {' and '.join(augmentations)}")
    if candidate.kind:
        words.append(f"by the recipe {candidate.kind}")
    if candidate.rate != 1:
        words.append(f"{short(candidate.rate)} times the learning rate")
    if "lr" in fields:
        words.append(f"learning rate {short(fields['lr'])}")
    words += [f"{name.replace('_', ' ')} {_value(value)}" for name, value in candidate.changes.items()]
    return "; ".join(words)


def _value(value: object) -> str:
    return short(value) if isinstance(value, float) else str(value)
