"""From the store to sections: what is shown together belongs together."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reporting.reported import SHORT, SHORTER

import class_uncertainty as cu
import class_uncertainty.runs.store
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.reporting.stored_views import Stored, stored_results
from class_uncertainty.runs import Store
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import load_or_estimate
from class_uncertainty.runs.result_lines import export_lines, import_lines, read_lines
from class_uncertainty.runs.settings import Settings


def test_naive_keeps_the_seeds_of_the_comparison(store, digits, measure, train):
    """Three members, two seeds compared: the third naive lane only served to measure."""
    estimate = measure("ensemble", 3)
    (section,) = stored_results(store)
    assert [(row.method, row.runs) for row in section.methods] == [("naive", 3)]
    train(*(cu.Lane(method, seed) for method in ("naive", "ubrs") for seed in (0, 1)), estimate=estimate)
    (section,) = stored_results(store)
    assert [(row.method, row.runs) for row in section.methods] == [("naive", 2), ("ubrs", 2)]
    assert (section.name, section.measured.members, " ".join(section.notes)) == ("digits-lt:20", 3, "")
    assert section.method_notes[-1].endswith("no other method has their seeds: 1.")


def test_results_of_another_estimate_are_not_mixed_in(store, measure, train):
    for members in (2, 3):
        train("ubrs", estimate=measure("ensemble", members))
    (section,) = stored_results(store)
    assert section.measured.members == 3
    assert [(row.method, row.runs) for row in section.methods] == [("naive", 1), ("ubrs", 1)]
    assert " ".join(section.notes).endswith("used another estimate or score: 1.")


def test_members_are_counted_where_folds_judge_them(store, digits):
    """Without a test split, one naive lane by folds judges, which is no member."""
    with open_context(cu.Dataset("folds", digits.train), Settings(recipe=SHORT, store=store)) as context:
        load_or_estimate(context, [EstimateRequest("ensemble", 2)])
    assert [section.measured.members for section in stored_results(store)] == [2]


def imported(store: Store, folder: Path) -> list[Stored]:
    """What another store shows that has the exported lines alone: class vectors, but no probabilities."""
    (folder / "all.jsonl").write_text("".join(export_lines(store)))
    with Store(folder / "other.sqlite") as other:
        import_lines(other, read_lines(folder / "all.jsonl"), "all.jsonl")
        return stored_results(other)


@pytest.mark.parametrize("estimator", ["ensemble", "out-of-fold", "snapshot"])
def test_imported_results_are_shown_with_what_measured_them(store, measure, train, tmp_path, estimator):
    train("naive", "ubrs", estimate=measure(estimator).using("true-class"))
    (section,), (before,) = imported(store, tmp_path), stored_results(store)
    marked = tuple(replace(row, marks=("imported",)) for row in before.methods)
    assert (section.methods, section.measured.score) == (marked, "true-class")
    assert section.measured.members == before.measured.members == 2
    for name in ("uncertainty", "epistemic_share", "error"):
        assert [getattr(row, name) for row in section.classes] == [getattr(row, name) for row in before.classes]
    assert (section.examples, before.notes) == (None, [])
    assert " ".join(section.notes).count("results import") == 2  # of the methods, and of the class uncertainties


def test_an_imported_measurement_is_shown_where_no_method_used_it(store, measure, tmp_path):
    measure()
    (section,) = imported(store, tmp_path)
    assert (len(section.classes), section.measured.estimator) == (10, "ensemble")


def test_of_imported_measurements_that_of_naive_networks_is_shown(store, measure, tmp_path):
    for estimator in ("ensemble", "ensemble:cb-rs"):
        measure(estimator)
    (section,) = imported(store, tmp_path)
    assert section.measured.estimator == "ensemble"


def test_copies_in_two_folds_are_told_of(store, digits):
    """Where the data are at hand, and are those that were trained on."""
    copies = cu.Dataset("copies", digits.train.take(np.r_[np.arange(len(digits.train)), 0, 1]))
    with open_context(copies, Settings(recipe=SHORT, store=store)) as context:
        load_or_estimate(context, [EstimateRequest("single")])
    assert "never saw it" in " ".join(stored_results(store)[0].notes)
    told = " ".join(stored_results(store, read=lambda name: copies)[0].notes)
    assert "2 copies" in told
    assert "never saw it" not in told


def test_an_imported_measurement_is_shown_for_its_recipe_alone(store, measure, train, tmp_path):
    measure()
    train("cb", recipe=SHORTER)
    shown = {section.name: section.measured and section.measured.members for section in imported(store, tmp_path)}
    assert shown == {"digits-lt:20, epochs 2": 2, "digits-lt:20, epochs 1": None}


def test_recipes_are_told_apart(store, digits, train):
    for recipe in (SHORT, SHORTER):
        train("cb", recipe=recipe)
    assert [section.name for section in stored_results(store)] == ["digits-lt:20, epochs 2", "digits-lt:20, epochs 1"]
    assert [section.measured for section in stored_results(store)] == [None, None]


def test_where_networks_differ_they_name_the_recipes(store, train):
    for recipe in (SHORT, cu.Recipe("resnet32", epochs=1, batch=128, lr=0.2)):
        train("cb", recipe=recipe)
    names = ["digits-lt:20, network small-conv", "digits-lt:20, network resnet32"]
    assert [section.name for section in stored_results(store)] == names


def test_data_that_changed_or_went_away_show_no_images(store, digits, measure):
    measure()
    (changed,) = stored_results(store, read=lambda name: cu.load("digits-lt:10"))
    assert (changed.examples, "have changed" in " ".join(changed.notes)) == (None, True)

    def gone(name: str) -> cu.Dataset:
        raise cu.InputError("it is gone")

    (lost,) = stored_results(store, read=gone)
    assert (lost.examples, "it is gone" in " ".join(lost.notes)) == (None, True)


def test_the_parameters_are_counted_where_the_shape_of_inputs_is_known(store, digits, train):
    """From the data that were read, or from the name of the source; else the network is all that is known."""
    train("naive", recipe=SHORTER)
    train("naive", recipe=SHORTER, dataset=replace(digits, name="mine", train=digits.test))
    own, named = stored_results(store)
    assert (own.name, named.name) == ("mine", "digits-lt:20")
    assert "parameters" not in own.method_notes[0]
    assert "6.3 k parameters" in named.method_notes[0]


def test_nothing_to_show(store):
    with pytest.raises(cu.InputError, match="has no finished results; it has data of digits-lt:20"):
        stored_results(store)
    with pytest.raises(cu.InputError, match="has no finished results of 'cifar'"):
        stored_results(store, "cifar")


def test_data_by_another_name(store, digits, train):
    train("naive", recipe=SHORTER)
    assert [section.name for section in stored_results(store, "digits-lt:20?copy", lambda name: digits)] == [
        "digits-lt:20"
    ]
