"""The examples of an audit, for its page."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from class_uncertainty.data.images import SIDE, common_size, decode
from class_uncertainty.metrics import Outcomes
from class_uncertainty.reporting.page_examples import PIXELS, PageExamples, Pixels
from class_uncertainty.workflows.audit import Audit


def audit_examples(audit: Audit) -> PageExamples:
    return PageExamples(
        classes=[row.name for row in audit.classes],
        outcomes=Outcomes(audit.labels, audit.guesses, audit.p_label, audit.p_guess),
        name_of=audit.name_of,
        pixels=lambda chosen: _pixels(audit, chosen),
        file_of=lambda i: _file(audit, i),
        doubts=None if audit.noise is None else np.where(audit.noise.is_issue, audit.noise.p_wrong, 0.0),
        texts={c: f"{row.verdict}." for c, row in enumerate(audit.classes) if row.verdict},
    )


def _pixels(audit: Audit, chosen: Sequence[int]) -> Pixels:
    """Of examples; files that cannot be read as images are left out, and linked all the same."""
    if audit.images is None or not chosen:
        return []
    if isinstance(audit.images, np.ndarray):
        return [(i, audit.images[i]) for i in chosen]
    sources = [(audit.images[i].read_bytes, str(audit.images[i])) for i in chosen]
    size, skipped = common_size(sources), dict[int, str]()
    size = (PIXELS, PIXELS) if size == (SIDE, SIDE) else size
    decoded = [pixels for batch in decode(sources, size, 3, skipped) for pixels in batch]
    return list(zip([i for place, i in enumerate(chosen) if place not in skipped], decoded, strict=True))


def _file(audit: Audit, i: int) -> Path | None:
    return None if audit.images is None or isinstance(audit.images, np.ndarray) else audit.images[i]
