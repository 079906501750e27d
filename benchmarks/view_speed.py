"""How long `perfkit view` takes to list a folder of many runs, and its page to filter them.

    python benchmarks/view_speed.py [--runs 500] [--browser]

Makes small suites with the files that a real one of six variants has (the reports of most are there, some failed, some
run), and times, in one process: listing them, making the page, and one refresh as a browser asks for it. With --browser
also the page in headless Chromium: from the request to the drawn table, and from a key to the filtered one.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from perfkit.core.files import write_json
from perfkit.core.record.quantity import Measurement, QuantityOrigin, make_measurement
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec, parse_variants
from perfkit.store.layout import RUN_FILE, SPEC_FILE, SUITE_FILE, Suite, SuiteRun, get_run_path
from perfkit.store.listing import list_runs
from perfkit.store.summary import REPORT_FILE, SUMMARY_FILE, ReportSummary, RowFigures, VariantOutcome
from perfkit_reports.view.server import open_server

VARIANTS = ("baseline", "amp", "ckpt", "flash", "amp+ckpt", "amp+flash")
REPEATS = 3
LIMIT_S = 1.0


def write_suite(folder: Path, number: int) -> None:
    """One suite; every tenth has no report yet, so that its state is told by the runs' own files."""
    created = f"2026-{1 + number // 28 % 12:02}-{1 + number % 28:02}T{number % 24:02}:00:00Z"
    entries = []
    for variant in VARIANTS:
        for repeat in range(REPEATS):
            path = get_run_path(variant, repeat)
            spec = RunSpec(
                workload=WorkloadSpec(name="gpt", params={"size": ("nano", "small", "medium")[number % 3]}),
                techniques=parse_variants(variant)[0],
                launch=LaunchSpec(),
            )
            status = RunStatus.OUT_OF_MEMORY if number % 7 == 0 and variant == "flash" else RunStatus.OK
            write_json(folder / path / SPEC_FILE, spec)
            write_json(folder / path / RUN_FILE, RunResult(status=status))
            (folder / path / "rank0").mkdir()
            entries.append(SuiteRun(variant=variant, repeat=repeat, path=path))
    suite = Suite(
        created_at=created, perfkit="0.1.0", command="perfkit bench", variants=VARIANTS,
        baselines=dict.fromkeys(VARIANTS[1:], "baseline"), runs=tuple(entries),
    )  # fmt: skip
    write_json(folder / SUITE_FILE, suite)
    if number % 10 == 9:
        return
    outcomes = tuple(
        VariantOutcome(
            variant=name, status=RunStatus.OUT_OF_MEMORY if number % 7 == 0 and name == "flash" else RunStatus.OK
        )
        for name in VARIANTS
    )
    figures = RowFigures(
        subject="amp+flash",
        step=make_measurement(0.01 + number * 1e-4, "s", "benchmark"),
        throughput=make_measurement(1e5 / (1 + number), "tokens/s", "benchmark"),
        peak=make_measurement(2**30 + number * 2**20, "bytes", "benchmark"),
        mfu=Measurement(value=0.3 + number * 1e-4, unit="1", how=QuantityOrigin.MODELED, source="benchmark"),
    )
    name = ("gpt:size=nano", "gpt:size=small", "gpt:size=medium")[number % 3]
    summary = ReportSummary(
        kind="suite", name=name, created_at=created, device="Test GPU", outcomes=outcomes, runs=len(entries),
        figures=figures,
    )  # fmt: skip
    write_json(folder / SUMMARY_FILE, summary)
    (folder / REPORT_FILE).write_text("<!doctype html><title>a report</title>")


def timed(action: Callable[[], object], times: int = 7, pause_s: float = 0.0) -> str:
    """Wall and CPU time of several calls, after one that is not counted."""
    action()
    walls, cpus = [], []
    for _ in range(times):
        time.sleep(pause_s)
        wall, cpu = time.perf_counter(), time.process_time()
        action()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    verdict = "" if statistics.median(walls) < LIMIT_S else f"   over {LIMIT_S} s"
    return f"median {statistics.median(walls) * 1e3:7.1f} ms wall, {statistics.median(cpus) * 1e3:7.1f} ms CPU{verdict}"


def in_browser(url: str) -> None:
    from playwright.sync_api import sync_playwright

    executable = os.environ.get("PERFKIT_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        opened, filtered = [], []
        for _ in range(5):
            start = time.perf_counter()
            page.goto(url)
            page.wait_for_function("document.documentElement.dataset.ready === 'true'")
            opened.append(time.perf_counter() - start)
            # From the input event to the layout of what is left, as the page itself sees it.
            filtered.append(
                page.evaluate(
                    """() => {
                        const box = document.getElementById("words");
                        const begin = performance.now();
                        box.value = "medium";
                        box.dispatchEvent(new Event("input"));
                        document.body.offsetHeight;
                        return performance.now() - begin;
                    }"""
                )
            )
        print(f"page in the browser, request to table  median {statistics.median(opened) * 1e3:7.1f} ms")
        print(f"filter in the browser                  median {statistics.median(filtered):7.1f} ms")
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--browser", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(options.runs):
            write_suite(folder / f"week{number // 50:02}" / f"run-{number:04}", number)
        assert len(list_runs(folder)) == options.runs
        print(
            f"list_runs, {options.runs} suites of {len(VARIANTS) * REPEATS} runs   {timed(lambda: list_runs(folder))}"
        )
        with open_server(folder, "127.0.0.1", 0) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()

            def get() -> bytes:
                with urllib.request.urlopen(server.url) as answer:
                    data: bytes = answer.read()
                return data

            print(f"the page, {len(get()):,} bytes               {timed(get, pause_s=1.1)}")  # a list is kept for 1 s
            if options.browser:
                in_browser(server.url)
            server.shutdown()


if __name__ == "__main__":
    main()
