"""Choice: what is kept, chosen on examples that the choosing networks never saw.

Where folds are judged, each fold has a Choice that was made without it; the fold None stands for the test split.
"""

from dataclasses import dataclass, replace

from class_uncertainty.posthoc.adjustment import Adjustment
from class_uncertainty.posthoc.goal import Goal
from class_uncertainty.runs.context import Context
from class_uncertainty.training import Teaching
from class_uncertainty.training.candidate import Candidate
from class_uncertainty.training.folds import Fold, fold_indices
from class_uncertainty.workflows.search import Search, preferred
from class_uncertainty.workflows.trial import Gain, Trial

ADJUSTED, SINGLE, ENSEMBLE, STUDENT = "adjusted", "best single", "ensemble", "student"
DEPLOYS = ("one", "ensemble")


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen on examples that the choosing networks never saw; nothing is chosen on test data.

    Attributes
    ----------
    candidate : Candidate
        How networks train.
    step : str
        Of the ladder: "adjusted" or "best single" for one network, "ensemble" or "student".
    adjustment : Adjustment
        How their probabilities are corrected for the counts.
    teaching : Teaching
        What a student learns.
    student : Candidate or None
        How the best student trains; None where none was tried.
    cooling : float
        What a student's logits are divided by.
    why : str
        One sentence.

    Examples
    --------
    >>> choice = cu.Choice(cu.Candidate("cb-rs"), "best single", cu.Adjustment.of([90, 10]), cu.Teaching())
    >>> choice.tau
    1.0
    """

    candidate: Candidate
    step: str
    adjustment: Adjustment
    teaching: Teaching
    student: Candidate | None = None
    cooling: float = 1.0
    why: str = ""

    @property
    def tau(self) -> float:
        return self.adjustment.tau

    @property
    def single(self) -> str:
        """The step that one network of the candidate is."""
        return ADJUSTED if self.candidate.is_naive else SINGLE


Choices = dict[Fold, Choice]


def choose_step(context: Context, search: Search, trial: Trial | str, goal: Goal, deploy: str, fold: Fold) -> Choice:
    """The best of the finalists, and whether it is kept as one network, as several, or taught to one.

    What is chosen for a judged fold is chosen without it, though the networks asked about the other folds have learnt
    it. The trial decides for all folds; where there was none, it is the reason.
    """
    best = search.best
    if fold:
        places, counts = fold_indices(context.train, fold), context.train.counts
        judged = [rest for evidence in search.finalists if (rest := evidence.without(places, counts, goal))]
        best = preferred(judged, goal) if judged else best
    adjustment = best.adjustment(context.train.counts, goal)
    step, why = _step(trial, goal, deploy)
    student, cooling = None, 1.0
    if isinstance(trial, Trial) and trial.student:
        student, cooling = Candidate(trial.student), trial.cooling[trial.student]
    choice = Choice(best.candidate, step, adjustment, Teaching(tau=adjustment.tau), student, cooling, why)
    return choice if step else replace(choice, step=choice.single)


def _step(trial: Trial | str, goal: Goal, deploy: str) -> tuple[str, str]:
    """The step that gains more than a standard error on the tried fold, "" for one network, and why."""
    if isinstance(trial, str):
        kept = "One network is kept: neither an ensemble nor a student was judged on unseen examples"
        return "", f"{kept}, since {trial}."
    gains = {STUDENT: trial.students[trial.student]} if trial.student else {}
    if deploy == "ensemble":
        gains[ENSEMBLE] = trial.ensemble
    clear = {step: gain for step, gain in gains.items() if gain.clear}
    where = f"on {trial.examples:,} examples that no network of the trial saw"
    if not clear:
        tried = " and ".join(f"{_article(step)} {_points(gain, goal)}" for step, gain in gains.items())
        return "", f"One network is kept: {where}, {tried or 'every student diverged'}, no clear gain."
    step = max(clear, key=lambda name: clear[name].gain)
    gained = f"{where}, it {_points(clear[step], goal)} against one network"
    return step, f"{_article(step).capitalize()} is kept: {gained}."


def _article(step: str) -> str:
    return f"an {step}" if step == ENSEMBLE else f"a {step}"


def _points(gain: Gain, goal: Goal) -> str:
    verb, unit = "gains" if gain.gain >= 0 else "loses", " points" if goal.unit == "%" else ""
    return f"{verb} {abs(gain.gain):.2f} ± {gain.standard_error:.2f}{unit}"
