"""docs/report.png: the report of `cu demo` in Chromium, from what was wrong to what each step bought.

Run from the repository's root: python tools/report_image.py
"""

import io
import subprocess
import sys
import tempfile
from pathlib import Path

from browser import run_in, take_picture
from PIL import Image

IMAGE = Path(__file__).parents[1] / "docs" / "report.png"
WIDTH, MARGIN, COLOURS = 1240, 16, 64
EDGES = """addEventListener("load", () => setTimeout(() => answer([
    document.querySelector("h3").getBoundingClientRect().top,
    document.querySelector("figure.ladder").getBoundingClientRect().bottom,
]), 5000));"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        demo = [sys.executable, "-m", "class_uncertainty", "demo", "--folder", folder]
        subprocess.run(demo, check=True, stdout=subprocess.DEVNULL)
        page = Path(folder) / "report.html"
        top, bottom = run_in(page, EDGES, size=(WIDTH, 900), wait=True)
        picture = Image.open(io.BytesIO(take_picture(page, (WIDTH, round(bottom) + MARGIN))))
    part = picture.convert("RGB").crop((0, round(top) - MARGIN, WIDTH, round(bottom) + MARGIN))
    part.quantize(COLOURS).save(IMAGE, optimize=True)
    print(f"wrote {IMAGE}: {part.width} x {part.height} pixels, {IMAGE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
