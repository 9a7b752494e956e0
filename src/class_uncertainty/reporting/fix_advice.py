"""What to do where a fix does not help, or not clearly: one sentence, for the page and for a terminal."""

import shlex
from statistics import fmean

import numpy as np

from class_uncertainty.posthoc.fix_report import NAIVE, FixReport
from class_uncertainty.reporting.ladder_view import aim_values
from class_uncertainty.text import amount_of
from class_uncertainty.training.candidate import Candidate

LEARNT = 0.15  # of the way from guessing to no error: who has come less far has learnt little
TABLES = "more rows, or columns that tell the classes apart"  # all kinds of models were tried
OTHERS = "more examples or --epochs, another --recipe or --network, or for images --backbone"


def fix_advice(report: FixReport) -> str:
    """The first that holds: little was learnt, nothing was gained, or a gain is unclear and its price is clear.

    "" where none does.
    """
    naive = next((Candidate(step.candidate) for step in report.ladder if step.name == NAIVE), Candidate("naive"))
    guessing, error = 100 * (1 - 1 / len(report.classes)), fmean(report.after.errors)
    if report.goal in ("mean", "worst") and error > (1 - LEARNT) * guessing:
        little = f"Little was learnt: the class-mean error is {error:.0f} %, and by guessing {guessing:.0f} %"
        return f"{little}. First find a model that learns: {TABLES if naive.kind else OTHERS}."
    if report.step == NAIVE:  # which the reason that is given says
        return ""
    if report.keeps_naive:  # on folds, what was chosen without them may differ from it
        saved = "What this fix saves is the naive model: the chosen adjustment changes none of its decisions"
        return "" if improved(report) else f"The {report.aim} did not fall. {saved}. 'cu compare' shows other methods."
    if not improved(report):
        saved = "What this fix saves is the kept model, not the naive one"
        return f"The {report.aim} did not fall. {saved}: for that, run {_command(report, naive)}, or see 'cu compare'."
    if harm := _clear_price(report):
        unclear = f"The gain in {report.aim} is not clear, but its price is: {harm}"
        more = "more --trainings may find a clearer gain"
        return f"{unclear}. To keep the naive model, run {_command(report, naive)}; {more}."
    return ""


def improved(report: FixReport) -> bool:
    """Whether what the goal measures is lower after than before, on average over the seeds."""
    before, after = map(np.mean, aim_values(report))
    return bool(after < before)


def _clear_price(report: FixReport) -> str:
    """What clearly gets worse where what the goal measures does not clearly fall; "" for nothing.

    The worst classes have no interval: they clearly get better only where the error of a class clearly falls.
    """
    cost, change = report.price, report.change
    if cost is None or (change is None and report.goal != "worst"):  # as stored by earlier versions
        return ""
    if change.is_clear_fall if change else cost.fallen:
        return ""
    risen = [name for name, of in (("overall", cost.overall), ("class-mean", cost.mean)) if of.is_clear_rise]
    if risen:
        return f"the {risen[0]} error clearly rises"
    return f"the error of {amount_of(cost.risen, 'class', 'classes')} clearly rises" if cost.risen else ""


def _command(report: FixReport, naive: Candidate) -> str:
    """How to get the model that stands before the fix."""
    kind, rest = (f" --recipe {naive.kind}", "") if naive.kind else ("", ", with the same --recipe and --epochs")
    rate = f" --lr {report.lr:g}" if not naive.kind or {"lr", "rate"} & naive.fields.keys() else ""
    command = f"cu train {shlex.quote(report.data)}{kind}{rate} --save MODEL"
    if report.by_cost:  # a network that was only trained does not decide by them
        options = f"--candidates {shlex.quote(naive.name)} --goal {shlex.quote(report.goal)}"
        command = f"cu fix {shlex.quote(report.data)} {options} --save MODEL"
    return f"{command}{rest}"
