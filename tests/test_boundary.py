"""The public boundary: whatever a public call is given, it returns or refuses in one sentence. FUZZ_EXAMPLES sets how much is tried."""

import dataclasses
import datetime
import decimal
import fractions
import inspect
import os
import re
import types
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import class_uncertainty as cu
from class_uncertainty.measures import MEASURES

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
RECIPE = cu.Recipe("linear", epochs=1, batch=8)


class Hostile:
    """Nothing that anyone asks of it works."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise RuntimeError("no array")

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __bool__(self) -> bool:
        raise RuntimeError("neither")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    __hash__ = None


def nested() -> list:
    inside: list = []
    inside.append(inside)
    return inside


PLAIN: list[Any] = [
    *(None, "", "x", "naive", "a\nb\x1b[31m", "\0", "\ud800", "x" * 300, b"x", bytearray(b"x"), memoryview(b"ab"), Path("x")),
    *(True, False, -1, 0, 1, 2, 2**31, 2**62, 2**63, -(2**63), 10**400, -(10**400), 10**5000),
    *(0.5, 1.0, -0.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), -float("inf"), 1 + 2j),
    *(fractions.Fraction(1, 2), decimal.Decimal("0.5"), datetime.date(2000, 1, 1), object(), ..., types.SimpleNamespace(train=1)),
    *((), (0.5,), (0, 2), (1, 2, 3), ("a", "b"), (None,), frozenset({1}), range(3), range(0), int, dict, cu.Data, print),
    *([], {}, {1, 2}, {"a": 1}, Hostile(), nested(), lambda *_: 1, [1, 2], [0.5, 0.5], ["a", "b"], [[1], [1, 2]], [None], [10**400, 1]),
    *(np.int64(-1), np.uint8(1), np.float32("nan"), np.float16(0.5), np.longdouble(2), np.bool_(True), np.str_("x")),
    *(np.datetime64("2000"), np.complex64(1), np.array(3.0), np.array(None), np.array([1, None, "a"], dtype=object)),
    *(np.zeros(shape) for shape in (0, 2, 3, (0, 2), (2, 0), (2, 3), (1, 2, 3), (2, 0, 2), (1, 1, 1, 1), (1,) * 8)),
    *(np.ones(3, dtype) for dtype in ("?", "i1", "u8", "f2", "f8", "c8", "U3", "S3", "V4", "M8[s]", "m8[s]", "O")),
    *(np.full(3, fill) for fill in (np.nan, np.inf, -1, 1e300, 2**62, 10**12)),
    *(np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]), torch.ones(3), torch.ones(2, 2, requires_grad=True)),
    torch.full((1, 2, 3), 1 / 3, dtype=torch.bfloat16),
]
GENERATORS = st.sampled_from([lambda: iter([1]), lambda: (i for i in range(2))]).map(lambda make: make())
WRONG = (
    st.sampled_from(PLAIN) | GENERATORS | st.floats() | st.text(max_size=8) | st.lists(st.integers() | st.floats() | st.text(max_size=3))
)


def table(seed: int = 0, columns: int = 2) -> cu.Data:
    random = np.random.default_rng(seed)
    return cu.Data(random.normal(size=(24, columns)).astype(np.float32), np.arange(24) % 3, names=[f"row {i}" for i in range(24)])


@cache
def dataset(name: str = "easy") -> cu.Dataset:
    return cu.Dataset(name, table(), table(1))


@cache
def images() -> cu.Data:
    return cu.Data(np.arange(24 * 16, dtype=np.uint8).reshape(24, 1, 4, 4), np.arange(24) % 3)


@cache
def fitted() -> cu.Fit:
    return cu.fit(table(), [cu.Lane(), cu.Lane("cb")], recipe=RECIPE, test=table(1), device="cpu")


@cache
def fixed() -> cu.Fix:
    return cu.fix(dataset(), 2, RECIPE, seeds=1, lrs=[0.1])


@cache
def estimated() -> cu.Estimate:
    return cu.estimate(table(), members=2, recipe=RECIPE, device="cpu")


@cache
def saved(folder: Path) -> str:
    from class_uncertainty.training.saving import save

    save(fitted().module(0), folder / "model", {})
    np.save(folder / "rows.npy", table().inputs)
    return str(folder / "model")


def fields(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record) if field.init}


P = np.full((2, 6, 3), 1 / 3)
LABELS = np.arange(6) % 3
STATS = cu.Stats([30, 20, 10], [1.0, 2.0, 3.0])
TRAINS = {"device": "cpu", "checkpoints": None, "every": 1, "budget": None, "profile": None}  # what fit() takes, and fix() hands on
LOOKS = {"progress": None, "done": None, "stats": None, "teachers": None}

# what each public call can be given: every argument, by its name
CASES: dict[str, Callable[[], tuple[Callable[..., Any], dict[str, Any]]]] = {
    "Adjustment": lambda: (cu.Adjustment, {"bias": np.zeros(3), "prior": np.full(3, 1 / 3), "tau": 1.0, "temperature": 1.0}),
    "Adjustment.__call__": lambda: (cu.Adjustment.of([3, 2, 1]), {"probabilities": P}),
    "Adjustment.of": lambda: (cu.Adjustment.of, {"counts": [3, 2, 1], "tau": 1.0, "prior": None}),
    "Data": lambda: (
        cu.Data,
        {"inputs": table().inputs, "labels": table().labels, "classes": ["a", "b", "c"], "columns": ["x", "y"], "statistics": None}
        | {"names": None, "encoding": None},
    ),
    "Data.take": lambda: (table().take, {"indices": [0, 1]}),
    "Dataset": lambda: (cu.Dataset, {"name": "table", "train": table(), "test": table(1)}),
    "Estimate": lambda: (cu.Estimate, fields(estimated())),
    "Estimate.using": lambda: (estimated().using, {"score": "aleatoric"}),
    "Fit": lambda: (cu.Fit, fields(fitted())),
    "Fit.dropped_out": lambda: (fitted().dropped_out, {"data": table(), "passes": 1}),
    "Fit.logits": lambda: (fitted().logits, {"data": table()}),
    "Fit.module": lambda: (fitted().module, {"i": 0}),
    "Fit.probabilities": lambda: (fitted().probabilities, {"data": table(), "views": 0}),
    "Fit.take": lambda: (fitted().take, {"places": [0]}),
    "Fix": lambda: (cu.Fix, fields(fixed())),
    "Lane": lambda: (cu.Lane, fields(cu.Lane())),
    "Method": lambda: (cu.Method, fields(cu.METHODS["ubrs"])),
    "Method.augmented": lambda: (cu.METHODS["ubrs"].augmented, {}),
    "Method.using": lambda: (cu.METHODS["ubrs"].using, {"measure": MEASURES["surprisal"]}),
    "Plan": lambda: (cu.Plan, fields(cu.plan(cu.METHODS["ubrs"], STATS, 0, 2))),
    "Predicted": lambda: (cu.Predicted, {"names": ["a"], "classes": ("x", "y"), "probabilities": np.full((1, 2), 0.5), "notes": ()}),
    "Recipe": lambda: (cu.Recipe, fields(RECIPE)),
    "Recipe.cut": lambda: (RECIPE.cut, {"epochs": 1}),
    "Result": lambda: (cu.Result, fields(fitted().results[0])),
    "Stats": lambda: (cu.Stats, {"counts": [3, 2], "uncertainty": [0.5, 0.6]}),
    "Stats.of": lambda: (cu.Stats.of, {"counts": [3, 2], "known": None}),
    "Teaching": lambda: (cu.Teaching, fields(cu.Teaching())),
    "adjust": lambda: (cu.adjust, {"probabilities": P, "counts": [3, 2, 1], "tau": 1.0, "prior": None}),
    "aleatoric": lambda: (cu.aleatoric, {"p": P}),
    "aso": lambda: (cu.aso, {"a": [1.0, 2.0], "b": [2.0, 3.0], "confidence": 0.9, "seed": 0}),
    "class_uncertainty": lambda: (cu.class_uncertainty, {"p": P, "labels": LABELS, "score": cu.predictive}),
    "duplicate": lambda: (cu.duplicate, {"data": table(), "strength": 0.5, "seed": 0}),
    "epistemic": lambda: (cu.epistemic, {"p": P}),
    "estimate": lambda: (
        cu.estimate,
        {"data": table(), "estimator": "single", "members": 1, "recipe": RECIPE, "seed": 0, "score": None, "checkpoint": "last", "views": 0}
        | TRAINS | LOOKS,
    ),
    "fit": lambda: (
        cu.fit, {"train": table(), "lanes": [cu.Lane()], "recipe": RECIPE, "test": None} | TRAINS | LOOKS
    ),
    "fit_adjustment": lambda: (
        cu.fit_adjustment,
        {"unseen": P[0], "labels": LABELS, "counts": [3, 2, 1], "tau": "auto", "prior": None, "bias": False, "temperature": False},
    ),
    "fix": lambda: (
        cu.fix,
        {"dataset": dataset(), "members": 2, "recipe": RECIPE, "lrs": [0.1], "seeds": 1, "store": None, "watch": None} | TRAINS,
    ),
    "kwon": lambda: (cu.kwon, {"p": P}),
    "load": lambda: (cu.load, {"spec": "digits-lt:2", "root": None, "seed": 0, "progress": None}),
    "long_tail": lambda: (cu.long_tail, {"data": table(), "ratio": 2, "seed": 0}),
    "mix_hardness": lambda: (cu.mix_hardness, {"easy": dataset(), "hard": dataset("hard"), "per_class": 2, "seed": 0}),
    "normalise": lambda: (cu.normalise, {"mu": [1.0, 2.0]}),
    "plan": lambda: (cu.plan, {"method": cu.METHODS["ubrs"], "stats": STATS, "epoch": 0, "epochs": 2}),
    "predict": lambda: (cu.predict, {"model": saved(Path.cwd()), "examples": "rows.npy", "progress": None}),
    "predictive": lambda: (cu.predictive, {"p": P}),
    "restore": lambda: (cu.restore, {"path": saved(Path.cwd())}),
    "svci20": lambda: (cu.svci20, {"cifar10": dataset(), "svhn": dataset("hard"), "per_class": 2, "seed": 0}),
    "validation_split": lambda: (cu.validation_split, {"full_train": table(), "per_class": 2, "seed": 0}),
}  # fmt: skip
CONSTANTS = {"ESTIMATORS", "MEASURES", "METHODS", "REMEDIES", "InputError", "MachineFault", "Unfinished"}
INNER = {
    "Fit": {"padded", "plain", "probabilities_of"},  # of stacks and states
    "Lane": {"rate", "rate_at"},  # each epoch of each lane
    "Recipe": {"factor", "cycle_ends"},
}  # called by the training loop alone
CALLED = {"done", "progress", "score", "watch"}  # a function of the caller's raises what it raises
WORK = {"views", "passes"}  # a large number is a lot of work that is asked for, and nothing wrong
FEW = {"fix": 15, "load": 20}  # examples of the slow ones


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What a call writes, it writes there."""
    before, place = Path.cwd(), tmp_path_factory.mktemp("boundary")
    os.chdir(place)
    yield place
    os.chdir(before)


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
    assert set(cu.__all__) - CONSTANTS == {case for case in CASES if "." not in case}


def test_every_public_method_is_in_the_table():
    methods = {
        f"{name}.{method}"
        for name in cu.__all__
        if isinstance(value := getattr(cu, name), type) and dataclasses.is_dataclass(value)
        for method, function in inspect.getmembers(value, callable)
        if method in vars(value) and (method == "__call__" or method[0] != "_") and method not in INNER.get(name, ())
        if len(inspect.signature(function).parameters) > inspect.isfunction(function)  # more than self
    }
    assert methods == {case for case in CASES if "." in case}


@pytest.mark.parametrize("case", CASES)
def test_every_argument_is_in_the_table_and_what_it_has_is_taken(case):
    call, arguments = CASES[case]()
    call(**arguments)


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_value_is_refused_in_one_sentence(case):
    @settings(max_examples=EXAMPLES or FEW.get(case, 40))
    @given(st.data())
    def tried(data):
        call, arguments = CASES[case]()
        name, value = data.draw(st.sampled_from(sorted(arguments))), data.draw(WRONG)
        if not (callable(value) and name in CALLED) and not (isinstance(value, int) and value > 2 and name in WORK):
            ends_well(lambda: call(**arguments | {name: value}))

    if CASES[case]()[1]:
        tried()
