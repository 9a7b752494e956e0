"""docs/report.png: the first screen of the page of `cu demo`, in Chromium.

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
BOTTOM = "answer(document.querySelector('.first').getBoundingClientRect().bottom)"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        demo = [sys.executable, "-m", "class_uncertainty", "demo", "--folder", folder]
        subprocess.run(demo, check=True, stdout=subprocess.DEVNULL)
        page = Path(folder) / "report.html"
        bottom = run_in(page, BOTTOM, size=(WIDTH, 900))
        picture = Image.open(io.BytesIO(take_picture(page, (WIDTH, round(bottom) + MARGIN))))
    part = picture.convert("RGB").crop((0, 0, WIDTH, round(bottom) + MARGIN))
    part.quantize(COLOURS).save(IMAGE, optimize=True)
    print(f"wrote {IMAGE}: {part.width} x {part.height} pixels, {IMAGE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
