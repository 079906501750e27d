"""Draws the pictures of docs/images. They need Chromium, and playwright (make dev).

python -m benchmarks.pictures                              the report of the example trace: needs no measurement
python -m benchmarks.pictures --bench DIR --loop DIR --check DIR    those of measured runs, from their reports:
    perfkit bench --technique amp,ckpt --workload gpt:size=nano --out DIR
    perfkit run --out DIR train.py
    perfkit check --against-ref REF --workload train.py:build --out DIR
"""

import argparse
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[1]
TRACE = ROOT / "examples" / "h100_qwen1.5_forward.json.gz"
IMAGES = ROOT / "docs" / "images"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
NARROW = 800  # pixels
MARGIN = 20  # pixels around a section
ALIKE = 18  # of 765: colors that differ by less are one
COLORS = 256  # of a saved picture: pages are flat, and files a third of the size


def main() -> None:
    """Draw the pictures of the folders that are given, of the example trace where none is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    drawings = {"bench": of_bench, "loop": of_loop, "check": of_check}
    for name in drawings:
        parser.add_argument(f"--{name}", type=Path, metavar="DIR")
    given = {name: folder for name, folder in vars(parser.parse_args()).items() if folder is not None}
    executable = next((path for path in map(shutil.which, BROWSERS) if path), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable)
        for name, report in given.items():
            drawings[name](browser, report)
        if not given:
            command = [sys.executable, "-m", "perfkit_cli", "analyze", str(TRACE), "--out", folder, "--quiet"]
            subprocess.run(command, check=True)
            of_trace(browser, Path(folder))
        browser.close()


def of_trace(browser: Browser, folder: Path) -> None:
    """The beginning of the report on a trace, and sections of it."""
    page = opened(browser, folder, 1440, 1500)
    page.locator("#timeline canvas").first.wait_for()
    page.wait_for_timeout(500)  # drawn with the next frames
    page.locator("main").screenshot(path=IMAGES / "analyze.png")
    for section, name in (("timeline", "timeline"), ("roofline", "trace_roofline"), ("savings", "trace_win")):
        page.locator(f"#{section}").scroll_into_view_if_needed()
        if section == "roofline":
            page.locator("#roofline .main-svg").first.wait_for()
        page.wait_for_timeout(500)
        draw_part(page, f"#{section}", IMAGES / f"{name}.png")
    page.goto(f"{page.url.partition('#')[0]}#flame")
    page.locator("#flame .flame").first.wait_for()
    page.wait_for_timeout(500)
    draw_part(page, "#flame", IMAGES / "flame.png")
    for name, height in (("trace_roofline", None), ("trace_win", 700), ("flame", None), ("timeline", None)):
        save_small(IMAGES / f"{name}.png", height)
    save_small(IMAGES / "analyze.png", 1500)


def of_bench(browser: Browser, folder: Path) -> None:
    """The beginning of a benchmark's report, its roofline, and its memory at the peak and over a step."""
    page = opened(browser, folder, 1440, 1000)
    page.screenshot(path=IMAGES / "report.png")
    roofline = page.locator("figure:has([data-figure=roofline])")
    roofline.scroll_into_view_if_needed()
    roofline.locator(".main-svg").first.wait_for()
    page.wait_for_timeout(500)  # drawn with the next frames
    roofline.screenshot(path=IMAGES / "roofline.png")
    page.set_viewport_size({"width": NARROW, "height": 1000})  # figures stand below each other
    page.goto(f"{page.url.partition('#')[0]}#memory")  # unfolds it
    page.wait_for_timeout(500)
    parts = []
    for name in ("memory-peak", "memory-timeline-0"):
        figure = page.locator(f"figure:has([data-figure={name}])")
        figure.scroll_into_view_if_needed()
        figure.locator(".main-svg").first.wait_for()
        parts.append(Image.open(io.BytesIO(figure.screenshot())))
    both = Image.new(
        "RGB", (max(part.width for part in parts), sum(part.height + 12 for part in parts) - 12), "#f7f7f5"
    )
    both.paste(parts[0], (0, 0))
    both.paste(parts[1], (0, parts[0].height + 12))
    both.save(IMAGES / "memory.png")
    for name in ("report", "roofline", "memory"):
        save_small(IMAGES / f"{name}.png")


def of_loop(browser: Browser, folder: Path) -> None:
    """The beginning of the report on a loop."""
    opened(browser, folder, 1280, 1150).screenshot(path=IMAGES / "attach.png")
    save_small(IMAGES / "attach.png")


def of_check(browser: Browser, folder: Path) -> None:
    """A check's verdict, what stands out, and its quantities."""
    opened(browser, folder, 1300, 1000).locator("main").screenshot(path=IMAGES / "check.png")
    save_small(IMAGES / "check.png", 1690)


def opened(browser: Browser, folder: Path, width: int, height: int) -> Page:
    """The page of a report, ready."""
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(f"file://{(folder / 'report.html').absolute()}")
    page.locator("html[data-ready=true]").wait_for()
    return page


def draw_part(page: Page, selector: str, picture: Path) -> None:
    """A part of a page with a margin, but below it, where it has its own."""
    box = page.locator(selector).first.bounding_box()
    assert box is not None, selector
    above = page.evaluate("scrollY")
    clip = {
        "x": box["x"] - MARGIN,
        "y": box["y"] + above - MARGIN,
        "width": box["width"] + 2 * MARGIN,
        "height": box["height"] + MARGIN,
    }
    page.screenshot(path=picture, clip=clip, full_page=True)


def save_small(picture: Path, height: int | None = None) -> None:
    """Keep the first pixels, and fewer colors."""
    with Image.open(picture) as image:
        cut = np.asarray(image.convert("RGB").crop((0, 0, image.width, min(height or image.height, image.height))))
    colors, which, counts = np.unique(cut.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    kept = choose_palette(colors[np.argsort(-counts)].astype(int))
    nearest = np.abs(colors.astype(int)[:, None] - kept[None]).sum(axis=2).argmin(axis=1).astype(np.uint8)
    small = Image.fromarray(nearest[which].reshape(cut.shape[:2]), "P")
    small.putpalette(kept.astype(np.uint8).tobytes())
    small.save(picture, optimize=True)


def choose_palette(colors: npt.NDArray[np.int_]) -> npt.NDArray[np.int_]:
    """The most frequent colors (rows, in this order) that differ: small legends keep theirs, shades of letters go."""
    kept: list[npt.NDArray[np.int_]] = []
    for color in colors:
        if all(np.abs(color - other).sum() > ALIKE for other in kept):
            kept.append(color)
        if len(kept) == COLORS:
            break
    return np.stack(kept)


if __name__ == "__main__":
    main()
