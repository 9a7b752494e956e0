"""The figures of an audit, each against an independent reference."""

import numpy as np
import pytest
from audits import CLASSES, COUNTS, audited, binned_ece, predictions
from scipy.stats import binomtest, entropy
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, log_loss

import class_uncertainty as cu
from class_uncertainty.posthoc.class_audit import AuditRecord


def test_errors_and_intervals_are_scikit_learn_s_and_scipy_s() -> None:
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


def test_uncertainty_is_the_mean_entropy() -> None:
    labels, p = predictions()
    raw = np.array([entropy(p[labels == c], axis=1).mean() for c in range(4)])
    assert [row.raw for row in audited().classes] == pytest.approx(raw)
    assert [row.uncertainty for row in audited().classes] == pytest.approx(raw / raw.sum())


def test_calibration_is_the_classwise_ece() -> None:
    """Kull et al. 2019."""
    labels, p = predictions()
    expected = [binned_ece(p[:, c], labels == c) for c in range(4)]
    assert [row.ece for row in audited().classes] == pytest.approx(expected)
    assert audited().figures.classwise_ece == pytest.approx(np.mean(expected))


def test_confusions_are_those_of_the_matrix_and_the_first_is_the_largest() -> None:
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


def test_an_imbalance_is_named_and_adjusting_would_help() -> None:
    audit = audited()
    assert audit.classes[3].kind == "imbalance"
    assert audit.classes[3].change_high < 0
    assert audit.figures.adjusted_change_high < 0
    assert audit.figures.adjusted_error == pytest.approx(np.mean([row.adjusted for row in audit.classes]))


def test_what_adjusting_changes_is_judged_on_examples_it_was_not_fitted_to(rng: np.random.Generator) -> None:
    """Labels are drawn from the probabilities at the true prior, so no tau is better than 0 but by chance."""
    gains = []
    for _ in range(6):
        p = rng.dirichlet(np.ones(3), 90)
        labels = np.array([rng.choice(3, p=row) for row in p])
        gains.append(cu.audit(labels, p, counts=[100, 50, 10], prior=[1 / 3] * 3).figures.adjusted_change)
    assert np.mean(gains) > -1.0


def test_a_class_without_examples_has_no_error_and_breaks_nothing() -> None:
    labels, p = predictions()
    kept = labels != 2
    audit = cu.audit(labels[kept], p[kept], CLASSES, counts=COUNTS)
    fox = audit.classes[2]
    assert (fox.examples, fox.error, fox.adjusted, fox.uncertainty, fox.kind) == (0, None, None, None, "unknown")
    assert any("Without examples" in note and "fox" in note for note in audit.notes)
    assert np.isfinite(audit.figures.error)


def test_a_record_knows_which_examples_are_wrong() -> None:
    labels, p = predictions()
    record, order = audited().record, np.argsort(labels, kind="stable")
    assert isinstance(record, AuditRecord)
    assert np.array_equal(record.labels, labels[order])
    assert np.array_equal(record.outcomes, (p.argmax(axis=1) != labels)[order])
