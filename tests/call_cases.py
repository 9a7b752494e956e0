"""Every public call, with arguments that it takes."""

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch
from hf_split import Split

import class_uncertainty as cu
from class_uncertainty.measures import MEASURES

RECIPE = cu.Recipe("linear", epochs=1, batch=8)


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
def estimated() -> cu.Estimate:
    return cu.estimate(table(), members=2, recipe=RECIPE, device="cpu")


@cache
def saved(folder: Path) -> str:
    from class_uncertainty.training.model_files import save

    save(fitted().module(0), folder / "model", {})
    np.save(folder / "rows.npy", table().inputs)
    return str(folder / "model")


def sampler() -> cu.ClassSampler:
    return cu.ClassSampler(LABELS)


@cache
def predictions(folder: Path) -> Path:
    np.savez(folder / "predictions.npz", probabilities=P[0])
    return folder / "predictions.npz"


@cache
def audited() -> cu.Audit:
    return cu.audit(LABELS, P[0])


def fields(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record) if field.init}


def frame() -> pandas.DataFrame:
    return pandas.DataFrame({"age": np.arange(24.0), "city": ["Oslo", "Rome"] * 12, "label": np.arange(24) % 3})


P = np.full((2, 6, 3), 1 / 3)
COLUMNS = {"label": None, "group": None, "categorical": (), "drop": (), "missing": None}
HF = {"image": None, "size": None, "channels": 3} | COLUMNS
LABELS = np.arange(6) % 3
STATS = cu.Stats([30, 20, 10], [1.0, 2.0, 3.0])
RUNS = {
    "device": "cpu",
    "budget": None,
    "progress": None,
    "profile": None,
    "force": False,
}  # what every call that trains takes
FITS = RUNS | {"checkpoints": None, "every": 1, "done": None, "stats": None, "teachers": None}
WORKFLOW = RUNS | {"recipe": RECIPE, "store": None, "on": None}
MEASURES_BY = {"estimator": "single", "members": 1, "score": None}


# what each public call can be given: every argument, by its name
CASES: dict[str, Callable[[], tuple[Callable[..., Any], dict[str, Any]]]] = {
    "Adjustment": lambda: (cu.Adjustment, fields(cu.Adjustment.of([3, 2, 1]))),
    "Adjustment.__call__": lambda: (cu.Adjustment.of([3, 2, 1]), {"probabilities": P}),
    "Adjustment.of": lambda: (cu.Adjustment.of, {"counts": [3, 2, 1], "tau": 1.0, "prior": None}),
    "Audit.against": lambda: (audited().against, {"earlier": audited()}),
    "Audit.broken": lambda: (audited().broken, {"conditions": ["ece > 1"], "earlier": None}),
    "Candidate": lambda: (cu.Candidate, {"name": "balanced-softmax?rate=2", "data": "any"}),
    "ClassSampler": lambda: (
        cu.ClassSampler,
        {"labels": LABELS, "alpha": [0.5, 0.3, 0.2], "num_samples": 8, "seed": 0},
    ),
    "ClassSampler.for_method": lambda: (
        cu.ClassSampler.for_method,
        {"method": "ubrs", "labels": LABELS, "uncertainty": [1, 2, 3], "epochs": 2, "num_samples": 8, "seed": 0},
    ),
    "ClassSampler.load_state_dict": lambda: (sampler().load_state_dict, {"state": sampler().state_dict()}),
    "ClassSampler.set_epoch": lambda: (sampler().set_epoch, {"epoch": 1}),
    "ClassSampler.shard": lambda: (sampler().shard, {"rank": 0, "world": 2}),
    "ClassSampler.state_dict": lambda: (sampler().state_dict, {"drawn": 2}),
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
        {"name": "table", "train": table(), "test": table(1), "left_out": (), "folder": Path("photos")}
        | {"noticed": ()},
    ),
    "Dataset.from_hf": lambda: (cu.Dataset.from_hf, {"ds": {"train": Split(frame()), "test": Split(frame())}} | HF),
    "Estimate.using": lambda: (estimated().using, {"score": "aleatoric"}),
    "Fit.dropped_out": lambda: (fitted().dropped_out, {"data": table(), "passes": 1}),
    "Fit.logits": lambda: (fitted().logits, {"data": table()}),
    "Fit.module": lambda: (fitted().module, {"i": 0}),
    "Fit.out_of_fold": lambda: (folded().out_of_fold, {"data": table(), "views": 0}),
    "Fit.probabilities": lambda: (fitted().probabilities, {"data": table(), "views": 0}),
    "Fit.take": lambda: (fitted().take, {"places": [0]}),
    "Lane": lambda: (cu.Lane, fields(cu.Lane())),
    "Loss": lambda: (
        cu.Loss,
        {"method": "ubrw", "counts": [3, 2, 1], "uncertainty": [0.1, 0.2, 0.3], "epochs": None},
    ),
    "Loss.set_epoch": lambda: (cu.Loss("ldam-rw", [3, 2], epochs=4).set_epoch, {"epoch": 1}),
    "Method": lambda: (cu.Method, fields(cu.METHODS["ubrs"])),
    "Method.augmented": lambda: (lambda name: cu.METHODS["ubrs"].augmented(name), {"name": "mixup"}),
    "Method.using": lambda: (cu.METHODS["ubrs"].using, {"measure": MEASURES["surprisal"]}),
    "Model": lambda: (cu.Model, {"module": fitted().module(0)}),
    "Model.predict": lambda: (cu.Model(fitted().module(0)).predict, {"rows": table().inputs}),
    "Model.predict_proba": lambda: (cu.Model(fitted().module(0)).predict_proba, {"rows": table().inputs}),
    "OnlineUncertainty": lambda: (cu.OnlineUncertainty, {"n": 4, "classes": 3}),
    "OnlineUncertainty.load_state_dict": lambda: (
        cu.OnlineUncertainty(4, 3).load_state_dict,
        {"state": cu.OnlineUncertainty(4, 3).state_dict()},
    ),
    "OnlineUncertainty.update": lambda: (
        cu.OnlineUncertainty(4, 3).update,
        {"indices": [0, 3], "logits": torch.zeros(2, 3), "labels": [0, 1]},
    ),
    "Recipe": lambda: (cu.Recipe, fields(RECIPE)),
    "Recipe.cut": lambda: (RECIPE.cut, {"epochs": 1}),
    "Stats": lambda: (cu.Stats, {"counts": [3, 2], "uncertainty": [0.5, 0.6]}),
    "Teaching": lambda: (cu.Teaching, fields(cu.Teaching())),
    "adjust": lambda: (cu.adjust, {"probabilities": P, "counts": [3, 2, 1], "tau": 1.0, "prior": None}),
    "adjust_predictions": lambda: (
        cu.adjust_predictions,
        {"predictions": predictions(Path.cwd()), "counts": [3, 2, 1], "unseen": None, "tau": 1.0, "bias": False}
        | {"prior": "equal", "out": None, "excel_safe": False, "force": False},
    ),
    "aleatoric": lambda: (cu.aleatoric, {"p": P}),
    "aso": lambda: (cu.aso, {"a": [1.0, 2.0], "b": [2.0, 3.0], "confidence": 0.9, "seed": 0}),
    "audit": lambda: (
        cu.audit,
        {"labels": LABELS, "probabilities": P[0], "classes": ["a", "b", "c"], "names": None, "images": None}
        | {"counts": [3, 2, 1], "prior": None, "decisions": LABELS, "costs": 1 - np.eye(3), "by_cost": True}
        | {"made_for": None},
    ),
    "class_uncertainty": lambda: (cu.class_uncertainty, {"p": P, "labels": LABELS, "score": cu.predictive}),
    "compare": lambda: (
        cu.compare,
        {"data": dataset(), "y": None, "label": None, "methods": ["naive"], "seeds": 1, "lrs": [0.1]}
        | {"equal_cost": False, "choose_lr": False, "choose_on": None, "against": "naive"}
        | {"shard": None, "retrain_older": False}
        | MEASURES_BY | WORKFLOW,
    ),
    "check": lambda: (cu.check, {"data": table().inputs, "y": np.arange(24) % 3, "label": None}),
    "compare_estimators": lambda: (
        cu.compare_estimators,
        {"dataset": dataset(), "estimators": ["single"], "members": 1, "lrs": None} | WORKFLOW,
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
    "export": lambda: (
        cu.export,
        {"model": fitted().module(0), "path": "exported", "to": "pt2", "trust_code": False, "force": True},
    ),
    "fit": lambda: (cu.fit, {"train": table(), "lanes": [cu.Lane()], "recipe": RECIPE, "test": None} | FITS),
    "fit_adjustment": lambda: (
        cu.fit_adjustment,
        {"unseen": P[0], "labels": LABELS, "counts": [3, 2, 1], "tau": "auto", "prior": None}
        | {"bias": False, "temperature": False, "goal": None, "usual_tau": None, "weights": [1, 2, 0.5, 1, 0, 3]},
    ),
    "fix": lambda: (
        cu.fix,
        {"data": dataset(), "y": None, "label": None, "candidates": ["naive"], "goal": "mean", "deploy": "one"}
        | {"trainings": 3.0, "seeds": 1, "save": None, "embed_weights": False, "label_issues": None} | WORKFLOW,
    ),
    "kwon": lambda: (cu.kwon, {"p": P}),
    "label_noise": lambda: (cu.label_noise, {"probabilities": P, "labels": LABELS, "others": [P[0]]}),
    "load": lambda: (
        cu.load,
        {"spec": frame(), "root": None, "seed": 0, "progress": None, "test": None, "repeats": None, "min": None}
        | COLUMNS,
    ),
    "long_tail": lambda: (cu.long_tail, {"data": table(), "ratio": 2, "seed": 0}),
    "measure": lambda: (cu.measure, {"data": dataset(), "y": None, "label": None, "lr": None} | MEASURES_BY | WORKFLOW),
    "mix_hardness": lambda: (cu.mix_hardness, {"easy": dataset(), "hard": dataset("hard"), "per_class": 2, "seed": 0}),
    "normalise": lambda: (cu.normalise, {"mu": [1.0, 2.0]}),
    "plan": lambda: (cu.plan, {"method": cu.METHODS["ubrs"], "stats": STATS, "epoch": 0, "epochs": 2}),
    "predict": lambda: (
        cu.predict,
        {"model": saved(Path.cwd()), "examples": "rows.npy", "prior": "goal", "keep": (), "label": None}
        | {"trust_code": False, "progress": None},
    ),
    "predictive": lambda: (cu.predictive, {"p": P}),
    "register_network": lambda: (
        cu.register_network,
        {"name": "mine", "factory": lambda: torch.nn.Linear(2, 3), "preprocess": {"size": 32}, "stack": "loop"},
    ),
    "restore": lambda: (cu.restore, {"path": saved(Path.cwd()), "trust_code": False}),
    "save": lambda: (cu.save, {"model": fitted().module(0), "path": "saved", "embed_weights": False, "force": True}),
    "svci20": lambda: (cu.svci20, {"cifar10": dataset(), "svhn": dataset("hard"), "per_class": 2, "seed": 0}),
    "train": lambda: (
        cu.train,
        {"dataset": dataset(), "method": "naive", "seed": 0, "lr": None, "save": None, "embed_weights": False}
        | MEASURES_BY | WORKFLOW,
    ),
    "validation_split": lambda: (cu.validation_split, {"full_train": table(), "per_class": 2, "seed": 0}),
    "write_page": lambda: (cu.write_page, {"audit": audited(), "path": "audit.html", "earlier": None, "force": True}),
}  # fmt: skip
CONSTANTS = {"CANDIDATES", "ESTIMATORS", "MEASURES", "METHODS", "REMEDIES", "InputError", "MachineFault", "Unfinished"}
# what calls return: nobody makes one by hand, and making one checks nothing
RESULTS = {
    *("AdjustedPredictions", "Audit", "Check", "Choice", "Comparison", "Estimate", "EstimatorComparison", "Finding"),
    *("Fit", "Fix"),
    *("LabelNoise", "Measured", "Plan", "Predicted", "Result", "Trained"),
}
INNER = {
    "Audit": {"name_of"},  # of the page and the document
    "Candidate": {"lane", "lr", "recipe", "student", "suits"},  # each rung of a fix
    "Data": {"name_of"},  # in messages
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
    "Loss": {"denominator", "extra_repr", "forward", "total"},  # tensors of a step: tests of their own
    "Method": {"cited"},  # each row of METHODS
    "Recipe": {"factor", "cycle_ends"},
    "Stats": {"of"},
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
