"""How many labels are doubted, by whom and on which evidence, in words."""

from dataclasses import replace

import pytest
from reporting.examples import TEN_CLASSES

from class_uncertainty.posthoc.label_issues import LabelIssue
from class_uncertainty.reporting import label_issue_view

OLD = LabelIssue(1, "wolf", "dog", 0.012, 0.98, "")
NEW = LabelIssue(1, "wolf", "dog", 0.012, 0.98, "", "1.png", p_wrong=0.97, votes=2, near_label=1, near_guess=17)


@pytest.mark.parametrize(
    ("issues", "witnesses", "sentence"),
    [
        ((), None, ""),  # not looked for
        ((), 1, "None of 1,386 training labels is more likely wrong than right, judged by one network that never"),
        ((OLD,), None, "1 of 1,386 training labels is more likely wrong than right, judged by networks that never"),
        ((NEW, NEW), 3, "2 of 1,386 training labels are more likely wrong than right, judged by 3 networks that never"),
    ],
)
def test_the_summary_counts_labels_and_networks(issues, witnesses, sentence):
    report = replace(TEN_CLASSES, label_issues=issues, witnesses=witnesses, counts=(1000, 386))
    summary = label_issue_view.summary(report)
    assert summary.startswith(sentence)
    assert ("nearest" in summary) == (NEW in issues)


def test_the_evidence_is_votes_and_neighbours():
    report = replace(TEN_CLASSES, witnesses=3)
    assert label_issue_view.evidence(NEW, report) == ["97 % likely wrong", "2 of 3 networks", "17 of 20 nearest"]
    alone = replace(NEW, p_wrong=0.9999, votes=1, near_guess=None)
    assert label_issue_view.evidence(alone, replace(report, witnesses=1)) == [
        "over 99 % likely wrong",
        "1 of 1 network",
    ]
