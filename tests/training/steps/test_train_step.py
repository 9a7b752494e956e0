"""Every form of a step and every stage: lanes apart, bits the same again, and each as plain PyTorch would do it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from training.steps.stepped import RECIPE, fit, outcome, same

import class_uncertainty as cu
from class_uncertainty.methods import named
from class_uncertainty.training.stages import resolve_stages, stack_key, staged

TABLE = cu.Recipe("mlp", epochs=4, batch=16)
FORMS = {
    "mixup": cu.Lane("naive+mixup", 1),
    "remix": cu.Lane("cb+remix", 2),
    "autoaugment and cutout": cu.Lane("naive+autoaugment+cutout", 3),
    "dropout": cu.Lane("dropout", 4),
    "crt": cu.Lane("crt", 5),
    "dro": cu.Lane("dro", 6),
    "dro-learned": cu.Lane("dro-learned+autoaugment+cutout", 7),
    "cam": cu.Lane("2s-cam-rs", 8),
    "duq": cu.Lane("duq", 9),
    "cyclic": cu.Lane("cyclic", 10),
    "bootstrap": cu.Lane("naive", 11, bootstrap=True),
    "online": cu.Lane("naive", 12, gather="online"),
    "snapshots": cu.Lane(replace(named("cyclic"), cycles=2), 13, gather="snapshots"),
}
IMAGES_ONLY = ("autoaugment and cutout", "dro-learned", "cam")
ON_TABLES = [name for name in FORMS if name not in IMAGES_ONLY]
CASES = [("small-conv", name) for name in FORMS] + [("mlp", name) for name in ON_TABLES]


@pytest.fixture(scope="module")
def given(digits):
    from sklearn.datasets import load_wine

    wine = load_wine()
    return {"small-conv": (digits, RECIPE), "mlp": (cu.Data(wine.data, wine.target), TABLE)}


@pytest.fixture(scope="module")
def together(given):
    """All forms in one fit(), each beside a lane of the same form and another seed that comes first."""
    found = {}
    for network, (data, recipe) in given.items():
        names = [name for kind, name in CASES if kind == network]
        fitted = fit(data, [lane for name in names for lane in (replace(FORMS[name], seed=50), FORMS[name])], recipe)
        found |= {(network, name): outcome(fitted, 2 * i + 1) for i, name in enumerate(names)}
    return found


@pytest.mark.parametrize(("network", "name"), CASES)
def test_a_lane_alone_is_the_lane_among_others(network, name, given, together):
    """The same bits again, then, too: these are two trainings."""
    data, recipe = given[network]
    alone = outcome(fit(data, [FORMS[name]], recipe))
    same(alone, together[network, name])
    assert bool(alone[2]) == (name in ("online", "snapshots"))


@pytest.mark.parametrize("name", FORMS)
def test_stopped_in_every_epoch_of_every_stage(name, given, together, tmp_path):
    """Each call ends an epoch and is interrupted in the next; the last one removes the checkpoints of all stages."""
    (data, recipe), running, files, fitted = given["small-conv"], tmp_path / "running", set(), None
    total = resolve_stages(FORMS[name].value, recipe)[-1].total
    for call in range(total):
        told = []

        def progress(news, told=told):
            told.append(news.epoch)
            if len(told) == 2:
                raise KeyboardInterrupt

        try:
            fitted = fit(data, [FORMS[name]], recipe, checkpoints=running, every=1, progress=progress)
        except KeyboardInterrupt:
            files |= {file.name for file in running.iterdir()}
        assert told == [call, call + 1][: total - call]
    same(outcome(fitted), together["small-conv", name])
    assert len(files) >= len(FORMS[name].value.stages) - 1  # a last stage of one epoch is never seen half done
    assert not running.exists()


@pytest.mark.parametrize("name", ["mixup", "crt", "dro-learned", "cam", "duq", "online"])
def test_a_budget_is_spent_in_every_stage(name, given, together, tmp_path):
    """One that allows an epoch a call: nothing is trained twice, nothing left out."""
    (data, recipe), running, told = given["small-conv"], tmp_path / "running", []
    total = resolve_stages(FORMS[name].value, recipe)[-1].total
    for _ in range(total - 1):
        with pytest.raises(cu.Unfinished, match="with 0 of 1 networks trained"):
            fit(data, [FORMS[name]], recipe, checkpoints=running, budget=1e-9, progress=told.append)
    fitted = fit(data, [FORMS[name]], recipe, checkpoints=running, budget=1e-9, progress=told.append)
    same(outcome(fitted), together["small-conv", name])
    assert [(news.epoch, news.epochs) for news in told] == [(epoch, total) for epoch in range(total)]
    assert not running.exists()


def test_stages_and_forms_of_the_cases():
    """They are what the tests above are meant to go through."""
    assert [len(lane.value.stages) for name, lane in FORMS.items() if name in ("crt", "dro", "dro-learned", "cam")] == [
        2,
        3,
        3,
        2,
    ]
    stages = [(lane, number) for lane in FORMS.values() for number in range(len(lane.value.stages))]
    assert len({stack_key(staged(lane, RECIPE, number)) for lane, number in stages}) == 4


@pytest.mark.parametrize("name", ["crt", "dro", "cam", "duq", "mixup"])
def test_a_lane_that_diverges_leaves_the_others_as_they_are(name, digits, together):
    fitted = fit(digits, [replace(FORMS[name], seed=60, lr=1e30), FORMS[name]])
    same(outcome(fitted, 1), together["small-conv", name])
    assert fitted.results[0].diverged == 0


@pytest.mark.parametrize(
    "method", ["dropout", "naive+mixup", "cb+remix", "crt", "dro", "2s-cam-rs", "naive+autoaugment"]
)
@pytest.mark.parametrize(("classes", "size"), [(2, 3), (7, 13)])
def test_a_place_in_the_stack_changes_no_bit(method, classes, size):
    """Odd sizes, where a lane's numbers do not fill what torch computes at once."""
    pixels = np.random.default_rng(0).integers(0, 256, (70, 3, size, 9)).astype(np.uint8)
    fitted = fit(
        cu.Data(pixels, np.arange(70) % classes), [cu.Lane(method)] * 5, cu.Recipe("small-conv", epochs=2, batch=17)
    )
    for state in fitted.states[1:]:
        assert all(torch.equal(value, fitted.states[0][name]) for name, value in state.items())
