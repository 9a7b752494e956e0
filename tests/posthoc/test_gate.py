"""Conditions of a gate: what they mean, and how wrong ones are refused."""

import numpy as np
import pytest
from audits import CLASSES, COUNTS, audited, binned_ece, lopsided, predictions
from refusals import refused
from scipy.stats import binomtest, norm
from sklearn import metrics as reference
from sklearn.metrics import log_loss

import class_uncertainty as cu
from class_uncertainty.posthoc.evaluation import FIGURES as TWO_CLASS_FIGURES
from class_uncertainty.posthoc.gate import CHANGES, FIGURES, figures_of, parse_condition
from class_uncertainty.reporting.audit_view import audit_lines
from class_uncertainty.reporting.terminal import Verbosity

Z = norm.ppf(0.975)


def holds(text: str, baseline: bool = False) -> bool:
    return bool(audited(1).broken([text], audited(0) if baseline else None))


@pytest.mark.parametrize("sign", [">", ">=", "<", "<="])
def test_every_sign_compares(sign):
    error = audited(1).figures.error
    expected = {">": (True, False), ">=": (True, True), "<": (False, False), "<=": (False, True)}[sign]
    assert (holds(f"error {sign} {error - 1}"), holds(f"examples {sign} 400")) == expected


def test_every_figure_is_what_its_name_says():
    """Computed from the predictions, by other means; classes have unequal numbers of examples."""
    (labels, p), (_, p_before) = lopsided(1, 2.0), lopsided(0, 4.0)
    p[np.flatnonzero(labels == 3)[:6]] = [1e-6, 1 - 3e-6, 1e-6, 1e-6]  # wrong labels
    now, before = (cu.audit(labels, side, CLASSES, counts=COUNTS) for side in (p, p_before))
    examples = np.bincount(labels)
    wrong, wrong_before = ((side.argmax(axis=1) != labels).astype(float) for side in (p, p_before))
    by_class = [[side[labels == c] for c in range(4)] for side in (wrong, wrong_before)]
    errors, errors_before = ([100 * values.mean() for values in side] for side in by_class)
    ece, ece_before = (binned_ece(side.max(axis=1), side.argmax(axis=1) == labels) for side in (p, p_before))
    shares = [(values.sum() + 0.5) / (len(values) + 1) for values in by_class[0]]
    reach = 100 * Z / 4 * np.sqrt(sum(share * (1 - share) / n for share, n in zip(shares, examples, strict=True)))
    differences = wrong - wrong_before
    mean_change = np.mean(errors) - np.mean(errors_before)
    pairs = [(int((differences[labels == c] > 0).sum()), int((differences[labels == c] < 0).sum())) for c in range(4)]
    tests = sorted(binomtest(rose, rose + fell).pvalue for rose, fell in pairs)
    clear = next((i for i, chance in enumerate(tests) if (4 - i) * chance > 0.05), 4)  # Holm
    assert all(rose > fell for rose, fell in pairs)
    yak = labels == 3
    lows = []  # Bonett and Price
    for (rose, fell), n in zip(pairs, examples + 2, strict=True):
        change = (rose - fell) / n
        lows.append(100 * (change - Z * np.sqrt((rose + fell + 2) / n - change**2) / np.sqrt(n)))
    below = [after - earlier - low for after, earlier, low in zip(errors, errors_before, lows, strict=True)]
    yak_low, mean_reach = lows[3], np.linalg.norm(below) / 4  # Zou and Donner
    issues = cu.label_noise(p, labels).is_issue
    eces = [binned_ece(p[:, c], labels == c) for c in range(4)]
    low, low_yak = (binomtest(int(w.sum()), len(w)).proportion_ci(method="exact").low for w in (wrong, wrong[yak]))
    expected = {
        "error": np.mean(errors),
        "error_low": np.mean(errors) - reach,
        "overall_error": 100 * wrong.mean(),
        "overall_error_low": 100 * low,
        "worst_class_error": max(errors),
        "worst_tenth": max(errors),
        "ece": ece,
        "classwise_ece": np.mean(eces),
        "nll": log_loss(labels, p),
        "label_issues": issues.sum(),
        "examples": len(labels),
        "error[yak]": errors[3],
        "error_low[yak]": 100 * low_yak,
        "precision[yak]": 100 * reference.precision_score(yak, p.argmax(axis=1) == 3),
        "ece[yak]": eces[3],
        "suspect[yak]": 100 * issues[yak].mean(),
        "examples[yak]": yak.sum(),
        "change[yak]": errors[3] - errors_before[3],
        "change_low[yak]": yak_low,
        "error_change": mean_change,
        "error_change_low": mean_change - mean_reach,
        "overall_error_change": 100 * differences.mean(),
        "ece_change": ece - ece_before,
        "worse_classes": clear,
        "better_classes": 0,
        "gone_classes": 0,
    }
    special = {*TWO_CLASS_FIGURES, "mean_cost"}
    assert {*expected} == {name.replace("CLASS", "yak") for name in (*FIGURES, *CHANGES)} - special
    all_values = figures_of(now.record, now.against(before))
    values = {name: all_values[name] for name in expected}
    assert values == pytest.approx(expected)
    zero = {name for name, value in values.items() if not value}
    assert zero == {"better_classes", "gone_classes"}


def test_figures_of_two_classes_and_of_costs():
    """Against scikit-learn; the second class is the rarer one."""
    labels = np.repeat([0, 1], [300, 100])
    rng, costs = np.random.default_rng(4), np.array([[0.0, 1], [5, 0.5]])
    rare = np.clip(rng.normal(0.2 + 0.3 * labels, 0.2), 0.01, 0.99)
    p, decisions = np.stack([1 - rare, rare], axis=1), (rare > 0.3).astype(np.int64)
    audit = cu.audit(labels, p, decisions=decisions, costs=costs)
    scores = {"precision": reference.precision_score, "recall": reference.recall_score, "f1": reference.f1_score}
    expected = {name: 100 * score(labels, decisions) for name, score in scores.items()}
    expected |= {"auc": 100 * reference.roc_auc_score(labels, rare)}
    expected |= {"average_precision": 100 * reference.average_precision_score(labels, rare)}
    table = reference.confusion_matrix(labels, decisions)
    expected |= {"mean_cost": (table * costs).sum() / 400}
    assert {*expected} == {*TWO_CLASS_FIGURES, "mean_cost"}
    all_values = figures_of(audit.record, None)
    assert {name: all_values[name] for name in expected} == pytest.approx(expected)
    under_prior = cu.audit(labels, p, decisions=decisions, costs=costs, prior=[0.5, 0.5]).figures
    assert under_prior.mean_cost == pytest.approx((table / [[300], [100]] * costs).sum() / 2)
    cheaper = rare * 4.5 > 1 - rare  # missing costs 5 instead of 0.5, a false alarm 1
    dear = cu.audit(labels, p, decisions=(rare > 0.9).astype(np.int64), costs=costs).figures
    assert dear.least_cost == pytest.approx((reference.confusion_matrix(labels, cheaper) * costs).sum() / 400)
    assert dear.least_cost < dear.mean_cost
    assert cu.audit(labels, p, decisions=cheaper.astype(np.int64), costs=costs).figures.least_cost is None


def test_the_least_cost_under_a_prior_is_of_decisions_under_it():
    """Odds change with the odds of the prior: from 1 to 9 in training to 9 to 1, by a factor of 81."""
    rng, costs = np.random.default_rng(0), np.array([[0.0, 1], [1.2, 0]])
    labels = np.repeat([0, 1], [900, 100])
    odds = np.exp(2 * (rng.normal(0, 1, 1000) + 2 * labels) - 2) / 9
    p = np.stack([1 / (1 + odds), odds / (1 + odds)], axis=1)
    audit = cu.audit(labels, p, counts=[900, 100], prior=[0.1, 0.9], costs=costs)
    table = reference.confusion_matrix(labels, 81 * odds * 1.2 > 1)
    expected = (table / [[900], [100]] * [[0.1], [0.9]] * costs).sum()
    assert audit.figures.least_cost == pytest.approx(expected)
    assert audit.figures.least_cost < 0.2 < 0.5 < audit.figures.mean_cost
    lines = [line.split("  ") for line in audit_lines(audit, Verbosity.NORMAL, 80) if "cost" in line]
    assert [line[-1].strip() for line in lines] == [f"{audit.figures.mean_cost:.4g}", f"{expected:.4g}"]


@pytest.mark.parametrize(("name", "needs"), [("recall", "two classes"), ("mean_cost", "costs")])
def test_a_figure_that_is_not_there_is_refused(name, needs):
    with refused(f"'{name} > 3'", f"cannot be judged: it needs {needs}"):
        audited().broken([f"{name} > 3"])


def test_a_class_that_lost_all_its_examples_breaks_the_gate():
    labels, p = predictions(1)
    kept = labels != 3
    now = cu.audit(labels[kept], p[kept], CLASSES, counts=COUNTS)
    assert now.broken(["worse_classes > 0"], audited(0)) == []
    assert now.broken(["gone_classes > 0"], audited(0)) == ["gone_classes > 0: gone_classes is 1."]


def test_a_class_s_figures_are_its_own():
    yak = audited(1).classes[3]
    assert holds(f"error[yak] >= {yak.error}")
    assert not holds(f"error[yak] > {yak.error}")
    assert holds(f"error_low['yak'] > {yak.low - 0.01}")
    assert not holds(f'error_low["yak"] > {yak.low + 0.01}')


def test_one_line_says_what_is_broken():
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
        ("suspect > 3", ["did you mean 'suspect[CLASS]'?"]),
        ("nll[cat] > 3", ["unknown figure", "'nll[CLASS]'", "nll, "]),
    ],
)
def test_a_condition_that_cannot_be_read_is_refused(text, parts):
    with refused(*parts):
        parse_condition(text, has_baseline=True)


def test_a_class_that_is_not_there_is_refused_with_the_nearest():
    with refused("'error[dogg] > 3'", "did you mean 'dog'?", "cat, dog, fox, yak"):
        audited().broken(["error[dogg] > 3"])


def test_changes_need_a_baseline():
    for text in ("worse_classes > 0", "change[cat] > 1"):
        with refused(text, "--baseline, in Python earlier="):
            parse_condition(text, has_baseline=False)


def test_a_class_that_was_not_there_before_has_no_change():
    labels, p = predictions(1)
    kept = labels != 3
    earlier = cu.audit(labels[kept], p[kept], CLASSES, counts=COUNTS)
    with refused("'change[yak] > 1'", "cannot be judged", "both runs"):
        audited(0).broken(["change[yak] > 1"], earlier)


def test_names_with_brackets_are_names():
    condition = parse_condition("error[a [b] > c] >= 3.5", has_baseline=False)
    assert (condition.figure, condition.label) == ("error[CLASS]", "a [b] > c")
    assert (condition.sign, condition.limit) == (">=", 3.5)
