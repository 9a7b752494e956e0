"""Reproductions as tables of text: every number stands where its heading says."""

from dataclasses import replace

import pytest
from ledgers import DATA, TABLE, choosing, ledger, measurement, result, stored

import class_uncertainty as cu
from class_uncertainty.paper import tables
from class_uncertainty.paper.experiments import SIX_NAIVE, Experiment, Measuring
from class_uncertainty.paper.ledger import Remaining
from class_uncertainty.paper.outcomes import AsoTest, Outcome
from class_uncertainty.paper.printed_tables import TABLE_1
from class_uncertainty.paper.reproduction import MeasuredData, Reproduction, summarise
from class_uncertainty.paper.tables import TextTable, print_remaining, print_reproduction, text_tables, title_of
from class_uncertainty.training.network_size import NetworkSize

EXPERIMENT = Experiment("A table", TABLE, measured=(Measuring(DATA),))


@pytest.fixture
def reproduction():
    rows = [
        result(method, error + seed, seed) for method, error in (("naive", 20.0), ("cb-rs", 18.0)) for seed in (0, 1)
    ]
    rows += [result("ubrs", 15.0 + seed, seed, 0.2, device="cpu") for seed in (0, 1)]
    rows += [replace(result("naive", 12.0), method=SIX_NAIVE, cost=6.0)]
    return summarise("toy", EXPERIMENT, ("paper", "equal"), ledger(rows, choosing("ubrs", 20, 14, 17, 18)))


def titled(reproduction: Reproduction, words: str) -> TextTable:
    (table,) = [table for table in text_tables(reproduction) if words in table.title]
    return table


def test_a_table_under_one_protocol(reproduction):
    table = titled(reproduction, "protocol paper")
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["row"] for row in rows[:3]] == ["Naive", "CB", "UBRs"]
    assert rows[2] == {
        "row": "UBRs",
        "method": "ubrs",
        "printed": "15.00 ± 0.50",
        "ours": "15.50 ± 0.71",
        "n": "2",
        "lr": "0.2",
        "gap": "+0.6",
        "verdict": "agrees",
        "cost": "15",
    }
    assert (rows[3]["method"], rows[3]["ours"], rows[3]["cost"]) == (SIX_NAIVE, "12.00", "6")
    assert any("1" in note for note in table.notes if "not been run" in note)  # balanced softmax
    assert any("cpu, cuda" in note for note in table.notes)


def test_a_collapsed_run_has_a_note_and_a_verdict(reproduction):
    rows = [result("naive", error, seed, 0.1) for seed, error in enumerate((20.0, 200 / 3))]
    scores = rows[1].scores
    assert scores is not None
    rows[1] = replace(rows[1], scores=replace(scores, class_errors=(100.0, 0.0, 100.0)))
    made = summarise("toy", EXPERIMENT, ("paper",), ledger(rows, []))
    note = "Naive: 1 of 2 runs predicts one class only, and counts in the mean."
    assert note in titled(made, "protocol paper").notes
    assert made.document()["cells"][0]["collapsed"] == 1
    assert note not in titled(reproduction, "protocol paper").notes


def test_every_table_names_the_network(reproduction):
    """Its parameters are for the three classes of these data, and not said where the shape of inputs is not known."""
    note = "Network: small-conv, 6.0 k parameters."
    assert all(note in table.notes for table in text_tables(reproduction))
    assert reproduction.document()["networks"] == {DATA: {"network": "small-conv", "parameters": 6_043}}
    unknown = replace(reproduction, networks={DATA: NetworkSize("small-conv")})
    assert all("Network: small-conv." in table.notes for table in text_tables(unknown))


def test_baselines_of_table_1_stand_beside_bag_of_tricks(reproduction):
    cells = [cell for cell in TABLE_1.cells() if cell.data == "cifar10-lt:100"]
    errors = {"cb-rs": (30.0, 30.1), "balanced-softmax": (23.0,), "ubrs": (29.0,)}
    made = tuple(Outcome(cell, "paper", 0.1, errors.get(cell.method, ())) for cell in cells)
    table = titled(replace(reproduction, name="table1", outcomes=made), "Bag-of-Tricks")
    assert table.rows == [
        ["CB Resampling", "30.33", "30.35", "27.55", "30.05", "-0.28"],
        ["Balanced Softmax (not in the paper)", "–", "23.63", "22.46", "23.00", "+0.54"],
    ]
    others = text_tables(replace(reproduction, name="significance", outcomes=made))
    assert not any("Bag-of-Tricks" in table.title for table in others)


def test_what_every_rate_gave_where_one_was_chosen(reproduction):
    """The validation errors of `choosing`, and only of the table itself, not of experiments that show a part of it."""
    tuned = reproduction.outcomes[2]
    other_data = replace(tuned.cell, data="digits-lt:4")
    elsewhere = replace(tuned, cell=other_data, tried={0.1: 1.0}, lr=0.1)
    both = replace(reproduction, name="table1", outcomes=(*reproduction.outcomes, elsewhere))
    table = next(table for table in text_tables(both) if "by learning rate" in table.title)
    assert table.columns == ["row", "0.1", "0.2", "0.4", "0.7", "chosen"]
    assert table.rows == [["UBRs", "20.00", "14.00", "17.00", "18.00", "0.2"]]
    assert not any("by learning rate" in table.title for table in text_tables(reproduction))
    (cell,) = (
        cell for cell in reproduction.document()["cells"] if (cell["row"], cell["protocol"]) == ("UBRs", "paper")
    )
    assert cell["tried"] == {0.1: 20.0, 0.2: 14.0, 0.4: 17.0, 0.7: 18.0}


def test_gains_of_both_protocols_side_by_side(reproduction):
    about = ["UBRs", "CB", "+3.00", "+3.00 ± 0.71, better"]
    table = titled(reproduction, "gains")
    assert table.columns == ["row", "against", "printed", "ours, paper"]  # under the other no baseline has been run
    assert [list(row) for row in table.rows] == [about]
    equal = [one for one in reproduction.outcomes if one.protocol == "equal"]
    tuned = [
        replace(one, errors=(16.0, 17.0), devices=("cpu",)) if one.cell.row.label == "CB" else one for one in equal
    ]
    table = titled(replace(reproduction, outcomes=(*reproduction.outcomes, *tuned)), "gains")
    assert table.columns == ["row", "against", "printed", "ours, paper", "ours, equal"]
    assert [list(row) for row in table.rows] == [[*about, "+1.00 ± 0.71, even"]]


def test_where_all_rows_are_tuned_both_protocols_are_one(reproduction):
    tunes_all = replace(EXPERIMENT, table=replace(TABLE, tunes_all=True))
    cells = [replace(one, cell=replace(one.cell, tunes_all=True)) for one in reproduction.outcomes]
    made = replace(reproduction, experiment=tunes_all, outcomes=tuple(cells))
    assert [row[0] for row in titled(made, "both protocols").rows][:3] == ["Naive", "CB", "UBRs"]
    assert titled(made, "gains").columns[3:] == ["ours, both"]


def test_correlations_and_shifts(reproduction):
    (row,) = titled(reproduction, "class errors").rows
    assert row[1:3] == ["1.000", "1.000"]
    turned = MeasuredData(stored("digits-lt:3"), replace(measurement(), raw={"predictive": (0.3, 0.2, 0.1)}))
    moved = replace(reproduction, name="if2", measured=(*reproduction.measured, turned))
    first, second = titled(moved, "move").rows
    assert first[1:3] == ["0.000", "0.000"]
    assert second[1:] == ["0.000", "0.333", "0.692", "0.167"]


def test_shifts_name_what_measured_where_several_did(reproduction):
    """And they are told from the naive ensemble, wherever it stands."""
    (naive,) = reproduction.measured
    drawn = replace(naive, measurement=measurement(estimator="ensemble:power-rs:q=0"))
    table = titled(replace(reproduction, name="if2", measured=(drawn, naive)), "move")
    first, second = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    assert (first["measured by"], second["measured by"]) == ("ensemble:power-rs:q=0", "ensemble")
    assert (first["moved μ^C"], second["moved μ^C"]) == ("0.359", "0.000")  # from 1/13, 3/13 and 9/13 to thirds
    without = replace(reproduction, name="if2", measured=(drawn, drawn))
    assert all("move" not in table.title for table in text_tables(without))


def test_the_halves_of_svci_20():
    errors = tuple(float(i) for i in range(20))
    one = result("naive", 9.5)
    run, other = (
        replace(one, scores=replace(one.scores, class_errors=tuple(error + more for error in errors)))
        for more in (0.0, 1.0)
    )
    made = summarise("svci20", Experiment(""), (), ledger([]))
    data = replace(stored("svci20:50"), counts=(50,) * 20)
    raw = {"predictive": (0.3,) * 10 + (0.1,) * 10}
    measured = MeasuredData(data, replace(measurement(), raw=raw, class_errors=errors))
    naive = {"svci20:50": (run, other), "svci20:100": (run,)}
    unseen = replace(
        measured, measurement=replace(measured.measurement, estimator="out-of-fold", raw={"predictive": errors})
    )
    made = replace(made, naive=naive, measured=(measured, unseen))
    two, single = titled(made, "halves").rows
    assert two == ["SVCI-20 (50)", "10.00 ± 0.71", "5.00", "15.00", "-10.00", "2"]
    assert single == ["SVCI-20 (100)", "9.50", "4.50", "14.50", "-10.00", "1"]
    shares = [row[1:5] for row in titled(made, "class errors").rows]
    assert shares == [["ensemble", "–", "-0.867", "0.750"], ["out-of-fold", "–", "1.000", "0.237"]]


def test_tests_and_their_correction(reproduction):
    ours, baseline = reproduction.outcomes[2], reproduction.outcomes[1]
    epsilon = cu.aso(ours.errors, baseline.errors)
    tests = (AsoTest(ours, baseline, 0.08, epsilon, 0.975),) * 2
    table = titled(replace(reproduction, tests=tests), "stochastic")  # nothing is tested under the other protocol
    assert table.title.endswith(", protocol paper: almost stochastic order")
    assert list(table.rows[0]) == ["UBRs", "CB", "0.08", "0.00", "2 and 2"]
    assert any("confidence 0.9750," in note for note in table.notes)
    equal = AsoTest(replace(ours, protocol="equal"), baseline, 0.08, epsilon, 0.95)
    table = titled(replace(reproduction, tests=(*tests, equal)), "protocol equal: almost stochastic")
    assert (len(table.rows), any("confidence 0.9500," in note for note in table.notes)) == (1, True)
    assert any(epsilon.warning in note for note in table.notes)


def test_other_pixels_stand_beside_the_originals(reproduction):
    one = reproduction.outcomes[0]
    table = titled(replace(reproduction, ablations=((one, replace(one, errors=(22.0, 23.0))),)), "pixels")
    assert table.rows[0][1:] == ["Naive", "20.00", "20.50 ± 0.71", "22.50 ± 0.71"]


@pytest.mark.parametrize(
    ("data", "title"),
    [
        ("cifar100-lt:50", "CIFAR-100-LT (50)"),
        ("svci20:100", "SVCI-20 (100)"),
        ("cifar10-lt:50?duplicate=0.3", "CIFAR-10-LT (50), duplicate=0.3"),
    ],
)
def test_names_of_data_in_words(data, title):
    assert title_of(data) == title


def test_everything_is_printed(reproduction, capsys):
    tables.print_reproduction(reproduction)
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("15.50 ± 0.71", "+3.00 ± 0.71, better", "agrees", SIX_NAIVE))
    tables.print_reproduction(summarise("toy", EXPERIMENT, ("paper",), ledger([], measured=False)))
    assert "Nothing" in capsys.readouterr().out


def test_verdicts_that_are_shown_are_explained(reproduction, capsys):
    def printed(reproduction: Reproduction) -> str:
        tables.print_reproduction(reproduction)
        return capsys.readouterr().out

    shown = printed(reproduction)
    assert 'Verdict: "agrees" within one point.\n' in shown
    assert 'Verdict: "better" beyond two standard errors.\n' in shown
    errors = {"Naive": (11.0, 12.0), "CB": (14.0, 15.0), "UBRs": (19.0, 20.0)}
    missed = tuple(replace(one, errors=errors.get(one.cell.row.label, ())) for one in reproduction.outcomes)
    shown = printed(replace(reproduction, outcomes=missed))
    assert 'Verdict: "lower" or "higher" beyond a point and two standard deviations.\n' in shown
    assert 'Verdict: "worse" beyond two standard errors.\n' in shown


@pytest.mark.parametrize("width", [25, 40, 60])
def test_a_narrow_terminal_cuts_no_number(width, reproduction, monkeypatch, capsys):
    """What a table is about stays: the row, what measured, our gain, and ρ."""
    monkeypatch.setenv("COLUMNS", str(width))
    (naive,) = reproduction.measured
    by_draws = measurement(estimator="ensemble:power-rs:q=0")
    drawn = replace(naive, data=stored("digits-lt:3?duplicate=0.5"), measurement=by_draws)
    tables.print_reproduction(replace(reproduction, name="if2", measured=(naive, drawn)))
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert all(text in shown for text in ("UBRs", "+3.00", "0.71", "duplicate=0.5", "ensemble:powe", "1.000"))


def test_what_is_left_adds_up(capsys):
    print_remaining([Remaining("a", 3, 2e6, 1.5), Remaining("b", 4, 5e6, 2.25)])
    *_, total, _, _ = capsys.readouterr().out.splitlines()
    assert total.split()[-4:] == ["7", "7.0", "3.8", "min"]


def test_nothing_is_left(capsys):
    print_remaining([])
    assert capsys.readouterr().out == "Nothing is left to train.\n"


@pytest.mark.parametrize(("minutes", "text"), [(1.5, "1.5 min"), (150, "2.5 h"), (601_380, "418 days")])
def test_times_read_well(minutes, text, capsys):
    print_remaining([Remaining("a", 3, 2e6, minutes)])
    assert text in capsys.readouterr().out


def test_imported_rows_are_marked_and_told_once_where_all_are(reproduction, capsys):
    imported = [replace(one, marks=("imported",)) for one in reproduction.outcomes]
    some = replace(reproduction, outcomes=(*imported[:1], *reproduction.outcomes[1:]))
    assert [row[0] for row in titled(some, "protocol paper").rows[:2]] == ["Naive (imported)", "CB"]
    measured = [replace(one, measurement=replace(one.measurement, imported=True)) for one in reproduction.measured]
    every = replace(reproduction, outcomes=tuple(imported), measured=tuple(measured))
    assert text_tables(every) == text_tables(reproduction)
    assert every.document()["cells"][0]["marks"] == ["imported"]
    for shown, told in ((some, 1), (every, 1), (reproduction, 0)):
        print_reproduction(shown)
        assert capsys.readouterr().out.count("'cu results import'") == told


def test_an_imported_measurement_is_marked():
    data = (stored(), stored(name="digits-lt:50"))
    measured = tuple(MeasuredData(one, replace(measurement(), imported=one is data[1])) for one in data)
    shown = Reproduction("toy", EXPERIMENT, ("paper",), measured=measured)
    (table,) = [table for table in text_tables(shown) if "Measures" in table.title]
    assert ["(imported)" in row[0] for row in table.rows] == [False, True]
