"""Labels worth a look, in words: how many there are, who doubts them, and the evidence of each."""

from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.posthoc.label_issues import NEAREST, LabelIssue

ADVICE = "Look before you change a label: unusual examples of a class are listed too."


def summary(report: FixReport) -> str:
    """How many labels are doubted, and by whom; "" where they were not checked."""
    issues = report.label_issues
    if report.witnesses is None and not issues:
        return ""
    number = f"{len(issues):,}" if issues else "None"
    verb = "are" if len(issues) > 1 else "is"
    near = " and by the labels of the nearest examples" if any(issue.near_guess is not None for issue in issues) else ""
    networks = "one network" if report.witnesses == 1 else f"{report.witnesses or ''} networks".strip()
    judged = f"judged by {networks} that never saw them{near}"
    return f"{number} of {sum(report.counts):,} training labels {verb} more likely wrong than right, {judged}."


def evidence(issue: LabelIssue, report: FixReport) -> list[str]:
    """How sure it is, the votes for the guess, and the nearest examples labelled so."""
    percent = f"{100 * issue.p_wrong:.0f}" if issue.p_wrong < 0.995 else "over 99"
    votes = f"{issue.votes} of {report.witnesses} network{'' if report.witnesses == 1 else 's'}"
    near = [] if issue.near_guess is None else [f"{issue.near_guess} of {NEAREST} nearest"]
    return [f"{percent} % likely wrong", votes, *near]
