"""cu.export(): a model as one file that other programs run, without this package."""

import io
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from class_uncertainty.checks import check
from class_uncertainty.errors import InputError, blame_machine, means_too_little_memory, unknown
from class_uncertainty.integrations.export_formats import FORMATS, ExportFormat
from class_uncertainty.integrations.exportable import INPUT, Exportable, whole
from class_uncertainty.integrations.onnx import check_installed, run_onnx, to_onnx
from class_uncertainty.integrations.onnx_table import COLUMNS
from class_uncertainty.io import (
    blank_mark,
    check_ending,
    check_replaceable,
    origin,
    signed,
    signed_archive,
    write_together,
)
from class_uncertainty.text import reason
from class_uncertainty.training.model_files import restore
from class_uncertainty.training.networks.classifier import Deployed
from class_uncertainty.training.saved_model import files_of
from class_uncertainty.workflows.model import AnyModel, module_of, origin_of

TOLERANCE = 1e-5  # between the probabilities of the file and those of the model
ROUNDING = 1e-6  # of the largest logit: what float32 leaves of the precision, where logits are above 10
BATCHES = (1, 32)  # sizes that the file is checked with; it takes any


@dataclass(frozen=True)
class Exported:
    """What `cu.export` wrote."""

    file: Path
    to: str
    classes: tuple[str, ...]
    input: str  # type and shape
    difference: float  # the largest between its probabilities and the model's

    def document(self) -> dict[str, Any]:
        return asdict(self) | {"file": str(self.file)}


def export(
    model: str | Path | AnyModel,
    path: str | Path,
    *,
    to: ExportFormat | None = None,
    trust_code: bool = False,
    force: bool = False,
) -> Exported:
    """Write a model as one program: raw inputs in, probabilities and labels out.

    Preprocessing, softmax and decision are inside, and the names of the classes with them; where features come from a
    backbone, that is inside too, and images go in. The file is run before it is written, and refused if any
    probability differs from the model's by more than 1e-5 (or, where logits are above 10, by a millionth of them).

    Parameters
    ----------
    model : path, Fix, Trained, Model or module
        What --save wrote, what `cu.fix`, `cu.train` or `cu.restore` returned, or the `model` of a Fix.
    path : path
        The file to write.
    to : "onnx" or "pt2", optional
        ONNX, run by onnxruntime, or what torch.export.load reads. By default what the name of the file ends in, or
        ONNX.
    trust_code : bool
        As in `cu.restore`, for a model that names code.
    force : bool
        Whether to replace the export of another model at this path.

    Returns
    -------
    Exported
        `file`, `classes`, `input` (its type and shape) and `difference`.

    Examples
    --------
    >>> data = cu.Data(np.eye(8), ["cat", "dog"] * 4)
    >>> trained = cu.train(data, recipe=cu.Recipe("mlp", epochs=1, batch=4))
    >>> exported = cu.export(trained, "model.pt2")
    >>> exported.input, exported.classes
    ('float32 (batch, 8)', ('cat', 'dog'))
    """
    if isinstance(model, str):
        check(Path, model=model)
    check(Path, path=path)
    check(str | None, to=to)
    if to is not None and to not in FORMATS:
        raise unknown("format", to, FORMATS)
    file = Path(path)
    formats = [to] if to else FORMATS
    check_ending(file, "exported model", [*(f".{name}" for name in formats), ""])
    if not to:
        to = "pt2" if file.suffix.lower() == ".pt2" else "onnx"
    if to == "onnx":
        check_installed()
    made_from = exported_from(model, to)
    read: tuple[Path, ...] = ()
    if isinstance(model, str | Path):
        read = files_of(model)
    check_replaceable(file, made_from, force, read=read)
    if isinstance(model, str | Path):
        model = restore(model, trust_code)
    model = whole(module_of(model))
    program = Exportable(model, by_matrices=to == "onnx")
    content = _traced(program, to, made_from)
    compared = [_compared(model, program, content, to, size) for size in BATCHES]
    difference = max(difference for difference, _ in compared)
    if not all(difference <= allowed for difference, allowed in compared):
        raise InputError(f"as {to}, the model's probabilities differ by {difference:.3g}: {file} was not written.")
    write_together({file: [content]})
    takes = COLUMNS if to == "onnx" and model.encoding is not None else program.input
    return Exported(file, to, model.classes, takes, difference)


def exported_from(model: str | Path | AnyModel, to: str) -> str:
    """The origin of an export: the place of the model or, of one at hand, its own origin."""
    if isinstance(model, str | Path):
        return origin(model, files_of(model)[0].resolve(), to)
    return origin("a network", origin_of(module_of(model)), to)


def _traced(program: Exportable, to: str, made_from: str) -> bytes:
    """The program with its mark."""
    try:
        if to == "onnx":
            return signed(to_onnx(program, blank_mark(made_from)), made_from)
        return signed_archive(_to_pt2(program), made_from)
    except Exception as error:  # a network of someone's own may do anything
        blame_machine(to, error)
        if means_too_little_memory(error):
            raise
        network = program.model.rebuild["network"]
        why = reason(error)[:200]
        raise InputError(f"network {network!r} cannot be exported to {to}: {why}.") from error


def _to_pt2(program: Exportable) -> bytes:
    with torch.no_grad():
        shapes = {INPUT: {0: torch.export.Dim("batch", min=1)}}
        exported = torch.export.export(program, (program.examples(3),), dynamic_shapes=shapes)
    content = io.BytesIO()
    torch.export.save(exported, content, extra_files=program.about())
    return content.getvalue()


def _compared(model: Deployed, program: Exportable, content: bytes, to: str, size: int) -> tuple[float, float]:
    """The largest difference between the file and the model, of probabilities and of labels' worth; and the allowed."""
    with torch.no_grad():
        logits = model(inputs := program.examples(size))
        p, largest = logits.softmax(dim=1).numpy(), float(logits.abs().max())
        if to == "onnx":
            q, decided = run_onnx(content, program, size)
        else:
            loaded = torch.export.load(io.BytesIO(content)).module()
            q, decided = (output.numpy() for output in loaded(inputs))
    costs, rows = model.costs, np.arange(len(p))
    gain = p if costs is None else -p @ costs.numpy()
    lost = gain.max(axis=1) - gain[rows, decided]  # by another label than the model's: nothing, but for ties
    return float(max(np.abs(p - q).max(), lost.max())), max(TOLERANCE, ROUNDING * largest)
