"""Choice: what is kept, chosen on examples that the choosing networks never saw.

Where folds are judged, each fold has a Choice that was made without it; the fold None stands for the test split.
"""

from dataclasses import dataclass, replace

from class_uncertainty.posthoc.adjustment import Adjustment
from class_uncertainty.posthoc.goal import Goal, value_digits
from class_uncertainty.posthoc.ladder import ADJUSTED, ENSEMBLE, NAIVE, SINGLE, STUDENT
from class_uncertainty.runs.context import Context
from class_uncertainty.training import Teaching
from class_uncertainty.training.candidate import Candidate
from class_uncertainty.training.folds import Fold, fold_indices
from class_uncertainty.workflows.mixture import Mixture, best_of_kinds
from class_uncertainty.workflows.search import Search, preferred
from class_uncertainty.workflows.trial import Gain, Trial


@dataclass(frozen=True, eq=False)
class Part:
    """One model of an ensemble across kinds: how it trains, and how its probabilities are corrected."""

    candidate: Candidate
    adjustment: Adjustment


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen on examples that the choosing networks never saw; nothing is chosen on test data.

    Attributes
    ----------
    candidate : Candidate
        How networks train.
    step : str
        Of the ladder: "naive", "adjusted" or "best single" for one network, "ensemble" or "student".
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
    parts : tuple of Part
        The models of an ensemble across kinds, if that is kept.

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
    parts: tuple[Part, ...] = ()

    def __repr__(self) -> str:
        taught = f", taught to {self.student.name}" if self.student and self.step == STUDENT else ""
        taus = ", ".join(f"{tau:g}" for tau in self.taus)
        return f"Choice({self.trained_by} ({self.step}), tau {taus}{taught})"

    @property
    def candidates(self) -> list[Candidate]:
        """What is trained: the best one, and what it is averaged with."""
        return list(dict.fromkeys([self.candidate, *(part.candidate for part in self.parts)]))

    @property
    def trained_by(self) -> str:
        """The names of the candidates that are kept."""
        return " + ".join(part.candidate.name for part in self.parts) or self.candidate.name

    @property
    def tau(self) -> float:
        """Of the candidate."""
        return self.adjustment.tau

    @property
    def taus(self) -> tuple[float, ...]:
        """Of all models that are kept, in the order of `trained_by`."""
        return tuple(part.adjustment.tau for part in self.parts) or (self.tau,)

    @property
    def single(self) -> str:
        """The step that one network of the candidate is."""
        if self.step == NAIVE:
            return NAIVE
        return ADJUSTED if self.candidate.is_naive else SINGLE


Choices = dict[Fold, Choice]


def choose_step(
    context: Context, search: Search, trial: Trial | Mixture | str, goal: Goal, deploy: str, fold: Fold
) -> Choice:
    """The best of the finalists, and whether it is kept as one network, as several, or taught to one.

    What is chosen for a judged fold is chosen without it, though the networks asked about the other folds have learnt
    it. The trial decides for all folds; where there was none, it is the reason.
    """
    best, finalists, counts = search.best, list(search.finalists), context.train.counts
    if fold:
        places = fold_indices(context.train, fold)
        judged = [rest for evidence in finalists if (rest := evidence.without(places, counts, goal))]
        best, finalists = (preferred(judged, goal), judged) if judged else (best, finalists)
    adjustment = best.adjustment(counts, goal)
    if isinstance(trial, Mixture):
        choice = Choice(best.candidate, ENSEMBLE, adjustment, Teaching(tau=adjustment.tau), why=_why_mixed(trial, goal))
        if not trial.kept:
            return replace(choice, step=choice.single)
        models = best_of_kinds(finalists, best, goal)
        return replace(choice, parts=tuple(Part(one.candidate, one.adjustment(counts, goal)) for one in models))
    step, why = _step(trial, goal, deploy, best.networks.recipe.noun)
    student, cooling = None, 1.0
    if isinstance(trial, Trial) and trial.student:
        student, cooling = Candidate(trial.student), trial.cooling[trial.student]
    choice = Choice(best.candidate, step, adjustment, Teaching(tau=adjustment.tau), student, cooling, why)
    return choice if step else replace(choice, step=choice.single)


def _step(trial: Trial | str, goal: Goal, deploy: str, noun: str = "network") -> tuple[str, str]:
    """The step that gains more than a standard error on the tried fold, "" for one network, and why."""
    if isinstance(trial, str):
        kept = f"One {noun} is kept: neither an ensemble nor a student was judged on unseen examples"
        return "", f"{kept}, since {trial}."
    gains = {STUDENT: trial.students[trial.student]} if trial.student else {}
    if deploy == "ensemble":
        gains[ENSEMBLE] = trial.ensemble
    clear = {step: gain for step, gain in gains.items() if gain.clear}
    where = f"on {trial.examples:,} examples that no network of the trial saw"
    if not clear:
        tried = " and ".join(f"{_article(step)} {_points(gain, goal)}" for step, gain in gains.items())
        return "", f"One {noun} is kept: {where}, {tried or 'every student diverged'}, no clear gain."
    step = max(clear, key=lambda name: clear[name].gain)
    gained = f"{where}, it {_points(clear[step], goal)} against one network"
    return step, f"{_article(step).capitalize()} is kept: {gained}."


def _why_mixed(mixture: Mixture, goal: Goal) -> str:
    where = f"on {mixture.examples:,} examples that none of them saw"
    gained = f"{_points(mixture.gain, goal)} against the best of them"
    models = f"the mean of {len(mixture.names)} kinds of models"
    if mixture.kept:
        return f"{models.capitalize()} is kept, as none of them is clearly better: {where}, it {gained}."
    return f"One model is kept: {where}, {models} {gained}."


def _article(step: str) -> str:
    return f"an {step}" if step == ENSEMBLE else f"a {step}"


def _points(gain: Gain, goal: Goal) -> str:
    verb, unit = "gains" if gain.gain >= 0 else "loses", " points" if goal.unit == "%" else ""
    digits = value_digits(goal.unit)
    return f"{verb} {abs(gain.gain):.{digits}f} ± {gain.standard_error:.{digits}f}{unit}"
