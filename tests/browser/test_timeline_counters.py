"""Sampled counters in the timeline: lanes below the streams, values at a time, means of a range."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser

from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.trace.time.step_windows import find_trace_span
from perfkit.trace.readers.trace_reader import read_trace
from perfkit_reports.render import html
from perfkit_reports.subjects.registry import build_document
from tests.browser.accessibility import list_violations
from tests.browser.conftest import follow

pytestmark = pytest.mark.browser

RECORDED = Path(__file__).parents[1] / "fixtures/recorded/monitor/bert.pftrace"
STILL = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
TIMELINE = "document.querySelector('.timeline').timeline"
CLOCK = f"{TIMELINE}.step.lanes.find((lane) => lane.name === 'SM Active')"


@pytest.fixture(scope="module")
def opened(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html.render(build_document(analyze_traces([str(RECORDED)], jobs=1))), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    yield follow(page, path)
    page.close()


@pytest.fixture
def page(opened: Any) -> Any:
    found = opened.page
    found.set_viewport_size({"width": 1440, "height": 1000})
    found.evaluate("perfkitSelection.set('')")
    found.locator(".timeline[data-step='0']").wait_for()
    found.locator(".lanes canvas").scroll_into_view_if_needed()
    found.locator("[data-all]").click()
    found.locator(".lanes canvas").focus()
    if found.locator("[data-sums]").count():
        found.keyboard.press("Escape")
    found.evaluate(STILL)
    yield found
    assert opened.complaints == []


def test_each_counter_is_a_lane_below_the_stream(page: Any) -> None:
    names = page.locator(".heads > *").all_inner_texts()
    stream = next(place for place, name in enumerate(names) if name.endswith("stream 7"))
    below = [name.removeprefix("▾ ").removeprefix("▸ ") for name in names[stream + 1 : stream + 7]]
    assert below == ["Power", "SM Clock", "Memory Clock", "SM Active", "HBM Read", "Cycles (Current Kernel)"]


def test_the_value_at_the_pointer_is_read(page: Any) -> None:
    place = page.evaluate(f"{TIMELINE}.place({CLOCK}, 30)")
    page.mouse.move(*place)
    tip = page.locator("[data-tip]")
    tip.wait_for(state="visible")
    value = page.evaluate(f"{CLOCK}.values[30]")
    assert f"{value:.4g} %" in tip.inner_text()


def test_a_range_has_the_mean_of_each_counter(page: Any) -> None:
    box = page.locator(".lanes canvas").bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 500, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 800, box["y"] + 60, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    left, right = page.evaluate(f"[{TIMELINE}.range.left, {TIMELINE}.range.right]")
    start_s = page.evaluate(f"{TIMELINE}.step.start_s")
    trace = read_trace(RECORDED)
    samples, first = trace.counters, find_trace_span(trace)[0] + start_s * 1e9
    mine = samples.counter == samples.names.index("SM Active (%)")
    begin, value = samples.time_ns[mine] - first, samples.value[mine]
    time = np.minimum(np.append(begin[1:], right), right) - np.maximum(begin, left)
    inside = (time > 0) & (begin < right)
    mean = float((value[inside] * time[inside]).sum() / time[inside].sum())
    row = page.locator("[data-sums='tracks'] tbody tr", has_text="SM Active").inner_text().split("\t")
    assert float(row[1].removesuffix(" %")) == pytest.approx(mean, rel=1e-3)
    assert len(row) == 4


def test_keys_reach_samples_and_kernels_have_the_means_meanwhile(page: Any) -> None:
    drawer = page.locator("#drawer")
    kinds = []
    page.keyboard.press("Enter")
    for _ in range(80):
        page.keyboard.press("j")
        place = page.evaluate("perfkitSelection.get()").split(".")[1].split("/")[0]
        kinds.append(page.evaluate(f"{TIMELINE}.step.lanes[{place}].kind"))
        if kinds[-1] == "stream":
            stream = drawer.inner_text()
        if kinds[-1] == "counter":
            break
    assert kinds[-2:] == ["stream", "counter"]
    assert "Power" in drawer.inner_text()
    first = drawer.inner_text()
    page.keyboard.press(".")
    assert drawer.inner_text() != first
    assert "350 W" in stream or "Power" not in stream  # the first kernel may have no sample


def test_a_lane_of_a_counter_folds(page: Any) -> None:
    head = page.locator(".heads button", has_text="Power")
    assert head.get_attribute("aria-expanded") == "true"
    high = page.locator(".lanes canvas").bounding_box()["height"]
    head.click()
    page.evaluate(STILL)
    assert page.locator(".lanes canvas").bounding_box()["height"] < high
    page.locator(".heads button", has_text="Power").click()


def test_a_phone_has_them_too(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.evaluate(STILL)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".heads button", has_text="SM Active").is_visible()


@pytest.mark.parametrize("width", [1440, 390])
def test_axe_finds_nothing(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate(STILL)
    page.keyboard.press("Enter")
    page.keyboard.press("m")
    assert list_violations(page) == []
    page.emulate_media(color_scheme="light")
