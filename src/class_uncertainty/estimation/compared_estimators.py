"""Estimators that are compared: each with its natural score or another, at every learning rate, beside an ensemble."""

from collections.abc import Sequence

from class_uncertainty.checks import check_distinct
from class_uncertainty.errors import InputError
from class_uncertainty.estimation.estimators import EstimateRequest
from class_uncertainty.measures import SCORES

Requests = dict[tuple[str, float | None], EstimateRequest]  # by estimator and learning rate


def compared_estimators(
    names: Sequence[str], members: int, rates: Sequence[float | None]
) -> tuple[Requests, list[tuple[str, str]]]:
    """The estimates to make, and (estimator, score) of each row; refuses what there is not before data are read.

    An ensemble is among them always. The others have other seeds, so that no network is compared with itself.
    """
    check_distinct("estimator", names)
    check_distinct("learning rate", rates)
    wanted = [_split_score(name) for name in names]
    others = dict.fromkeys(name for name, _ in wanted if name != "ensemble")
    requests = {(name, lr): EstimateRequest(name, members, members, lr) for lr in rates for name in others}
    requests |= {("ensemble", lr): EstimateRequest("ensemble", members, 0, lr) for lr in rates}
    scored = [(name, score or requests[name, rates[0]].row.natural) for name, score in wanted]
    if (reference := ("ensemble", requests["ensemble", rates[0]].row.natural)) not in scored:
        scored.insert(0, reference)
    if repeated := next((pair for i, pair in enumerate(scored) if pair in scored[:i]), None):
        raise InputError(f"estimator {repeated[0]} is given twice by {repeated[1]}: each must be there once.")
    for name, score in scored:
        requests[name, rates[0]].check_score(score)
    return requests, scored


def _split_score(name: str) -> tuple[str, str]:
    """(estimator, score) of 'online=predictive'; the score is "" where none is given.

    Names of files and constants of methods may have '=' too.
    """
    estimator, equals, score = name.rpartition("=")
    if equals and not score:
        raise InputError(f"{name!r} names no score after its equals sign: give one, as in online=predictive.")
    kind, _, argument = estimator.partition(":")
    *others, last = argument.split(":")
    is_complete = kind == "ensemble" and ("=" in last or not others)  # a constant of its method has a value, if any
    return (estimator, score) if equals and (is_complete or not argument or score in SCORES) else (name, "")
