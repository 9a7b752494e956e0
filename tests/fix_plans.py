"""Plans of a fix, for tests of what follows them."""

from collections.abc import Sequence
from typing import Any

import class_uncertainty as cu
from class_uncertainty.posthoc.goal import Goal
from class_uncertainty.workflows.fix_plan import FixPlan, SearchPlan

TRIES = SearchPlan(candidates=1, finalists=1, folds=1, last_folds=5, members=2, ensemble=True)


def fix_plan(
    goal: Goal, candidates: Sequence[cu.Candidate] = (), search: SearchPlan = TRIES, **changes: Any
) -> FixPlan:
    """A plan for that goal, of one network by 20 trainings unless changes say otherwise."""
    settled: dict[str, Any] = {"deploy": "one", "seeds": 1, "trainings": 20.0, "measuring": 0.0}
    settled |= {"why_no_trial": "", "averages_kinds": False, "checks_labels": False, "made_from": ""}
    return FixPlan(candidates=tuple(candidates), goal=goal, search=search, **settled | changes)
