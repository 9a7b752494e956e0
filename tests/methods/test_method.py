"""Methods: the contracts for every row of the table, and the published numbers written out."""

from dataclasses import fields, replace

import numpy as np
import pytest
from contracts import LONG_TAIL, UNORDERED, verify
from method_contracts import free, method_checks, same_plan
from methods.rows import ROWS

from class_uncertainty import MEASURES, METHODS, InputError, Method, Plan, Stats, normalise, plan
from class_uncertainty.methods import Focal, Knob, Stage, named
from class_uncertainty.methods.method import always, late, late_linear, linear, to_classes
from class_uncertainty.training import describe

pytestmark = pytest.mark.usefixtures("no_global_random")


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(name, check, id=f"{name}-{check.__name__}")
        for name, row in ROWS.items()
        for check in method_checks(name, row)
    ],
)
def test_contract(name, check):
    verify(name, check, ROWS[name])


def test_stages_are_found():
    """A row of three trainings is three times in the contracts."""
    assert [name for name in ROWS if name.startswith("ubm-dro")] == ["ubm-dro", "ubm-dro/1", "ubm-dro/2"]
    assert [name for name in ROWS if name.startswith("crt")] == ["crt", "crt/1"]


@pytest.mark.parametrize("name", METHODS)
def test_counterpart_names_a_row(name):
    counterpart = METHODS[name].counterpart
    assert counterpart in METHODS or not counterpart
    assert counterpart != name


@pytest.mark.parametrize(
    ("second", "first"),
    [
        ("2s-cb-rs", "cb-rs"),
        ("2s-ubrs", "ubrs"),
        ("2s-focal-literal", "focal"),
        ("2s-cb-focal", "cb-focal"),
        ("2s-cb-focal-literal", "cb-focal"),
        ("2s-ubrw", "ubrw"),
        ("2s-ubrw-focal", "ubrw-focal"),
        ("2s-ubrw-focal-literal", "ubrw-focal"),
    ],
)
def test_second_stage_is_the_one_stage_row(second, first):
    for epoch in (160, 199):
        assert same_plan(
            plan(METHODS[second], LONG_TAIL, epoch, 200), plan(METHODS[first], LONG_TAIL, epoch, 200), 1e-12
        )


@pytest.mark.parametrize("name", ["ldam-rw", "ubm-ldam-rw", "ubm-ldam-cbrw"])
def test_ldam_weights_come_in_the_second_stage(name):
    assert plan(METHODS[name], LONG_TAIL, 159, 200).weight.tolist() == [1] * 10
    assert not np.allclose(plan(METHODS[name], LONG_TAIL, 160, 200).weight, 1)


# gamma, sigmoid form, head, scale, beta, reduction at the last epoch, recipes.md 1.6 and 8; reductions: Eq. 4, LDAM-DRW
FORMS = {
    "naive": (0, False, "linear", 1, 0, "mean"),
    "focal": (2, True, "linear", 1, 0, "mean"),
    "cb": (0, False, "linear", 1, 0, "weights"),
    "cb-literal": (0, False, "linear", 1, 0, "mean"),
    "cb-focal": (2, True, "linear", 1, 0, "mean"),
    "ubrw": (0, False, "linear", 1, 0, "mean"),
    "ubrw-focal": (2, True, "linear", 1, 0, "mean"),
    "ldam": (0, False, "cosine", 30, 0, "mean"),
    "ldam-rw": (0, False, "cosine", 30, 0, "weights"),
    "ubm-ldam": (0, False, "cosine", 30, 0, "mean"),
    "2s-csce": (0, False, "linear", 1, 0, "weights"),
    "2s-csce-literal": (0, False, "linear", 1, 0, "mean"),
    **{
        f"2s-{name}{end}": (2, True, "linear", 1, 0, "mean")
        for name in ("focal", "cb-focal", "ubrw-focal")
        for end in ("", "-literal")
    },
    "2s-ubrw": (0, False, "linear", 1, 0, "mean"),
    "logit-adjust": (0, False, "linear", 1, 1, "mean"),
    "vs": (0, False, "linear", 1, 1, "mean"),
    "ubrw-bot": (0, False, "linear", 1, 0, "weights"),
    "2s-ubrw-bot": (0, False, "linear", 1, 0, "weights"),
    "dro/1": (0, False, "linear", 1, 0, "weights"),
    "dro/2": (0, False, "linear", 1, 0, "mean"),
    "crt/1": (0, False, "linear", 1, 0, "mean"),
    "2s-cam-rs/1": (0, False, "linear", 1, 0, "mean"),
    "duq": (0, False, "rbf", 1, 0, "mean"),
}


@pytest.mark.parametrize("name", FORMS)
def test_form_of_the_loss(name):
    at, method = plan(ROWS[name], LONG_TAIL, 199, 200), ROWS[name]
    assert (at.gamma, at.sigmoid, method.head, at.scale, at.beta, method.reduction) == FORMS[name]


@pytest.mark.parametrize("name", ["2s-focal", "2s-cb-focal", "2s-ubrw-focal"])
def test_focal_throughout_has_naive_knobs_before_the_switch(name):
    """Their first stage is that of the focal loss, whose plan it is; only the weights wait."""
    for epoch in (0, 80, 159):
        assert same_plan(plan(METHODS[name], LONG_TAIL, epoch, 200), plan(METHODS["focal"], LONG_TAIL, epoch, 200))
    assert not np.allclose(plan(METHODS[name], LONG_TAIL, 160, 200).weight, 1)


# share of the epochs, factor of the rate, what trains, a fresh head, pasted foregrounds (as released), an epoch as of
# equal classes
STAGES = {
    "crt": [(0.15, 1, "head", True, False, False, False)],
    "ub-crt": [(0.15, 1, "head", True, False, False, False)],
    **{f"2s-cam-{kind}": [(0.2, 0.01, "all", False, True, False, False)] for kind in ("rs", "sqrt-rs", "pb-rs")},
    "2s-cam-rs-bot": [(0.2, 0.01, "all", False, True, True, False)],
    **{
        name: [(0.4, 0.05, "body", False, False, False, True), (0.1, 0.1, "head", False, False, False, True)]
        for name in ("dro", "dro-learned", "ubm-dro")
    },
}


@pytest.mark.parametrize("name", METHODS)
def test_stages(name):
    """recipes.md 1.7, 1.8 and 5; every other row is one training."""
    found = [(s.epochs, s.rate, s.trains, s.fresh, s.pasted, s.released, s.balanced) for s in METHODS[name].then]
    assert found == STAGES.get(name, [])
    assert METHODS[name].share == (0.8 if "-cam-" in name else 1)


@pytest.mark.parametrize("name", ["dro", "dro-learned", "ubm-dro"])
def test_robust_margins_act_on_the_features_of_one_stage(name):
    assert [row.level for row in METHODS[name].stages] == ["logits", "features", "logits"]
    assert [row.learned for row in METHODS[name].stages] == [False, name == "dro-learned", False]
    assert [row.augment for row in METHODS[name].stages] == [()] * 3  # crop and flip, as Sec. IV-A says


@pytest.mark.parametrize(
    ("ramp", "values"),
    [
        (always, [1, 1, 1, 1, 1]),
        (linear, [0.2, 0.4, 0.6, 0.8, 1]),
        (late, [0, 0, 0, 0, 1]),
        (late_linear, [0, 0, 0, 0, 1]),
    ],
)
def test_ramp(ramp, values):
    assert [ramp(epoch, 5) for epoch in range(5)] == pytest.approx(values)


@pytest.mark.parametrize("epochs", range(2, 41))
def test_second_stage_is_the_last_fifth_and_never_empty(epochs):
    """A two-stage method whose second stage never comes would be reported under a name it has not earned."""
    on = [late(epoch, epochs) for epoch in range(epochs)]
    assert on == sorted(on)
    assert abs(sum(on) - epochs / 5) <= 0.5 or epochs < 3
    assert on[-1] == 1


def test_softmax_focal_comes_in_by_its_ramp():
    method = Method(focal=Focal(1.0, sigmoid=False, ramp=linear))
    assert [plan(method, UNORDERED, epoch, 4).gamma for epoch in range(4)] == [0.25, 0.5, 0.75, 1]
    assert not plan(method, UNORDERED, 3, 4).sigmoid


def test_any_measure_drives_any_method():
    """UBRs is cb-rs driven by uncertainty, and so on; for margins of DRO-LT, which have another unit, that holds of
    their ratios."""
    for name, row in METHODS.items():
        measures = {knob.measure for each in row.stages for knob in free(each).values()}
        if row.counterpart and len(measures) == 1:
            driven = METHODS[row.counterpart].using(measures.pop())
            for mine, theirs in zip(driven.stages, row.stages, strict=True):
                here, there = (plan(each, LONG_TAIL, 199, 200) for each in (mine, theirs))
                if mine.level == "features":
                    here, there = (replace(at, margin=normalise(at.margin)) for at in (here, there))
                assert same_plan(here, there, 1e-14), name


def test_using_leaves_fixed_knobs_alone():
    """Another measure for DRO-LT's margins; class-balanced draws and the weights that undo them are DRO-LT itself."""
    row, driven = METHODS["dro"], METHODS["dro"].using(MEASURES["surprisal"])
    assert driven.then[0].method.margin.measure is MEASURES["surprisal"]
    assert (driven.then[0].method.alpha, driven.then[0].method.weight) == (
        row.then[0].method.alpha,
        row.then[0].method.weight,
    )
    assert driven.then[1] == row.then[1]


def test_using_is_refused_where_all_knobs_are_fixed():
    row = Method(alpha=Knob(MEASURES["uniform"], normalise, fixed=True))
    with pytest.raises(InputError, match="knob"):
        row.using(MEASURES["uncertainty"])


def test_augmented_reaches_every_stage_and_keeps_what_there_was():
    row = METHODS["dro"].augmented("autoaugment").augmented("mixup", "cutout")
    assert [each.augment for each in row.stages] == [("autoaugment", "cutout", "mixup")] * 3
    assert [each.augment for each in METHODS["crt"].augmented("remix").stages] == [("remix",)] * 2
    assert METHODS["crt"].augmented("remix").augmented("remix") == METHODS["crt"].augmented("remix")


def test_strength_interpolates_from_rest():
    knob = Knob(named("ubrw").weight.measure, to_classes, lambda epoch, epochs: 0.25)
    weight = plan(Method(weight=knob), Stats([10, 20], [0.1, 0.3]), 0, 1).weight
    np.testing.assert_allclose(weight, [0.75 + 0.25 * 0.5, 0.75 + 0.25 * 1.5], rtol=1e-14)


@pytest.mark.parametrize(("epoch", "epochs"), [(-1, 5), (5, 5), (0, 0)])
def test_epoch_refused(epoch, epochs):
    with pytest.raises(InputError, match=rf"^epoch is {epoch}: it must be from 0 to {epochs - 1}\.$"):
        plan(METHODS["naive"], UNORDERED, epoch, epochs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head": "cosin"}, r"^head is 'cosin': it must be 'linear' or 'cosine' or 'rbf'\.$"),
        ({"reduction": "sum"}, r"^reduction is 'sum': it must be 'mean' or 'weights'\.$"),
        ({"beta": 0.5}, r"^beta is 0\.5: it must be 0 or 1\.$"),
        ({"level": "pixels"}, r"^level is 'pixels': it must be 'logits' or 'features'\.$"),
        ({"dropout": 1.0}, r"^dropout is 1\.0: it must be a share from 0 to below 1\.$"),
        ({"dropout": -0.1}, r"^dropout is -0\.1: "),
        (
            {"augment": ("cutup",)},
            r"^unknown augmentation 'cutup': did you mean 'cutout'\? There are autoaugment, cutout, mixup, remix\.$",
        ),
        ({"augment": ("remix", "cutout", "mixup")}, r"^mixup and remix are given: a method mixes in one way\.$"),
    ],
    ids=["head", "reduction", "beta", "level", "dropout of all", "negative dropout", "augmentation", "mixed twice"],
)
def test_method_refuses(changes, message):
    with pytest.raises(InputError, match=message):
        Method(**changes)


def test_rows_say_what_they_are():
    assert [name for name, row in METHODS.items() if not row.about] == []
    assert len({row.about for row in METHODS.values()}) == len(METHODS)


def test_stored_words_name_every_unit():
    """What a result says of its method is read by people; a lambda says nothing."""
    assert [name for name, row in METHODS.items() if "lambda" in str(describe(row))] == []


def test_stored_words_tell_rows_apart():
    """Balanced softmax and logit adjustment are one loss by two names."""
    words = {name: str(describe(row)) for name, row in METHODS.items() if name != "logit-adjust"}
    assert len(set(words.values())) == len(words)
    assert words["balanced-softmax"] == str(describe(METHODS["logit-adjust"]))


def test_plan_has_no_field_that_the_contracts_do_not_know():
    """A new knob must come with its unit in check_plan_units."""
    assert [f.name for f in fields(Plan)] == [
        "alpha",
        "weight",
        "margin",
        "divisor",
        "beta",
        "gamma",
        "sigmoid",
        "scale",
        "natural",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"share": 0}, "share is 0: it must be above 0, and 1 at most"),
        ({"cycles": 2.5}, "cycles is 2.5: it must be a whole number"),
        ({"cycles": -1}, "cycles is -1"),
        ({"learned": True}, "learned margins act at the features"),
        ({"head": "rbf", "weight": METHODS["cb"].weight}, "head 'rbf' has a loss of its own"),
        ({"head": "rbf", "focal": METHODS["focal"].focal}, "head 'rbf' has a loss of its own"),
        ({"then": (Stage(Method(head="rbf"), 0.5),)}, "head 'rbf' has other weights than the others"),
    ],
)
def test_fields_that_do_not_go_together_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        Method(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trains": "bodi"}, "trains is 'bodi': it must be 'all', 'head' or 'body'"),
        ({"epochs": 0}, "a stage has epochs=0, rate=1.0: both must be above 0"),
        ({"rate": -1}, "rate=-1: "),
        ({"method": METHODS["crt"]}, "the method of a stage has stages of its own"),
        ({"released": True}, "a stage has released=True and pasted=False"),
    ],
)
def test_stages_refuse(changes, message):
    with pytest.raises(InputError, match=message):
        Stage(**{"method": Method(), "epochs": 0.5} | changes)
