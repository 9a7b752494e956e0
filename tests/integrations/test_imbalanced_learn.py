"""UncertaintySampler and SamplingStrategy in imbalanced-learn."""

from collections import Counter

import numpy as np
import pytest
from optional import optional
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB

from class_uncertainty.integrations.sklearn import ClassUncertainty, PriorAdjustedClassifier, UncertaintySampler

optional("imblearn")
from imblearn.over_sampling import SMOTE, RandomOverSampler  # noqa: E402
from imblearn.pipeline import make_pipeline  # noqa: E402
from imblearn.under_sampling import RandomUnderSampler  # noqa: E402
from imblearn.utils.estimator_checks import estimator_checks_generator  # noqa: E402

RANDOM = np.random.default_rng(0)
Y = np.repeat([0, 1, 2], [60, 25, 12])
X = RANDOM.normal(size=(97, 2)) + np.array([[0, 0], [1, 1], [2, 0]])[Y]


ESTIMATORS = [
    UncertaintySampler(random_state=0),
    UncertaintySampler(sampling="over-sampling", random_state=0),
    UncertaintySampler(method="cb-rs", sampling="under-sampling", random_state=0),
    PriorAdjustedClassifier(),
]
CHECKS = [row for estimator in ESTIMATORS for row in estimator_checks_generator(estimator)]


@pytest.mark.filterwarnings("ignore")  # its checks give odd inputs
@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=[check.func.__name__ for _, check in CHECKS])
def test_it_passes_the_checks_of_imbalanced_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("sampler", "sampling"),
    [(RandomOverSampler, "over-sampling"), (SMOTE, "over-sampling"), (RandomUnderSampler, "under-sampling")],
)
def test_a_strategy_decides_the_counts_of_any_sampler(sampler, sampling):
    measured = ClassUncertainty(GaussianNB()).fit(X, Y)
    strategy = measured.sampling_strategy(sampling)
    _, y_drawn = sampler(sampling_strategy=strategy, random_state=0).fit_resample(X, Y)
    counts = np.array([Counter(y_drawn)[c] for c in range(3)])
    np.testing.assert_allclose(counts / counts.sum(), measured.mu_, atol=2 / counts.sum())


def test_it_is_a_step_of_a_pipeline_in_a_grid_search():
    sampler = UncertaintySampler(GaussianNB(), sampling="over-sampling", random_state=0)
    model = make_pipeline(sampler, LogisticRegression())
    grid = {"uncertaintysampler__strength": [0.0, 1.0], "uncertaintysampler__estimator": [GaussianNB()]}
    search = GridSearchCV(model, grid, scoring="balanced_accuracy", cv=3).fit(X, Y)
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] != scores[1]  # it draws when the pipeline is trained
    assert len(search.predict(X)) == 97  # and not when it predicts


def test_the_kind_of_sampler_must_match():
    strategy = ClassUncertainty(GaussianNB()).fit(X, Y).sampling_strategy("over-sampling")
    with pytest.raises(ValueError, match="under-sampling"):
        RandomUnderSampler(sampling_strategy=strategy).fit_resample(X, Y)
