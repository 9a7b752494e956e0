"""Conditions of a gate: what they mean, and how wrong ones are refused."""

import pytest
from audits import audited
from refusals import refused

from class_uncertainty.posthoc.gate import CHANGES, CLASS_FIGURES, FIGURES, broken, parse_condition, parse_conditions


def holds(text: str, baseline: bool = False) -> bool:
    return bool(audited(1).broken([text], audited(0) if baseline else None))


@pytest.mark.parametrize("sign", [">", ">=", "<", "<="])
def test_every_sign_compares(sign: str) -> None:
    error = audited(1).figures.error
    expected = {">": (True, False), ">=": (True, True), "<": (False, False), "<=": (False, True)}[sign]
    assert (holds(f"error {sign} {error - 1}"), holds(f"examples {sign} 400")) == expected


def test_every_name_can_be_asked_for() -> None:
    now = audited(1)
    for name in FIGURES:
        assert holds(f"{name} > -1000"), name
    for name in CLASS_FIGURES:
        assert holds(f"{name}[yak] > -1000", baseline=True), name
    for name in CHANGES:
        assert holds(f"{name} > -1000", baseline=True), name
    assert now.broken(["error < 0"]) == []


def test_a_class_s_figures_are_its_own() -> None:
    yak = audited(1).classes[3]
    assert holds(f"error[yak] >= {yak.error}")
    assert not holds(f"error[yak] > {yak.error}")
    assert holds(f"error_low['yak'] > {yak.low - 0.01}")
    assert not holds(f'error_low["yak"] > {yak.low + 0.01}')


def test_one_line_says_what_is_broken() -> None:
    now = audited(1)
    lines = now.broken(["worst_class_error > 1", "error[cat]  >  0.5", "ece > 99"])
    worst = f"{now.figures.worst_class_error:g}"
    assert lines == [
        f"worst_class_error > 1: worst_class_error is {worst} (yak).",
        f"error[cat] > 0.5: error[cat] is {now.classes[0].error:g}.",
    ]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["cannot be read", "NAME > NUMBER"]),
        ("ece", ["'ece'", "cannot be read"]),
        ("ece > ten", ["cannot be read"]),
        ("ece == 10", ["cannot be read", ">, >=, <, <="]),
        ("zzz > 10", ["worst_class_error", "suspect[CLASS]", "change_low[CLASS]", "worse_classes"]),
        ("ece > 1 or error > 2", ["cannot be read"]),
        ("ecce > 10", ["unknown figure of a condition 'ecce'", "did you mean 'ece'?"]),
        ("eror[cat] > 10", ["unknown figure", "did you mean 'error[CLASS]'?"]),
        ("suspect > 3", ["suspect[CLASS]"]),
        ("nll[cat] > 3", ["nll is written nll"]),
    ],
)
def test_a_condition_that_cannot_be_read_is_refused(text: str, parts: list[str]) -> None:
    with refused(*parts):
        parse_condition(text)


def test_a_class_that_is_not_there_is_refused_with_the_nearest() -> None:
    with refused("'error[dogg] > 3'", "did you mean 'dog'?", "cat, dog, fox, yak"):
        audited().broken(["error[dogg] > 3"])


def test_changes_need_a_baseline() -> None:
    with refused("worse_classes > 0", "--baseline, in Python earlier="):
        parse_conditions(["worse_classes > 0"], has_baseline=False)
    with refused("give an earlier audit"):
        broken([parse_condition("change[cat] > 1")], audited().record)


def test_names_with_brackets_are_names() -> None:
    condition = parse_condition("error[a [b] > c] >= 3.5")
    assert (condition.figure, condition.label, condition.sign, condition.limit) == ("error", "a [b] > c", ">=", 3.5)
