"""Cells beside what is printed, gains over baselines, tests: by closed forms."""

import math
from dataclasses import replace

import pytest
from ledgers import DATA, RECIPE, TABLE, choosing, ledger, result

from class_uncertainty.paper.ledger import Ledger
from class_uncertainty.paper.outcomes import Gain, Outcome, gains, outcomes, published, significance, without_repeats
from class_uncertainty.paper.printed_tables import SIGNIFICANCE, SVCI_20, TABLE_1, Cell, PaperTable

NAIVE, CB, UBRS, NEW = TABLE.cells()


def made(cell=NAIVE, errors: tuple[float, ...] = (), diverged: int = 0) -> Outcome:
    return Outcome(cell, "paper", 0.1, errors, diverged, devices=("cpu",))


@pytest.mark.parametrize(
    ("errors", "difference", "gap", "verdict"),
    [
        ((20.0, 22.0), 1.0, 1 / math.hypot(math.sqrt(2), 1), "agrees"),  # at one point
        ((19.0,), -1.0, None, "agrees"),
        ((17.0, 17.5), -2.75, -2.75 / math.hypot(math.sqrt(0.125), 1), "lower"),
        ((24.0, 24.5), 4.25, 4.25 / math.hypot(math.sqrt(0.125), 1), "higher"),
        ((18.0, 26.0), 2.0, 2 / math.hypot(math.sqrt(32), 1), "within 2 sd"),
        ((26.0,), 6.0, None, "higher"),  # one run has no deviation
        ((), None, None, "not run"),
    ],
)
def test_a_cell_beside_its_printed_value(errors, difference, gap, verdict):
    """Printed: 20.0 ± 1.0."""
    one = made(errors=errors)
    assert (one.difference, one.verdict) == (None if difference is None else pytest.approx(difference), verdict)
    assert one.gap == (None if gap is None else pytest.approx(gap))


def test_a_row_without_a_printed_value_has_no_verdict():
    assert (made(NEW, (5.0, 6.0)).verdict, made(NEW, (5.0, 6.0)).gap) == ("", None)
    assert made(NAIVE, diverged=2).verdict == "diverged"


def test_a_run_that_collapsed_is_the_verdict():
    """The deviation would put the cell within two of them, and call the gain even."""
    one, baseline = replace(made(UBRS, (15.0, 90.0)), collapsed=1), made(CB, (14.0, 15.0))
    assert one.verdict == "collapsed"
    assert replace(one, cell=NEW).verdict == ""
    assert Gain(one, baseline).verdict == Gain(baseline, one).verdict == "collapsed"


def test_a_row_says_how_many_of_its_runs_were_imported():
    rows = [replace(result("naive", 20.0, seed), imported=seed == 0) for seed in (0, 1)]
    rows += [replace(result("cb-rs", 18.0, seed), imported=True) for seed in (0, 1)]
    shown = {one.cell.method: one for one in outcomes(TABLE, ("paper",), ledger(rows))}
    assert shown["naive"].marks == ("1 of 2 runs imported",)
    assert shown["cb-rs"].marks == ("imported",)
    assert shown["ubrs"].marks == ()


def test_a_protocol_is_told_apart_once_a_baseline_has_been_run_under_it():
    """Until then its rows are those of the other, which must not count twice."""
    rows = [result("naive", 20.0, seed) for seed in (0, 1)] + [result("ubrs", 15.0, seed, 0.2) for seed in (0, 1)]
    judged = choosing("ubrs", 20, 14, 17, 18)
    both = outcomes(TABLE, ("paper", "equal"), ledger(rows, judged))
    assert {one.protocol for one in both if one.errors} == {"paper", "equal"}
    assert without_repeats(both) == both[: len(TABLE.rows)]
    equal = both[len(TABLE.rows) :]
    assert without_repeats(equal) == equal  # where nothing else is shown
    judged += choosing("naive", 17, 18, 19, 20)
    both = outcomes(TABLE, ("paper", "equal"), ledger(rows, judged))
    assert without_repeats(both) == both
    same = [replace(one, cell=replace(one.cell, tunes_all=True)) for one in both]
    assert {one.protocol for one in without_repeats(same)} == {"paper"}


def test_protocols_differ_in_whose_rate_is_chosen():
    """The baseline is better at 0.4, which only the equal protocol lets it have."""
    rows = [result("cb-rs", error, seed, lr) for lr, error in ((0.1, 18.0), (0.4, 16.0)) for seed in (0, 1)]
    rows += [result("ubrs", 15.0 + seed, seed, 0.2) for seed in (0, 1)]
    judged = choosing("cb-rs", 20, 19, 17, 18) + choosing("ubrs", 20, 14, 17, 18)
    listed = outcomes(TABLE, ("paper", "equal"), ledger(rows, judged))
    by_cell = {(one.cell.row.label, one.protocol): one for one in listed}
    assert [(by_cell["CB", p].lr, by_cell["CB", p].mean) for p in ("paper", "equal")] == [(0.1, 18.0), (0.4, 16.0)]
    assert [(by_cell["UBRs", p].lr, by_cell["UBRs", p].mean) for p in ("paper", "equal")] == [(0.2, 15.5)] * 2
    # itself; four rates; and, with uncertainty, five members on both data sets
    costs = {
        (label, protocol): by_cell[label, protocol].cost for label in ("CB", "UBRs") for protocol in ("paper", "equal")
    }
    assert costs == {("CB", "paper"): 1, ("CB", "equal"): 5, ("UBRs", "paper"): 15, ("UBRs", "equal"): 15}
    gained = {gain.ours.protocol: gain for gain in gains(listed)}
    assert {p: gain.gain for p, gain in gained.items()} == {"paper": pytest.approx(2.5), "equal": pytest.approx(0.5)}
    assert {gain.printed for gain in gained.values()} == {3.0}
    assert gained["paper"].standard_error == pytest.approx(0.5)  # of errors 15 and 16, and 18 twice
    assert {p: gain.verdict for p, gain in gained.items()} == {"paper": "better", "equal": "even"}


def test_a_row_that_loses_loses():
    rows = [result("cb-rs", 14.0, seed) for seed in (0, 1)] + [
        result("ubrs", 15.0 + seed, seed, 0.2) for seed in (0, 1)
    ]
    made_ledger = ledger(rows, choosing("ubrs", 20, 14, 17, 18))
    (gain,) = gains(outcomes(TABLE, ("paper",), made_ledger))
    assert (gain.gain, gain.verdict) == (-1.5, "worse")


def test_one_run_gains_without_a_verdict():
    made_ledger = ledger([result("cb-rs", 14.0), result("ubrs", 15.0, lr=0.2)], choosing("ubrs", 20, 14, 17, 18))
    (gain,) = gains(outcomes(TABLE, ("paper",), made_ledger))
    assert (gain.gain, gain.standard_error, gain.verdict) == (-1.0, None, "one run")
    twice = replace(gain, baseline=replace(gain.baseline, errors=(14.0, 15.0)))
    assert (twice.standard_error, twice.verdict) == (None, "one run")


def test_runs_that_diverged_are_counted_apart():
    rows = [result("naive", error, seed) for seed, error in enumerate((20.0, None, None))]
    one, *_ = outcomes(TABLE, ("paper",), ledger(rows))
    assert (one.errors, one.diverged) == ((20.0,), 2)


def test_the_cost_of_a_row_counts_its_stages_what_chose_its_rate_and_what_measured():
    rows = [replace(result("ubrs", 15.0, lr=0.1), cost=1.5)]
    made = ledger(rows, choosing("ubrs", 13, 14, 17, 18))
    costs = {one.cell.method: one.cost for one in outcomes(TABLE, ("paper",), made)}
    assert costs["ubrs"] == 5 * 1.5 + 5 + 5


def test_only_one_data_set():
    table = replace(TABLE, columns=(DATA, "digits-lt:20"), rows=(replace(TABLE.rows[0], printed="20.0 19.0"),))
    nothing = Ledger(RECIPE)
    assert [one.cell.data for one in outcomes(table, ("paper",), nothing)] == [DATA, "digits-lt:20"]
    assert [one.cell.data for one in outcomes(table, ("paper",), nothing, "digits-lt:20")] == ["digits-lt:20"]


def test_the_significance_table_corrects_for_the_tests_that_were_made(monkeypatch):
    confidences = []

    def made_outcome(cell: Cell, protocol: str, ledger: Ledger) -> Outcome:
        errors = (10.0, 11.0, 12.0) if cell.is_ours else (20.0, 21.0, 22.0)
        return Outcome(cell, protocol, 0.1, errors if cell.data == "cifar100-lt:50" else ())

    def aso(ours, baseline, confidence):
        confidences.append(confidence)
        assert max(ours) < min(baseline)
        return 0.0

    monkeypatch.setattr("class_uncertainty.paper.outcomes.outcome", made_outcome)
    monkeypatch.setattr("class_uncertainty.paper.outcomes.aso", aso)
    tests = significance("paper", Ledger(RECIPE))
    assert [test.printed for test in tests] == [float(printed.split()[2]) for *_, printed in SIGNIFICANCE]
    assert set(confidences) == {test.confidence for test in tests} == {1 - 0.05 / len(SIGNIFICANCE)}
    assert significance("paper", Ledger(RECIPE), only="cifar10-lt:50") == []


def baseline(
    method: str, data: str, errors: tuple[float, ...], protocol: str = "paper", table: PaperTable = TABLE_1
) -> Outcome:
    (cell,) = (cell for cell in table.cells() if (cell.row.method, cell.data) == (method, data))
    return Outcome(cell, protocol, 0.1, errors)


@pytest.mark.parametrize(
    ("method", "data", "errors", "nearest"),
    [
        ("naive", "cifar10-lt:100", (29.0, 29.2), 29.1 - 30.12),  # 30.18 is printed, 28.05 is farther
        ("cb:beta={cross}", "cifar10-lt:100", (29.0,), 29.0 - 29.52),
        ("2s-cb-rs", "cifar100-lt:50", (54.4,), 54.4 - 54.39),  # the paper's own
        ("balanced-softmax", "cifar100-lt:100", (58.0,), 58.0 - 57.01),  # not in the paper
    ],
)
def test_the_nearest_published_value(method, data, errors, nearest):
    (one,) = published([baseline(method, data, errors)])
    assert one.nearest == pytest.approx(nearest)


def test_only_baselines_of_table_1_that_have_been_run_at_their_rate_are_published():
    others = [
        baseline("naive", "cifar10-lt:100", ()),
        baseline("naive", "cifar10-lt:100", (29.0,), protocol="equal"),
        baseline("ubrs", "cifar10-lt:100", (29.0,)),
        baseline("dro", "cifar10-lt:100", (29.0,)),
        baseline("naive", "svci20:100", (34.0,), table=SVCI_20),
    ]
    assert published(others) == []
