"""From the store to sections: what is shown together belongs together."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import class_uncertainty as cu
import class_uncertainty.results.store
from class_uncertainty.estimation import Asked
from class_uncertainty.reporting import report, terminal
from class_uncertainty.reporting.sections import sections
from class_uncertainty.results import Store
from class_uncertainty.results.fixing import fix
from class_uncertainty.results.runs import measured, run

SHORT, SHORTER = (cu.Recipe("small-conv", epochs=epochs, batch=32) for epochs in (2, 1))


@pytest.fixture(scope="module")
def digits() -> cu.Dataset:
    return cu.load("digits-lt:20")


@pytest.fixture
def store(tmp_path: Path, digits: cu.Dataset) -> Iterator[Store]:
    with Store(tmp_path / "runs.sqlite") as store:
        store.add_data(digits)
        yield store


def test_naive_keeps_the_seeds_of_the_comparison(store: Store, digits: cu.Dataset) -> None:
    """Three members, two seeds compared: the third naive lane only served to measure."""
    (found,) = measured(store, digits, SHORT, [Asked("ensemble", 3)])
    assert [(row.method, row.runs) for row in sections(store)[0].methods] == [("naive", 3)]
    run(store, digits, [cu.Lane(m, s) for m in ("naive", "ubrs") for s in (0, 1)], SHORT, found.stats)
    (section,) = sections(store)
    assert [(row.method, row.runs) for row in section.methods] == [("naive", 2), ("ubrs", 2)]
    assert (section.name, section.members, section.note) == ("digits-lt:20", 3, "")


def test_results_of_another_estimate_are_not_mixed_in(store: Store, digits: cu.Dataset) -> None:
    for members in (2, 3):
        (found,) = measured(store, digits, SHORT, [Asked("ensemble", members)])
        run(store, digits, [cu.Lane("ubrs")], SHORT, found.stats)
    (section,) = sections(store)
    assert section.members == 3
    assert [(row.method, row.runs) for row in section.methods] == [("naive", 1), ("ubrs", 1)]
    assert "1 results used another estimate" in section.note


def test_recipes_are_told_apart(store: Store, digits: cu.Dataset) -> None:
    for recipe in (SHORT, SHORTER):
        run(store, digits, [cu.Lane("cb")], recipe, None)
    assert [section.name for section in sections(store)] == ["digits-lt:20, epochs 2", "digits-lt:20, epochs 1"]
    assert [section.members for section in sections(store)] == [0, 0]


def test_galleries_show_the_most_and_least_uncertain_of_the_worst_classes(store: Store, digits: cu.Dataset) -> None:
    (found,) = measured(store, digits, SHORT, [Asked("ensemble", 2)])
    (section,) = sections(store)
    errors = np.mean([result.class_errors for result in found.results], axis=0)
    assert len(section.galleries) == 3
    for gallery in section.galleries:
        assert errors[int(gallery.label)] >= np.sort(errors)[-3]
        of_class = np.sort(found.uncertainty[digits.train.labels == int(gallery.label)])
        assert [picture.uncertainty for picture in gallery.least] == pytest.approx(of_class[: len(gallery.least)])
        assert [picture.uncertainty for picture in gallery.most] == pytest.approx(of_class[::-1][: len(gallery.most)])
        assert len(gallery.most) == len(gallery.least) == min(8, len(of_class) // 2)


def test_data_that_changed_or_went_away_show_no_pictures(store: Store, digits: cu.Dataset) -> None:
    measured(store, digits, SHORT, [Asked("ensemble", 2)])
    (changed,) = sections(store, read=lambda name: cu.load("digits-lt:10"))
    assert (changed.galleries, "have changed" in changed.note) == ((), True)

    def gone(name: str) -> cu.Dataset:
        raise cu.InputError("it is gone")

    (lost,) = sections(store, read=gone)
    assert (lost.galleries, "it is gone" in lost.note) == ((), True)


def test_nothing_to_show(store: Store) -> None:
    with pytest.raises(cu.InputError, match="has no finished results; it knows of digits-lt:20"):
        sections(store)
    with pytest.raises(cu.InputError, match="has no finished results of 'cifar'"):
        sections(store, "cifar")


def test_data_by_another_name(store: Store, digits: cu.Dataset) -> None:
    run(store, digits, [cu.Lane("naive")], SHORTER, None)
    assert [section.name for section in sections(store, "digits-lt:20?copy", lambda name: digits)] == ["digits-lt:20"]


def test_what_was_trained_otherwise_is_not_averaged(store: Store, digits: cu.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another engine's results, a redefined row, other methods without a name, another device: each stands apart."""
    lanes = [cu.Lane("cb", seed) for seed in (0, 1)] + [cu.Lane(cu.Method(scale=scale)) for scale in (2.0, 3.0)]
    with monkeypatch.context() as older:
        older.setattr(class_uncertainty.results.store, "ENGINE", 0)
        older.setattr(class_uncertainty.training.keys, "ENGINE", 0)
        run(store, digits, lanes[:1], SHORT, None)
    run(store, digits, lanes, SHORT, None)
    monkeypatch.setitem(cu.METHODS, "cb", dataclasses.replace(cu.METHODS["cb"], reduction="weights"))
    run(store, digits, lanes[:1], SHORT, None)
    (section,) = sections(store)
    assert [row.runs for row in section.methods] == [2, 1, 1, 1]
    assert [row.method[:7] for row in section.methods] == ["cb", "custom-", "custom-", "cb"]
    elsewhere = dataclasses.replace(store.results(digits.fingerprint)[0], device="cuda")
    store.add("elsewhere", digits.fingerprint, elsewhere)
    assert [section.name for section in sections(store)] == ["digits-lt:20, device cpu", "digits-lt:20, device cuda"]


def test_the_estimate_shown_is_the_one_that_mending_chose_on(store: Store, digits: cu.Dataset) -> None:
    """Not that of the learning rate which was not taken, whichever was stored last."""
    for lrs in ((0.4, 0.1), (0.1, 0.4)):
        fixed = fix(digits, 2, SHORT, lrs=lrs, seeds=1, store=store)
        (section,) = sections(store)
        assert section.mended == fixed.mended
        assert [row.uncertainty for row in section.classes] == pytest.approx(fixed.estimate.mu)
    errors = {lr: measured(store, digits, SHORT, [Asked("out-of-fold", 2, lr=lr)])[0].mu for lr in (0.1, 0.4)}
    assert not np.allclose(errors[0.1], errors[0.4])


def test_data_that_changed_come_first_as_they_are_now(store: Store, digits: cu.Dataset) -> None:
    labels = digits.train.labels.copy()
    labels[0] = 1
    now = cu.Dataset(digits.name, cu.Data(digits.train.inputs, labels, digits.classes), digits.test)
    for dataset in (digits, now):
        store.add_data(dataset)
        run(store, dataset, [cu.Lane("naive")], SHORT, None)
    new, old = sections(store)
    assert (new.name, old.name) == (digits.name, f"{digits.name}, before the data changed")
    errors = [cu.fit(each.train, [cu.Lane("naive")], recipe=SHORT, test=each.test).results[0].class_mean_error for each in (now, digits)]
    assert [section.methods[0].error for section in (new, old)] == pytest.approx(errors)


def test_the_estimate_shown_is_the_one_compared_with(store: Store, digits: cu.Dataset) -> None:
    (found,) = measured(store, digits, SHORT, [Asked("ensemble", 2)])
    run(store, digits, [cu.Lane("ubrs")], SHORT, found.stats)
    measured(store, digits, SHORT, [Asked("ensemble", 3)])
    (section,) = sections(store)
    assert (section.members, section.note) == (2, "")
    assert [row.method for row in section.methods] == ["naive", "ubrs"]


@pytest.mark.parametrize("name", [name for name in cu.ESTIMATORS if name != "probabilities"])
def test_every_estimate_can_be_reported(name: str, store: Store, digits: cu.Dataset) -> None:
    """One member or several, with what was trained by it; naive's row is never of folds, bootstraps or cycles."""
    (found,) = measured(store, digits, SHORT, [Asked(name, 2)])
    run(store, digits, [cu.Lane("naive"), cu.Lane("ubrw")], SHORT, found.stats)
    (section,) = sections(store)
    assert (section.members, section.note, len(section.galleries)) == (len(found.probabilities), "", 3)
    assert [row.uncertainty for row in section.classes] == pytest.approx(found.mu)
    rows = {row.method: row for row in section.methods}
    assert {"naive", "ubrw"} <= set(rows) <= {"naive", "ubrw", "dropout", "duq"}
    plain = cu.fit(digits.train, [cu.Lane("naive")], recipe=SHORT, test=digits.test).results[0]
    assert (rows["naive"].runs, rows["naive"].error) == (1, pytest.approx(plain.class_mean_error))
    if name == "online":  # one member, with a score of its own
        assert report.render([section]).startswith("<!doctype html>")


def test_an_estimate_from_a_file_can_be_reported(store: Store, digits: cu.Dataset, tmp_path: Path, rng: np.random.Generator) -> None:
    np.save(tmp_path / "p.npy", rng.dirichlet(np.ones(10), len(digits.train)))
    (found,) = measured(store, digits, SHORT, [Asked(f"probabilities:{tmp_path / 'p.npy'}")])
    run(store, digits, [cu.Lane("ubrw")], SHORT, found.stats)
    (section,) = sections(store)
    assert [row.method for row in section.methods] == ["ubrw"]
    assert [row.uncertainty for row in section.classes] == pytest.approx(found.mu)
    assert {row.error for row in section.classes} == {None}
    assert report.render([section]).startswith("<!doctype html>")


def test_what_was_trained_by_another_score_is_shown_by_it(store: Store, digits: cu.Dataset) -> None:
    """The store keeps networks, not scores: the report reads them as the last result did."""
    (found,) = measured(store, digits, SHORT, [Asked("ensemble", 2)])
    run(store, digits, [cu.Lane("ubrw")], SHORT, found.using("epistemic").stats)
    (section,) = sections(store)
    assert ("ubrw", section.note) == (section.methods[-1].method, "")
    assert [row.uncertainty for row in section.classes] == pytest.approx(found.using("epistemic").mu)


def test_methods_by_another_measure_or_with_augmentation_have_rows_of_their_own(store: Store, digits: cu.Dataset) -> None:
    (found,) = measured(store, digits, SHORT, [Asked("ensemble", 2)])
    names = ["ubrw", "ubrw@product", "ubrw@product^0.5", "naive+mixup"]
    run(store, digits, [cu.Lane(name) for name in names], SHORT, found.stats)
    (section,) = sections(store)
    assert sorted((row.method, row.runs) for row in section.methods) == sorted((name, 1) for name in ["naive", *names])
    page = report.render([section])
    assert all(name in page for name in names)


def test_class_names_are_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.console().print(terminal.plain_table(["class"], [["[red]"], ["[/b]"]]))
    assert "[red]" in (out := capsys.readouterr().out)
    assert "[/b]" in out
