"""From the store to sections: what is shown together belongs together."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reporting.reported import SHORT, SHORTER

import class_uncertainty as cu
import class_uncertainty.runs.store
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.reporting import html_page
from class_uncertainty.reporting.report_data import sections
from class_uncertainty.reporting.section import Section
from class_uncertainty.runs import Store
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import load_or_estimate
from class_uncertainty.runs.result_lines import export_lines, import_lines, read_lines
from class_uncertainty.runs.settings import Settings
from class_uncertainty.training.network_size import NetworkSize


def test_naive_keeps_the_seeds_of_the_comparison(store, digits, measure, train):
    """Three members, two seeds compared: the third naive lane only served to measure."""
    estimate = measure("ensemble", 3)
    (section,) = sections(store)
    assert ([(row.method, row.runs) for row in section.methods], section.naive_left_out) == ([("naive", 3)], 0)
    train(*(cu.Lane(method, seed) for method in ("naive", "ubrs") for seed in (0, 1)), estimate=estimate)
    (section,) = sections(store)
    assert [(row.method, row.runs) for row in section.methods] == [("naive", 2), ("ubrs", 2)]
    assert (section.name, section.members, section.note) == ("digits-lt:20", 3, "")
    assert section.naive_left_out == 1


def test_results_of_another_estimate_are_not_mixed_in(store, measure, train):
    for members in (2, 3):
        train("ubrs", estimate=measure("ensemble", members))
    (section,) = sections(store)
    assert section.members == 3
    assert [(row.method, row.runs) for row in section.methods] == [("naive", 1), ("ubrs", 1)]
    assert section.note.endswith("used another estimate or score: 1.")


def test_members_are_counted_where_folds_judge_them(store, digits):
    """Without a test split, one naive lane by folds judges, which is no member."""
    with open_context(cu.Dataset("folds", digits.train), Settings(recipe=SHORT, store=store)) as context:
        load_or_estimate(context, [EstimateRequest("ensemble", 2)])
    assert [section.members for section in sections(store)] == [2]


def imported(store: Store, folder: Path) -> list[Section]:
    """What another store shows that has the exported lines alone: class vectors, but no probabilities."""
    (folder / "all.jsonl").write_text("".join(export_lines(store)))
    with Store(folder / "other.sqlite") as other:
        import_lines(other, read_lines(folder / "all.jsonl"), "all.jsonl")
        return sections(other)


@pytest.mark.parametrize("estimator", ["ensemble", "out-of-fold", "snapshot"])
def test_imported_results_are_shown_with_what_measured_them(store, measure, train, tmp_path, estimator):
    train("naive", "ubrs", estimate=measure(estimator).using("true-class"))
    (section,), (before,) = imported(store, tmp_path), sections(store)
    marked = tuple(replace(row, marks=("imported",)) for row in before.methods)
    assert (section.methods, section.score) == (marked, "true-class")
    assert section.members == before.members == 2
    for name in ("uncertainty", "epistemic_share", "error"):
        assert [getattr(row, name) for row in section.classes] == [getattr(row, name) for row in before.classes]
    assert (section.galleries, before.note) == ((), "")
    assert section.note.count("results import") == 2  # of the methods, and of the class uncertainties


def test_an_imported_measurement_is_shown_where_no_method_used_it(store, measure, tmp_path):
    measure()
    (section,) = imported(store, tmp_path)
    assert (len(section.classes), section.estimator) == (10, "ensemble")


def test_of_imported_measurements_that_of_naive_networks_is_shown(store, measure, tmp_path):
    for estimator in ("ensemble", "ensemble:cb-rs"):
        measure(estimator)
    (section,) = imported(store, tmp_path)
    assert section.estimator == "ensemble"


def test_copies_in_two_folds_are_told_of(store, digits):
    """Where the data are at hand, and are those that were trained on."""
    copies = cu.Dataset("copies", digits.train.take(np.r_[np.arange(len(digits.train)), 0, 1]))
    with open_context(copies, Settings(recipe=SHORT, store=store)) as context:
        load_or_estimate(context, [EstimateRequest("single")])
    assert "never saw it" in sections(store)[0].note
    told = sections(store, read=lambda name: copies)[0].note
    assert "2 copies" in told
    assert "never saw it" not in told


def test_an_imported_measurement_is_shown_for_its_recipe_alone(store, measure, train, tmp_path):
    measure()
    train("cb", recipe=SHORTER)
    shown = {section.name: section.members for section in imported(store, tmp_path)}
    assert shown == {"digits-lt:20, epochs 2": 2, "digits-lt:20, epochs 1": 0}


def test_recipes_are_told_apart(store, digits, train):
    for recipe in (SHORT, SHORTER):
        train("cb", recipe=recipe)
    assert [section.name for section in sections(store)] == ["digits-lt:20, epochs 2", "digits-lt:20, epochs 1"]
    assert [section.members for section in sections(store)] == [0, 0]


def test_where_networks_differ_they_name_the_recipes(store, train):
    for recipe in (SHORT, cu.Recipe("resnet32", epochs=1, batch=128, lr=0.2)):
        train("cb", recipe=recipe)
    names = ["digits-lt:20, network small-conv", "digits-lt:20, network resnet32"]
    assert [section.name for section in sections(store)] == names


def test_galleries_show_the_most_and_least_uncertain_of_the_worst_classes(store, digits, measure):
    estimate = measure()
    (section,) = sections(store)
    errors = np.mean([result.class_errors for result in estimate.results], axis=0)
    assert len(section.galleries) == 3
    for gallery in section.galleries:
        assert errors[int(gallery.label)] >= np.sort(errors)[-3]
        of_class = np.sort(estimate.uncertainty[digits.train.labels == int(gallery.label)])
        assert [image.uncertainty for image in gallery.least] == pytest.approx(of_class[: len(gallery.least)])
        assert [image.uncertainty for image in gallery.most] == pytest.approx(of_class[::-1][: len(gallery.most)])
        assert len(gallery.most) == len(gallery.least) == min(8, len(of_class) // 2)


def test_data_that_changed_or_went_away_show_no_images(store, digits, measure):
    measure()
    (changed,) = sections(store, read=lambda name: cu.load("digits-lt:10"))
    assert (changed.galleries, "have changed" in changed.note) == ((), True)

    def gone(name: str) -> cu.Dataset:
        raise cu.InputError("it is gone")

    (lost,) = sections(store, read=gone)
    assert (lost.galleries, "it is gone" in lost.note) == ((), True)


def test_the_parameters_are_counted_where_the_shape_of_inputs_is_known(store, digits, train, blank_charts):
    """From the data that were read, or from the name of the source; else the network is all that is known."""
    train("naive", recipe=SHORTER)
    train("naive", recipe=SHORTER, dataset=replace(digits, name="mine", train=digits.test))
    own, named = sections(store)
    assert (own.name, own.network) == ("mine", NetworkSize("small-conv", None))
    assert (named.name, named.network) == ("digits-lt:20", NetworkSize("small-conv", 6_274))
    blank_charts()
    assert "parameters of small-conv" in html_page.render([named])[0]


def test_nothing_to_show(store):
    with pytest.raises(cu.InputError, match="has no finished results; it knows of digits-lt:20"):
        sections(store)
    with pytest.raises(cu.InputError, match="has no finished results of 'cifar'"):
        sections(store, "cifar")


def test_data_by_another_name(store, digits, train):
    train("naive", recipe=SHORTER)
    assert [section.name for section in sections(store, "digits-lt:20?copy", lambda name: digits)] == ["digits-lt:20"]
