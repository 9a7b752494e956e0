"""The words of tables, pages and messages, in plain language: shown by the report and by docs/glossary.md."""

import re
from collections.abc import Sequence

GLOSSARY = {
    "Adjusting, adjusted for the counts": "A model leans towards classes that it has seen often. Dividing the "
    "probability of each class by its count, to the power of a strength τ, takes that away without any training: 0 "
    "leaves the probabilities as they are, 1 corrects them fully.",
    "ASO": "Almost stochastic order, a test of whether one method is better than another over all seeds. Its value "
    "ε_min is 0 where it always is; below 0.5 the method is better.",
    "AUC, average precision": "Areas under the ROC curve and under the curve of precision against recall: how well "
    "probabilities rank the examples of two classes, whatever the threshold. By chance an AUC is 50 %.",
    "Before, after, change": "Before is naive training, or predictions as they were given; after is what was kept, or "
    "adjusted; the change is after less before, in points.",
    "Candidate": "One way to train a network that `cu fix` chooses between.",
    "Cause unclear": "A class that is worse than the others, with too few test examples to say why: adjusting for its "
    "count neither clearly helps nor leaves it clearly worse.",
    "Class mean, class-mean error": "The mean of the classes' errors: every class weighs the same, however many "
    "examples it has.",
    "Clear, noise": "A change is clear if its 95 % interval, corrected for the number of rows that are tested, does "
    "not hold 0; else it is noise. In 'cu compare' chance is that of the seeds: the intervals are paired t intervals "
    "over seeds, at the confidence 1 - 0.05 / rows (Bonferroni). Elsewhere chance is that of the test examples.",
    "Confused": "Most errors of a class go to one other class, more than chance would send there.",
    "Disputed (epistemic share)": "How much of a class's uncertainty is disagreement between the networks, which more "
    "data can settle. The rest is doubt that all networks share.",
    "ECE": "Expected calibration error: by how much confidence, the probability of the predicted class, and the share "
    "of right predictions differ, on average. Balanced: with all classes equally frequent.",
    "Effective": "A class's share of the inverse effective numbers of examples, which discount near-duplicates.",
    "Ensemble": "Several networks whose predictions are averaged.",
    "Error": "The share of test examples that are wrong, in percent.",
    "Estimator": "A way to measure uncertainty; 'cu list estimators' lists all.",
    "Few examples": "A rare class that stays worse than the others once its count is adjusted for: its examples are "
    "too few to learn it from, or it is hard. Predictions alone do not tell which.",
    "Fold, out-of-fold": "The training examples are split into parts. Out-of-fold predictions for a part come from a "
    "network that was trained without it.",
    "Gain": "By how much an error is lower; above 0 is better. 'cu compare' takes it over the same row by counts, "
    "where there is one, and otherwise over naive.",
    "Hard": "A class that has examples enough, and stays worse than the others once its count is adjusted for.",
    "Imbalance": "A class is worse than the others since it is rare: adjusting for the counts alone makes up for at "
    "least half of it, or for all that is significant.",
    "Interval, 95 %": "The range that the true value lies in, for 95 of 100 such intervals. Beside verdicts on "
    "classes, those of all judged classes hold at once in 95 of 100 cases (Bonferroni). Errors have Clopper and "
    "Pearson's exact interval, paired changes that of Bonett and Price; both allow for groups whose examples err "
    "alike. It covers the choice of test examples, not the chance of a training, which the ± over seeds shows.",
    "Knob": "What a method changes in training: how often a class is drawn (alpha), how much its loss weighs (weight), "
    "or by how far its logit must win (margin).",
    "Label noise": "A class that is worse than the others, mostly since its labels look wrong.",
    "Lane": "One training of one network. Many lanes train together as one program.",
    "lr, learning rate": "How far a step of training goes. 'cu compare --choose-lr' chooses it for each row.",
    "Many, medium, few": "Classes with more than 100, 20 to 100, and fewer than 20 training examples.",
    "Method": "How a network is trained; 'cu list methods' lists all.",
    "NLL": "Negative log-likelihood in nats: how surprised a model is by the labels. Lower is better.",
    "Overall, overall error": "The share of all test examples that are wrong (top-1). Frequent classes dominate it.",
    "Passes": "How many networks run for each prediction.",
    "Precision, recall, F1": "Of what is predicted as a class, the share that is right; of the examples of the class, "
    "the share that is found; and their harmonic mean. As figures of two classes, those of the rarer one.",
    "Predicted, share, mean p": "How many examples were predicted as a class, which share of all that is, and the mean "
    "of the class's probabilities.",
    "Prior": "How frequent the classes are. The training prior is as in the training examples, that of a goal as the "
    "goal counts classes: equally for 'mean' and 'worst'.",
    "Rank": "1 is the class that a measure calls the most under-represented. '8 -> 10' stands for the rank by count "
    "and that by uncertainty, where they are two or more apart.",
    "Rank correlation (Spearman's ρ)": "1 where two lists rank the classes alike, 0 where they have nothing in common.",
    "Rare but easy": "A rare class that is hardly worse than the others, or better: its few examples are enough.",
    "Rarity (μ^C)": "A class's share of the inverse training counts: high where examples are few.",
    "Runs": "Trainings of a row, one a seed.",
    "Score": "What counts as uncertain about an example; 'cu list estimators' lists all.",
    "Seed": "The start of a training's random numbers. ± is the standard deviation over seeds.",
    "Taken for": "The class that most errors of a class go to, and the share of its examples that do.",
    "Temperature (T)": "What logits are divided by, so that a network is as sure as it is right.",
    "Test examples": "Examples that the networks were not trained on: the test split, or the fold left out.",
    "Threshold": "Of two classes, the probability from which the rarer one is predicted: 0.5, or what the costs say. "
    "Decisions that are given do not tell theirs.",
    "Too few test examples": "The interval of a class's error is so wide that it may be like the others or far worse: "
    "more test examples would tell.",
    "Train, test": "Numbers of training and of test examples.",
    "Trainings": "What something costs, in trainings of one naive network.",
    "Uncertainty (μ^U)": "A class's share of the classes' mean uncertainties: high where networks are unsure about its "
    "examples. Where it is an entropy, the mean is in nats.",
    "Verdict": "What is wrong with a class that is worse than the others by 5 points and by half of their error, where "
    "Fisher's exact test, corrected by Holm for all classes, says that this is no chance.",
    "Worst tenth": "The mean error of the tenth of the classes that are worst, at least of one.",
    "Wrong threshold": "One of two classes is worse than the other, and not by its count alone: another threshold "
    "would lower its error and raise the other's.",
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
