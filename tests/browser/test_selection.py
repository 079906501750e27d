"""One selection in a report: a dot, a row and a finding of the same thing, the drawer, and the link that shows it."""

import re
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.sync_api import Page, expect

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.idle import LATE
from tests.fixtures import rank_traces
from tests.fixtures import sample_trace_analysis as sample

pytestmark = pytest.mark.browser

CHOSEN = """[...document.querySelectorAll("tr.chosen[data-key]")].filter((row) => row.offsetParent)
  .map((row) => row.cells[0].innerText)"""
OFF = """document.querySelector("[data-figure=roofline]").data
  .filter((dots) => dots.meta?.work && dots.visible === false && dots.meta.kind === "kernel")
  .map((dots) => dots.meta.work)"""


def selected(page: Page) -> str:
    return str(page.evaluate("perfkitSelection.get()"))


def click_a_dot(page: Page) -> None:
    """The largest dot of the roofline."""
    dots = page.locator("#roofline .scatterlayer .points path.point").all()
    boxes = [box for dot in dots if (box := dot.bounding_box())]
    largest = max(boxes, key=lambda box: box["width"])
    page.mouse.click(largest["x"] + largest["width"] / 2, largest["y"] + largest["height"] / 2)


def test_back_undoes_choices_one_by_one_and_stays_in_the_report(open_report: Any) -> None:
    page = open_report(sample.alone()).page
    address = page.evaluate("location.pathname")
    rows = page.locator("tr[data-key] button.choose:visible")
    chosen = []
    for row in (0, 1):
        rows.nth(row).click()
        chosen.append(selected(page))
    assert len(set(chosen)) == 2
    page.go_back()
    expect(page.locator("#drawer")).to_be_visible()
    assert selected(page) == chosen[0]
    page.go_back()
    expect(page.locator("#drawer")).to_be_hidden()
    assert selected(page) == ""
    page.go_forward()
    expect(page.locator("#drawer")).to_be_visible()
    assert selected(page) == chosen[0]
    assert page.evaluate("location.pathname") == address


def test_a_table_is_one_stop_for_its_rows_and_arrows_walk_them(open_report: Any) -> None:
    page = open_report(sample.alone()).page
    first, second = (page.locator("#ops-0-rows button.choose, table.ops tbody button.choose").nth(n) for n in (0, 1))
    stops = """[...document.querySelectorAll("table.ops tbody")].filter((body) => body.checkVisibility())
      .map((body) => [...body.querySelectorAll("button.choose")].filter((button) => button.tabIndex >= 0).length)"""
    expect(first).to_have_attribute("tabindex", "0")
    assert max(page.evaluate(stops)) == 1
    first.focus()
    page.keyboard.press("ArrowDown")
    expect(second).to_be_focused()
    assert max(page.evaluate(stops)) == 1


@pytest.mark.parametrize("width", [1440, pytest.param(390, marks=pytest.mark.nightly)])
def test_a_dot_leads_to_its_row_and_the_link_shows_the_same(open_report: Any, width: int) -> None:
    report = open_report(sample.alone(), width=width)
    page, drawer = report.page, report.page.locator("#drawer")
    report.visit("roofline")
    click_a_dot(page)
    drawer.wait_for(state="visible")
    key = selected(page)
    assert key.startswith("kernel:")
    assert "% of roofline" in drawer.inner_text()
    drawer.get_by_role("button", name="table").click()
    (row,) = page.evaluate(CHOSEN)
    assert row.split("<")[0] in drawer.locator("h2").inner_text()
    dimmed = "document.querySelector('[data-figure=roofline]').data.flatMap((dots) => dots.selectedpoints ?? []).length"
    assert page.evaluate(dimmed) == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width

    link = page.evaluate("location.href")  # `page.url` is told of it later
    page.goto("about:blank")
    page.goto(link)
    drawer.wait_for(state="visible")
    assert selected(page) == key
    assert page.evaluate("[...document.querySelectorAll('tr.chosen[data-key]')].length") == 1
    assert report.complaints == []


def test_the_keyboard_opens_closes_and_comes_back(open_report: Any) -> None:
    report = open_report(sample.alone())
    page = report.page
    report.visit("savings")
    name = page.locator(".costs-panel:not([hidden]) tbody .choose").first
    name.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "drawer"
    page.keyboard.press("Escape")
    assert not page.locator("#drawer").is_visible()
    assert (selected(page), page.evaluate(CHOSEN)) == ("", [])
    assert name.evaluate("(button) => button === document.activeElement")
    assert "select" not in page.evaluate("location.href")


def test_a_finding_names_its_ops_and_is_marked_with_them(open_report: Any) -> None:
    slow = Finding(
        id="fusion.softmax",
        severity="gain",
        title="Slow",
        variant="",
        evidence="it is",
        action="",
        ops=("aten::_softmax",),
    )
    report = open_report(replace(sample.alone(), findings=(slow,)))
    page = report.page
    report.visit("findings")
    page.locator(".finding [data-choose]").first.click()
    assert selected(page) == "op:aten::_softmax"
    assert page.locator(".finding.chosen").count() == 1
    page.locator("#drawer").get_by_role("button", name="table").click()
    assert page.evaluate(CHOSEN) == ["aten::_softmax"]


def test_a_kernel_leads_to_the_finding_about_its_op(open_report: Any) -> None:
    (kernel,) = [row for row in sample.alone().traces[0].kernels if row.name == sample.GELU]
    slow = Finding(
        id="gemm.low_efficiency",
        severity="gain",
        title="Slow",
        variant="",
        evidence="it is",
        action="",
        ops=(kernel.op,),
    )
    other = replace(slow, title="Of others", ops=("aten::nothing",))
    report = open_report(replace(sample.alone(), findings=(slow, other)))
    page = report.page
    report.visit("savings")
    page.get_by_role("radio", name="Kernels").check(force=True)
    page.locator("#kernels-0-rows .choose", has_text="GeluCUDA").click()
    report.visit("findings")
    assert page.locator(".finding.chosen h3").all_inner_texts() == ["Slow"]
    assert page.locator("#drawer").get_by_role("button", name="findings").count() == 1


def test_a_finding_chooses_all_that_it_is_about(open_report: Any) -> None:
    ops = ("aten::_softmax", "aten::_softmax_backward_data")
    slow = Finding(
        id="fusion.elementwise", severity="gain", title="Slow", variant="", evidence="it is", action="", ops=ops
    )
    other = replace(slow, title="Also slow", ops=ops[:1])
    report = open_report(replace(sample.alone(), findings=(slow, other)))
    page = report.page
    report.visit("findings")
    page.locator(".finding").get_by_role("button", name="all 2").click()
    assert selected(page) == "finding:Slow"
    assert page.locator(".finding.chosen h3").all_inner_texts() == ["Slow"]
    assert "It is" in page.locator("#drawer").inner_text()
    page.locator("#drawer").get_by_role("button", name="table").click()
    assert page.evaluate(CHOSEN) == list(ops)


def test_anchors_of_the_page_keep_what_is_chosen(open_report: Any) -> None:
    report = open_report(sample.alone())
    page = report.page
    page.evaluate("perfkitSelection.set('op:aten::_softmax')")
    page.locator(".side nav").get_by_role("link", name="Time", exact=True).click()
    # Waited for from outside: the page's policy forbids the `eval` of Playwright's own wait.
    expect(page).to_have_url(re.compile(r"#time\?select=op:aten::_softmax$"))


def test_a_shortened_name_is_whole_on_hover(shared_report: Any) -> None:
    titles = (
        shared_report(sample.alone)
        .page.locator("#kernels-0-rows [data-whole]")
        .evaluate_all("(shown) => shown.map((one) => one.title)")
    )
    assert sample.GELU in titles
    assert all(titles)


def test_kinds_of_work_are_switched_off_in_the_roofline(open_report: Any) -> None:
    report = open_report(sample.alone())
    report.visit("roofline")
    report.page.get_by_role("checkbox", name="GEMM").uncheck(force=True)
    assert report.page.evaluate(OFF) == ["GEMM"]


def test_a_finding_about_the_host_leads_to_its_idle_time_and_back(open_report: Any) -> None:
    slow = Finding(
        id="launch.cpu_bound",
        severity="gain",
        title="Late",
        variant="",
        evidence="it is",
        action="",
        idle_causes=(LATE,),
    )
    other = replace(slow, title="Of others", idle_causes=("between queued kernels",))
    gap = rank_traces.gap(1e-3, cause=LATE, frame="train.py(12): train_step")
    report = open_report(replace(sample.alone(gaps=(gap,)), findings=(slow, other)))
    page, drawer = report.page, report.page.locator("#drawer")
    report.visit("findings")
    page.locator(".finding").get_by_role("button", name=LATE).click()
    assert selected(page) == f"idle:{LATE}"
    assert "train_step (train.py:12)" in drawer.inner_text()
    drawer.get_by_role("button", name="table").click()
    assert page.evaluate(CHOSEN) == [LATE]
    drawer.get_by_role("button", name="timeline").click()
    page.locator("[data-step]").wait_for()

    page.get_by_role("button", name="Longest idle").click()
    assert selected(page).startswith("slice:")
    assert page.locator(".finding.chosen h3").all_inner_texts() == ["Late"]
    drawer.get_by_role("button", name=LATE).click()
    assert selected(page) == f"idle:{LATE}"
    assert report.complaints == []
