"""Rungs: what they cost is what their candidates cost."""

from class_uncertainty.posthoc.ladder import Rung, RungRow


def test_a_rung_costs_what_its_candidates_cost() -> None:
    rung = Rung(2, 40, (RungRow("naive", 2.0, 3.5), RungRow("cb", 0.5, 1.0, reason="it diverged"), RungRow("focal")))
    assert (rung.trainings, rung.seconds) == (2.5, 4.5)


def test_candidates_that_are_averaged_are_kept_beside_the_best() -> None:
    rung = Rung(2, 40, (RungRow("naive"), RungRow("cb", kept=True), RungRow("focal")))
    assert [row.kept for row in rung.keeping(["naive"]).rows] == [True, True, False]
    assert rung.keeping([]) == rung
