"""Labels worth a look: planted wrong labels, and what the package and cleanlab list, from the same probabilities.

5 % of the labels are made wrong, any other class alike ("symmetric") or a similar class ("similar"), or none. Networks
predict the examples of the fold that they never saw, and the same mean probabilities go to both sides: label_noise()
with and without the nearest neighbours, and cleanlab's find_label_issues() with its default and with every other
filter, of which the one with the highest F1 is shown. "as many" is the head of our ranking, as long as cleanlab's list.

    python benchmarks/label_issues.py digits
    python benchmarks/label_issues.py cifar10 --root DATA --backbone efficientnet-lite0
    python benchmarks/label_issues.py cifar10 --root DATA --epochs 20 --seeds 3
    python benchmarks/label_issues.py cifar10 --root DATA --images 50000 --recipe bag-of-tricks --save p.npz
    python benchmarks/label_issues.py cifar10 --root DATA --images 50000 --load p.npz

cleanlab is installed by hand: pip install cleanlab. Without it only our lists are shown; --save keeps the probabilities
for a machine that has it.
"""

import argparse
import dataclasses
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import class_uncertainty as cu
from class_uncertainty.posthoc.label_issues import neighbour_counts, neighbour_shares
from class_uncertainty.posthoc.noise_model import label_noise
from class_uncertainty.training.recipe import default_recipe
from class_uncertainty.training.recipe_specs import parse_recipe

RATE, RECALL, FOLDS = 0.05, 0.6, 5
KINDS = ("none", "symmetric", "similar")
SOURCES = {"digits": "digits-lt:1", "cifar10": "cifar10-lt:1"}
PAIRS = {"digits": "38 83 17 71 49 94 56 65", "cifar10": "35 53 19 91 20 47 74"}  # a class, and what it is taken for
FILTERS = [  # cleanlab's default is the first
    *("prune_by_noise_rate", "prune_by_class", "both", "confident_learning", "predicted_neq_given"),
    *("low_normalized_margin", "low_self_confidence"),
]


def with_noise(data: cu.Data, kind: str, pairs: str, rng: np.random.Generator) -> NDArray[np.int64]:
    """Labels of which RATE are wrong."""
    labels, classes, number = data.labels.copy(), len(data.classes), round(RATE * len(data))
    if kind == "symmetric":
        wrong = rng.choice(len(labels), number, replace=False)
        labels[wrong] = (labels[wrong] + rng.integers(1, classes, number)) % classes
    elif kind == "similar":
        taken_for = {int(pair[0]): int(pair[1]) for pair in pairs.split()}
        wrong = rng.choice(np.flatnonzero(np.isin(labels, list(taken_for))), number, replace=False)
        labels[wrong] = [taken_for[c] for c in labels[wrong].tolist()]
    return labels


def scores(listed: NDArray[np.bool_], wrong: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Precision, recall and F1."""
    hits = float((listed & wrong).sum())
    return hits / max(listed.sum(), 1), hits / max(wrong.sum(), 1), 2 * hits / max(listed.sum() + wrong.sum(), 1)


def head(ranking: NDArray[np.float64], length: int) -> NDArray[np.bool_]:
    """The so many highest."""
    mask = np.zeros(len(ranking), dtype=bool)
    mask[np.argsort(-ranking, kind="stable")[:length]] = True
    return mask


def down_to(ranking: NDArray[np.float64], wrong: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The head of a ranking that holds RECALL of the wrong labels."""
    hits = np.cumsum(wrong[np.argsort(-ranking, kind="stable")])
    return head(ranking, 1 + int(np.searchsorted(hits, RECALL * hits[-1])))


def confident_learning(p: NDArray, labels: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
    """What cleanlab lists, by filter; nothing where it is not installed."""
    if find_spec("cleanlab") is None:
        return {}
    from cleanlab.filter import find_label_issues  # type: ignore[import-not-found,import-untyped,unused-ignore]

    mean = p.mean(axis=0, dtype=np.float64)
    mean /= mean.sum(axis=1, keepdims=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: find_label_issues(labels, mean, filter_by=name, n_jobs=1) for name in FILTERS}


def compare(p: NDArray, labels: NDArray[np.int64], data: cu.Data) -> dict[str, NDArray[np.bool_]]:
    """What is listed, by the name of a row."""
    wrong, near = labels != data.labels, neighbour_counts(data.inputs, labels, len(data.classes))
    ours = {"networks alone": label_noise(p, labels)}
    if near is not None:  # cheap enough
        ours = {"networks and neighbours": label_noise(p, labels, [neighbour_shares(near)])} | ours
    rows = {name: noise.is_issue for name, noise in ours.items()}
    if wrong.any():
        rankings = {name: noise.p_wrong for name, noise in ours.items()}
        rankings["lowest probability"] = -p.mean(axis=0)[np.arange(len(labels)), labels]
        rows |= {f"{name}, at a recall of {RECALL}": down_to(ranking, wrong) for name, ranking in rankings.items()}
    theirs = confident_learning(p, labels)
    best = max(theirs, key=lambda name: scores(theirs[name], wrong)[2], default=FILTERS[0])
    for name in dict.fromkeys((FILTERS[0], best)) if theirs else ():
        rows[f"cleanlab, {name}"] = theirs[name]
        if wrong.any():
            lists = {row: head(noise.p_wrong, theirs[name].sum()) for row, noise in ours.items()}
            rows |= {f"as many, {row}, {name}": listed for row, listed in lists.items()}
    return rows


def predicted(data: cu.Data, recipe: cu.Recipe, method: str, seeds: int, device: str | None) -> NDArray:
    """(seeds, N, C) of networks that never saw the example; all train together."""
    lanes = [cu.Lane(method, seed, fold=(k, FOLDS)) for seed in range(seeds) for k in range(FOLDS)]
    fitted = cu.fit(data, lanes, recipe=recipe, device=device)
    firsts = range(0, len(lanes), FOLDS)
    return np.stack([fitted.take(range(first, first + FOLDS)).out_of_fold(data) for first in firsts])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=SOURCES)
    parser.add_argument("--root", help="where CIFAR-10 is")
    parser.add_argument("--images", type=int, default=5000, help="a random part of CIFAR-10 (default: 5,000)")
    parser.add_argument("--backbone", help="frozen network whose features are classified, such as efficientnet-lite0")
    parser.add_argument("--recipe", default="", help="such as bag-of-tricks or 'bag-of-tricks?schedule=cosine'")
    parser.add_argument("--network", help="in place of the recipe's, such as resnet18")
    parser.add_argument("--epochs", type=int, help="by default those of the recipe")
    parser.add_argument("--method", default="naive", help="such as naive+autoaugment+cutout (default: naive)")
    parser.add_argument("--seeds", type=int, default=1, help="networks a fold (default: 1)")
    parser.add_argument("--noise", nargs="+", choices=KINDS, default=KINDS, help="by default all three")
    parser.add_argument("--device", help="cpu or cuda (default: the GPU if there is one)")
    parser.add_argument("--save", type=Path, help="keep labels and out-of-fold probabilities in this .npz file")
    parser.add_argument("--load", type=Path, help="read them from there, and train nothing")
    given = parser.parse_args()
    name, changes = parse_recipe(given.recipe) if given.recipe else (None, {})
    dataset = cu.load(SOURCES[given.data], root=given.root)
    data = dataset.train
    if given.data == "digits" and dataset.test:
        inputs, labels = (
            np.concatenate([getattr(part, name) for part in (data, dataset.test)]) for name in ("inputs", "labels")
        )
        data = cu.Data(inputs, labels, data.classes)
    rng = np.random.default_rng(0)
    data = data.take(np.sort(rng.permutation(len(data))[: given.images]))
    data = cu.embed(data, given.backbone) if given.backbone else data
    changes |= {field: value for field in ("network", "epochs") if (value := getattr(given, field)) is not None}
    recipe = default_recipe(data, name, **changes)
    kept: dict[str, NDArray] = dict(np.load(given.load)) if given.load else {"truth": data.labels}
    if not np.array_equal(kept["truth"], data.labels):
        sys.exit(f"{given.load} is of other examples: give the --images of the run that saved it.")
    print("| wrong labels | error, % | list | labels | precision | recall |\n|---|--:|---|--:|--:|--:|")
    drawn = {kind: with_noise(data, kind, PAIRS[given.data], rng) for kind in KINDS}
    for kind in given.noise:
        if given.load and f"{kind}_p" not in kept:  # the run that saved it had other kinds, or was stopped
            continue
        if not given.load:
            kept[f"{kind}_labels"] = drawn[kind]
            noisy = dataclasses.replace(data, labels=drawn[kind])
            kept[f"{kind}_p"] = predicted(noisy, recipe, given.method, given.seeds, given.device)
            if given.save:
                np.savez(given.save, **kept)  # type: ignore[arg-type]
        labels, p = kept[f"{kind}_labels"], kept[f"{kind}_p"]
        wrong = labels != data.labels
        error = 100 * float((p.mean(axis=0).argmax(axis=1) != data.labels).mean())
        for row, listed in compare(p, labels, data).items():
            precision, recall, _ = scores(listed, wrong)
            shown = f"{precision:.2f} | {recall:.2f}" if wrong.any() else "– | –"
            print(f"| {kind} | {error:.1f} | {row} | {listed.sum()} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
