"""Draws those pictures of docs/images that need no measurement: the report of the example trace.

    python -m benchmarks.pictures          needs Chromium, and playwright (make dev)

The others show measured runs; they are taken by hand.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
TRACE = ROOT / "examples" / "h100_qwen1.5_forward.json.gz"
IMAGES = ROOT / "docs" / "images"


def main() -> None:
    """Analyse the trace, open its report, and save the pictures."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        command = [sys.executable, "-m", "perfkit_cli", "analyze", str(TRACE), "--out", f"{folder}/report", "--quiet"]
        subprocess.run(command, check=True)
        chromium = playwright.chromium.launch(executable_path=browser)
        page = chromium.new_page(viewport={"width": 1440, "height": 1200})
        page.goto(f"file://{folder}/report/report.html")
        page.locator("html[data-ready=true]").wait_for()
        page.locator("#roofline").scroll_into_view_if_needed()
        page.locator("#roofline .main-svg").first.wait_for()
        page.locator("#roofline").screenshot(path=IMAGES / "trace_roofline.png")
        page.locator("#savings").screenshot(path=IMAGES / "trace_win.png")
        page.locator("#flame").scroll_into_view_if_needed()
        page.locator("#flame").screenshot(path=IMAGES / "flame.png")
        page.locator("#timeline").scroll_into_view_if_needed()
        page.locator("#timeline [data-step]").wait_for()
        page.wait_for_timeout(500)  # drawn with the next frames
        page.locator("#timeline").screenshot(path=IMAGES / "timeline.png")
        beginning(IMAGES / "trace_win.png", 700)
        page.evaluate("""() => document.querySelectorAll("main section:not(#summary):not(#timeline):not(#roofline)")
            .forEach((section) => { section.style.display = "none"; })""")
        page.evaluate("scrollTo(0, 0)")
        page.locator("main").screenshot(path=IMAGES / "analyze.png")
        beginning(IMAGES / "analyze.png", 1900)
        chromium.close()


def beginning(picture: Path, height: int) -> None:
    """Keep the first pixels."""
    with Image.open(picture) as image:
        image.crop((0, 0, image.width, min(height, image.height))).save(picture)


if __name__ == "__main__":
    main()
