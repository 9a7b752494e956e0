"""diagnose(): verdicts that follow the evidence; costly(): the confusions that cost most."""

import json
import runpy
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from scipy.special import softmax

from class_uncertainty.io import from_document
from class_uncertainty.posthoc.adjustment import adjust
from class_uncertainty.posthoc.diagnosis import NOTHING_WRONG, Verdict, costly, diagnose, nothing_wrong, spoken
from class_uncertainty.posthoc.intervals import change_interval, share_interval

BENCHMARK = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "verdicts.py"))
SCENES = BENCHMARK["SCENES"]


def predicted(pairs: dict[tuple[int, int], int], classes: int, p: float = 0.8):
    """Labels and probabilities of {(label, prediction): examples}, made with the probability p."""
    labels = np.concatenate([np.full(number, label) for (label, _), number in pairs.items()])
    guesses = np.concatenate([np.full(number, guess) for (_, guess), number in pairs.items()])
    probabilities = np.full((len(labels), classes), (1 - p) / (classes - 1))
    probabilities[np.arange(len(labels)), guesses] = p
    return labels, probabilities


def right(classes: int, number: int = 200) -> dict[tuple[int, int], int]:
    return {(c, c): number for c in range(classes)}


def kinds(*args, **options) -> list[str]:
    return [verdict.kind for verdict in diagnose(*args, **options)]


def test_nothing_is_said_where_nothing_is_wrong():
    labels, p = predicted(right(4) | {(c, (c + 1) % 4): 20 for c in range(4)}, 4)
    verdicts = diagnose(labels, p, [100] * 4)
    assert [(verdict.kind, verdict.text) for verdict in verdicts] == [("", "")] * 4
    assert spoken(verdicts) == []


def test_the_sentence_for_nothing_wrong_names_the_floor():
    assert NOTHING_WRONG.startswith("No class is clearly worse than the others (by 5 points or more")


def test_no_verdict_by_chance():
    """400 data sets of ten equally hard classes: a verdict on any of them in at most 5 %."""
    rng, labels = np.random.default_rng(0), np.repeat(np.arange(10), 30)
    spoke = 0
    for _ in range(400):
        wrong = rng.random(300) < 0.3
        guesses = np.where(wrong, (labels + rng.integers(1, 10, 300)) % 10, labels)
        p = 0.5 * np.eye(10)[guesses] + 0.05
        spoke += bool({*kinds(labels, p, [30] * 10, adjusted=p)} - {"", "unknown"})
    assert spoke <= 24  # 20 and the binomial's standard deviation of 4


def test_a_class_that_the_counts_explain():
    labels = np.repeat([0, 1], [900, 100])
    p = np.where(labels, 0.6, 0.9)  # of class 0, which is always predicted
    p = np.stack([p, 1 - p], axis=1)
    common, rare = diagnose(labels, p, [900, 100], classes=["stays", "leaves"])
    assert (common.kind, rare.kind) == ("", "imbalance")
    evidence = rare.evidence
    assert (evidence.count, evidence.examples, evidence.error, evidence.others) == (100, 100, 100.0, 0.0)
    assert (evidence.low, evidence.high) == pytest.approx(share_interval(100, 100))
    assert (evidence.adjusted, evidence.change) == (0.0, -100.0)
    assert (evidence.change_low, evidence.change_high) == pytest.approx(change_interval(100, 0, 100))
    assert rare.text == (
        "leaves: 100 % of 100 examples wrong (95 % interval 96 to 100 %), of the others 0 %; "
        "adjusting for the counts alone changes that by -100 points (-100 to -94)"
    )


def test_a_hard_class_is_what_adjusting_leaves():
    errors = {(0, c): 30 for c in (1, 2, 3)}
    labels, p = predicted(right(4) | errors, 4)
    hard = diagnose(labels, p, [100] * 4, classes="abcd")[0]
    assert hard.kind == "hard"
    assert hard.text == (
        "a: 31 % of 290 examples wrong (95 % interval 24 to 38 %), of the others 0 %; "
        "adjusting for the counts alone leaves 31 %"
    )
    assert kinds(labels, p, [300, 100, 100, 100])[0] == "hard"  # in a common class, the counts cannot be the reason


def test_a_pair_is_confused_where_most_errors_are_significantly_its_own():
    labels, p = predicted(right(4) | {(0, 1): 80, (1, 0): 80}, 4)
    verdicts = diagnose(labels, p, [100] * 4, classes="abcd")
    assert [verdict.kind for verdict in verdicts] == ["confused", "confused", "", ""]
    assert verdicts[0].text.endswith("; 29 % are taken for b")
    assert (verdicts[0].evidence.rival, verdicts[1].evidence.rival) == ("b", "a")
    few = {(0, 0): 4, (0, 1): 2, (0, 2): 1}  # two of three errors are no evidence
    labels, p = predicted(right(4) | few, 4)
    assert diagnose(labels, p, [100] * 4)[0].evidence.rival == ""


def test_a_share_after_adjusting_is_said_to_be_one():
    """The error stays, and fewer errors go to b."""
    labels, p = predicted({(0, 1): 80, (0, 2): 0} | right(4), 4)
    _, q = predicted({(0, 1): 70, (0, 2): 10} | right(4), 4)
    before, after = (diagnose(labels, p, [100] * 4, classes="abcd", adjusted=side)[0] for side in (p, q))
    assert before.text.endswith("; 29 % are taken for b")
    assert after.evidence.change == 0
    assert after.text.endswith("; 25 % are taken for b once adjusted for the counts")


def test_of_two_classes_neither_is_hard_or_confused_with_the_other():
    """Another threshold makes either of them the better one, whatever their counts."""
    labels, p = predicted(right(2) | {(1, 0): 100}, 2)
    assert kinds(labels, p, [100, 100]) == ["", "threshold"]
    rare_is_better, p = predicted({(0, 0): 300, (0, 1): 150, (1, 1): 130, (1, 0): 20}, 2)
    assert kinds(rare_is_better, p, [900, 100], adjusted=p) == ["threshold", ""]  # not: rare but easy
    easy, p = predicted({(0, 0): 420, (0, 1): 30, (1, 1): 140, (1, 0): 10}, 2)
    assert kinds(easy, p, [900, 100], adjusted=p) == ["", "easy"]


def test_label_noise_takes_suspect_labels():
    errors = {(0, c): 20 for c in (1, 2, 3)}
    labels, p = predicted(right(4) | errors, 4)
    for suspect, kind in ((20, "noise"), (5, "hard")):
        assert kinds(labels, p, [100] * 4, suspect=[suspect, 0, 0, 0]) == [kind, "", "", ""]


def test_too_few_test_examples():
    labels, p = predicted(right(3) | {(3, 3): 2, (3, 0): 1}, 4)
    unknown = diagnose(labels, p, [100] * 4, classes="abcd")[3]
    assert unknown.kind == "unknown"
    assert unknown.text == "d: 33 % of 3 examples wrong (95 % interval 0 to 95 %): too few to say anything"
    none = diagnose(*predicted(right(2), 3), [100] * 3)[2]
    assert (none.kind, none.text) == ("unknown", "2: no examples")


def test_a_bad_class_of_few_examples_has_no_reason():
    """All four are wrong, which is no chance; adjusting turns two of them, which may be one."""
    labels, p = predicted(right(3, 50) | {(3, 0): 4}, 4)
    q = p.copy()
    q[-2:] = np.eye(4)[3]
    verdict = diagnose(labels, p, [100, 100, 100, 4], adjusted=q)[3]
    assert verdict.kind == "scarce"  # half of it stays, significantly
    assert verdict.text.endswith("4 training examples are few to learn it from, or it is hard")
    q[-3:] = np.eye(4)[3]
    verdict = diagnose(labels, p, [100, 100, 100, 4], adjusted=q)[3]
    assert verdict.kind == "unclear"
    assert "too few to say why" in verdict.text
    assert "-75 points" in verdict.text


def test_a_cause_is_said_or_not_as_the_interval_of_adjusting_allows():
    """Four of five turn: a sign test says 1 / 16, and the interval, which is shown, does not hold 0."""
    labels, p = predicted(right(3, 50) | {(3, 0): 5}, 4)
    for turned, kind in ((3, "unclear"), (4, "imbalance")):
        q = p.copy()
        q[-turned:] = np.eye(4)[3]
        q[:25] = np.eye(4)[1]  # adjusting costs the others as much, so that no excess stays
        verdict = diagnose(labels, p, [100, 100, 100, 5], adjusted=q)[3]
        assert (verdict.kind, verdict.evidence.change_high < 0) == (kind, kind == "imbalance")
        assert ("too few to say why" in verdict.text) == (kind == "unclear")


@pytest.mark.parametrize(
    ("examples", "interval"), [(100, "-6 points (-11 to -1)"), (200, "-3.0 points (-5.7 to -0.3)")]
)
def test_an_interval_that_ends_near_0_shows_on_which_side(examples, interval):
    """Six turn: Bonett and Price's interval of -6 / n is (-11.2, -0.6) or (-5.7, -0.3)."""
    labels, p = predicted(right(3) | {(3, 3): examples - 12, (3, 0): 12}, 4)
    q = p.copy()
    q[-6:] = np.eye(4)[3]
    verdict = diagnose(labels, p, [100] * 4, adjusted=q)[3]
    assert verdict.kind == "imbalance"
    assert f"changes that by {interval}" in verdict.text


def test_examples_are_not_too_few_where_adjusting_clearly_raises_the_error():
    """Class 3 is worse; adjusting costs it 30 points, clearly, and the others more."""
    labels, p = predicted(right(3) | {(3, 3): 80, (3, 0): 20}, 4)
    q = p.copy()
    q[np.flatnonzero((labels == 3) & (p.argmax(axis=1) == 3))[:30]] = np.eye(4)[0]
    q[np.flatnonzero(labels < 3)[::2]] = np.eye(4)[3]
    verdict = diagnose(labels, p, [100] * 4, adjusted=q)[3]
    assert verdict.kind == "unclear"
    assert verdict.evidence.change_low > 0
    assert "the cause is unclear: adjusting for the counts alone changes that by +30 points" in verdict.text


def test_a_rare_class_is_easy_only_where_its_error_says_so():
    counts = [1000, 1000, 1000, 20]
    labels, p = predicted(right(3) | {(3, 3): 60}, 4)
    easy = diagnose(labels, p, counts, classes="abcd")[3]
    assert easy.kind == "easy"
    assert easy.text.endswith("with 20 training examples: easier than its count says")
    for wrong in (20, 60):
        labels, p = predicted(right(3) | {(3, 3): 60 - wrong, (3, 0): wrong}, 4)
        assert "easy" not in kinds(labels, p, counts)
    labels, p = predicted(right(3) | {(0, 1): 3, (3, 3): 190, (3, 0): 10}, 4)
    worse = diagnose(labels, p, counts, adjusted=p)[3]  # 5 % wrong, of the others 0.5 %: below the floor, yet no chance
    assert worse.evidence.low > worse.evidence.others
    assert worse.kind == ""


def test_no_class_is_easy_because_it_is_favoured():
    """Three clouds that are equally hard to tell apart, of which the rare one is preferred ever more."""
    rng, labels, counts = np.random.default_rng(0), np.repeat([0, 1, 2], [300, 300, 60]), [500, 500, 60]
    logits = rng.normal(size=(660, 3)) + 3.0 * np.eye(3)[labels]
    shifted = (softmax(logits + np.array([0.0, 0.0, by]), axis=1) for by in (0, 2, 3))
    alike, *favoured = (diagnose(labels, p, counts)[2] for p in shifted)
    assert alike.kind == "easy"  # as good as the others, treated like them
    assert [verdict.evidence.error for verdict in favoured] == [0.0, 0.0]
    assert [verdict.kind for verdict in favoured] == ["", ""]


def test_no_class_is_easy_that_is_mostly_wrong():
    """However hard the others are."""
    labels, p = predicted({(c, (c + 1) % 4): 200 for c in range(4)}, 4)
    assert kinds(labels, p, [1000, 1000, 1000, 20], adjusted=p) == [""] * 4


def test_imbalance_explains_half_of_the_excess():
    """Class 3 is wrong in 100 of 200 examples; adjusting clearly helps so many of them."""
    labels, p = predicted(right(3) | {(3, c): 33 + (c == 0) for c in range(3)} | {(3, 3): 100}, 4)
    wrong = np.random.default_rng(0).permutation(np.flatnonzero((labels == 3) & (p.argmax(axis=1) != 3)))
    for helped, kind in ((30, "scarce"), (49, "scarce"), (50, "imbalance")):
        q = p.copy()
        q[wrong[:helped]] = np.eye(4)[3]
        assert kinds(labels, p, [1000, 1000, 1000, 100], adjusted=q)[3] == kind


def test_less_than_half_is_imbalance_where_nothing_significant_stays():
    labels, p = predicted(right(3) | {(3, 3): 180, (3, 0): 20}, 4)
    others = np.flatnonzero(labels == 0)[:30]
    q = p.copy()
    q[np.flatnonzero((labels == 3) & (p.argmax(axis=1) != 3))[:8]] = np.eye(4)[3]
    q[others] = np.eye(4)[1]  # adjusting costs the others as much, so that class 3 is no longer worse
    verdict = diagnose(labels, p, [1000, 1000, 1000, 100], adjusted=q)[3]
    assert (verdict.evidence.excess, verdict.evidence.change) == (10.0, -4.0)
    assert verdict.kind == "imbalance"


def test_a_rival_is_tested_against_all_others():
    """P(6 or more of 9 go to one of three) is 0.042 for one of them, 0.127 for any."""
    labels, p = predicted(right(4, 20) | {(0, 1): 6, (0, 2): 2, (0, 3): 1}, 4)
    assert diagnose(labels, p, [100] * 4, adjusted=p)[0].evidence.rival == ""
    labels, p = predicted(right(4, 20) | {(0, 1): 8, (0, 2): 1}, 4)
    assert diagnose(labels, p, [100] * 4, adjusted=p)[0].evidence.rival == "1"


def test_the_sentence_names_the_confidence_of_its_interval():
    labels, p = predicted(right(4) | {(0, 1): 80}, 4)
    assert "(90 % interval" in diagnose(labels, p, [100] * 4, level=0.1)[0].text


def test_seeds_are_no_further_examples():
    """Three equal networks say what one says."""
    labels, p = predicted(right(4) | {(0, 1): 30}, 4)
    assert diagnose(labels, np.stack([p] * 3), [100] * 4) == diagnose(labels, p, [100] * 4)


def test_adjusting_is_for_the_counts_unless_it_is_given(rng):
    labels, p = predicted(right(3) | {(2, 0): 80}, 3, p=0.5)
    counts = [500, 500, 30]
    assert diagnose(labels, p, counts) == diagnose(labels, p, counts, adjusted=adjust(p, counts))
    assert kinds(labels, p, counts, adjusted=p)[2] in ("hard", "confused")


def test_the_worst_come_first_and_what_is_not_known_last():
    pairs = right(6) | {(0, 1): 40, (2, 3): 90, (5, 5): 2}
    verdicts = spoken(diagnose(*predicted(pairs, 6), [100] * 6))
    assert [verdict.label for verdict in verdicts] == ["2", "0", "5"]


def test_verdicts_go_through_json_and_those_of_earlier_versions_are_read():
    for verdict in diagnose(*predicted(right(3) | {(0, 1): 30}, 3), [100] * 3):
        assert from_document(Verdict, json.loads(json.dumps(asdict(verdict), allow_nan=False))) == verdict
    old = from_document(Verdict, {"label": "cat", "kind": "few", "text": "cat: 87 % wrong"})
    assert (old.evidence, spoken([old])) == (None, [old])


def test_refusals_name_what_was_given():
    labels, p = predicted(right(3, 5), 3)
    with refused("counts", "(2,)", "3 classes"):
        diagnose(labels, p, [1, 2])
    with refused("suspect", "(2,)"):
        diagnose(labels, p, [1, 2, 3], suspect=[1, 2])
    with refused("classes", "(2,)"):
        diagnose(labels, p, [1, 2, 3], classes=["a", "b"])
    with refused("adjusted", "(15, 2)"):
        diagnose(labels, p, [1, 2, 3], adjusted=p[:, :2])


def test_costly_pairs():
    confusion = np.array([[90.0, 7, 3], [0, 100, 0], [8, 3, 89]])
    assert costly(confusion, "abc") == [("c", "a", 8.0), ("a", "b", 7.0), ("a", "c", 3.0), ("c", "b", 3.0)]
    assert costly(confusion, "abc", most=1) == [("c", "a", 8.0)]
    assert costly(100 * np.eye(3), "abc") == []
    assert confusion[0, 0] == 90
    with refused("(2, 2)", "3 classes"):
        costly(np.eye(2), "abc")


@pytest.mark.parametrize("name", SCENES)
def test_verdicts_follow_the_truth(name):
    """The fast part of benchmarks/verdicts.py: one data set of each scene, by a logistic regression."""
    scene = SCENES[name]
    assert BENCHMARK["kinds"](BENCHMARK["verdicts"](scene, "logistic", seed=0)) == scene.truth


def test_where_most_is_wrong_no_class_can_stand_out():
    """A class that is always wrong is not half as much again above others that err more than two thirds of the time."""
    assert nothing_wrong(66.0) == NOTHING_WRONG
    assert (
        nothing_wrong(88.4) == "No class can stand out at a class-mean error of 88 %: the model has learnt too little."
    )
    for share, kind in ((0.6, "hard"), (0.7, "")):  # of the other class' examples that are wrong
        labels = np.repeat([0, 1, 2], 400)
        wrong = np.concatenate([np.ones(400, bool), *2 * [np.arange(400) < 400 * share]])
        verdicts = diagnose(labels, np.eye(3)[np.where(wrong, (labels + 1) % 3, labels)], [400] * 3)
        assert verdicts[0].kind in ((kind, "confused") if kind else ("",))
