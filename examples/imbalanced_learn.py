"""imbalanced-learn: class uncertainty decides how many examples of each class its samplers make.

    pip install class-uncertainty[imbalanced-learn]
    python examples/imbalanced_learn.py

Handwritten digits with a long tail, 120 to 6 examples a class; judged on 597 others, by balanced accuracy.
"""

from imblearn.over_sampling import SMOTE
from imblearn.pipeline import make_pipeline
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.preprocessing import StandardScaler

import class_uncertainty as cu
from class_uncertainty.integrations.sklearn import ClassUncertainty, UncertaintySampler

HALF = 0.5  # half way from the frequencies of the classes to their uncertainties: fewer examples to make


def main() -> None:
    digits = cu.load("digits-lt:20")
    X, y = digits.train.inputs.reshape(len(digits.train), -1), digits.train.labels
    X_test, y_test = digits.test.inputs.reshape(len(digits.test), -1), digits.test.labels
    classifier = LogisticRegression(max_iter=1000)
    judge = make_pipeline(StandardScaler(), classifier)  # whose uncertainty counts

    strategy = ClassUncertainty(judge).fit(X, y).sampling_strategy("over-sampling", strength=HALF)
    repeats = UncertaintySampler(judge, sampling="over-sampling", strength=HALF, random_state=0)
    steps = {
        "as they are": [],
        "SMOTE, to equal counts": [SMOTE(k_neighbors=3, random_state=0)],
        "SMOTE, half by class uncertainty": [SMOTE(sampling_strategy=strategy, k_neighbors=3, random_state=0)],
        "repeated, half by class uncertainty": [repeats],
        "same size, by class uncertainty": [UncertaintySampler(judge, random_state=0)],
    }
    print("Balanced accuracy of logistic regression, and training examples:")
    for name, sampler in steps.items():
        model = make_pipeline(StandardScaler(), *sampler, classifier).fit(X, y)
        number = len(sampler[0].fit_resample(X, y)[1]) if sampler else len(y)
        print(f"  {name:36} {balanced_accuracy_score(y_test, model.predict(X_test)):.3f}  {number:,}")


if __name__ == "__main__":
    main()
