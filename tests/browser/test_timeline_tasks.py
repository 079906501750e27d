"""Tasks of a person in the timeline of a step with thousands of kernels: find one, sum a range, go back, use keys."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser

from perfkit.analysis.model.timeline import STREAM, StepTimeline
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.timeline import dense_slices
from perfkit.analysis.timeline.lane_columns import list_label_texts, unpack_lane
from perfkit_reports.render import html
from perfkit_reports.subjects.registry import build_document
from tests.browser.conftest import follow
from tests.fixtures.traces import kernel, launch, mark, op, write_trace

pytestmark = pytest.mark.browser

KERNELS = 8_100
SHORT, SHORT_US, SHORT_AT = "void needle_kernel<float>(float*, int)", 2.0, 1_234
STILL = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
TIMELINE = "document.querySelector('.timeline').timeline"


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> StepTimeline:
    return timelines(tmp_path_factory.mktemp("trace"))[1]


def timelines(folder: Path) -> tuple[Any, StepTimeline]:
    """An analysis of a step of 8,100 kernels on two streams, one of which takes 2 us; and the step's timeline."""
    names = ("void gemm_kernel(float*)", "void softmax_warp_forward<float>(float*)", "Memset (Device)")
    events = [mark("ProfilerStep#1", 0, 13.0 * KERNELS)]
    for number in range(KERNELS):
        at = 12.0 * number
        name, duration = (SHORT, SHORT_US) if number == SHORT_AT else (names[number % 3], 6.0 + number % 5)
        events += [
            op(("aten::mm", "aten::_softmax", "aten::zero_")[number % 3], at, 5, [(64, 64), (64, 64)]),
            launch(number + 1, at + 1),
            kernel(name, number + 1, at + 20, duration, stream=7 + number % 2),
        ]
    analysis = analyze_traces([str(write_trace(folder / "trace.json.gz", events))], jobs=1)
    return analysis, analysis.traces[0].timelines[0]


@pytest.fixture(scope="module")
def opened(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("report")
    path = folder / "report.html"
    path.write_text(html.render(build_document(timelines(folder)[0])), encoding="utf-8")
    assert path.stat().st_size < 2_000_000
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    yield follow(page, path)
    page.close()


@pytest.fixture
def page(opened: Any) -> Any:
    found = opened.page
    found.set_viewport_size({"width": 1440, "height": 900})
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


def sum_kinds(step: StepTimeline, left_ns: float, right_ns: float) -> dict[str, tuple[int, float]]:
    """Slices of all streams that lie in a range and their time inside it, by kind, from the columns of the analysis."""
    kinds = np.asarray(list_label_texts(step, "kind"))
    found: dict[str, tuple[int, float]] = {}
    for lane in (lane for lane in step.lanes if lane.kind == STREAM):
        columns = unpack_lane(lane)
        inside = (columns.end_ns > left_ns) & (columns.start_ns < right_ns)
        time = np.minimum(columns.end_ns, right_ns) - np.maximum(columns.start_ns, left_ns)
        for kind in np.unique(kinds[columns.label[inside]]).tolist():
            mine = inside & (kinds[columns.label] == kind)
            count, seconds = found.get(kind, (0, 0.0))
            found[kind] = (count + int(mine.sum()), seconds + float(time[mine].sum()))
    return found


def read_sums(page: Any) -> tuple[float, float, dict[str, tuple[int, Any]]]:
    found = page.evaluate(f"(({{ left, right, kinds }}) => [left, right, kinds])({TIMELINE}.range)")
    return found[0], found[1], {row["kind"]: (row["count"], pytest.approx(row["ns"])) for row in found[2]}


def test_one_short_kernel_among_thousands_is_found_and_read(page: Any) -> None:
    page.get_by_role("searchbox", name="Search the timeline").fill("needle")
    assert page.locator(".timeline [data-count]").inner_text() == "1"
    page.keyboard.press("Enter")
    page.evaluate(STILL)
    left, right = page.evaluate(f"[{TIMELINE}.view.left, {TIMELINE}.view.right]")
    assert right - left < 100 * SHORT_US * 1e3  # it is wide enough to be seen
    drawer = page.locator("#drawer")
    assert SHORT in drawer.inner_text()
    assert "2 us" in drawer.inner_text()
    assert f"stream {7 + SHORT_AT % 2}" in drawer.inner_text()
    box = drawer.bounding_box()
    assert box["x"] > 1000  # docked at the right
    page.get_by_role("searchbox", name="Search the timeline").fill("")


def test_zooming_by_wheel_comes_to_a_single_kernel_that_a_click_selects(page: Any) -> None:
    """The short kernel is at a known time: the wheel is turned over it until it is wide enough to be hit."""
    place = f"""(() => {{
      const {{ step, place }} = {TIMELINE};
      const lane = step.lanes.find((each) => each.name === "stream {7 + SHORT_AT % 2}");
      return place(lane, lane.end.findIndex((end, slice) => end - lane.start[slice] === {SHORT_US * 1e3}));
    }})()"""
    for _ in range(40):
        page.mouse.move(*page.evaluate(place))
        page.mouse.wheel(0, -120)
        page.evaluate(STILL)
    assert page.evaluate(f"{TIMELINE}.view.right - {TIMELINE}.view.left") < 40 * SHORT_US * 1e3
    page.mouse.click(*page.evaluate(place))
    assert SHORT in page.locator("#drawer").inner_text()


def test_the_sum_of_a_range_is_that_of_the_analysis(page: Any, step: StepTimeline) -> None:
    box = page.locator(".lanes canvas").bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 400, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 620, box["y"] + 60, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    left, right, kinds = read_sums(page)
    assert kinds == sum_kinds(step, left, right)
    assert sum(count for count, _ in kinds.values()) > 100
    shown = page.locator("[data-sums='kinds'] tbody tr").all_inner_texts()
    assert {re.split(r"\t", row)[0] for row in shown} >= set(kinds)


def test_the_whole_step_as_a_range_has_the_busy_time_of_each_lane(page: Any, step: StepTimeline) -> None:
    page.get_by_role("button", name="Select range").click()
    box = page.locator(".lanes canvas").bounding_box()
    page.mouse.move(box["x"] + 151, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 60, steps=3)
    page.mouse.up()
    page.get_by_role("button", name="Select range").click()
    lanes = dict(page.evaluate(f"{TIMELINE}.range.lanes.map(({{ lane, count, busy }}) => [lane.name, [count, busy]])"))
    for lane in (lane for lane in step.lanes if lane.kind == STREAM):
        count, busy = lanes[lane.name]
        assert count == lane.slices
        assert busy == pytest.approx(lane.busy_ns)


def test_back_returns_to_where_one_was(page: Any) -> None:
    page.emulate_media(reduced_motion="reduce")
    row = page.locator("tr:is([data-key^='kernel:'], [data-key^='op:']) button.choose:visible").first
    row.scroll_into_view_if_needed()
    before = page.evaluate("scrollY")
    row.click()
    chosen = page.evaluate("perfkitSelection.get()")
    page.locator("#drawer").get_by_role("button", name="timeline").click()
    page.evaluate(STILL)
    assert page.evaluate("scrollY") != pytest.approx(before, abs=200)
    page.go_back()
    page.evaluate(STILL)
    assert page.evaluate("scrollY") == pytest.approx(before, abs=40)
    assert page.evaluate("perfkitSelection.get()") == chosen
    page.go_back()
    page.evaluate(STILL)
    assert page.locator("#drawer").is_hidden()


def test_flows_and_matches_are_followed_by_keys(page: Any) -> None:
    search = page.get_by_role("searchbox", name="Search the timeline")
    search.fill("softmax_warp")
    count = page.locator(".timeline [data-count]")
    whole = count.inner_text()
    page.locator(".lanes canvas").focus()
    name = page.locator("[data-told] code")
    page.keyboard.press("n")
    page.keyboard.press("n")
    assert count.inner_text() == f"2 of {whole}"
    kernel_name, key = name.inner_text(), page.evaluate("perfkitSelection.get()")
    page.keyboard.press("[")
    assert name.inner_text() == "cudaLaunchKernel"
    page.keyboard.press("]")
    assert (name.inner_text(), page.evaluate("perfkitSelection.get()")) == (kernel_name, key)
    page.keyboard.press("p")
    assert count.inner_text() == f"1 of {whole}"
    search.fill("")


def test_details_are_read_by_keys_and_escape_returns_to_the_lanes(page: Any) -> None:
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "drawer"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#drawer') !== null")
    page.keyboard.press("Escape")
    assert page.locator("#drawer").is_hidden()
    assert page.evaluate("document.activeElement.matches('.lanes canvas')")


def test_no_button_lies_under_the_docked_details(page: Any) -> None:
    page.keyboard.press("Enter")
    edge = page.locator("#drawer").bounding_box()["x"]
    for button in page.locator(".timeline .tools button:visible").all():
        box = button.bounding_box()
        assert box["x"] + box["width"] <= edge


def test_the_keyboard_alone_selects_moves_sums_and_clears(page: Any) -> None:
    page.keyboard.press("Enter")
    drawer = page.locator("#drawer")
    first = drawer.locator("h2").inner_text()
    page.keyboard.press(".")
    page.keyboard.press("j")
    assert drawer.locator("h2").inner_text() != first
    page.keyboard.press("m")
    assert page.locator("[data-sums]").count() == 2
    before = page.evaluate(f"{TIMELINE}.view.left")
    page.keyboard.press("f")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(f"{TIMELINE}.view.left") != before
    page.keyboard.press("Escape")
    assert drawer.is_hidden()
    page.keyboard.press("Escape")
    assert page.locator("[data-sums]").count() == 0
    page.keyboard.press("?")
    assert page.locator("dialog[open] kbd").count() > 10
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0


def test_the_canvas_is_one_stop_of_the_tab_key(page: Any) -> None:
    stops = page.locator(".timeline :is(button, input, select, summary, [tabindex='0']):visible").count()
    page.get_by_role("searchbox", name="Search the timeline").focus()
    for _ in range(stops):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.lanes canvas')"):
            break
    assert page.evaluate("document.activeElement.matches('.lanes canvas')")


def test_the_count_of_a_search_tells_drawn_matches_from_recorded_ones(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a step with too many slices the ops are merged, and every kernel stays."""
    monkeypatch.setattr(dense_slices, "MOST_SLICES", KERNELS + 1_400)
    path = tmp_path / "dense.html"
    analysis, step = timelines(tmp_path)
    assert step.merged_slices > KERNELS
    path.write_text(html.render(build_document(analysis)), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    follow(page, path).page.locator(".timeline[data-step='0']").wait_for()
    search = page.get_by_role("searchbox", name="Search the timeline")
    count = page.locator(".timeline [data-count]")
    search.fill("needle")
    assert count.inner_text() == "1"
    search.fill("cudaLaunchKernel")
    recorded = re.findall(r"[\d,]+ recorded", count.inner_text())
    assert recorded == [f"{KERNELS:,} recorded"]
    # In a part of the step one reads how many are merged there, and the command that shows each of them.
    dense = page.locator(".timeline .dense")
    assert dense.is_hidden()
    for _ in range(4):
        page.locator("[data-in]").click()
    dense.wait_for()
    page.wait_for_timeout(400)  # it is written when the view rests
    begin, end = map(float, re.search(r"--window ([\d.]+)s:([\d.]+)s", dense.inner_text()).groups())  # type: ignore[union-attr]
    left, right = page.evaluate(f"[{TIMELINE}.view.left, {TIMELINE}.view.right]")
    assert (begin, end) == (pytest.approx(left / 1e9, abs=2e-6), pytest.approx(right / 1e9, abs=2e-6))
    part = analyze_traces([str(tmp_path / "trace.json.gz")], jobs=1, window=(begin, end)).traces[0].timelines[0]
    assert (part.merged_slices, part.length_ns) == (0, pytest.approx(right - left, abs=2_000))
    page.close()


def test_a_range_over_merged_slices_has_the_sums_of_those_that_were_recorded(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, whole = timelines(tmp_path)
    monkeypatch.setattr(dense_slices, "MOST_SLICES", KERNELS // 2)
    path = tmp_path / "dense.html"
    analysis, step = timelines(tmp_path)
    assert step.merged_slices > KERNELS
    path.write_text(html.render(build_document(analysis)), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    follow(page, path).page.locator(".timeline[data-step='0']").wait_for()
    found = page.evaluate(f"timelineRange.sums({TIMELINE}.step, {{ left: 0, right: {step.length_ns} }})")
    kinds = {row["kind"]: (row["count"], pytest.approx(row["ns"], abs=1)) for row in found["kinds"]}
    assert kinds == sum_kinds(whole, 0, step.length_ns)
    busy = {row["lane"]["name"]: row["busy"] for row in found["lanes"]}
    assert all(busy[lane.name] == pytest.approx(lane.busy_ns) for lane in step.lanes if lane.kind == STREAM)
    page.close()


def test_ticks_differ_at_every_zoom(page: Any) -> None:
    for left, span in ((0, 4e7), (1.2e7, 1e5), (12_345_678, 900), (987_654_321, 60)):
        texts = [text for _, text in page.evaluate(f"timelineDrawing.ticks({left}, {left + span}, 900)")]
        assert len({*texts}) == len(texts) >= 3
        assert max(map(len, texts[1:])) <= 10


def test_ruler_stays_in_sight(page: Any) -> None:
    page.evaluate("document.querySelector('.lanes').scrollIntoView({ block: 'start', behavior: 'instant' })")
    page.evaluate("scrollBy({ top: 120, behavior: 'instant' })")
    page.evaluate(STILL)
    assert page.locator(".ruler").bounding_box()["y"] == pytest.approx(0, abs=1)
    assert page.locator(".lanes canvas").bounding_box()["y"] < 0


def test_a_phone_selects_a_range_by_its_mode(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.evaluate(STILL)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Select range").click()
    page.locator(".lanes canvas").scroll_into_view_if_needed()
    box = page.locator(".lanes canvas").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 240, box["y"] + 40, steps=3)
    page.mouse.up()
    page.get_by_role("button", name="Select range").click()
    assert page.locator("[data-sums]").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
