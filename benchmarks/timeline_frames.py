"""How long a frame of the timeline takes with many slices, in a browser on this machine.

    python -m benchmarks.timeline_frames [--slices 100000] [--browser PATH]

A step of as many slices on 8 threads (6 deep) and 8 streams, with 4 counters, is opened, and moved in by every frame:
sideways, in from the whole step to a thousandth of it, and out again. What takes less than
16.7 ms can be shown 60 times a second.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from playwright.sync_api import CDPSession

from perfkit.analysis.model import timeline as words
from perfkit.analysis.model.timeline import CounterLine, SliceLabels, StepTimeline, TimelineLane
from perfkit.analysis.timeline.column_packing import pack_column, take_differences
from perfkit.cost.calls.op_call import OpClass
from perfkit_reports.render.html import render
from perfkit_reports.subjects.trace import build_document, timeline
from tests.fixtures import sample_trace_analysis

FRAMES = 240  # of each movement
LABELS = 400
SAMPLES = 2_000  # of a counter
DEPTH = 6
_MOVES = """async ([name, frames]) => {
  const { view, paint, step } = document.querySelector(".timeline").timeline;
  const whole = step.length_ns;
  const places = {
    sideways: (part) => [part * 0.9 * whole, (part * 0.9 + 0.1) * whole],
    in: (part) => [0.5 * whole * (1 - 0.001 ** part), whole * (1 - 0.5 * (1 - 0.001 ** part))],
    out: (part) => [0.5 * whole * (1 - 0.001 ** (1 - part)), whole * (1 - 0.5 * (1 - 0.001 ** (1 - part)))],
    whole: (part) => [-0.01 * whole * part, whole],
  };
  const drawing = [], between = [];
  let last = 0;
  for (let frame = 0; frame < frames; frame += 1) {
    const now = await new Promise(requestAnimationFrame);
    if (last) between.push(now - last);
    last = now;
    [view.left, view.right] = places[name](frame / frames);
    const begun = performance.now();
    paint();
    drawing.push(performance.now() - begun);
  }
  return [drawing, between];
}"""


def step_of(slices: int) -> StepTimeline:
    """A step of so many slices of random lengths, half on threads and half on streams."""
    random = np.random.default_rng(0)
    texts = (*(f"aten::op_{number}" for number in range(LABELS)), *(kind.value for kind in OpClass))
    kinds = random.integers(LABELS, len(texts), LABELS)
    nothing = pack_column(np.full(LABELS, -1))
    labels = SliceLabels(
        name=pack_column(np.arange(LABELS)), kind=pack_column(kinds), op=nothing, module=nothing, shapes=nothing
    )
    each, length = slices // 16, 1_000_000_000
    lanes = [
        *(_lane(random, words.THREAD, f"thread {number}", each, DEPTH, length) for number in range(8)),
        *(_lane(random, words.STREAM, f"stream {number}", each, 1, length) for number in range(8)),
    ]
    return StepTimeline(
        number=1,
        selection="",
        start_s=0.0,
        length_ns=length,
        texts=texts,
        labels=labels,
        lanes=tuple(lanes),
        counters=tuple(_line(random, f"counter {number} (%)", len(lanes) - 1, length) for number in range(4)),
    )


def _lane(random: np.random.Generator, kind: str, name: str, slices: int, depth: int, length: int) -> TimelineLane:
    """Rows of slices that follow each other, with pauses between them."""
    rows = []
    for level in range(depth):
        count = slices // depth
        edges = np.sort(random.integers(0, length, 2 * count))
        rows.append((edges[::2], edges[1::2] - edges[::2], np.full(count, level)))
    start, duration, levels = (np.concatenate(column) for column in zip(*rows, strict=True))
    order = np.argsort(start, kind="stable")
    return TimelineLane(
        kind=kind,
        name=name,
        slices=len(start),
        busy_ns=0,
        start_ns=pack_column(take_differences(start[order])),
        duration_ns=pack_column(duration[order]),
        depth=pack_column(levels[order]),
        label=pack_column(random.integers(0, LABELS, len(start))),
    )


def _line(random: np.random.Generator, name: str, below: int, length: int) -> CounterLine:
    time = np.arange(0, length, length // SAMPLES)
    values = tuple(random.uniform(0, 100, len(time)).round(2).tolist())
    return CounterLine(
        name=name, unit="%", below=below, samples=len(time), holds_ns=2 * length // SAMPLES,
        time_ns=pack_column(take_differences(time)), value=values,
    )  # fmt: skip


def _busy_s(measuring: CDPSession) -> float:
    """CPU time of the page: on a machine that does other things, too, time alone tells of those."""
    metrics = {metric["name"]: metric["value"] for metric in measuring.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slices", type=int, default=100_000)
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome"))
    options = parser.parse_args()
    timeline.ROOM = 10**9
    step = step_of(options.slices)
    sample = sample_trace_analysis.alone()
    analysis = replace(sample, traces=(replace(sample.traces[0], timelines=(step,)),))
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "report.html"
        page_file.write_text(render(build_document(analysis)), encoding="utf-8")
        print(f"{step.slices:,} slices, {page_file.stat().st_size / 1e6:.2f} MB")
        browser = playwright.chromium.launch(executable_path=options.browser, args=["--headless", "--no-sandbox"])
        print(f"Chromium {browser.version}")
        for width in (1440, 390):
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.goto(page_file.as_uri())
            page.locator(".timeline[data-step='0']").wait_for()
            page.locator(".lanes canvas").scroll_into_view_if_needed()
            for fold in page.locator(".heads button[aria-expanded=false]").all()[:4]:
                fold.click()  # rows with names take longer than folded ones
            measuring = page.context.new_cdp_session(page)
            measuring.send("Performance.enable", {"timeDomain": "threadTicks"})
            for name in ("whole", "sideways", "in", "out"):
                before = _busy_s(measuring)
                drawing, between = page.evaluate(_MOVES, [name, FRAMES])
                own_ms = (_busy_s(measuring) - before) / FRAMES * 1e3
                told = ", ".join(f"{np.percentile(drawing, part):.1f}" for part in (50, 95, 100))
                print(
                    f"{width} px, {name}: {own_ms:.1f} ms of CPU a frame, drawn in {told} ms (median, 95 %, longest); "
                    f"{1000 / np.mean(between):.0f} frames a second"
                )
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
