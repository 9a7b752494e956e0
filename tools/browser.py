"""Chromium without a window: runs a script inside a page and returns what it says, or takes a picture of the page.

CHROMIUM names the program, if it is not called chromium.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from html import unescape
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions")
RESULT = re.compile(r'<meta name="result" content="([^"]*)">')
PATIENCE = 120  # seconds
BUDGET = ("--virtual-time-budget=60000",)  # on a clock that runs faster than ours
TRIES = 4  # that clock may pass before a page has drawn its charts, by chance


def chromium() -> str:
    """The program; a sentence ends the caller where there is none."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        raise SystemExit(f"pages are checked in Chromium, which is not here: install one of {', '.join(NAMES)}.")
    return found


def run_in(
    page: Path, script: str, *, size: tuple[int, int] = (1280, 900), dark: bool = False, wait: bool = False
) -> Any:
    """What `answer(value)` is called with by a script that stands at the end of the page.

    With `wait` the script may answer later, on a clock that runs faster than ours: times mean nothing then.
    """
    answer = "const answer = (value) => { const meta = document.createElement('meta'); meta.name = 'result';"
    answer += " meta.content = JSON.stringify(value); document.head.append(meta); };"
    html, _, end = page.read_text().rpartition("</body>")
    for _ in range(TRIES if wait else 1):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "page.html"
            copy.write_text(f"{html}<script>{answer}\n{script}</script></body>{end}")
            done = _open(copy, Path(folder), ["--dump-dom", *(BUDGET if wait else ())], size, dark)
        if match := RESULT.search(done.stdout):
            return json.loads(unescape(match[1]))
    raise RuntimeError(f"{page} gave no answer: {done.stderr[-500:]}")


def take_picture(page: Path, size: tuple[int, int]) -> bytes:
    """The first so many pixels of a page as PNG, once its scripts have run."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.png"
        _open(page, Path(folder), [f"--screenshot={file}", *BUDGET], size)
        return file.read_bytes()


def _open(
    page: Path, folder: Path, options: list[str], size: tuple[int, int], dark: bool = False
) -> subprocess.CompletedProcess[str]:
    scheme = [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    place = [f"--user-data-dir={folder}/profile", f"--window-size={size[0]},{size[1]}"]
    command = [chromium(), *OPTIONS, *scheme, *options, *place, page.resolve().as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
