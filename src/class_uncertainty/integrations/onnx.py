"""Exported programs in ONNX, run by onnxruntime."""

import json
import logging
import warnings
from typing import Any

import torch

from class_uncertainty.errors import missing
from class_uncertainty.integrations.exportable import INPUT, OUTPUTS, Exportable
from class_uncertainty.integrations.onnx_table import COLUMNS, some_rows, take_columns

EXTRA = "onnx"


def check_installed() -> None:
    """Refuse, before any work, where a package is missing."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        try:
            __import__(package)
        except ImportError:
            raise missing(package, extra=EXTRA) from None


def to_onnx(program: Exportable, mark: str = "") -> bytes:
    """The program with its description and a mark, as an .onnx file holds it."""
    batch = torch.export.Dim("batch", min=1)
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # of what torch's exporter deprecates in itself
            exported = torch.onnx.export(
                program,
                (program.examples(3),),
                dynamo=True,
                input_names=[INPUT],
                output_names=list(OUTPUTS),
                dynamic_shapes={INPUT: {0: batch}},
                verbose=False,
            )
    finally:
        logger.setLevel(level)
    assert exported is not None  # with dynamo it is a program
    document = exported.model_proto
    document.producer_name = "class-uncertainty"
    about, encoding = program.about() | {"mark": mark}, program.model.encoding
    if encoding is not None:
        about |= {"columns": json.dumps(take_columns(document, encoding)), "input": json.dumps(COLUMNS)}
    for name, text in about.items():
        document.metadata_props.add(key=name, value=text)
    return document.SerializeToString()


def run_onnx(content: bytes, program: Exportable, number: int) -> tuple[Any, ...]:
    """The outputs of a file for the examples of a program, by onnxruntime on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    if program.model.encoding is None:
        return tuple(session.run(None, {INPUT: program.examples(number).numpy()}))
    names = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    rows = some_rows(program.model.encoding, number)
    return tuple(session.run(None, {names[name]: values for name, values in rows.items()}))
