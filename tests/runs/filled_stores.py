"""Stores with results and estimates, and all that is in a store."""

from collections.abc import Sequence

from example_results import RECIPE

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.runs import Store
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import load_or_estimate, load_or_evaluate
from class_uncertainty.runs.settings import Settings


def evaluated(
    store: Store, dataset: cu.Dataset, lanes: Sequence[cu.Lane] = (cu.Lane("naive"),), recipe: cu.Recipe = RECIPE
) -> list[cu.Result]:
    with open_context(dataset, Settings(recipe=recipe, store=store)) as context:
        return load_or_evaluate(context, lanes)


def estimated(store: Store, dataset: cu.Dataset, *requests: EstimateRequest) -> list[cu.Estimate]:
    with open_context(dataset, Settings(recipe=RECIPE, store=store)) as context:
        return load_or_estimate(context, requests)


def everything(store: Store, digits: cu.Dataset) -> dict[str, list]:
    keys = [key for (key,) in store.connection.execute("SELECT key FROM networks")]
    return {
        "data": store.data(),
        "results": store.results(digits.fingerprint),
        "estimates": [estimate.results for estimate in store.estimates(digits.fingerprint)],
        "networks": [network[0] for key in keys if (network := store.get_network(key))],
    }
