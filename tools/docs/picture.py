"""Draws docs/report.png, the picture of the report in the README, from the report of a run. Needs Chromium or Chrome.

python -m tools.docs.picture runs/training-.../report.html
"""

import argparse
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image, ImageChops

BROWSERS = ("chromium", "google-chrome", "chrome")
TARGET = Path(__file__).parents[2] / "docs/report.png"
#: CSS pixels, about the width of a README, so that text keeps its size; and pixels of the picture in one of them.
WIDTH, SCALE = 940, 1.5
#: Keeps the decision's first paragraph, the figures and two curves of the page.
ARRANGE = """
<style>
  main { padding: 20px 24px; max-width: none; display: grid; gap: 14px; }
  main > :not(.kept) { display: none; }
  .kept { margin: 0; }
  .figures th .note { display: none; }
  .verdict > :not(.word):not(p:first-of-type) { display: none; }
  .verdict p { max-width: none; }
  .row { display: grid; grid-auto-flow: column; grid-auto-columns: 1fr; gap: 14px; }
</style>
<script>
  const main = document.querySelector("main"), row = document.createElement("div");
  const figures = [...main.querySelectorAll("figure")];
  const named = title => figures.find(figure => figure.querySelector("h3").textContent.trim() == title);
  row.className = "row";
  row.append(named("Learning curve"), named("Calibration"));
  const kept = [main.querySelector(".verdict"), main.querySelector("table.figures").closest(".panel"), row];
  kept.forEach(part => part.classList.add("kept"));
  main.append(...kept);
</script>
"""


def crop(shot: Path, target: Path) -> None:
    """Writes the picture without the empty page below its last panel."""
    with Image.open(shot) as image:
        picture = image.convert("RGB")
    corner = picture.getpixel((0, picture.height - 1))
    box = ImageChops.difference(picture, Image.new("RGB", picture.size, corner)).getbbox()
    bottom = box[3] if box else picture.height
    picture.crop((0, 0, picture.width, bottom + round(20 * SCALE))).save(target, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.docs.picture", description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("--out", type=Path, default=TARGET)
    options = parser.parse_args()
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        parser.error(f"none of {', '.join(BROWSERS)} is installed")
    with TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(options.report.read_text(encoding="utf-8") + ARRANGE, encoding="utf-8")
        shot = Path(folder) / "page.png"
        flags = (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--force-device-scale-factor={SCALE}",
        )
        command = [browser, *flags, f"--window-size={WIDTH},2000", f"--screenshot={shot}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
        crop(shot, options.out)
    print(options.out)


if __name__ == "__main__":
    main()
