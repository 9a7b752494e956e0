"""Every row of the paper's tables has a name that the parser takes."""

import numpy as np
import pytest
from contracts import LONG_TAIL

from class_uncertainty import METHODS, plan
from class_uncertainty.estimation.estimators import EstimateRequest
from class_uncertainty.methods import named

pytestmark = pytest.mark.usefixtures("no_global_random")
# The tables of the paper, and what each of their rows is called here. A row with a star is taken from another paper: it
# is that paper's form of the method, which is a row of its own where Bag-of-Tricks runs it otherwise.


BY_DATA = ("", ":gamma=1", ":beta=0.99:gamma=1", ":beta=0.9:gamma=1")  # Bag-of-Tricks' constants
TABLE_1 = {
    "Naive Classifier": ["naive"],
    "CB Resampling": ["cb-rs"],
    "PB Resampling*": ["pb-rs"],
    "PB Resampling": ["pb-rs"],
    "UBRs": ["ubrs"],
    "PB UBRs": ["pb-ubrs"],
    "Focal Loss": ["focal"],
    "Class-balanced Loss*": ["cb", "cb:beta=0.9", "cb-literal"],
    "Class-balanced Focal Loss": [f"cb-focal{constants}" for constants in BY_DATA],
    "UBRw": ["ubrw", "ubrw-bot"],
    "UBRw Focal Loss": ["ubrw-focal"],
    "LDAM": ["ldam"],
    "LDAM+Reweighting*": ["ldam-rw"],
    "LDAM+Reweighting": ["ldam-rw"],
    "DRO-LT": ["dro", "dro+autoaugment+cutout", "dro-learned"],
    "UBM LDAM": ["ubm-ldam"],
    "UBM LDAM+Reweighting": ["ubm-ldam-rw", "ubm-ldam-cbrw"],
    "UBM DRO": ["ubm-dro"],
    "Two-stage CB Resampling": ["2s-cb-rs"],
    "Two-stage PB Resampling*": ["2s-pb-rs"],
    "Two-stage PB Resampling": ["2s-pb-rs"],
    "CAM-based Resampling*": ["2s-cam-rs", "2s-cam-rs-bot", "2s-cam-sqrt-rs", "2s-cam-pb-rs"],
    "Two-stage UBRs": ["2s-ubrs"],
    "Cost-sensitive Cross Entropy": ["2s-csce", "2s-csce-literal"],
    "Two-stage Focal Loss": ["2s-focal", "2s-focal-literal"],
    "Two-stage Class-balanced Focal Loss*": [f"2s-cb-focal{constants}" for constants in BY_DATA],
    "Two-stage Class-balanced Focal Loss": ["2s-cb-focal", "2s-cb-focal-literal"],
    "Two-stage UBRw": ["2s-ubrw", "2s-ubrw-bot"],
    "Two-stage UBRw Focal Loss": ["2s-ubrw-focal", "2s-ubrw-focal-literal"],
}
SVCI_20 = {
    "Naive Classifier": ["naive"],
    "PB Rs": ["pb-rs"],
    "Class-balanced Loss": ["cb"],
    "Two-stage CSCE Rw": ["2s-csce"],
    "Focal Loss": ["focal"],
    "PB UBRs": ["pb-ubrs"],
    "LDAM": ["ldam"],
    "UBM LDAM": ["ubm-ldam"],
}
MIXES = {
    "gamma 0.0": ["cb-focal", "ubrw-focal@effective"],
    "gamma 0.3": ["ubrw-focal@mix:gamma=0.3", "cb-focal@mix:gamma=0.3"],
    "gamma 0.5": ["ubrw-focal@mix", "cb-focal@mix"],
    "gamma 0.7": ["ubrw-focal@mix:gamma=0.7", "cb-focal@mix:gamma=0.7"],
    "gamma 1.0": ["ubrw-focal", "cb-focal@uncertainty"],
}
SWIN = {
    "Naive Cls.": ["naive"],
    "CB Resampling": ["cb-rs"],
    "PB Resampling": ["pb-rs"],
    "UBRs": ["ubrs"],
    "PB UBRs": ["pb-ubrs"],
    "Class-balanced Focal Loss": ["cb-focal"],
    "UBRw Focal Loss": ["ubrw-focal"],
}
PLACES = {
    "Naive Cls.": ["naive"],
    "PB UBRs": ["pb-ubrs"],
    "UBRw": ["ubrw"],
    "UBRw Focal Loss": ["ubrw-focal"],
    "Two-stage UBRs": ["2s-ubrs"],
    "Two-stage UBRw": ["2s-ubrw"],
}
TABLES = {"I": TABLE_1, "SVCI-20": SVCI_20, "mixes": MIXES, "Swin": SWIN, "Places-LT": PLACES}


@pytest.mark.parametrize(("table", "row"), [(table, row) for table, rows in TABLES.items() for row in rows])
def test_every_row_of_the_paper_has_a_name(table, row):
    """And what it names is a plan for every epoch of every stage."""
    for name in TABLES[table][row]:
        for method in named(name).stages:
            assert plan(method, LONG_TAIL, 4, 5).alpha.sum() == pytest.approx(1)


def test_no_two_rows_of_table_1_are_one_method_but_for_the_starred():
    assert len(TABLE_1) == 29
    plain = [name for row, names in TABLE_1.items() if not row.endswith("*") for name in names]
    assert len(plain) == len(set(plain))


@pytest.mark.parametrize(
    ("row", "gamma"), [("gamma 0.0", 0), ("gamma 0.3", 0.3), ("gamma 0.5", 0.5), ("gamma 0.7", 0.7), ("gamma 1.0", 1)]
)
def test_the_mixes_of_the_supplement(row, gamma):
    """w = gamma w^U + (1 - gamma) w^C, whichever of the two rows is driven by the mix."""
    of_uncertainty, of_cardinality = (plan(named(name), LONG_TAIL, 0, 1) for name in ("ubrw-focal", "cb-focal"))
    for name in MIXES[row]:
        at = plan(named(name), LONG_TAIL, 0, 1)
        np.testing.assert_allclose(
            at.weight, gamma * of_uncertainty.weight + (1 - gamma) * of_cardinality.weight, rtol=1e-12
        )
        assert (at.gamma, at.sigmoid) == (2, True)


OTHER_ESTIMATES = {  # the supplement's: another estimator or score, and the same methods
    "UBRw, DE": ("ubrw", "ensemble", "predictive"),
    "UBRw, DUQ": ("ubrw", "duq", None),
    "UBRw Focal Loss, DE": ("ubrw-focal", "ensemble", "predictive"),
    "UBRw Focal Loss, DUQ": ("ubrw-focal", "duq", None),
    "PB UBRs, epistemic": ("pb-ubrs", "ensemble", "epistemic"),
    "UBRw, epistemic": ("ubrw", "ensemble", "epistemic"),
    "UBRw Focal Loss, epistemic": ("ubrw-focal", "ensemble", "epistemic"),
    "Kwon et al., aleatoric": ("naive", "ensemble", "kwon-aleatoric"),
    "Kwon et al., epistemic": ("naive", "ensemble", "kwon-epistemic"),
}


@pytest.mark.parametrize("row", OTHER_ESTIMATES)
def test_other_estimates_of_the_supplement(row):
    method, estimator, score = OTHER_ESTIMATES[row]
    assert named(method)
    asked = EstimateRequest(estimator)
    assert asked.lanes
    asked.check_score(score)


ASO = {  # the pairs of the significance table; the reduction of the cross-entropy rows is not stated: both readings
    "pb-ubrs": ["pb-rs"],
    "ubrw-focal": ["cb-focal", "focal"],
    "ubm-dro": ["dro"],
    "2s-ubrs": ["2s-cb-rs"],
    "2s-ubrw-focal": ["2s-cb-focal"],
    "2s-ubrw-bot": ["2s-csce"],
    "2s-ubrw": ["2s-csce-literal"],
    "ubrw-bot": ["cb"],
    "ubrw": ["cb-literal"],
}


@pytest.mark.parametrize("name", ASO)
def test_pairs_of_the_significance_table_are_counterparts(name):
    assert named(name).counterpart == ASO[name][0]
    assert all(other in METHODS for other in ASO[name])
