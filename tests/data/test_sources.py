"""Every source: its name, and ?duplicate, which repeats training examples and nothing else."""

import numpy as np
import pytest
from commands import Run

from class_uncertainty import InputError, duplicate, load
from class_uncertainty.data import SOURCES


def save(folder, *counts, test=False):
    """Numbered examples as an .npz file: the first feature of example i is i."""
    labels = np.repeat(np.arange(len(counts)), counts)
    arrays = {"x_train": np.arange(len(labels), dtype=float)[:, None], "y_train": labels}
    if test:
        arrays |= {"x_test": -1.0 - np.arange(len(counts))[:, None], "y_test": np.arange(len(counts))}
    np.savez(folder / "numbers.npz", **arrays)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_takes_it(name):
    assert "0 (none) to 1" in SOURCES[name].options["duplicate"].about


@pytest.mark.parametrize("strength", [0.3, 0.5, 1])
def test_only_the_training_split_is_duplicated(strength):
    plain, more = load("digits-lt:20"), load(f"digits-lt:20?duplicate={strength}")
    assert more.name == f"digits-lt:20?duplicate={strength}"
    np.testing.assert_allclose(more.train.counts, plain.train.counts ** (1 - strength) * 120**strength, atol=0.5)
    assert more.train.fingerprint == duplicate(plain.train, strength).fingerprint
    assert more.test.fingerprint == plain.test.fingerprint


def test_the_seed_draws_the_copies(folder):
    save(folder, 9, 4, test=True)
    drawn = {seed: load("npz:numbers.npz?duplicate=0.5", seed=seed).train for seed in (0, 1)}
    assert [data.counts.tolist() for data in drawn.values()] == [[9, 6]] * 2
    assert drawn[0].fingerprint != drawn[1].fingerprint
    assert set(drawn[0].inputs[13:, 0]) <= {9, 10, 11, 12}


def test_validation_images_are_not_duplicated():
    plain, more = load("digits-lt:20?validation=20"), load("digits-lt:20?duplicate=1&validation=20")
    assert more.train.counts.tolist() == [100] * 10
    assert more.test.fingerprint == plain.test.fingerprint
    assert more.duplicates == 0


def test_a_share_is_set_aside_before_the_copies_are_made(folder):
    save(folder, 20, 5)
    dataset = load("npz:numbers.npz?duplicate=1&test=0.2")
    assert dataset.train.counts.tolist() == [16, 16]
    assert dataset.test.counts.tolist() == [4, 1]
    assert dataset.duplicates == 0


def test_copies_are_not_judged_in_folds(folder):
    save(folder, 9, 4)
    with pytest.raises(InputError, match=r"^\?duplicate=0\.5 .* no test split, and folds .* add test=0\.2\.$"):
        load("npz:numbers.npz?duplicate=0.5")
    assert load("npz:numbers.npz?duplicate=0").train.counts.tolist() == [9, 4]


def test_copies_do_not_hide_a_class_of_one_example(folder):
    save(folder, 9, 1, test=True)
    with pytest.raises(InputError, match="class '1' has only one training example"):
        load("npz:numbers.npz?duplicate=1")


@pytest.mark.parametrize("strength", ["-0.1", "1.5", "nan", "inf", "half", "0,5"])
def test_what_is_no_strength_is_refused_before_anything_is_read(strength, run: Run):
    code, _, errors = run("measure", f"npz:nowhere.npz?duplicate={strength}")
    assert code == 2
    assert f"option 'duplicate' is '{strength}': it must be a number from 0 to 1." in errors


NAMES_REFUSED = {
    "digit-lt:20": r"^unknown data 'digit-lt:20': did you mean 'digits-lt:20'\? There are digits, digits-lt:20",
    "Digits": r"^unknown data 'Digits': did you mean 'digits'\? ",
    "mnist": r"^unknown data 'mnist': .*there are digits, ",
    "": r"^unknown data '': there are digits, ",
    "digits:3": r"^'digits:3': 'digits' takes no argument; for a long tail write 'digits-lt:3'\.$",
    "digits?size=3": r"^unknown option of 'digits' 'size': there is only duplicate\.$",
    "digits-lt:20?seed=1": r"^unknown option of 'digits-lt' 'seed': there are validation, duplicate\.$",
    "digits-lt:many": r"^'digits-lt:many' needs an imbalance ratio .*after the colon, as in 'digits-lt:20'\.$",
    "digits-lt": r"^'digits-lt' needs an imbalance ratio .*after the colon, as in 'digits-lt:20'\.$",
    "digits-lt:nan": r"^imbalance ratio is nan: ",
    "digits-lt:0.1": r"^imbalance ratio is 0\.1: ",
    "digits-lt:100": r"^imbalance ratio 100 leaves class '9' 1 of 120 examples: ",
}


@pytest.mark.parametrize("spec", NAMES_REFUSED)
def test_name_refused(spec):
    with pytest.raises(InputError, match=NAMES_REFUSED[spec]):
        load(spec)


@pytest.mark.parametrize("name", SOURCES)
def test_source_has_an_example_of_its_own_name(name):
    assert SOURCES[name].example.partition(":")[0] == name
    assert SOURCES[name].about
