"""The public boundary: every public call returns, or refuses in one sentence. FUZZ_EXAMPLES sets how much is tried."""

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
import pandas
import pyarrow
import pytest
import torch
from hf_split import Split
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.boundary import shortly
from class_uncertainty.measures import MEASURES
from class_uncertainty.methods import Focal, Stage
from class_uncertainty.training.network_size import NOTHING_TRAINED
from class_uncertainty.training.networks.network_table import NETWORKS

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
    *(None, "", "x", "naive", "a\nb\x1b[31m", "\0", "\ud800", "x" * 300),
    *(b"x", bytearray(b"x"), memoryview(b"ab"), Path("x")),
    *(True, False, -1, 0, 1, 2, 2**31, 2**62, 2**63, -(2**63), 10**400, -(10**400), 10**5000),
    *(0.5, 1.0, -0.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), -float("inf"), 1 + 2j),
    *(fractions.Fraction(1, 2), decimal.Decimal("0.5"), datetime.date(2000, 1, 1)),
    *(object(), ..., types.SimpleNamespace(train=1)),
    *((), (0.5,), (0, 2), (1, 2, 3), ("a", "b"), (None,), frozenset({1}), range(3), range(0)),
    *(int, dict, cu.Data, print),
    *([], {}, {1, 2}, {"a": 1}, Hostile(), nested(), lambda *_: 1),
    *([1, 2], [0.5, 0.5], ["a", "b"], [[1], [1, 2]], [None], [10**400, 1]),
    *(np.int64(-1), np.uint8(1), np.float32("nan"), np.float16(0.5), np.longdouble(2), np.bool_(True), np.str_("x")),
    *(np.datetime64("2000"), np.complex64(1), np.array(3.0), np.array(None), np.array([1, None, "a"], dtype=object)),
    *(np.zeros(shape) for shape in (0, 2, 3, (0, 2), (2, 0), (2, 3), (1, 2, 3), (2, 0, 2), (1, 1, 1, 1), (1,) * 8)),
    *(np.ones(3, dtype) for dtype in ("?", "i1", "u8", "f2", "f8", "c8", "U3", "S3", "V4", "M8[s]", "m8[s]", "O")),
    *(np.full(3, fill) for fill in (np.nan, np.inf, -1, 1e300, 2**62, 10**12)),
    *(pandas.DataFrame(), pandas.DataFrame({"a": [1, "x", None], "b": [object()] * 3}), pandas.Series([1, 2])),
    *(pandas.DataFrame({"age": [1.0, 2.0], "label": ["x", "y"]}), pyarrow.table({"age": [1], "label": ["x"]})),
    *(np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]), torch.ones(3), torch.ones(2, 2, requires_grad=True)),
    torch.full((1, 2, 3), 1 / 3, dtype=torch.bfloat16),
]
GENERATORS = st.sampled_from([lambda: iter([1]), lambda: (i for i in range(2))]).map(lambda make: make())
WRONG = (
    st.sampled_from(PLAIN)
    | GENERATORS
    | st.floats()
    | st.text(max_size=8)
    | st.lists(st.integers() | st.floats() | st.text(max_size=3))
)


def table(seed: int = 0, columns: int = 2) -> cu.Data:
    random = np.random.default_rng(seed)
    return cu.Data(
        random.normal(size=(24, columns)).astype(np.float32), np.arange(24) % 3, names=[f"row {i}" for i in range(24)]
    )


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
def folded() -> cu.Fit:
    return cu.fit(table(), [cu.Lane(fold=(k, 2)) for k in range(2)], recipe=RECIPE, device="cpu")


@cache
def fixed() -> cu.Fix:
    return cu.fix(dataset(), RECIPE, candidates=["naive"], seeds=1)


@cache
def estimated() -> cu.Estimate:
    return cu.estimate(table(), members=2, recipe=RECIPE, device="cpu")


@cache
def saved(folder: Path) -> str:
    from class_uncertainty.training.model_files import save

    save(fitted().module(0), folder / "model", {})
    np.save(folder / "rows.npy", table().inputs)
    return str(folder / "model")


@cache
def predictions(folder: Path) -> Path:
    np.savez(folder / "predictions.npz", probabilities=P[0])
    return folder / "predictions.npz"


@cache
def audited() -> cu.Audit:
    return cu.audit(LABELS, P[0])


@cache
def adjusted() -> cu.AdjustedPredictions:
    return cu.adjust_predictions(predictions(Path.cwd()), [3, 2, 1])


def fields(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record) if field.init}


def frame() -> pandas.DataFrame:
    return pandas.DataFrame({"age": np.arange(24.0), "city": ["Oslo", "Rome"] * 12, "label": np.arange(24) % 3})


P = np.full((2, 6, 3), 1 / 3)
COLUMNS = {"label": None, "group": None, "categorical": (), "drop": (), "missing": None}
HF = {"image": None, "size": None, "channels": 3} | COLUMNS
LABELS = np.arange(6) % 3
STATS = cu.Stats([30, 20, 10], [1.0, 2.0, 3.0])
RUNS = {"device": "cpu", "budget": None, "progress": None, "profile": None}  # what every call that trains takes
FITS = RUNS | {"checkpoints": None, "every": 1, "done": None, "stats": None, "teachers": None}
WORKFLOW = RUNS | {"recipe": RECIPE, "store": None}
ANYWHERE = WORKFLOW | {"on": None}  # what may train on a cluster
CHOICES = {"against": "counterpart", "chosen": ()}
MEASURES_BY = {"estimator": "single", "members": 1, "score": None}

# what each public call can be given: every argument, by its name
CASES: dict[str, Callable[[], tuple[Callable[..., Any], dict[str, Any]]]] = {
    "AdjustedPredictions": lambda: (cu.AdjustedPredictions, fields(adjusted())),
    "Adjustment": lambda: (cu.Adjustment, fields(cu.Adjustment.of([3, 2, 1]))),
    "Adjustment.__call__": lambda: (cu.Adjustment.of([3, 2, 1]), {"probabilities": P}),
    "Adjustment.of": lambda: (cu.Adjustment.of, {"counts": [3, 2, 1], "tau": 1.0, "prior": None}),
    "Audit": lambda: (cu.Audit, fields(audited())),
    "Audit.against": lambda: (audited().against, {"earlier": audited()}),
    "Audit.broken": lambda: (audited().broken, {"conditions": ["ece > 1"], "earlier": None}),
    "Candidate": lambda: (cu.Candidate, {"name": "balanced-softmax?rate=2", "data": "any"}),
    "Choice": lambda: (cu.Choice, fields(fixed().choice)),
    "ClassSampler": lambda: (
        cu.ClassSampler,
        {"labels": LABELS, "alpha": [0.5, 0.3, 0.2], "num_samples": 8, "seed": 0},
    ),
    "Comparison": lambda: (cu.Comparison, {"dataset": dataset(), "results": (), "estimate": None} | CHOICES),
    "Data": lambda: (
        cu.Data,
        {"inputs": table().inputs, "labels": table().labels, "classes": ["a", "b", "c"], "columns": ["x", "y"]}
        | {"statistics": None, "names": None, "encoding": None, "embedding": None, "pictures": None, "groups": None}
        | {"label": None},
    ),
    "Data.from_hf": lambda: (cu.Data.from_hf, {"ds": Split(frame())} | HF),
    "Data.from_frame": lambda: (cu.Data.from_frame, {"frame": frame()} | COLUMNS),
    "Data.picture": lambda: (table().picture, {"i": 0}),
    "Data.take": lambda: (table().take, {"indices": [0, 1]}),
    "Dataset": lambda: (
        cu.Dataset,
        {"name": "table", "train": table(), "test": table(1), "left_out": (), "folder": Path("photos")},
    ),
    "Dataset.from_hf": lambda: (cu.Dataset.from_hf, {"ds": {"train": Split(frame()), "test": Split(frame())}} | HF),
    "Estimate": lambda: (cu.Estimate, fields(estimated())),
    "Estimate.using": lambda: (estimated().using, {"score": "aleatoric"}),
    "EstimatorComparison": lambda: (
        cu.EstimatorComparison,
        {"dataset": dataset(), "members": 1, "rows": (), "diverged": (), "folds": 0, "network": NOTHING_TRAINED},
    ),
    "Fit": lambda: (cu.Fit, fields(fitted())),
    "Fit.dropped_out": lambda: (fitted().dropped_out, {"data": table(), "passes": 1}),
    "Fit.logits": lambda: (fitted().logits, {"data": table()}),
    "Fit.module": lambda: (fitted().module, {"i": 0}),
    "Fit.out_of_fold": lambda: (folded().out_of_fold, {"data": table(), "views": 0}),
    "Fit.probabilities": lambda: (fitted().probabilities, {"data": table(), "views": 0}),
    "Fit.take": lambda: (fitted().take, {"places": [0]}),
    "Fix": lambda: (cu.Fix, fields(fixed())),
    "LabelNoise": lambda: (cu.LabelNoise, fields(cu.label_noise(P, LABELS))),
    "Lane": lambda: (cu.Lane, fields(cu.Lane())),
    "Loss": lambda: (
        cu.Loss,
        {"method": "ubrw", "counts": [3, 2, 1], "uncertainty": [0.1, 0.2, 0.3], "epochs": None},
    ),
    "Measured": lambda: (cu.Measured, {"dataset": dataset(), "estimate": estimated(), "rows": ()}),
    "Method": lambda: (cu.Method, fields(cu.METHODS["ubrs"])),
    "Method.augmented": lambda: (lambda name: cu.METHODS["ubrs"].augmented(name), {"name": "mixup"}),
    "Method.using": lambda: (cu.METHODS["ubrs"].using, {"measure": MEASURES["surprisal"]}),
    "Model": lambda: (cu.Model, {"module": fitted().module(0)}),
    "Model.predict": lambda: (cu.Model(fitted().module(0)).predict, {"rows": table().inputs}),
    "Model.predict_proba": lambda: (cu.Model(fitted().module(0)).predict_proba, {"rows": table().inputs}),
    "OnlineUncertainty": lambda: (cu.OnlineUncertainty, {"n": 4, "classes": 3}),
    "Plan": lambda: (cu.Plan, fields(cu.plan(cu.METHODS["ubrs"], STATS, 0, 2))),
    "Predicted": lambda: (
        cu.Predicted,
        {"names": ["a"], "classes": ("x", "y"), "probabilities": np.full((1, 2), 0.5), "labels": ["x"], "prior": None}
        | {"purpose": None, "kept": {"id": [7]}, "truth": None, "scored_by": "", "scores": None}
        | {"meaning": (), "notes": (), "seen": False, "two": None, "mean_cost": 0.5, "costs": 1 - np.eye(2)}
        | {"class_precisions": (50.0, 100.0)},
    ),
    "Recipe": lambda: (cu.Recipe, fields(RECIPE)),
    "Recipe.cut": lambda: (RECIPE.cut, {"epochs": 1}),
    "Result": lambda: (cu.Result, fields(fitted().results[0])),
    "Stats": lambda: (cu.Stats, {"counts": [3, 2], "uncertainty": [0.5, 0.6]}),
    "Stats.of": lambda: (cu.Stats.of, {"counts": [3, 2], "stats": None}),
    "Teaching": lambda: (cu.Teaching, fields(cu.Teaching())),
    "Trained": lambda: (
        cu.Trained,
        {"dataset": dataset(), "module": fitted().module(0), "result": fitted().results[0]}
        | {"estimate": None, "files": ()},
    ),
    "adjust": lambda: (cu.adjust, {"probabilities": P, "counts": [3, 2, 1], "tau": 1.0, "prior": None}),
    "adjust_predictions": lambda: (
        cu.adjust_predictions,
        {"predictions": predictions(Path.cwd()), "counts": [3, 2, 1], "unseen": None, "tau": 1.0, "bias": False}
        | {"prior": "equal", "out": None},
    ),
    "aleatoric": lambda: (cu.aleatoric, {"p": P}),
    "aso": lambda: (cu.aso, {"a": [1.0, 2.0], "b": [2.0, 3.0], "confidence": 0.9, "seed": 0}),
    "audit": lambda: (
        cu.audit,
        {"labels": LABELS, "probabilities": P[0], "classes": ["a", "b", "c"], "names": None, "images": None}
        | {"counts": [3, 2, 1], "prior": None, "decisions": LABELS, "costs": 1 - np.eye(3), "by_cost": True},
    ),
    "class_uncertainty": lambda: (cu.class_uncertainty, {"p": P, "labels": LABELS, "score": cu.predictive}),
    "compare": lambda: (
        cu.compare,
        {"dataset": dataset(), "methods": ["naive"], "seeds": 1, "lrs": [0.1], "equal_cost": False}
        | {"choose_lr": False, "against": "naive", "shard": None} | MEASURES_BY | ANYWHERE,
    ),
    "compare_estimators": lambda: (
        cu.compare_estimators,
        {"dataset": dataset(), "estimators": ["single"], "members": 1, "lrs": None} | ANYWHERE,
    ),
    "duplicate": lambda: (cu.duplicate, {"data": table(), "strength": 0.5, "seed": 0}),
    "embed": lambda: (
        cu.embed,
        {"data": images(), "backbone": torch.nn.Flatten(), "transform": None, "batch": 8, "cache": False}
        | {"progress": None},
    ),
    "epistemic": lambda: (cu.epistemic, {"p": P}),
    "estimate": lambda: (
        cu.estimate,
        {"data": table(), "recipe": RECIPE, "seed": 0, "checkpoint": "last", "views": 0} | MEASURES_BY | FITS,
    ),
    "export": lambda: (cu.export, {"model": fitted().module(0), "path": "exported", "to": "pt2"}),
    "fit": lambda: (cu.fit, {"train": table(), "lanes": [cu.Lane()], "recipe": RECIPE, "test": None} | FITS),
    "fit_adjustment": lambda: (
        cu.fit_adjustment,
        {"unseen": P[0], "labels": LABELS, "counts": [3, 2, 1], "tau": "auto", "prior": None}
        | {"bias": False, "temperature": False, "goal": None, "usual_tau": None, "weights": [1, 2, 0.5, 1, 0, 3]},
    ),
    "fix": lambda: (
        cu.fix,
        {"dataset": dataset(), "candidates": ["naive"], "goal": "mean", "deploy": "one", "trainings": 3.0, "seeds": 1}
        | {"save": None, "embed_weights": False, "label_issues": None} | ANYWHERE,
    ),
    "kwon": lambda: (cu.kwon, {"p": P}),
    "label_noise": lambda: (cu.label_noise, {"probabilities": P, "labels": LABELS, "others": [P[0]]}),
    "load": lambda: (
        cu.load,
        {"spec": frame(), "root": None, "seed": 0, "progress": None, "test": None, "min": None} | COLUMNS,
    ),
    "long_tail": lambda: (cu.long_tail, {"data": table(), "ratio": 2, "seed": 0}),
    "measure": lambda: (cu.measure, {"dataset": dataset(), "lr": None} | MEASURES_BY | ANYWHERE),
    "mix_hardness": lambda: (cu.mix_hardness, {"easy": dataset(), "hard": dataset("hard"), "per_class": 2, "seed": 0}),
    "normalise": lambda: (cu.normalise, {"mu": [1.0, 2.0]}),
    "plan": lambda: (cu.plan, {"method": cu.METHODS["ubrs"], "stats": STATS, "epoch": 0, "epochs": 2}),
    "predict": lambda: (
        cu.predict,
        {"model": saved(Path.cwd()), "examples": "rows.npy", "prior": "train", "keep": (), "label": None}
        | {"progress": None},
    ),
    "predictive": lambda: (cu.predictive, {"p": P}),
    "register_network": lambda: (
        cu.register_network,
        {"name": "mine", "factory": lambda: torch.nn.Linear(2, 3), "preprocess": {"size": 32}, "stack": "loop"},
    ),
    "restore": lambda: (cu.restore, {"path": saved(Path.cwd())}),
    "save": lambda: (cu.save, {"model": fitted().module(0), "path": "saved", "embed_weights": False}),
    "svci20": lambda: (cu.svci20, {"cifar10": dataset(), "svhn": dataset("hard"), "per_class": 2, "seed": 0}),
    "train": lambda: (
        cu.train,
        {"dataset": dataset(), "method": "naive", "seed": 0, "lr": None, "save": None, "embed_weights": False}
        | MEASURES_BY | WORKFLOW,
    ),
    "validation_split": lambda: (cu.validation_split, {"full_train": table(), "per_class": 2, "seed": 0}),
    "write_page": lambda: (cu.write_page, {"audit": audited(), "path": "audit.html", "earlier": None}),
}  # fmt: skip
CONSTANTS = {"CANDIDATES", "ESTIMATORS", "MEASURES", "METHODS", "REMEDIES", "InputError", "MachineFault", "Unfinished"}
INNER = {
    "Audit": {"name_of"},  # of the page and the document
    "Candidate": {"lane", "lr", "recipe", "student", "suits"},  # each rung of a fix
    "Data": {"name_of"},  # in messages
    "Dataset": {"duplicate_names"},
    "Fit": {
        "adjusted_module",
        "batches",
        "ensemble_module",
        "padded",
        "pick",
        "plain",
        "trained",
        "untrained",
    },  # of stacks, states and adjustments
    "Lane": {"rate", "rate_at"},  # each epoch of each lane
    "Method": {"cited"},  # each row of METHODS
    "Recipe": {"factor", "cycle_ends"},
}  # called by the package alone
CALLED = {"done", "progress", "score"}  # a function of the caller's raises what it raises
WORK = {"views", "passes"}  # a large number is a lot of work that is asked for, and nothing wrong
FEW = {
    "compare": 15,
    "compare_estimators": 15,
    "export": 15,
    "fix": 15,
    "load": 20,
    "measure": 15,
    "train": 15,
}  # examples of the slow ones


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
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


def test_an_unknown_argument_is_refused_with_the_nearest():
    with refused("'methd'", "did you mean 'method'?", "Lane()"):
        cu.Lane(methd="cb")
    with refused("'indexes'", "did you mean 'indices'?", "Data.take()"):
        table().take(indexes=[0])


def test_a_field_of_an_argument_is_refused_with_that_argument():
    for call in (cu.train, cu.measure, cu.fix, cu.estimate):
        with refused(f"{call.__name__}() has no argument 'epochs'", "part of recipe", "recipe=Recipe('mlp', epochs="):
            call(dataset(), epochs=3)
    with refused("'labels'", "part of dataset", "dataset=Data(inputs, labels)"):
        cu.train(dataset(), labels=[0, 1])


def test_a_missing_argument_is_refused_by_name():
    with refused("fit()", "'lanes'", "Lane('naive')"):
        cu.fit(table())
    with refused("Recipe()", "'batch'", "whole number"):
        cu.Recipe("mlp", epochs=3)


def test_too_many_arguments_are_refused():
    with refused("load()", "3", "1"):
        cu.load("digits", "here", 1)
    with refused("Data.take()", "2", "1"):
        table().take([0], [1])
    with refused("Lane()", "'method' twice"):
        cu.Lane("cb", method="cb")


def test_options_for_fit_are_refused_before_anything_is_trained(monkeypatch):
    monkeypatch.setattr("class_uncertainty.training.stage_runner.StageRunner.run", lambda *_: pytest.fail("trained"))
    with refused("'devise'", "did you mean 'device'?", "estimate()"):
        cu.estimate(dataset(), recipe=RECIPE, devise="cpu")
    with refused("'test'", "estimate()"):
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
        (lambda: cu.load("digits", label="x"), ["label is a keyword for DataFrames", "'digits?label=x'"]),
        (lambda: cu.load(frame(), label="lable"), ["no column 'lable' in the DataFrame", "did you mean 'label'?"]),
        (lambda: cu.load(frame(), missing="fil"), ["missing 'fil'", "did you mean 'fill'?"]),
        (lambda: cu.load(frame(), min=0), ["min is 0", "from 1"]),
        (lambda: cu.measure("folder:photos"), ["dataset is 'folder:photos'", "load('folder:photos') reads"]),
        (lambda: cu.audit(LABELS, LABELS), ["probabilities have the shape", "as labels have", "(examples, classes)"]),
        (lambda: cu.measure(frame()), ["dataset is a DataFrame of pandas", "load(frame, label='COLUMN')"]),
        (lambda: cu.fix(frame()), ["dataset is a DataFrame of pandas", "load(frame, label='COLUMN')"]),
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


def test_masks_and_tables_of_pandas_kind_are_taken():
    """What only looks like a list: a mask of NumPy's, an array of names, columns with a `tolist`."""
    assert len(table().take(np.arange(24) < 5)) == 5
    named = cu.Data(
        table().inputs, table().labels, np.array(["a", "b", "c"]), columns=np.array(["x", "y"], dtype=object)
    )
    assert (named.classes, named.columns) == (("a", "b", "c"), ("x", "y"))
