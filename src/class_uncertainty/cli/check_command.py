"""`cu check`: problems in data."""

from typing import TYPE_CHECKING, Annotated

import typer

from class_uncertainty.cli import options
from class_uncertainty.cli.options import COLUMNS, Command, shared
from class_uncertainty.data.finding import KINDS
from class_uncertainty.errors import unknown
from class_uncertainty.limits import check_address_space

if TYPE_CHECKING:
    from class_uncertainty.data.data_check import Check

FAIL_ON = f"Exit with 4 if there are problems of these kinds: {', '.join(KINDS)}."
LISTED = 5  # examples of a finding that are printed


@shared(*COLUMNS, "root", "as_json")
def check(
    data: options.DATA, command: Command, fail_on: Annotated[str | None, options.optional(FAIL_ON, "KIND,...")] = None
) -> None:
    """Find problems in data before training.

    cu check photos
    cu check photos --fail-on two-labels,test-copies

    Lists all problems at once, each with the option that solves it: copies with two labels, across splits and within
    training; classes with few or no test examples; unreadable files; missing values; columns of identifiers, of one
    value, or that mix numbers and text; groups in both splits; class names that look the same; images smaller than
    the backbone takes. In scripts, --fail-on exits with 4 if any of its kinds is found.
    """
    kinds = options.split("kind", fail_on, _check_kind) if fail_on is not None else []
    check_address_space()
    from class_uncertainty.data.data_check import check_dataset
    from class_uncertainty.reporting import terminal
    from class_uncertainty.reporting.section import describe_data
    from class_uncertainty.workflows.load_named import load_to_check

    with terminal.progress_bars("images") as bars:
        dataset, found, side = load_to_check(data, command.root, bars)
    checked = check_dataset(dataset, found, side)
    if command.as_json:
        terminal.print_json(checked.document())
    else:
        terminal.say(describe_data(dataset), *_lines(checked), width=terminal.line_width())
    if any(finding.kind in kinds for finding in checked.findings):
        raise typer.Exit(4)


def _check_kind(kind: str) -> str:
    if kind not in KINDS:
        raise unknown("kind of problem", kind, KINDS)
    return kind


def _lines(checked: "Check") -> list[str]:
    if not checked.findings:
        return ["No problems were found."]
    lines = list[str]()
    for finding in checked.findings:
        lines.append(f"! {finding.kind}: {finding}")
        if " = " in "".join(finding.examples[:1]):  # others stand in the sentence
            lines += [f"    {example}" for example in finding.examples[:LISTED]]
            if len(finding.examples) > LISTED:
                lines.append(f"    and {len(finding.examples) - LISTED:,} more, which --json lists")
    return lines
