"""Every public call returns, or refuses in one sentence. FUZZ_EXAMPLES sets how much is tried."""

import inspect
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from call_cases import (
    CALLED,
    CASES,
    CONSTANTS,
    FEW,
    INNER,
    LABELS,
    RECIPE,
    RESULTS,
    STATS,
    WORK,
    dataset,
    fitted,
    frame,
    images,
    saved,
    table,
)
from example_results import make_result
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from wrong_values import PLAIN, WRONG

import class_uncertainty as cu
from class_uncertainty.checks import WIDTH, is_frame, shortly
from class_uncertainty.io import check_record
from class_uncertainty.methods import Focal, Stage
from class_uncertainty.training.networks.network_table import NETWORKS

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """What a call writes, it writes there."""
    before, place, networks = Path.cwd(), tmp_path_factory.mktemp("boundary"), dict(NETWORKS)
    os.chdir(place)
    yield place
    os.chdir(before)
    NETWORKS.clear()
    NETWORKS.update(networks)


def ends_well(call: Callable[[], Any]) -> None:
    """It returns, or says in one line what is wrong."""
    try:
        call()
    except (cu.InputError, cu.MachineFault) as error:
        sentence = str(error)
        assert sentence.endswith("."), sentence
        assert sentence.isprintable(), sentence
        assert not re.search(r"\b0x[0-9a-f]{6}", sentence), sentence
    except cu.Unfinished:
        pass  # a budget of next to nothing


def test_every_public_name_is_in_the_table():
    assert set(cu.__all__) - CONSTANTS - RESULTS == {case for case in CASES if "." not in case}


def test_every_public_method_is_in_the_table():
    methods = {
        f"{name}.{method}"
        for name in cu.__all__
        if isinstance(value := getattr(cu, name), type) and not issubclass(value, Exception)
        for method, function in inspect.getmembers(value, callable)
        if method in vars(value) and (method == "__call__" or method[0] != "_") and method not in INNER.get(name, ())
        if len(inspect.signature(function).parameters) > inspect.isfunction(function)  # more than self
    }
    assert methods == {case for case in CASES if "." in case}


@pytest.mark.parametrize("case", CASES)
def test_every_argument_is_in_the_table_and_what_it_has_is_taken(case):
    call, arguments = CASES[case]()
    rows = inspect.signature(call).parameters.values()
    assert {row.name for row in rows if row.kind not in (row.VAR_KEYWORD, row.VAR_POSITIONAL)} <= set(arguments)
    call(**arguments)


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_value_is_refused_in_one_sentence(case):
    @settings(max_examples=EXAMPLES or FEW.get(case, 40), derandomize=not EXAMPLES)
    @given(st.data())
    def tried(data):
        call, arguments = CASES[case]()
        name, value = data.draw(st.sampled_from(sorted(arguments))), data.draw(WRONG)
        if not (callable(value) and name in CALLED) and not (isinstance(value, int) and value > 2 and name in WORK):
            ends_well(lambda: call(**arguments | {name: value}))

    tried()


def test_numbers_of_numpy_and_lists_arrive_as_pythons_own():
    """So that a store knows a recipe again, and can write it down."""
    odd = cu.Recipe(np.str_("mlp"), np.int64(2), 32, np.float32(0.5), nesterov=np.bool_(True), drops=[np.float64(0.5)])
    assert repr(odd) == repr(cu.Recipe("mlp", 2, 32, 0.5, drops=(0.5,)))
    assert hash(odd) == hash(cu.Recipe("mlp", 2, 32, 0.5, drops=(0.5,)))
    assert repr(cu.Lane("naive", np.uint8(3), fold=[np.int64(0), 2])) == repr(cu.Lane("naive", 3, fold=(0, 2)))


def test_options_for_fit_are_refused_before_anything_is_trained(monkeypatch):
    monkeypatch.setattr("class_uncertainty.training.stage_runner.StageRunner.run", lambda *_: pytest.fail("trained"))
    with pytest.raises(TypeError, match="devise"):
        cu.estimate(dataset(), recipe=RECIPE, devise="cpu")
    with pytest.raises(TypeError, match="test"):
        cu.estimate(dataset(), recipe=RECIPE, test=table(1))  # it gives fit() its own
    with refused("every is 'often'", "whole number"):
        cu.estimate(dataset(), recipe=RECIPE, every="often")


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: cu.Recipe("mlp", 40, 32, drops="x"), ["drops is 'x'", "tuple"]),
        (lambda: cu.Recipe("mlp", 40, 32, drops=(0.5, 1.5)), ["drops is (0.5, 1.5)", "1 at most"]),
        (lambda: cu.Recipe("mlp", 40, 32, drops=(float("nan"),)), ["drops is (nan,)"]),
        (lambda: cu.Recipe(torch.nn.Linear(8, 10), 40, 32), ["network is Linear(", "text"]),
        (lambda: cu.Recipe("mlp", 40, 32, momentum=-0.9), ["momentum is -0.9", "from 0"]),
        (lambda: cu.Recipe("mlp", 40, 32, momentum=float("nan")), ["momentum is nan"]),
        (lambda: cu.Recipe("mlp", 40, 32, weight_decay=-1e-4), ["weight_decay is -0.0001", "from 0"]),
        (lambda: cu.Recipe("mlp", 40, 32, weight_decay=float("inf")), ["weight_decay is inf"]),
        (lambda: cu.Recipe("mlp", 40, 32, warmup=-1), ["warmup is -1"]),
        (lambda: cu.Recipe("mlp", 40, 32, warmup_from=float("nan")), ["warmup_from is nan"]),
        (lambda: cu.Recipe("mlp", 40, 32, drop=float("inf")), ["drop is inf"]),
        (lambda: cu.Recipe("mlp", 40, 32, lr="x"), ["lr is 'x'", "number"]),
        (lambda: cu.Recipe("mlp", 10**400, 32), ["epochs is 1000", "64 bits"]),
        (lambda: cu.Recipe("mlp", True, 32), ["epochs is True", "whole number"]),
        (lambda: cu.Lane(method=3), ["method is 3", "METHODS['ubrs']"]),
        (lambda: cu.Lane(lr=10**400), ["lr is 1000", "64 bits"]),
        (lambda: cu.Lane(fold=(0.5, 2)), ["fold is (0.5, 2)", "whole number"]),
        (lambda: cu.Teaching(temperature=float("inf")), ["temperature is inf", "finite"]),
        (lambda: cu.Method(scale=float("nan")), ["scale is nan", "finite"]),
        (lambda: cu.Method(scale=0), ["scale is 0", "above 0"]),
        (lambda: Focal(gamma=-1), ["gamma is -1", "from 0"]),
        (lambda: Stage(cu.Method(), epochs=float("inf")), ["inf", "finite"]),
        (lambda: cu.plan("naive", STATS, 0, 1), ["method is 'naive'", "METHODS['ubrs']"]),
        (lambda: cu.fit(images(), [cu.Lane()], recipe=cu.Recipe("small-conv", 1, 8, crop=5)), ["crop is 5", "4 x 4"]),
        (lambda: cu.fit(None, [cu.Lane()]), ["train is None", "Data(inputs, labels)"]),
        (lambda: cu.estimate("x"), ["data is 'x'", "Data(inputs, labels)", "a Dataset"]),
        (lambda: cu.Data(table().inputs, [2**62] * 24), ["label of example 0 is 4611686018427387904"]),
        (
            lambda: cu.Data(table().inputs, table().labels, statistics=([0, 0], [1, float("nan")])),
            ["statistics", "nan"],
        ),
        (lambda: table().take([0, 24]), ["indices", "0 to 23", "mask"]),
        (lambda: fitted().module(2), ["lane 2", "there are 2"]),
        (lambda: fitted().probabilities(table(columns=3)), ["(3,)", "(2,)"]),
        (lambda: fitted().probabilities(table(), views=-1), ["views is -1"]),
        (lambda: cu.load(None), ["spec is None", "text", "a DataFrame"]),
        (lambda: cu.load(["digits"]), ["spec is ['digits']", "a DataFrame"]),
        (lambda: cu.load(frame()["age"]), ["spec is 0 0.0", "a DataFrame"]),
        (lambda: cu.load("digits", label="x"), ["option of 'digits'", "'label'"]),
        (lambda: cu.load(frame(), label="lable"), ["no column 'lable' in the DataFrame", "did you mean 'label'?"]),
        (lambda: cu.load(frame(), missing="fil"), ["missing 'fil'", "did you mean 'fill'?"]),
        (lambda: cu.load(frame(), min=0), ["min is 0", "from 1"]),
        (lambda: cu.measure("folder:photos"), ["data is 'folder:photos'", "load('folder:photos') reads"]),
        (lambda: cu.audit(LABELS, LABELS), ["probabilities have the shape", "as labels have", "(examples, classes)"]),
        (lambda: cu.train(frame()), ["dataset is a DataFrame of pandas", "load(frame, label='COLUMN')"]),
        (lambda: cu.Data(frame(), [0] * 24), ["inputs is a DataFrame of pandas", "Data.from_frame"]),
        (lambda: cu.restore(frame()), ["path is a DataFrame of pandas", "a path"]),
        (lambda: cu.Data.from_frame(table().inputs), ["frame is an array of shape (24, 2)", "a DataFrame"]),
        (lambda: cu.predict(saved(Path.cwd()), frame()), ["the network names no columns", "the DataFrame"]),
        (lambda: cu.restore("a\0b"), ["path is 'a\\x00b'", "a path"]),
        (lambda: cu.restore("a\nb"), [r"a\nb.safetensors"]),
    ],
)
def test_refusals_name_what_was_given_and_what_is_allowed(make, parts):
    with refused(*parts):
        make()


@pytest.mark.parametrize("value", PLAIN, ids=range(len(PLAIN)))
def test_a_value_in_a_sentence_is_short_and_printable(value):
    text = shortly(value)
    assert len(text) <= 60
    assert text.isprintable()
    assert "0x" not in text


def test_numbers_of_numpy_are_computed_with_as_pythons():
    """In float32 a ratio of 3.3 would keep other examples."""
    data = cu.Data(np.arange(3000.0).reshape(3000, 1), np.arange(3000) % 3)
    ratio, strength = np.float32(3.3), np.float32(0.3)
    tailed = cu.long_tail(data, float(ratio))
    assert cu.long_tail(data, ratio, np.uint8(0)).fingerprint == tailed.fingerprint
    assert cu.duplicate(tailed, strength).fingerprint == cu.duplicate(tailed, float(strength)).fingerprint
    assert cu.aso([1.0, 2.0], [2.0, 3.0], np.float32(0.9)) == cu.aso([1.0, 2.0], [2.0, 3.0], float(np.float32(0.9)))


def test_arrays_and_columns_are_taken_for_lists():
    options = {"recipe": RECIPE, "device": "cpu"}
    given = cu.compare(
        dataset(), methods=np.array(["naive", "cb"]), seeds=np.arange(2), lrs=pandas.Series([0.1]), **options
    )
    assert (
        given.document()
        == cu.compare(dataset(), methods=["naive", "cb"], seeds=[0, 1], lrs=[0.1], **options).document()
    )
    json.dumps(given.document())
    fitted = cu.fit(table(), np.array([cu.Lane()]), recipe=RECIPE, device="cpu")
    assert fitted.take(np.array([0])).lanes == [cu.Lane()]


def test_a_record_of_a_file_has_the_types_of_its_annotations():
    good = make_result(cu.Lane("cb", 1, 0.2))
    check_record(good)
    for changes in ({"lr": "0.2"}, {"fold": (1, 2, 3)}, {"plan": [0, 1]}, {"scores": {}}):
        with refused(next(iter(changes))):
            check_record(replace(good, **changes))
    with refused("class_errors", "tuple"):
        check_record(replace(good, scores=replace(good.scores, class_errors=("x",))))


def test_masks_and_tables_of_pandas_kind_are_taken():
    """What only looks like a list: a mask of NumPy's, an array of names, columns with a `tolist`."""
    assert len(table().take(np.arange(24) < 5)) == 5
    named = cu.Data(
        table().inputs, table().labels, np.array(["a", "b", "c"]), columns=np.array(["x", "y"], dtype=object)
    )
    assert (named.classes, named.columns) == (("a", "b", "c"), ("x", "y"))


class Odd:
    def __repr__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((2, 3), np.int8), "an array of shape (2, 3) and type int8"),
        (np.float64(0.5), "np.float64(0.5)"),
        (pandas.DataFrame({"x": [1]}), "a DataFrame of pandas"),
        (Odd, "the class Odd"),
        (Odd(), "<Odd instance>"),
        pytest.param(10**5000, "<int>", id="a long number"),
        ("a\nb\x1b", r"'a\nb\x1b'"),
    ],
)
def test_a_value_in_a_sentence(value, text):
    assert shortly(value) == text


def test_addresses_are_left_out_and_long_values_cut():
    assert shortly(object()) == "<object object>"
    for long in (["x" * 50] * 4, {i: "y" * 20 for i in range(9)}):
        assert shortly(long).endswith("...")
        assert len(shortly(long)) == WIDTH


def test_frames_have_columns_and_hand_them_over():
    frame = pandas.DataFrame({"x": [1]})
    assert is_frame(frame)
    assert not any(map(is_frame, (frame["x"], {"columns": 1}, np.eye(2), pandas.DataFrame)))
