"""scikit-learn: correct any classifier for unequal class counts, and see which classes it is uncertain about.

    python examples/sklearn_pipeline.py

Handwritten digits with a long tail, 120 to 6 examples a class; judged on 597 others, by balanced accuracy.
"""

from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import class_uncertainty as cu
from class_uncertainty.integrations.sklearn import ClassUncertainty, PriorAdjustedClassifier

CLASSIFIERS = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "random forest": RandomForestClassifier(100, random_state=0),
    "naive Bayes": GaussianNB(var_smoothing=1e-2),
}


def main() -> None:
    digits = cu.load("digits-lt:20")
    X, y = digits.train.inputs.reshape(len(digits.train), -1), digits.train.labels
    X_test, y_test = digits.test.inputs.reshape(len(digits.test), -1), digits.test.labels

    print("Balanced accuracy, as it is and adjusted for the counts:")
    for name, classifier in CLASSIFIERS.items():
        model = PriorAdjustedClassifier(classifier).fit(X, y)
        before, after = (balanced_accuracy_score(y_test, each.predict(X_test)) for each in (model.estimator_, model))
        print(f"  {name:20} {before:.3f} -> {after:.3f}   tau {model.adjustment_.tau:g}")

    measured = ClassUncertainty(CLASSIFIERS["logistic regression"]).fit(X, y)
    print("Class uncertainty by logistic regression, and examples:")
    for label, share, count in zip(measured.classes_, measured.mu_, measured.counts_, strict=True):
        print(f"  {label}: {share:.3f}  {count:.0f}")

    weighted = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, class_weight=measured.class_weight_))
    score = balanced_accuracy_score(y_test, weighted.fit(X, y).predict(X_test))
    print(f"Logistic regression, weighted by class uncertainty: {score:.3f}")

    adjusted = PriorAdjustedClassifier(CLASSIFIERS["logistic regression"])
    grid = {"estimator__logisticregression__C": [0.03, 1.0]}
    search = GridSearchCV(adjusted, grid, scoring="balanced_accuracy", cv=3).fit(X, y)
    score = balanced_accuracy_score(y_test, search.predict(X_test))
    print(f"With C = {search.best_params_['estimator__logisticregression__C']:g} by a grid search: {score:.3f}")


if __name__ == "__main__":
    main()
