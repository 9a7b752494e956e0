"""The learning rates that `cu compare --choose-lr` has chosen, read from the results of the networks that chose."""

from class_uncertainty.data.dataset import folds_fingerprint
from class_uncertainty.data.spec import without_options
from class_uncertainty.methods import parse_name
from class_uncertainty.posthoc.remedies import REMEDIES
from class_uncertainty.runs import Store, StoredDataset
from class_uncertainty.runs.comparison import CHOOSING_SEED, best_rate
from class_uncertainty.training import Result


def chosen_rates(
    store: Store, data: StoredDataset, results: list[Result], measured_by: str
) -> tuple[dict[str, float], str | None]:
    """The rate of each method of these results on the data, and the name of the data that chose, if not folds.

    The networks that chose are stored as results by folds of the same training split or else, by `--choose-on`, of data
    of the same name with other options and another test split, the last ones: trained alike, by the same uncertainties.
    """
    if not results:
        return {}, None
    name, judge = without_options(data.name), _judge(data)
    places = {
        other.fingerprint: other.name
        for other in store.data()
        if without_options(other.name) == name and _judge(other) != judge
    }
    for fingerprint in (folds_fingerprint(data.fingerprint), *reversed(places)):
        errors = _errors_by_rate(store.results(fingerprint), results[0], measured_by)
        rates = dict[str, float]()
        for method in dict.fromkeys(result.method for result in results):
            network = parse_name(method).single
            network = REMEDIES[network].method if network in REMEDIES else network
            if len(errors.get(network, ())) > 1:
                rates[method] = best_rate(errors[network])
        if rates:
            return rates, places.get(fingerprint)
    return {}, None


def _judge(data: StoredDataset) -> str:
    """The fingerprint of the test split, which stands behind that of the training split."""
    return data.fingerprint.partition("-")[2]


def _errors_by_rate(results: list[Result], like: Result, measured_by: str) -> dict[str, dict[float, float | None]]:
    """The errors of networks that chose, by method and rate: those trained alike, by these uncertainties or none."""
    errors = dict[str, dict[float, float | None]]()
    for result in results:
        alike = (result.recipe, result.device) == (like.recipe, like.device)
        if result.seed == CHOOSING_SEED and alike and result.uncertainty in ("", measured_by):
            errors.setdefault(result.method, {})[result.lr] = result.error
    return errors
