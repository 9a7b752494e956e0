"""The formats of cu.export and `cu export`: the endings of their files, the default first."""

from typing import Literal, get_args

ExportFormat = Literal["onnx", "pt2"]
FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
