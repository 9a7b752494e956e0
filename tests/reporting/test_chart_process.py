"""The process that draws: it imports little, and libraries cannot print into its answer."""

import json
import subprocess
import sys
from base64 import b64decode

from class_uncertainty.reporting import chart_process
from class_uncertainty.reporting.chart_style import vegalite_version

SCRIPT = chart_process.__file__


def test_it_imports_little():
    code = f"import runpy, sys; runpy.run_path({SCRIPT!r}); print(*sys.modules)"
    command = [sys.executable, "-P", "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert "json" in loaded
    assert not {"torch", "numpy", "altair", "class_uncertainty"} & set(loaded)


def test_what_a_library_prints_is_no_part_of_the_answer(tmp_path):
    library = """
import os
def vegalite_to_svg(spec, vl_version):
    os.write(1, b"noise")
    return f"<svg>{spec['mark']} {vl_version}</svg>"
"""
    (tmp_path / "vl_convert.py").write_text(library)
    request = json.dumps({"version": vegalite_version(), "requests": [("svg", {"mark": "bar"})]}).encode()
    environment = {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-P", SCRIPT]
    done = subprocess.run(command, input=request, capture_output=True, check=True, timeout=60, env=environment)
    assert [b64decode(image).decode() for image in json.loads(done.stdout)] == [f"<svg>bar {vegalite_version()}</svg>"]
    assert b"noise" in done.stderr
