"""Charts as pictures, drawn in a process of their own: V8 ends any process that it lacks memory in, and under `ulimit -v` it often does."""

import json
import re
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from class_uncertainty.errors import InputError
from class_uncertainty.reporting import figures

TIMEOUT = 600  # seconds for all charts of a report, which take two or three
Picture = tuple[str, dict[str, Any]]  # a format and what to draw: ("svg", spec), ("png", spec), or ("js", {}) for Vega's scripts as one


class Undrawn(Exception):
    """Why the process that draws has drawn nothing, as a clause."""


def draw(pictures: Sequence[Picture]) -> list[bytes]:
    """The content of each, in order; one process for all of them."""
    if not pictures:
        return []
    if find_spec("vl_convert") is None:
        raise InputError("charts need vl-convert-python, which is not installed: run 'pip install vl-convert-python'.")
    request = json.dumps({"version": figures.vegalite(), "pictures": pictures}).encode()
    script = Path(__file__).with_name("chart_process.py")
    try:
        code, answer, printed = _ended([sys.executable, "-P", str(script)], request)  # -P: its folder is no place to import from
    except subprocess.TimeoutExpired:
        raise Undrawn(f"the process that draws them took longer than {TIMEOUT} s") from None
    except OSError as error:
        raise Undrawn(f"the process that draws them could not be started ({error.strerror})") from None
    if code:
        raise Undrawn(f"the process that draws them was ended by {_cause(code, printed)}")
    return [b64decode(picture) for picture in json.loads(answer)]


def _ended(command: list[str], request: bytes) -> tuple[int, bytes, bytes]:
    """(exit code, stdout, stderr). Nothing outlives a Ctrl-C: subprocess.run would not wait for what it kills then."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            answer, printed = process.communicate(request, timeout=TIMEOUT)
        except BaseException:
            process.kill()
            process.wait()
            raise
    return process.returncode, answer, printed


def _cause(code: int, printed: bytes) -> str:
    """A signal, as V8's SIGTRAP where address space is short, or the last line of a traceback that names an error."""
    with suppress(ValueError):
        return signal.Signals(-code).name
    errors = [line.strip() for line in printed.decode(errors="replace").splitlines() if re.match(r"\w+(Error|Exception)\b", line)]
    return errors[-1].rstrip(".:") if errors else f"exit code {code}"
