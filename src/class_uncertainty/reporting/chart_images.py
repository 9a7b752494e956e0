"""Charts as images, drawn in a separate process.

V8 ends a process that runs out of memory, which often happens under `ulimit -v`.
"""

import json
import re
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from class_uncertainty.errors import missing
from class_uncertainty.io import blank_mark, check_replaceable, checksum, signed, write_together
from class_uncertainty.reporting.chart_style import vegalite_version

TIMEOUT = 600  # seconds for all charts of a report, which take two or three
ChartRequest = tuple[str, dict[str, Any]]  # ("svg", spec), ("png", spec), or ("js", {}) for Vega's scripts as one


class DrawingFailed(Exception):
    """Why no chart was drawn, as a clause."""


def draw(requests: Sequence[ChartRequest]) -> list[bytes]:
    """The content of each image, in order. One process draws all of them."""
    if not requests:
        return []
    if find_spec("vl_convert") is None:
        raise missing("vl-convert-python", needed_by="charts need")
    document = json.dumps({"version": vegalite_version(), "requests": requests}).encode()
    # -P: Python does not import from the script's folder
    command = [sys.executable, "-P", str(Path(__file__).with_name("chart_process.py"))]
    try:
        code, answer, errors = _run(command, document)
    except subprocess.TimeoutExpired:
        raise DrawingFailed(f"the process that draws them took longer than {TIMEOUT} s") from None
    except OSError as error:
        raise DrawingFailed(f"the process that draws them could not be started ({error.strerror})") from None
    if code:
        raise DrawingFailed(f"the process that draws them was ended by {_cause(code, errors)}")
    return [b64decode(image) for image in json.loads(answer)]


def check_figures(figures: Iterable[Path], made_from: str, force: bool) -> None:
    """Refuse to replace anything but these figures; a PNG file is known by the SVG file beside it."""
    for file in figures:
        beside = file.with_suffix(".svg") if file.suffix == ".png" else None
        check_replaceable(file, made_from, force, beside)


def write_figures(contents: Mapping[Path, bytes], made_from: str) -> list[Path]:
    """Write charts as they were drawn; an SVG file has the mark of both, and the checksum of the PNG file beside it."""
    for file, content in contents.items():
        if file.suffix == ".svg":
            image = file.with_suffix(".png")
            comment = f"<!-- {blank_mark(made_from)}, beside it {checksum(contents[image])} -->"
            write_together({image: [contents[image]], file: [signed(content + comment.encode(), made_from)]})
    return list(contents)


def _run(command: list[str], document: bytes) -> tuple[int, bytes, bytes]:
    """(exit code, stdout, stderr). After Ctrl-C it waits until the process is gone, as subprocess.run would not."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            answer, errors = process.communicate(document, timeout=TIMEOUT)
        except BaseException:
            process.kill()
            process.wait()
            raise
    return process.returncode, answer, errors


def _cause(code: int, errors: bytes) -> str:
    """A signal, such as V8's SIGTRAP where address space is short, or the last line of a traceback."""
    with suppress(ValueError):
        return signal.Signals(-code).name
    lines = errors.decode(errors="replace").splitlines()
    named = [line.strip().rstrip(".:") for line in lines if re.match(r"\w+(Error|Exception)\b", line)]
    return named[-1] if named else f"exit code {code}"
