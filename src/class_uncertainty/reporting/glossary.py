"""The words of tables, pages and messages, for --explain and docs/glossary.md."""

import re
from collections.abc import Sequence

GLOSSARY = {
    "Adjusting, adjusted for the counts": "A model leans towards classes that it has seen often. Adjusting divides "
    "the probability of each class by its count, to the power of a strength τ, and trains nothing: τ = 0 leaves the "
    "probabilities as they are, 1 corrects them fully.",
    "ASO": "Almost stochastic order, a test of whether one method is better than another over all seeds. Its value "
    "ε_min is 0 where it always is; below 0.5 the method is better.",
    "AUC, average precision": "Areas under the ROC curve and under the curve of precision against recall: how well "
    "probabilities rank the examples of two classes, whatever the threshold. By chance an AUC is 50 %.",
    "Before, after, change": "Before is naive training, or the given predictions. After is what was kept, or the "
    "adjusted predictions. The change is after minus before, in points.",
    "Candidate": "One way to train a network that `cu fix` chooses between.",
    "Cause unclear": "A class that is worse than the others, with too few test examples to say why: adjusting for its "
    "count neither clearly helps nor leaves it clearly worse.",
    "Class mean, class-mean error": "The mean of the classes' errors: every class weighs the same, however many "
    "examples it has.",
    "Clear, noise": "A change is clear if its 95 % interval, corrected for the number of tested rows, excludes 0; "
    "otherwise it is noise. 'cu compare' takes paired t intervals over the seeds, other commands intervals over the "
    "test examples.",
    "Confused": "A class whose errors mostly go to one other class, more than chance would send there.",
    "Disputed (epistemic share)": "The share of a class's uncertainty that is disagreement between the networks, "
    "which more data can settle. All networks share the rest.",
    "ECE": "Expected calibration error: the mean difference between confidence, the probability of the predicted "
    "class, and the share of right predictions. Balanced: with all classes equally frequent.",
    "Effective": "A class's share of the inverse effective numbers of examples, which discount near-duplicates.",
    "Ensemble": "Several networks whose predictions are averaged.",
    "Error": "The share of test examples that are wrong, in percent.",
    "Estimator": "A way to measure uncertainty; 'cu list estimators' lists all.",
    "Few examples": "A rare class that stays worse than the others once it is adjusted for its count: it has too few "
    "examples to learn from, or it is hard. Predictions alone cannot tell which.",
    "Fold, out-of-fold": "The training examples are split into parts. Out-of-fold predictions for a part come from a "
    "network that was trained without it.",
    "Gain": "The reduction of an error; above 0 is better. 'cu compare' measures it against the same row by counts "
    "if there is one, otherwise against naive.",
    "Hard": "A class that has enough examples but stays worse than the others once it is adjusted for its count.",
    "Imbalance": "A class that is worse than the others because it is rare: adjusting for the counts alone removes at "
    "least half of its excess of errors, or all that is significant.",
    "Interval, 95 %": "A range that holds the true value in 95 of 100 such cases. Beside verdicts on classes, the "
    "intervals of all judged classes hold at once in 95 of 100 cases (Bonferroni). Errors have Clopper and Pearson's "
    "exact interval, paired changes Bonett and Price's; both allow for groups whose examples err alike. They cover "
    "the choice of test examples, not of the training seed, which the ± over seeds shows.",
    "Knob": "What a method changes in training: how often a class is drawn (alpha), how much its loss weighs "
    "(weight), or by how far its logit must win (margin).",
    "Label noise": "A class that is worse than the others mostly because its labels look wrong.",
    "Lane": "One training of one network. Many lanes train together as one program.",
    "lr, learning rate": "The size of a training step. 'cu compare --choose-lr' chooses it for each row.",
    "Many, medium, few": "Classes with more than 100, 20 to 100, and fewer than 20 training examples.",
    "Method": "How a network is trained; 'cu list methods' lists all.",
    "NLL": "Negative log-likelihood in nats, high where a model gives the labels little probability. Lower is better.",
    "Overall, overall error": "The share of all test examples that are wrong (top-1). Frequent classes dominate it.",
    "Passes": "How many networks run for each prediction.",
    "Precision, recall, F1": "Precision is the share of the predictions of a class that are right, recall the share "
    "of its examples that are found, F1 their harmonic mean. Figures for two classes are those of the rarer one.",
    "Predicted, share, mean p": "The number of examples that were predicted as a class, their share of all examples, "
    "and the mean probability of the class.",
    "Prior": "How frequent the classes are. The training prior has the frequencies of the training examples; the "
    "prior of a goal is how the goal counts classes, equally for 'mean' and 'worst'. That of a model is measured, and "
    "near its goal's.",
    "Rank": "1 is the class that a measure ranks as the most under-represented. '8 -> 10' is the rank by count and the "
    "rank by uncertainty, shown where they are two or more apart.",
    "Rank correlation (Spearman's ρ)": "1 where two lists rank the classes alike, 0 where they have nothing in common.",
    "Rare but easy": "A rare class that is hardly worse than the others, or better: its few examples are enough.",
    "Rarity (μ^C)": "A class's share of the inverse training counts: high where examples are few.",
    "Runs": "The number of trainings of a row, one for each seed.",
    "Score": "A formula for the uncertainty of an example; 'cu list estimators' lists all.",
    "Seed": "The start of a training's random numbers. ± is the standard deviation over seeds.",
    "Taken for": "The class that most errors of a class go to, and the share of its examples mistaken so.",
    "Temperature (T)": "A number that logits are divided by, so that confidence matches the share of right "
    "predictions.",
    "Test examples": "Examples that the networks were not trained on: the test split, or the fold left out.",
    "Threshold": "For two classes, the lowest probability at which the rarer one is predicted: 0.5, or by the costs.",
    "Too few test examples": "A class whose error has such a wide interval that it may be like the others or far "
    "worse.",
    "Train, test": "The numbers of training and of test examples.",
    "Trainings": "A cost, counted in trainings of one naive network.",
    "Uncertainty (μ^U)": "A class's share of the classes' mean uncertainties: high where networks are unsure about "
    "its examples. Where it is an entropy, the mean is in nats.",
    "Verdict": "Why a class is worse than the others. Its error must be higher by at least 5 points and half of "
    "theirs, and Fisher's exact test, corrected for all classes (Holm), must exclude chance.",
    "Worst tenth": "The mean error of the worst tenth of the classes, at least of one class.",
    "Wrong threshold": "One of two classes that is worse than the other, and not by its count alone: another "
    "threshold would lower its error and raise the other's.",
}


def explained(lines: Sequence[str]) -> list[str]:
    """'', 'Terms', and a line for each term of the glossary that occurs in the lines."""
    text = " ".join(lines)
    found = [f"{term}: {meaning}" for term, meaning in GLOSSARY.items() if _occurs(term, text)]
    return ["", "Terms", *found] if found else []


def _occurs(term: str, text: str) -> bool:
    """Whether one of the names of a term, 'Precision, recall, F1', stands in the text as a word, or its plural."""
    names = re.split(r", | and ", term.partition(" (")[0])
    return any(re.search(rf"(?<!\w){re.escape(name)}(s|es)?(?!\w)", text, re.IGNORECASE) for name in names)
