"""The figures of an audit, each against an independent reference."""

from dataclasses import asdict

import numpy as np
import pytest
from audits import CLASSES, COUNTS, audited, binned_ece, lopsided, predictions
from refusals import refused
from scipy.stats import binomtest, entropy, norm
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, log_loss, precision_score

import class_uncertainty as cu
from class_uncertainty.data import stratified
from class_uncertainty.posthoc import best_tau, class_audit
from class_uncertainty.posthoc.class_audit import AuditRecord
from class_uncertainty.posthoc.goal import Goal


def test_errors_and_intervals_are_scikit_learn_s_and_scipy_s():
    labels, p = predictions()
    audit, matrix = audited(), confusion_matrix(labels, p.argmax(axis=1))
    for c, row in enumerate(audit.classes):
        wrong, number = int(matrix[c].sum() - matrix[c, c]), int(matrix[c].sum())
        interval = binomtest(wrong, number).proportion_ci(method="exact")
        assert (row.name, row.count, row.examples) == (CLASSES[c], COUNTS[c], number)
        assert (row.error, row.low, row.high) == pytest.approx(
            (100 * wrong / number, 100 * interval.low, 100 * interval.high)
        )
    figures = audit.figures
    assert figures.error == pytest.approx(100 - 100 * balanced_accuracy_score(labels, p.argmax(axis=1)))
    assert figures.overall_error == pytest.approx(100 * (p.argmax(axis=1) != labels).mean())
    assert figures.nll == pytest.approx(log_loss(labels, p))
    assert figures.worst_class_error == max(row.error for row in audit.classes)
    assert figures.worst_class == "yak"
    assert figures.error_low < figures.error < figures.error_high


def test_precisions_are_scikit_learn_s_of_the_decisions():
    labels, p = lopsided(0, 3.0)
    decisions = np.where(p.argmax(axis=1) == 2, 3, p.argmax(axis=1))  # never the third class
    for given in (None, decisions):
        guesses = p.argmax(axis=1) if given is None else given
        expected = 100 * precision_score(labels, guesses, labels=range(4), average=None, zero_division=np.nan)
        audit = cu.audit(labels, p, CLASSES, counts=COUNTS, decisions=given)
        precisions = [np.nan if row.precision is None else row.precision for row in audit.classes]
        assert precisions == pytest.approx(expected.tolist(), nan_ok=True)
    assert audit.classes[2].precision is None
    with refused("'precision[fox] < 3' cannot be judged: it needs examples that are predicted"):
        audit.broken(["precision[fox] < 3"])


def test_strengths_are_those_of_the_other_fifths():
    """And there are none where all classes have equally many examples."""
    labels, p = lopsided(0, 3.0)
    prior, part = [0.1, 0.2, 0.3, 0.4], stratified(labels, 5)
    figures = cu.audit(labels, p, CLASSES, counts=COUNTS, prior=prior).figures
    rest = [(p[part != k], labels[part != k], COUNTS) for k in range(5)]
    assert figures.adjusted_taus == tuple(best_tau(*fifth) for fifth in rest)
    assert figures.prior_adjusted_taus == tuple(cu.fit_adjustment(*fifth, prior=prior).tau for fifth in rest)
    assert len(set(figures.adjusted_taus)) > 1
    alike = cu.audit(labels, p, CLASSES, counts=[5] * 4).figures
    assert (alike.adjusted_taus, alike.prior_adjusted_taus, alike.adjusted_change) == ((), (), 0)


def test_uncertainty_is_the_mean_entropy():
    labels, p = predictions()
    raw = np.array([entropy(p[labels == c], axis=1).mean() for c in range(4)])
    assert [row.raw for row in audited().classes] == pytest.approx(raw)
    assert [row.uncertainty for row in audited().classes] == pytest.approx(raw / raw.sum())


def test_calibration_is_the_classwise_ece():
    """Kull et al. 2019."""
    labels, p = predictions()
    expected = [binned_ece(p[:, c], labels == c) for c in range(4)]
    assert [row.ece for row in audited().classes] == pytest.approx(expected)
    assert audited().figures.classwise_ece == pytest.approx(np.mean(expected))


def test_confusions_are_those_of_the_matrix_and_the_first_is_the_largest():
    labels, p = predictions()
    matrix, rows = confusion_matrix(labels, p.argmax(axis=1)), audited().confusions
    np.fill_diagonal(matrix, 0)
    assert {(row.label, row.prediction): row.examples for row in rows} == {
        (CLASSES[c], CLASSES[k]): matrix[c, k] for c, k in zip(*np.nonzero(matrix), strict=True)
    }
    assert [row.share for row in rows] == sorted((row.share for row in rows), reverse=True)
    assert all(row.low <= row.share <= row.high for row in rows)
    yak = audited().classes[3]
    assert yak.taken_for == CLASSES[matrix[3].argmax()]
    assert yak.taken_share == matrix[3].max()  # of 100 examples


def test_an_imbalance_is_named_and_adjusting_would_help():
    audit = audited()
    assert audit.classes[3].kind == "imbalance"
    assert audit.classes[3].change_high < 0
    assert audit.figures.adjusted_change_high < 0
    assert audit.figures.adjusted_error == pytest.approx(np.mean([row.adjusted for row in audit.classes]))


def test_a_prior_changes_no_verdict_and_its_adjustment_is_judged_by_its_error():
    """A rare class stays imbalanced, though adjusting for a prior that leans to the frequent ones would not help it."""
    (labels, p), prior = lopsided(0, 3.0), np.array([0.02, 0.02, 0.06, 0.9])
    plain = cu.audit(labels, p, CLASSES, counts=COUNTS)
    for given in (prior, prior[::-1]):
        audit = cu.audit(labels, p, CLASSES, counts=COUNTS, prior=given)
        assert audit.classes == plain.classes
        assert audit.figures.adjusted_error == plain.figures.adjusted_error
    assert plain.figures.prior_adjusted_change is None
    assert plain.classes[3].kind == "imbalance"
    figures = cu.audit(labels, p, CLASSES, counts=COUNTS, prior=prior).figures
    change = figures.prior_adjusted_change
    assert change is not None
    assert figures.prior_adjusted_error == pytest.approx(figures.prior_error + change.change)
    assert change.high < 0  # yak is nearly all there is, and was nearly always missed
    assert figures.prior_adjusted_error < 10


@pytest.mark.parametrize("absent", [None, 2])
def test_the_change_by_a_prior_is_the_paired_one_of_its_error(absent, monkeypatch):
    """Of the classes that have examples."""
    labels, p = lopsided(0, 3.0)
    prior, q, kept = np.array([0.1, 0.2, 0.3, 0.4]), lopsided(1, 4.0)[1], labels != absent
    labels, p, q = labels[kept], p[kept], q[kept]
    goals = []

    def adjusted(p: np.ndarray, labels: np.ndarray, counts: object, goal: Goal, **options: object) -> tuple:
        goals.append((goal.name, goal.prior.tolist()))
        return q, (1.0,)

    monkeypatch.setattr(class_audit, "cross_fitted", adjusted)
    figures = cu.audit(labels, p, CLASSES, counts=COUNTS, prior=prior).figures
    assert sorted(goals) == [("mean", [0.25] * 4), ("prior", pytest.approx(prior.tolist()))]
    shares = {c: prior[c] / prior[np.unique(labels)].sum() for c in np.unique(labels)}
    change, below, above = 0.0, [], []
    for c, share in shares.items():  # Bonett and Price's interval of each class, combined by Zou and Donner
        wrong, wrong_after = ((side.argmax(axis=1) != labels)[labels == c] for side in (p, q))
        gained, lost, size = (wrong & ~wrong_after).sum(), (wrong_after & ~wrong).sum(), (labels == c).sum()
        centre, discordant = (lost - gained) / (size + 2), (lost + gained + 2) / (size + 2)
        reach = norm.ppf(0.975) * np.sqrt((discordant - centre**2) / (size + 2))
        change += share * (lost - gained) / size
        below.append(share * ((lost - gained) / size - centre + reach))
        above.append(share * (centre + reach - (lost - gained) / size))
    after = sum(share * (q.argmax(axis=1) != labels)[labels == c].mean() for c, share in shares.items())
    assert figures.prior_adjusted_error == pytest.approx(100 * after)
    low, high = change - np.linalg.norm(below), change + np.linalg.norm(above)
    assert asdict(figures.prior_adjusted_change) == pytest.approx(
        {"change": 100 * change, "low": 100 * low, "high": 100 * high}
    )


def test_labels_that_look_wrong_reach_the_verdict():
    """A third of a class has labels of another: that is noise, not a class that is hard."""
    labels = np.repeat(np.arange(3), 90)
    p = np.full((270, 3), 0.0005)
    p[np.arange(270), labels] = 0.999
    labels[:30] = 2  # of 120
    audit = cu.audit(labels, p)
    assert audit.classes[2].suspect == pytest.approx(25)
    assert audit.classes[2].kind == "noise"
    assert "25 % of its labels look wrong" in audit.classes[2].verdict


def test_what_adjusting_changes_is_judged_on_examples_it_was_not_fitted_to(rng):
    """Labels are drawn from the probabilities at the true prior, so no tau is better than 0 but by chance."""
    gains = []
    for _ in range(6):
        p = rng.dirichlet(np.ones(3), 90)
        labels = np.array([rng.choice(3, p=row) for row in p])
        gains.append(cu.audit(labels, p, counts=[100, 50, 10], prior=[1 / 3] * 3).figures.adjusted_change)
    assert np.mean(gains) > -1.0


def test_a_class_without_examples_has_no_error_and_breaks_nothing():
    labels, p = predictions()
    kept = labels != 2
    audit = cu.audit(labels[kept], p[kept], CLASSES, counts=COUNTS)
    fox = audit.classes[2]
    assert (fox.examples, fox.error, fox.adjusted, fox.uncertainty, fox.kind) == (0, None, None, None, "unknown")
    assert any("Without examples" in note and "fox" in note for note in audit.notes)
    assert np.isfinite(audit.figures.error)
    assert not any("fox" in sentence for sentence in audit.unjudged)  # the note says it
    assert [row.count for row in cu.audit(labels[kept], p[kept], CLASSES).classes] == [100, 100, 0, 100]


def test_decisions_may_be_numbers_or_names_and_by_default_are_the_most_probable_classes():
    labels, p = predictions()
    likeliest, always_dog = p.argmax(axis=1), ["dog"] * len(labels)
    assert cu.audit(labels, p, CLASSES, counts=COUNTS, decisions=likeliest).document() == audited().document()
    audit = cu.audit(labels, p, CLASSES, counts=COUNTS, decisions=always_dog)
    assert [row.error for row in audit.classes] == [100.0, 0.0, 100.0, 100.0]
    assert {row.taken_for for row in audit.classes} == {"dog", ""}
    assert audit.figures.adjusted_error == pytest.approx(audited().figures.adjusted_error)
    assert audit.figures.nll == audited().figures.nll


def test_a_record_knows_which_examples_are_wrong():
    labels, p = predictions()
    record, order = audited().record, np.argsort(labels, kind="stable")
    assert isinstance(record, AuditRecord)
    assert np.array_equal(record.labels, labels[order])
    assert np.array_equal(record.outcomes, (p.argmax(axis=1) != labels)[order])
