"""How far `cu fix` stays behind the best row of `cu compare`, picked in hindsight.

    python benchmarks/regret.py [--seeds 5] [--trainings 20,3]

Four small data sets: digits at ratios 20 and 50, judged on their test split, and cuts of scikit-learn's wine
(59, 20, 8) and breast cancer (20, 357), judged by folds. Every candidate is two rows, as it is and adjusted by its own
tau, trained with every seed. The regret of a fix is its class-mean error less the lowest mean error of a row; it is
printed beside the standard deviation of that row over the seeds and the standard error of the evidence.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from remedy import small_sets

import class_uncertainty as cu
from class_uncertainty.metrics import evaluate
from class_uncertainty.posthoc.goal import parse_goal
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.settings import Settings
from class_uncertainty.training import default_recipe
from class_uncertainty.training.candidate import default_candidates
from class_uncertainty.training.folds import FOLDS, judged_examples, judged_folds, judged_labels
from class_uncertainty.workflows.ladder import fit_networks, judged_by_folds, leaving_out
from class_uncertainty.workflows.search import judge


def rows(dataset: cu.Dataset, recipe: cu.Recipe, seeds: int, store: Path) -> dict[str, list[float]]:
    """The errors of every candidate, one a seed, as it is and adjusted; tau is chosen on folds that are not judged."""
    train, folds, labels = dataset.train, judged_folds(dataset), judged_labels(dataset)
    candidates = default_candidates(train)
    with open_context(dataset, Settings(recipe=recipe, store=store)) as context:
        goal = parse_goal("mean", train.classes, train.counts)
        quiet = judged_by_folds(context)
        unseen = fit_networks(quiet, [(row, 0, (k, FOLDS)) for row in candidates for k in range(FOLDS)], None)
        wanted = [(row, seed, fold) for row in candidates for fold in folds for seed in range(seeds)]
        networks = fit_networks(quiet, wanted, None)
        errors: dict[str, list[float]] = {}
        for candidate in candidates:
            evidence = judge(context, candidate, unseen[candidate], goal)
            plain, adjusted = [], []
            for fold in folds:
                fitted = leaving_out(networks[candidate], fold, range(seeds))
                plain.append(fitted.probabilities(judged_examples(dataset, fold)).astype(np.float64))
                adjusted.append(evidence.adjustment_without(fold, train, goal)(plain[-1]))
            for name, p in ((candidate.name, plain), (f"{candidate.name}, adjusted", adjusted)):
                seed_errors = [evaluate(p_seed, labels, train.counts).error for p_seed in np.concatenate(p, axis=1)]
                errors[name] = seed_errors
        return errors


def main(seeds: int, allowed: Sequence[float]) -> None:
    shares: dict[float, list[float]] = {trainings: [] for trainings in allowed}
    with tempfile.TemporaryDirectory() as folder:
        for name, dataset in small_sets().items():
            recipe, store = default_recipe(dataset.train), Path(folder) / f"{name.replace(':', '-')}.sqlite"
            errors = rows(dataset, recipe, seeds, store)
            best = min(errors, key=lambda row: float(np.mean(errors[row])))
            listed = ", ".join(
                f"{row} {np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}" for row, values in errors.items()
            )
            print(f"{name}: {listed}", flush=True)
            for trainings in allowed:
                fixed = cu.fix(dataset, recipe=recipe, seeds=seeds, trainings=trainings, store=store)
                kept = next(step for step in fixed.report.ladder if step.kept)
                regret, spread = np.mean(kept.values) - np.mean(errors[best]), np.std(errors[best], ddof=1)
                gain = np.mean(errors["naive"]) - np.mean(kept.values)
                shares[trainings].append(float(regret / spread))
                evidence = "–" if kept.unseen_error is None else f"{kept.unseen_error:.2f}"
                print(
                    f"  {trainings:g} trainings: kept {kept.candidate} ({kept.name}), {np.mean(kept.values):.2f};"
                    f" gain over naive {gain:.2f}; regret {regret:+.2f} against {best} ({spread:.2f} deviation);"
                    f" standard error of the evidence {evidence}; cost {fixed.report.cost:g}",
                    flush=True,
                )
    for trainings, of_sets in shares.items():
        print(f"{trainings:g} trainings: mean regret {np.mean(of_sets):+.2f} standard deviations")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trainings", default="20,3")
    options = parser.parse_args()
    main(options.seeds, [float(part) for part in options.trainings.split(",")])
