"""Charts are drawn in a process of their own: whatever ends it costs the charts, not the page."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

from class_uncertainty import InputError, MachineFault
from class_uncertainty.reporting import drawing, report
from class_uncertainty.reporting.drawing import Undrawn, draw
from class_uncertainty.reporting.tables import MethodRow, Section

CHART = ("svg", {"mark": "bar", "data": {"values": [{"a": 1}]}, "encoding": {"x": {"field": "a", "type": "quantitative"}}})

SCORES = dict.fromkeys(("error", "top1", "many", "medium", "few", "worst", "spread", "nll", "ece"), 12.34)
ROW = MethodRow(method="naive", lr=0.1, runs=1, **SCORES, error_sd=None, diverged=0, gain=None, counterpart="", aso=None, aso_warning=None)
SECTION = Section("digits", (), (ROW,), 0)


def replaced(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """Another script in the place of the one that draws."""
    (folder / "chart_process.py").write_text(script)
    monkeypatch.setattr(drawing, "__file__", str(folder / "drawing.py"))


def test_one_process_draws_all_and_imports_little(monkeypatch):
    calls, ended = [], drawing._ended
    monkeypatch.setattr(drawing, "_ended", lambda command, request: calls.append(command) or ended(command, request))
    assert draw([]) == []
    svg, png, script = draw([CHART, ("png", CHART[1]), ("js", {})])
    assert (svg[:4], png[:4], b"vegaEmbed" in script) == (b"<svg", b"\x89PNG", True)
    assert len(calls) == 1
    code = f"import runpy, sys; runpy.run_path({calls[0][-1]!r}); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert "json" in loaded
    assert not {"torch", "numpy", "altair", "class_uncertainty"} & set(loaded)


@pytest.mark.parametrize(
    ("script", "fact"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGTRAP)", "SIGTRAP"),
        ("raise ImportError('libv8.so: failed to map segment')", "failed to map segment"),
        ("import sys; sys.exit(7)", "exit code 7"),
        ("import sys, time; sys.stdin.read(); time.sleep(60)", "longer than 2 s"),
    ],
    ids=["signal", "traceback", "silent", "slow"],
)
def test_what_ends_the_process_is_said(tmp_path, monkeypatch, script, fact):
    replaced(monkeypatch, tmp_path, script)
    monkeypatch.setattr(drawing, "TIMEOUT", 2)
    with pytest.raises(Undrawn, match=fact):
        draw([CHART])


def test_a_process_that_cannot_be_started_is_said(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(Undrawn, match="No such file"):
        draw([CHART])


def test_ctrl_c_ends_the_process_too(tmp_path, monkeypatch):
    script = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    replaced(monkeypatch, tmp_path, script)

    def interrupt():
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        draw([CHART])
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_chart_that_is_none_is_said():
    with pytest.raises(Undrawn, match="TypeError"):
        draw([("svg", {"mark": "no mark"})])


def test_the_page_without_charts_has_its_tables_and_says_why(tmp_path, monkeypatch, caplog):
    replaced(monkeypatch, tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGABRT)")
    assert report.write([SECTION], tmp_path / "report.html") == [tmp_path / "report.html"]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "SIGABRT" in page
    assert "<svg" not in page
    assert "<figure class=" not in page
    assert "vegaEmbed=" not in page
    assert "12.34" in page
    (told,) = caplog.messages
    assert [fact for fact in ("SIGABRT", "report.html", "ulimit -v") if fact not in told] == []
    assert "\n" not in told


def test_figures_that_cannot_be_drawn_are_a_machine_fault_after_the_page(tmp_path, monkeypatch, caplog):
    replaced(monkeypatch, tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGABRT)")
    with pytest.raises(MachineFault, match="SIGABRT"):
        report.write([SECTION], tmp_path / "report.html", tmp_path / "figures")
    assert (tmp_path / "report.html").exists()
    assert not (tmp_path / "figures").exists()
    assert not caplog.messages  # one sentence


def test_a_package_that_is_not_installed_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(InputError, match="pip install vl-convert-python"):
        draw([CHART])
