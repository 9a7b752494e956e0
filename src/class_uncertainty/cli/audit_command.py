"""`cu audit`: what is wrong with which class, from saved predictions of any framework."""

import json
from pathlib import Path
from typing import Annotated

from class_uncertainty.cli.options import EXPLAIN, FORCE, JSON, QUIET, VERBOSE, argument, optional
from class_uncertainty.errors import InputError
from class_uncertainty.io import blank_mark, check_ending, check_replaceable, origin, signed, write_whole
from class_uncertainty.text import tell

BROKEN = 4  # the exit code where a condition breaks the gate
PREDICTIONS = (
    "A .npz file with probabilities (or logits) and labels, or a .csv or .parquet file with p(CLASS) and label."
)
REPORT = "An HTML page to write: verdicts, classes, confusions, examples."
SAVE = "A JSON file to write, for --baseline of later audits."
COUNTS = "Training examples of each class: 500,60,7 or a file; by default those in FILE, or counted from its labels."
PRIOR = "How frequent classes are where the model is used: 0.2,0.8 or a file; by default equally."
COSTS = "Costs of wrong predictions, a row per true class and a column per predicted class: adds the mean cost."
FAIL_IF = (
    "Exit with 4 if this holds, such as 'worst_class_error > 40', 'error[cat] > 30' or 'worse_classes > 0'; repeatable."
)
BASELINE = "An earlier audit, written by --save: shows what got better or worse."


def audit(
    predictions: Annotated[Path, argument(PREDICTIONS, "FILE")],
    report: Annotated[Path | None, optional(REPORT, "PAGE.html")] = None,
    save: Annotated[Path | None, optional(SAVE, "AUDIT.json")] = None,
    fail_if: Annotated[list[str] | None, optional(FAIL_IF, "CONDITION")] = None,
    baseline: Annotated[Path | None, optional(BASELINE, "AUDIT.json")] = None,
    counts: Annotated[str | None, optional(COUNTS, "NUMBERS|FILE")] = None,
    prior: Annotated[str | None, optional(PRIOR, "NUMBERS|FILE")] = None,
    costs: Annotated[Path | None, optional(COSTS, "FILE.csv")] = None,
    force: FORCE = False,
    verbose: VERBOSE = False,
    quiet: QUIET = False,
    explain: EXPLAIN = False,
    as_json: JSON = False,
) -> None:
    """Show which classes saved predictions fail on, and why.

    np.savez("test.npz", probabilities=p, labels=y)
    cu audit test.npz
    cu audit new.npz --baseline old.json --fail-if "worse_classes > 0"

    Works with models of any framework and trains nothing. FILE is a .npz, .csv or .parquet file, such as those of
    cu predict, with examples that the model was not trained on.
    """
    from class_uncertainty.posthoc.gate import broken, parse_condition
    from class_uncertainty.posthoc.goal import read_numbers
    from class_uncertainty.posthoc.run_changes import read_record, run_changes
    from class_uncertainty.posthoc.written_predictions import files_read
    from class_uncertainty.reporting import audit_page, terminal
    from class_uncertainty.reporting.audit_view import audit_lines
    from class_uncertainty.workflows.audit import audit_file

    verbosity = terminal.Verbosity.of(verbose, quiet)
    conditions = [parse_condition(text, has_baseline=baseline is not None) for text in fail_if or []]
    earlier = read_record(baseline) if baseline else None
    if report and save and report.resolve() == save.resolve():
        raise InputError(f"--report and --save both name {save}: give two names.")
    given_counts = None if counts is None else read_numbers(counts, "--counts")
    given_prior = None if prior is None else read_numbers(prior, "--prior")
    files = [file.resolve() for file in (predictions, costs, baseline) if file]
    made_from = origin(predictions, files, given_counts, given_prior, fail_if)
    read = [*files_read(predictions), baseline, costs, counts, prior]
    if report:
        audit_page.check_place(report, made_from, force, read)
    if save:
        check_ending(save, "audit", (".json", ""))
        check_replaceable(save, made_from, force, read=read)
    audited = audit_file(predictions, counts=given_counts, prior=given_prior, costs=costs)
    changes = run_changes(audited.record, earlier) if earlier else None
    lines = broken(conditions, audited.record, changes)
    document = audited.document()
    document |= {"conditions": [one.text for one in conditions], "broken": lines}
    document |= {"changes": changes.document()} if changes else {}
    files = []
    if report:
        gate = audit_page.Gate(tuple(one.text for one in conditions), tuple(lines))
        files.append(audit_page.write(audited, report, changes, gate, made_from))
    if save:
        kept = json.dumps(terminal.finite(document) | {"mark": blank_mark(made_from)}, indent=1)
        write_whole(save, signed(kept.encode(), made_from))
        files.append(save)
    if as_json:
        terminal.print_json(document)
    else:
        terminal.show_lines(audit_lines(audited, verbosity, terminal.line_width(), changes, files), explain)
    for line in lines:
        tell(line)
    if lines:
        raise SystemExit(BROKEN)
