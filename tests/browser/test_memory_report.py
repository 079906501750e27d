"""The report on memory, and the memory section of a bench, as people use them."""

from typing import Any

import pytest

from tests.fixtures import sample_analysis
from tests.fixtures import sample_memory_analysis as sample

pytestmark = pytest.mark.browser

ALL = ("realistic", "alone", "out_of_memory", "bare", "nothing", "hostile")


@pytest.mark.parametrize(
    "name",
    [name if name in ("realistic", "hostile") else pytest.param(name, marks=pytest.mark.nightly) for name in ALL],
)
def test_opens_offline_without_errors_and_without_sideways_scrolling(shared_report: Any, name: str) -> None:
    shared_report(getattr(sample, name), width=390).opens_cleanly(390, 1440)


def test_the_timeline_is_drawn_with_its_areas_and_its_strip(shared_report: Any) -> None:
    report = shared_report(sample.alone)
    report.visit("memory")
    chart = report.page.locator('[data-figure="memory-timeline-0"]')
    assert chart.locator(".scatterlayer .fills path.js-fill").count() == 6
    assert chart.locator(".barlayer path").count() > 20
    assert "backward" in chart.locator(".bartext").all_text_contents()


def test_one_choice_switches_the_timeline_and_the_tables(open_report: Any) -> None:
    report = open_report(sample.realistic())
    report.visit("memory")
    page = report.page
    assert page.locator(".memory-of-panel:not([hidden])").get_attribute("id") == "memory-of-0"
    page.get_by_role("radio", name="cpu").check(force=True)
    assert page.locator(".memory-of-panel:not([hidden])").get_attribute("id") == "memory-of-1"
    page.locator('[data-figure="memory-timeline-1"] .main-svg').first.wait_for(state="attached")
    page.locator("[data-panels=memory-bytes-1]").get_by_role("radio", name="Modules and ops").check(force=True)
    assert report.names("memory-bytes-1")[0] == "head"


def test_the_table_of_bytes_sorts_and_filters(open_report: Any) -> None:
    report = open_report(sample.alone())
    report.visit("memory")
    bytes_of = "memory-bytes-0"
    assert report.names(bytes_of)[:2] == ["h.*.mlp", "h.*.attn"]
    assert report.sort(bytes_of, "Size") == "ascending"
    assert report.column(bytes_of, 2)[0] == "1.00 MiB"
    report.page.locator(f"[data-filter={bytes_of}]").fill("ln1 activation")
    assert report.names(bytes_of) == ["h.*.ln1"]
    assert report.page.locator("#memory [data-count]").inner_text() == "1 of 10"


def test_the_largest_allocations_sort_and_fit(open_report: Any) -> None:
    report = open_report(sample.alone())
    report.visit("memory")
    table = report.page.locator("#memory-largest-0-rows")
    assert table.evaluate("table => table.scrollWidth <= table.parentElement.clientWidth")
    heading = table.locator("th", has_text="Size")
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert table.locator("tbody tr").last.locator("th").inner_text() == "aten::addmm in head"


def test_a_variant_that_ran_out_of_memory_shows_what_was_alive(open_report: Any) -> None:
    page = open_report(sample_analysis.realistic()).page
    told = page.locator("#summary li", has_text="out of memory").first
    assert "Allocation of 64.0 MiB failed: by aten::mm" in told.inner_text().replace("\u00a0", " ")
    assert page.locator("#memory .alarm", has_text="ran out of memory").count() == 1
