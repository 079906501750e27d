"""How large a report is, how long it takes to write, and when it is usable in a browser.

    python -m benchmarks.report_size [--variants 8] [--browser PATH]

Usable means: the summary is on the screen, controls answer, and the figures in view are drawn. Prints one line
a figure. The limits are 8 MB and 2 s for 8 variants, and 2 s to write everything for 3.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import msgspec

from perfkit.analysis.model.suite import Analysis
from perfkit_reports.document.weight import Weight
from perfkit_reports.render.report_files import write_document
from perfkit_reports.subjects.suite.suite_document import build_document
from tests.fixtures.sample_analysis import realistic

OPS = 60  # rows of the table a variant, as a real trace has after grouping; most are dots of the roofline too
LAUNCHES = 5


def sized(variants: int) -> Analysis:
    """The sample with `variants` fully measured variants of `OPS` ops each."""
    sample = realistic()
    whole = [variant for variant in sample.variants if variant.ops]
    made = []
    for number in range(variants):
        variant = whole[number % len(whole)]
        rows = tuple(variant.ops[row % len(variant.ops)] for row in range(OPS))
        trace = msgspec.structs.replace(variant.trace, ops=rows)
        name = variant.name if number < len(whole) else f"{variant.name}:copy={number}"
        made.append(msgspec.structs.replace(variant, name=name, is_baseline=number == 0, trace=trace))
    return msgspec.structs.replace(sample, variants=tuple(made))


def usable_s(report: Path, browser_path: str, width: int) -> tuple[float, float]:
    """Seconds from navigation until something is painted, and until the page is usable, by the page's own clock."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--headless", "--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto(report.as_uri())
        page.wait_for_function("document.documentElement.dataset.ready === 'true'")
        painted, usable = page.evaluate(
            "['first-contentful-paint', 'usable'].map(name => performance.getEntriesByName(name)[0].startTime / 1e3)"
        )
        browser.close()
    return painted, usable


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", type=int, default=8)
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        start, cpu = time.perf_counter(), time.process_time()
        write_document(build_document(sized(3)), Path(folder) / "three", figures=Weight.BRIEF)
        print(
            f"write everything for 3 variants: {time.perf_counter() - start:.2f} s, "
            f"{time.process_time() - cpu:.2f} s of CPU, imports included"
        )
        write_document(build_document(sized(options.variants)), Path(folder) / "all", figures=Weight.BRIEF)
        report = Path(folder) / "all" / "report.html"
        print(f"report.html of {options.variants} variants: {report.stat().st_size / 1e6:.2f} MB")
        if options.browser is None:
            print("no browser was found; name one with --browser")
            return
        for width in (1440, 390):
            runs = [usable_s(report, options.browser, width) for _ in range(LAUNCHES)]
            painted, usable = (statistics.median(series) for series in zip(*runs, strict=True))
            print(f"{width} px: painted after {painted:.2f} s, usable after {usable:.2f} s (median of {LAUNCHES})")


if __name__ == "__main__":
    main()
