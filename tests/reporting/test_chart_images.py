"""A process of its own draws the charts: whatever ends it costs the charts, not the page."""

import inspect
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest
from reporting.examples import method_row

from class_uncertainty import InputError, MachineFault
from class_uncertainty.reporting import chart_images, html_page
from class_uncertainty.reporting.chart_images import DrawingFailed, draw
from class_uncertainty.reporting.section import Section

AXIS = {"field": "a", "type": "quantitative"}
CHART = ("svg", {"mark": "bar", "data": {"values": [{"a": 1}]}, "encoding": {"x": AXIS}})

SECTION = Section("digits", (), (method_row("naive", 12.34), method_row("cb-rs", 11.0)), 0)  # one draws no chart


@pytest.fixture(autouse=True)
def all_is_drawn(monkeypatch):
    """Scripts too, which other tests bundle once."""
    monkeypatch.setattr(chart_images, "_run", inspect.unwrap(chart_images._run))


def replaced(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """Another script in the place of the one that draws."""
    (folder / "chart_process.py").write_text(script)
    monkeypatch.setattr(chart_images, "__file__", str(folder / "chart_images.py"))


def test_one_process_draws_all(monkeypatch):
    commands, popen = [], subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda command, **options: commands.append(command) or popen(command, **options)
    )
    assert draw([]) == []
    svg, png, script = draw([CHART, ("png", CHART[1]), ("js", {})])
    assert (svg[:4], png[:4], b"vegaEmbed" in script) == (b"<svg", b"\x89PNG", True)
    assert len(commands) == 1


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
def test_what_ended_the_process_is_named(tmp_path, monkeypatch, script, fact):
    replaced(monkeypatch, tmp_path, script)
    monkeypatch.setattr(chart_images, "TIMEOUT", 2)
    with pytest.raises(DrawingFailed, match=fact):
        draw([CHART])


def test_a_process_that_cannot_be_started_is_named(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(DrawingFailed, match="No such file"):
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


def test_an_invalid_chart_is_named():
    with pytest.raises(DrawingFailed, match="TypeError"):
        draw([("svg", {"mark": "no mark"})])


def test_the_page_without_charts_has_its_tables_and_says_why(tmp_path, monkeypatch, caplog):
    replaced(monkeypatch, tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGABRT)")
    assert html_page.write([SECTION], tmp_path / "report.html") == [tmp_path / "report.html"]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "SIGABRT" in page
    assert "<svg" not in page
    assert "<figure class=" not in page
    assert "vegaEmbed=" not in page
    assert "12.34" in page
    (message,) = caplog.messages
    assert [fact for fact in ("SIGABRT", "report.html", "ulimit -v") if fact not in message] == []
    assert "\n" not in message


def test_figures_that_cannot_be_drawn_are_a_machine_fault_after_the_page(tmp_path, monkeypatch, caplog):
    replaced(monkeypatch, tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGABRT)")
    with pytest.raises(MachineFault, match="SIGABRT"):
        html_page.write([SECTION], tmp_path / "report.html", tmp_path / "figures")
    assert (tmp_path / "report.html").exists()
    assert not (tmp_path / "figures").exists()
    assert not caplog.messages  # one sentence


def test_a_package_that_is_not_installed_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(InputError, match="pip install vl-convert-python"):
        draw([CHART])
