"""Run against run: what is said to change did change."""

import base64
import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from audits import CLASSES, COUNTS, audited, lopsided, predictions
from refusals import refused
from scipy.stats import norm

import class_uncertainty as cu
from class_uncertainty.posthoc.run_changes import read_record, run_changes
from class_uncertainty.reporting.audit_view import change_sentences


def test_the_same_examples_are_paired_and_others_are_not():
    now, labels, p = audited(1), *predictions(0)
    assert now.against(audited(0)).paired
    other = cu.audit(labels, p, CLASSES, names=[f"other {i}" for i in range(len(labels))])
    assert not now.against(other).paired


def test_equal_labels_without_names_are_not_called_the_same_examples():
    labels, p = predictions(0)
    names = [f"{i}.png" for i in range(len(labels))]
    now, before = (cu.audit(labels, side, CLASSES, names) for side in (predictions(1)[1], p))
    assert "on the same examples" in change_sentences(now.against(before))[0]
    unnamed = change_sentences(audited(1).against(audited(0)))[0]
    assert "on examples with the same labels in the same order" in unnamed
    assert "on other examples" in change_sentences(now.against(audited(0)))[0]


def test_the_mean_of_different_examples_is_as_unsure_as_both_runs():
    """Independent errors add up: the variance of the change is that of either run."""
    (labels, p), (earlier_labels, earlier_p) = lopsided(1, 2.0), predictions(0, 30)
    change = cu.audit(labels, p, CLASSES).against(cu.audit(earlier_labels, earlier_p, CLASSES)).error
    variance = 0.0
    for side, guesses in ((labels, p.argmax(axis=1)), (earlier_labels, earlier_p.argmax(axis=1))):
        for c in range(4):
            wrong, examples = (guesses[side == c] != c).sum(), (side == c).sum()
            share = (wrong + 0.5) / (examples + 1)
            variance += share * (1 - share) / examples / 4**2
    reach = 100 * norm.ppf(0.975) * np.sqrt(variance)
    assert (change.change - change.low, change.high - change.change) == pytest.approx((reach, reach))


def test_a_run_against_itself_changes_nothing():
    changes = audited().against(audited())
    assert (changes.error.change, changes.overall_error.change, changes.worse, changes.better) == (0, 0, [], [])
    assert [row.is_clear for row in changes.classes] == [False] * 4


@pytest.mark.parametrize("paired", [True, False])
def test_changes_are_the_differences_of_errors(paired):
    now, before = audited(1, sharpness=5.0), audited(0, sharpness=1.5)
    if not paired:
        before = replace(before, record=replace(before.record, fingerprint="another"))
    changes = now.against(before)
    assert changes.paired is paired
    errors = {row.name: (old.error, row.error) for row, old in zip(now.classes, before.classes, strict=True)}
    assert {row.name: (row.before, row.after) for row in changes.classes} == errors
    assert all(row.change == pytest.approx(row.after - row.before) for row in changes.classes)
    assert all(row.low_together < row.low <= row.change <= row.high < row.high_together for row in changes.classes)
    worse = [row.name for row in changes.classes if row.low_together > 0]
    assert [row.name for row in changes.worse] == worse
    assert changes.error.change == pytest.approx(now.figures.error - before.figures.error)
    assert changes.overall_error.change == pytest.approx(now.figures.overall_error - before.figures.overall_error)
    assert changes.error.is_clear_fall
    assert changes.better
    assert not changes.worse


def test_noise_is_not_called_a_change(rng):
    """30 classes that are as hard in both runs: chance names any class in 5 of 100 comparisons at most."""
    labels, named = np.repeat(np.arange(30), 12), {True: 0, False: 0}
    base = cu.audit(labels, np.full((len(labels), 30), 1 / 30)).record
    for _ in range(150):
        for paired in named:
            sides = []
            for _ in range(2):
                wrong = rng.random(len(labels)) < 0.4
                bits = np.packbits(wrong).tobytes()
                rows = tuple(
                    replace(row, error=100 * float(wrong[labels == c].mean())) for c, row in enumerate(base.classes)
                )
                print_of = "same" if paired else str(rng.random())
                side = replace(base, classes=rows, wrong=base64.b64encode(bits).decode(), fingerprint=print_of)
                sides.append(side)
            changes = run_changes(*sides)
            named[paired] += bool(changes.worse or changes.better)
    assert max(named.values()) <= 13  # of 150: 5 % and two standard errors


def test_new_and_lost_classes_are_named():
    labels, p = predictions()
    now = cu.audit(labels, p, ["cat", "dog", "fox", "gnu"])
    changes = now.against(audited())
    assert (changes.new, changes.gone) == (("gnu",), ("yak",))
    assert [row.name for row in changes.classes if row.name in ("gnu", "yak")] == []
    with refused("no class with examples in common"):
        cu.audit(labels, p, list("abcd")).against(audited())


def test_a_record_survives_json(tmp_path):
    file, audit = tmp_path / "audit.json", audited()
    file.write_text(json.dumps(audit.document()))
    assert asdict(read_record(file)) == asdict(audit.record)
    with_prior = cu.audit(*predictions(), CLASSES, counts=COUNTS, prior=[0.1, 0.2, 0.3, 0.4])
    (tmp_path / "prior.json").write_text(json.dumps(with_prior.document()))
    assert read_record(tmp_path / "prior.json") == with_prior.record
    assert audited(1).against(file) == audited(1).against(audit)
    assert audited(1).broken(["error_change > -100"], file)


def test_a_record_of_an_earlier_version_is_read(tmp_path):
    """Neither precisions nor strengths were in it."""
    document = audited().document()
    document["classes"] = [{k: v for k, v in row.items() if k != "precision"} for row in document["classes"]]
    document["figures"] = {k: v for k, v in document["figures"].items() if not k.endswith("taus")}
    (tmp_path / "old.json").write_text(json.dumps(document))
    assert audited(1).against(tmp_path / "old.json") == audited(1).against(audited())


def spoilt_class(document: dict, **fields: object) -> dict:
    first, *others = document["classes"]
    return document | {"classes": [first | fields, *others]}


@pytest.mark.parametrize(
    ("spoil", "part"),
    [
        (lambda document: [], "is no audit"),
        (lambda document: document | {"classes": 3}, "is no audit"),
        (lambda document: document | {"wrong": "AAAA"}, "outcomes"),
        (lambda document: document | {"wrong": "%%"}, "is no audit"),
        (lambda document: document | {"figures": document["figures"] | {"ece": "x"}}, "ece is 'x'"),
        (lambda document: document | {"classes": document["classes"][:2]}, "add up"),
        (lambda document: spoilt_class(document, error=None), "'cat' has 100 examples and the error None"),
        (lambda document: spoilt_class(document, error=float("nan")), "the error nan"),
        (lambda document: spoilt_class(document, examples=-100), "add up"),
        (lambda document: {}, "is no audit that 'cu audit --save' wrote: it is other JSON."),
        (lambda document: {"audit": 1}, "lacks figures, classes and "),
    ],
)
def test_what_is_no_audit_is_refused(tmp_path, spoil, part):
    file = tmp_path / "audit.json"
    file.write_text(json.dumps(spoil(audited().document())))
    with refused("audit.json", part):
        read_record(file)


def test_a_missing_baseline_is_refused_with_the_nearest(tmp_path):
    (tmp_path / "main.json").write_text("{}")
    with refused("does not exist", "main.json"):
        read_record(tmp_path / "mian.json")
