"""The report on traces as people use it: opened from disk in a browser, offline, at desktop and phone width."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from perfkit_reports.findings import get_severity_word
from tests.fixtures import rank_traces
from tests.fixtures import sample_trace_analysis as sample

pytestmark = pytest.mark.browser

ALL = ("realistic", "alone", "without_shapes", "unknown_device", "cpu_only", "nothing", "hostile", "many_ranks")
IN_TIERS = [
    name if name in ("realistic", "nothing", "hostile") else pytest.param(name, marks=pytest.mark.nightly)
    for name in ALL
]


@pytest.mark.parametrize("name", IN_TIERS)
def test_opens_offline_without_errors_and_without_sideways_scrolling(shared_report: Any, name: str) -> None:
    shared_report(getattr(sample, name), width=390).opens_cleanly(390, 1440)


@pytest.mark.parametrize("name", IN_TIERS)
def test_no_table_is_wider_than_its_box(shared_report: Any, name: str) -> None:
    fits(shared_report(getattr(sample, name)).page)


def test_a_long_name_in_half_the_width_of_a_phone_is_broken(open_report: Any) -> None:
    call = rank_traces.call("wait", "cudaStreamSynchronize", 1.0, 0.001, "aten::_local_scalar_dense")
    fits(open_report(sample.alone(host_calls=(call,))).page)


def fits(page: Any) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
    for width in (1440, 1024, 390):
        page.set_viewport_size({"width": width, "height": 900})
        wide = page.evaluate(
            "[...document.querySelectorAll('.scroll')]"
            ".filter((box) => box.offsetParent && box.scrollWidth > box.clientWidth + 1)"
            ".map((box) => `${box.getAttribute('aria-label')}: ${box.scrollWidth} in ${box.clientWidth}`)"
        )
        assert wide == [], width


def test_every_figure_is_drawn(shared_report: Any) -> None:
    report = shared_report(sample.realistic)
    for section in report.sections():
        report.visit(section)
    drawn = report.page.evaluate("[...document.querySelectorAll('.chart .main-svg')].length")
    assert drawn >= 5
    assert report.page.locator(".chart .loading:visible").count() == 0


def test_a_chart_offers_nothing_that_sends_it_anywhere(shared_report: Any) -> None:
    report = shared_report(sample.realistic)
    report.visit("roofline")
    buttons = report.page.locator("#roofline .modebar-btn")
    titles = {buttons.nth(index).get_attribute("data-title") for index in range(buttons.count())}
    assert titles == {"Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"}


def test_opened_as_a_file_a_report_leads_nowhere_else(shared_report: Any) -> None:
    assert shared_report(sample.alone).page.get_by_role("link", name="All runs").count() == 0


def test_the_page_itself_can_reach_nothing(open_report: Any) -> None:
    report = open_report(sample.alone())
    refused = report.page.evaluate("fetch('https://example.com').then(() => '', (error) => error.name)")
    assert refused == "TypeError"
    assert any("Content Security Policy" in complaint for complaint in report.complaints)


def test_tabs_and_traces_choose_the_table(open_report: Any) -> None:
    report = open_report(sample.realistic())
    page = report.page
    report.visit("savings")
    assert report.names("costs")[0] == "aten::_softmax"
    page.locator("#savings").get_by_role("radio", name="rank 1", exact=True).check(force=True)
    assert report.names("costs")[0] == "aten::_softmax"
    assert page.locator(".costs-panel:not([hidden])").get_attribute("id") == "costs-0-2"
    assert "6.57 ms" in report.column("costs", 3)
    page.get_by_role("radio", name="Kernels").check(force=True)
    assert report.names("costs")[0].startswith("softmax_warp_forward")
    page.get_by_role("radio", name="GEMM").check(force=True)
    assert "×" in report.names("costs")[0]
    page.get_by_role("radio", name="Modules").check(force=True)
    assert "blocks.*.attn" in report.names("costs")


def test_tabs_work_with_the_keyboard(open_report: Any) -> None:
    report = open_report(sample.alone())
    report.visit("savings")
    assert report.names("costs")[0] == "aten::_softmax"
    report.page.get_by_role("radio", name="All", exact=True).focus()
    report.page.keyboard.press("ArrowRight")
    assert "×" in report.names("costs")[0]


def test_the_table_sorts_with_the_unknown_last(open_report: Any) -> None:
    report = open_report(sample.alone())
    report.visit("savings")
    assert report.sort("costs", "% of roofline") == "descending"
    texts = report.column("costs", 4)
    known = [float(text.split()[0]) for text in texts if not text.startswith("n/a")]
    assert known == sorted(known, reverse=True)
    assert report.sort("costs", "% of roofline") == "ascending"
    assert [text[:3] for text in report.column("costs", 4)[-2:]] == ["n/a", "n/a"]


def test_the_filter_narrows_and_follows_the_tab(open_report: Any) -> None:
    report = open_report(sample.alone())
    page = report.page
    report.visit("savings")
    page.locator("#savings").get_by_role("searchbox").fill("softmax BACKWARD")
    assert len(report.names("costs")) == 1
    assert page.locator("#savings [data-count]").inner_text().startswith("1 of ")
    page.get_by_role("radio", name="Kernels").check(force=True)
    assert len(report.names("costs")) == 1
    assert report.names("costs")[0].startswith("softmax_warp_backward")


def test_layers_of_the_roofline_switch(open_report: Any) -> None:
    report = open_report(sample.realistic())
    page = report.page
    report.visit("roofline")
    shown = (
        "document.querySelector('[data-figure=roofline]').data"
        ".filter(trace => trace.meta?.kind && trace.visible !== false)"
        ".map(trace => trace.meta.series + ' ' + trace.meta.kind)"
    )
    both = {f"{series} {kind}" for series in ("rank 0", "main rank 0") for kind in ("kernel", "step")}
    assert set(page.evaluate(shown)) == both
    page.get_by_role("checkbox", name="main rank 0").uncheck(force=True)
    page.get_by_role("checkbox", name="phases").check(force=True)
    assert set(page.evaluate(shown)) == {f"rank 0 {kind}" for kind in ("kernel", "phase", "step")}


def test_streams_can_be_chosen_in_place_of_steps(open_report: Any) -> None:
    report = open_report(sample.alone())
    report.visit("time")
    report.page.get_by_role("radio", name="Streams of rank 0").check(force=True)
    report.visit("time")
    names = report.page.locator("[data-block=streams-time-0] .name").all_inner_texts()
    assert names[0].startswith("stream 7: 900 kernels")


def test_the_shown_table_can_be_saved_with_whole_names(shared_report: Any) -> None:
    page = shared_report(sample.alone).page
    page.get_by_role("radio", name="Kernels").check(force=True)
    with page.expect_download() as download:
        page.locator("[data-csv=costs]").click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text(encoding="utf-8"))))
    assert rows[0]["Kernel"] == sample.SOFTMAX
    assert float(rows[0]["Time"]) == pytest.approx(6.2e-3)
    assert len(rows) == 10


def test_no_name_in_a_saved_table_is_a_formula(open_report: Any) -> None:
    page = open_report(sample.hostile('=HYPERLINK("https://example.org")')).page
    page.get_by_role("radio", name="Kernels").check(force=True)
    with page.expect_download() as download:
        page.locator("[data-csv=costs]").click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text(encoding="utf-8"))))
    assert {row["Kernel"] for row in rows} == {'\'=HYPERLINK("https://example.org")'}
    assert all(float(row["Time"]) > 0 for row in rows)


def test_print_shows_every_figure(open_report: Any) -> None:
    page = open_report(sample.alone()).page
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.locator("#roofline .main-svg").first.wait_for(state="attached")
    assert not page.locator(".side").is_visible()
    page.set_viewport_size({"width": 718, "height": 900})  # A4 without its margins
    wide = """[...document.querySelectorAll("figure, table, .chart")].filter((part) => part.checkVisibility())
      .filter((part) => part.scrollWidth > document.querySelector("main").clientWidth)
      .map((part) => part.id || part.dataset.figure)"""
    assert page.evaluate(wide) == []
    assert page.locator("[data-layers=roofline]").is_visible()


def test_further_columns_show_when_asked_for(open_report: Any) -> None:
    report = open_report(sample.alone())
    report.visit("savings")
    bound = report.page.locator(".costs-panel:not([hidden]) th", has_text="Bound")
    assert not bound.is_visible()
    report.page.locator("#savings").get_by_text("All columns").click()
    assert bound.is_visible()


def test_a_finding_is_copied_as_markdown_with_the_keyboard(shared_report: Any) -> None:
    report = shared_report(sample.realistic)
    report.visit("findings")
    page = report.page
    page.evaluate("document.addEventListener('copy', () => { window.copied = document.activeElement.value; })")
    button = page.locator(".finding .copy").first
    button.focus()
    page.keyboard.press("Enter")
    first = sample.realistic().findings[0]
    assert button.inner_text() == "Copied"
    assert page.evaluate("copied").startswith(f"**{get_severity_word(first)}: {first.title}** (`{first.id}`).")
    assert page.evaluate("document.activeElement.className") == "quiet copy"
