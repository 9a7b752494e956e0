"""Chromium without a window: runs a script inside a page and returns what it says. For checks and benchmarks of pages.

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
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "page.html"
        copy.write_text(f"{html}<script>{answer}\n{script}</script></body>{end}")
        scheme = [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
        budget = ["--virtual-time-budget=20000"] if wait else []
        place = [f"--user-data-dir={folder}/profile", f"--window-size={size[0]},{size[1]}"]
        command = [chromium(), *OPTIONS, *scheme, *budget, *place, "--dump-dom", copy.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    match = RESULT.search(done.stdout)
    if not match:
        raise RuntimeError(f"{page} gave no answer: {done.stderr[-500:]}")
    return json.loads(unescape(match[1]))
