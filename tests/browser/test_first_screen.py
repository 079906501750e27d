"""The first screen of a report on traces, its folds, its size, and what a click selects."""

import re
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.sync_api import expect

from perfkit.analysis.model.finding import Finding
from perfkit_reports.render import html
from perfkit_reports.subjects.registry import build_document
from tests.fixtures import rank_traces, sample_accounts
from tests.fixtures import sample_trace_analysis as sample

pytestmark = pytest.mark.browser

FINDING = Finding(
    id="fusion.elementwise", severity="gain", title="Slow", variant="rank 0", evidence="it is", action="compile it",
    gain_s=9e-3, simulated_s=4e-3, ops=("aten::_softmax",),
)  # fmt: skip
SCREEN = 900
LARGEST = 2_000_000  # bytes


def one_finding() -> Any:
    return replace(sample.alone(), findings=(FINDING,))


@pytest.mark.parametrize("name", ["alone", "realistic", "cpu_only", "nothing"])
def test_limit_bar_fixes_and_tiles_are_on_one_screen_and_details_begin_within_eight(
    shared_report: Any, name: str
) -> None:
    page = shared_report(getattr(sample, name)).page
    for part in ("h1", "[data-block=fixes]", ".cards"):
        box = page.locator(part).first.bounding_box()
        assert box["y"] + box["height"] <= SCREEN, part
    assert page.locator("#summary .card").count() == 4
    details = page.evaluate("document.querySelector('section.folded').getBoundingClientRect().top + scrollY")
    assert details <= 8 * SCREEN


@pytest.mark.parametrize("name", ["realistic", "many_ranks"])
def test_a_page_can_be_sent(name: str) -> None:
    assert len(html.render(build_document(getattr(sample, name)())).encode()) <= LARGEST


def test_a_fix_leads_into_the_fold_of_its_finding_and_back(open_report: Any) -> None:
    page = open_report(one_finding()).page
    finding = page.locator("#finding-fusion-elementwise")
    expect(finding).to_be_hidden()
    page.locator("[data-block=fixes] a").click()
    expect(finding).to_be_in_viewport()
    page.locator("#findings > details > summary").click()
    expect(finding).to_be_hidden()
    page.locator(".side nav").get_by_role("link", name="Timeline").click()
    page.go_back()
    expect(finding).to_be_in_viewport()


def test_a_link_from_elsewhere_unfolds_what_it_names(open_report: Any) -> None:
    page = open_report(one_finding()).page
    link = page.evaluate("location.href")
    page.goto("about:blank")
    page.goto(f"{link}#finding-fusion-elementwise")
    expect(page.locator("#finding-fusion-elementwise")).to_be_in_viewport()


def test_paper_unfolds_and_the_screen_has_its_folds_again(open_report: Any) -> None:
    page = open_report(one_finding()).page
    folds = "document.querySelectorAll('section.folded > details:not([open])').length"
    before = page.evaluate(folds)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert (before > 0, page.evaluate(folds)) == (True, 0)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(folds) == before


def test_one_choice_sets_the_rank_of_the_table_and_of_the_timeline(open_report: Any) -> None:
    report = open_report(sample.realistic())
    page = report.page
    page.locator("[data-pick]").select_option("rank 1")
    assert page.locator(".costs-panel:not([hidden])").get_attribute("id") == "costs-0-2"
    chosen = page.locator("[data-steps] option:checked")
    assert re.match("rank 1, ", chosen.inner_text())
    assert report.complaints == []


@pytest.mark.parametrize(("make", "place"), [(sample.realistic, 1), (lambda: sample.many_ranks(20), 2)])
def test_a_click_on_a_rank_picks_it(open_report: Any, make: Any, place: int) -> None:
    report = open_report(make())
    page = report.page
    report.visit("ranks")
    marks = page.locator("[data-figure=ranks-chart] .barlayer .point")
    marks.nth(place).wait_for()
    marks.nth(place).scroll_into_view_if_needed()
    box = marks.nth(place).bounding_box()
    label = page.evaluate("document.querySelector('[data-figure=ranks-chart]').data[0].customdata")[place]
    before = page.locator("[data-pick]").input_value()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("[data-pick]")).to_have_value(label)
    assert label != before


def test_single_roofs_are_switched_off(open_report: Any) -> None:
    report = open_report(sample.alone())
    report.visit("roofline")
    report.page.get_by_role("checkbox", name="memory", exact=True).uncheck(force=True)
    off = """[...document.querySelector("[data-figure=roofline]").data.filter((roof) => roof.meta?.roof)
      .filter((roof) => roof.visible === false).map((roof) => roof.meta.roof)]"""
    assert set(report.page.evaluate(off)) == {"memory"}
    labels = """document.querySelector("[data-figure=roofline]").layout.annotations
      .filter((note) => !note.showarrow && note.visible === false).length"""
    assert report.page.evaluate(labels) == len(report.page.evaluate(off))


def test_a_click_on_memory_selects_the_blocks_of_its_category(open_report: Any) -> None:
    account = sample_accounts.step(400 * sample_accounts.MIB)
    report = open_report(replace(sample.alone(), traces=(rank_traces.rank_trace(memory=account),)))
    page = report.page
    report.visit("roofline")
    plot = page.locator("[data-figure=memory-timeline-0] .nsewdrag").first.bounding_box()
    page.mouse.click(plot["x"] + plot["width"] / 2, plot["y"] + plot["height"] - 4)
    page.locator("#drawer").wait_for(state="visible")
    key = str(page.evaluate("perfkitSelection.get()"))
    assert key.startswith("memory:")
    marked = page.evaluate("[...document.querySelectorAll('tr.chosen')].map((row) => row.dataset.key)")
    assert key in marked
