"""The ladder and the rungs as rows of text."""

from dataclasses import replace

import numpy as np
import pytest
from reporting.examples import LONGEST, TAUGHT, TEN_CLASSES

from class_uncertainty.reporting import ladder_view

LADDER = TEN_CLASSES.ladder


def cells(name: str, report=TEN_CLASSES) -> dict[str, str]:
    table = ladder_view.ladder_table(report)
    row = next(row for row in table.texts if row[0].startswith(name))
    return dict(zip(table.columns, row, strict=True))


def test_a_step_is_a_row():
    after = TEN_CLASSES.after
    assert cells("student") == {
        "step": "student (kept)",
        "how it trains": TAUGHT,
        "class-mean\nerror %": f"{np.mean(after.errors):.2f} ± {np.std(after.errors, ddof=1):.2f}",
        "worst\n10th %": f"{np.mean(after.worst):.1f}",
        "ECE %": f"{after.ece:.1f}",
        "unseen gain vs\nbest single": "+0.85 ± 0.21",
        "trainings": "18.4",
        "time": "2.0 h",
        "parameters": "0.46 M",
        "passes": "1",
    }
    assert cells("best single")["unseen gain vs\nbest single"] == "–"
    tried = cells("ensemble")
    assert [tried[name] for name in ("class-mean\nerror %", "worst\n10th %", "ECE %")] == ["–", "–", "–"]
    assert (tried["passes"], tried["parameters"]) == ("5", "2.3 M")


def test_cells_are_sorted_by_their_numbers_and_steps_by_their_place():
    rows = ladder_view.ladder_table(TEN_CLASSES).rows
    assert [row[0].order for row in rows] == [0, 1, 2, 3, 4]
    assert [row[7].order for row in rows] == [step.seconds for step in LADDER]
    assert [row[5].order for row in rows] == [step.gain for step in LADDER]
    assert rows[3][2].order is None


def test_steps_without_gains_have_no_column_and_no_note_of_them():
    """As where naive training is kept in place of the best single network."""
    steps = tuple(replace(step, gain=None, gain_error=None) for step in LADDER[:2])
    report = replace(TEN_CLASSES, ladder=steps)
    assert set(cells("naive")) - set(cells("naive", report)) == {"unseen gain vs\nbest single"}
    assert "best single" not in ladder_view.ladder_notes(report)
    assert "Unseen gain: how much better" in ladder_view.ladder_notes(TEN_CLASSES)


def test_notes_are_on_columns_that_are_shown():
    notes = ladder_view.ladder_notes(TEN_CLASSES, dropped=["time", "passes"])
    assert "Trainings: all that led to the step" in notes
    assert "Time: " not in notes
    assert "Passes: " not in notes


def test_one_seed_has_no_deviation():
    one = replace(TEN_CLASSES, ladder=(replace(LADDER[0], values=(12.345,)),))
    assert cells("naive", one)["class-mean\nerror %"] == "12.35"


@pytest.mark.parametrize(
    ("aim", "unit", "heading"),
    [
        ("class-mean error", "%", "class-mean\nerror %"),
        ("mean cost", "", "mean cost"),
        ("mean error of the worst tenth of the classes", "%", "mean error of the worst\ntenth of the classes %"),
        ("error under the prior of a.csv", "%", "error under the\nprior of a.csv %"),
    ],
)
def test_the_heading_is_of_the_goal(aim, unit, heading):
    assert ladder_view.aim_heading(replace(TEN_CLASSES, aim=aim, unit=unit)) == heading


def test_a_long_path_makes_a_heading_longer_not_wider():
    aim = f"error under the prior of /{'very/long/' * 20}path.csv"
    lines = ladder_view.aim_heading(replace(TEN_CLASSES, aim=aim)).splitlines()
    assert max(map(len, lines)) <= ladder_view.WIDE


def test_a_candidate_is_a_row_of_its_rung():
    first, last = TEN_CLASSES.rungs
    naive, balanced, lost, longest = ladder_view.rung_table(TEN_CLASSES, first).texts
    assert naive == ["naive", "49.50 ± 0.70", "5.00 ± 0.60", "0.5", "dropped"]
    assert balanced[-1] == "kept"
    assert lost == ["ldam-rw", "–", "–", "0", "dropped: it diverged in epoch 3 at the learning rate 0.4"]
    assert longest == [LONGEST, "44.50 ± 0.70", "–", "1", "kept"]
    assert [row[-1] for row in ladder_view.rung_table(TEN_CLASSES, last).texts] == ["dropped", "kept"]


def test_a_rung_has_a_caption():
    first, last = TEN_CLASSES.rungs
    assert ladder_view.rung_caption(TEN_CLASSES, first) == "All 4 candidates, 2 folds (5,043 examples)"
    assert ladder_view.rung_caption(TEN_CLASSES, last) == "The best 2 of them, 5 folds (12,608 examples)"
    alone = replace(first, rows=first.rows[:1], folds=1)
    report = replace(TEN_CLASSES, rungs=(alone,))
    assert ladder_view.rung_caption(report, alone) == "The only candidate, 1 fold (5,043 examples)"
    report = replace(TEN_CLASSES, rungs=(first, alone))
    assert ladder_view.rung_caption(report, alone) == "The best of them, 1 fold (5,043 examples)"


def test_candidates_are_counted_and_those_that_failed_named():
    sentence = ladder_view.judged_sentence(TEN_CLASSES)
    assert sentence.startswith("Candidates judged: 4, on 2 rungs.")
    assert sentence.endswith(
        "1 candidate could not be trained: ldam-rw (it diverged in epoch 3 at the learning rate 0.4)."
    )
    assert "could not" not in ladder_view.judged_sentence(replace(TEN_CLASSES, rungs=TEN_CLASSES.rungs[1:]))
    assert ladder_view.judged_sentence(replace(TEN_CLASSES, rungs=())) == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("adjusted", f"Kept: one network, trained by {LONGEST}. It is adjusted for the counts with the strength 1"),
        ("ensemble", f"Kept: 5 networks, trained by {LONGEST}. Their mean is adjusted"),
        ("student", f"Kept: one network, trained by {TAUGHT} and taught by an ensemble of {LONGEST}. The ensemble is"),
    ],
)
def test_what_is_kept_is_said(name, words):
    steps = tuple(replace(step, kept=step.name == name) for step in LADDER)
    report = replace(TEN_CLASSES, ladder=steps)
    assert ladder_view.kept_sentence(report).startswith(words)
    table = ladder_view.kept_sentence(replace(report, method="cb-rs?recipe=forest"))
    assert ("one model" in table) == ("one network" in words and "taught" not in words)


@pytest.mark.parametrize(("taus", "listed"), [((1.0, 0.0, 0.75), ": 1, 0, 0.75, in this order"), ((), "")])
def test_every_model_of_a_mean_has_its_strength_listed(taus, listed):
    several = "naive?recipe=logistic + cb-rs?recipe=forest + naive?recipe=boosting"
    kept = replace(LADDER[3], candidate=several, networks=3, kept=True)
    report = replace(TEN_CLASSES, ladder=(LADDER[0], kept), taus=taus)
    assert ladder_view.kept_sentence(report) == (
        f"Kept: the mean of 3 models, {several}. "
        f"They are adjusted for the counts, each with its own strength{listed} (τ; 0 leaves them, 1 is full)."
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (99.4, "99 s"), (99.6, "1.7 min"), (7300, "2.0 h")],
)
def test_durations(seconds, text):
    assert ladder_view.duration(seconds) == text
