"""scikit-learn's own checks of estimators."""

import pytest
from optional import slow
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import estimator_checks_generator

import class_uncertainty as cu
from class_uncertainty.integrations.sklearn import (
    ClassUncertainty,
    DistilledClassifier,
    PriorAdjustedClassifier,
    UncertaintySampler,
)

RECIPE = cu.Recipe("linear", epochs=5, batch=32)
NEEDS = {"check_array_api_input"}  # an environment variable of scipy
FAST = [
    PriorAdjustedClassifier(GaussianNB()),
    PriorAdjustedClassifier(GaussianNB(), tau=1.0, prior="train"),
    ClassUncertainty(GaussianNB()),
    UncertaintySampler(GaussianNB(), random_state=0),
]
SLOW = [PriorAdjustedClassifier(), ClassUncertainty(), UncertaintySampler(random_state=0)]
DISTILLED = DistilledClassifier(recipe=RECIPE, candidates=["naive"], trainings=2)
ESSENTIAL = {
    "check_estimator_cloneable", "check_do_not_raise_errors_in_init_or_set_param", "check_no_attributes_set_in_init",
    "check_classifiers_one_label", "check_estimators_unfitted", "check_dict_unchanged", "check_estimators_pickle",
    "check_n_features_in_after_fitting", "check_dataframe_column_names_consistency",
}  # fmt: skip


def rows(estimators, names=None):
    """(estimator, check): all are to pass, none is declared as failing."""
    for number, estimator in enumerate(estimators):
        for instance, check in estimator_checks_generator(estimator, expected_failed_checks={}):
            name = check.func.__name__
            if name in NEEDS or (names and name not in names):
                continue
            yield pytest.param(instance, check, id=f"{type(estimator).__name__}{number}-{name}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), [*rows(FAST), *rows([DISTILLED], ESSENTIAL)])
def test_it_is_an_estimator(estimator, check):
    check(estimator)


@slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), [*rows(SLOW), *rows([DISTILLED])])
def test_it_is_an_estimator_with_its_default(estimator, check):
    check(estimator)
