"""The report as people use it: opened from disk in a browser, offline, at desktop and phone width."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.fixtures import sample_analysis

pytestmark = pytest.mark.browser

SECTIONS = ["summary", "why", "findings", "traced", "memory", "samples", "environment"]
SCREEN = 900  # pixels of height


@pytest.mark.parametrize(
    "name", ["realistic", pytest.param("every_status", marks=pytest.mark.nightly), "nothing_measured"]
)
def test_opens_cleanly(shared_report: Any, name: str) -> None:
    report = shared_report(getattr(sample_analysis, name), width=390)
    missing = {"why", "traced", "memory"} if name == "nothing_measured" else set()
    assert report.sections() == [section for section in SECTIONS if section not in missing]
    report.opens_cleanly(390, 1440)


def test_the_table_of_variants_fits_its_box(shared_report: Any) -> None:
    table = shared_report(sample_analysis.realistic).page.locator("#variants-rows")
    assert table.evaluate("table => table.scrollWidth <= table.parentElement.clientWidth")


def pick(page: Page, variant: str) -> None:
    page.locator("[data-pick]").select_option(label=variant)


def test_the_first_screen_answers_and_has_the_trade_off_beside_the_table(open_report: Any) -> None:
    page = open_report(sample_analysis.realistic()).page
    page.set_viewport_size({"width": 1440, "height": SCREEN})
    head, table, chart = (
        page.locator(where).bounding_box() for where in ("h1", "#variants-rows", "[data-figure=pareto]")
    )
    assert head is not None
    assert table is not None
    assert chart is not None
    assert chart["x"] >= table["x"] + table["width"]
    assert chart["y"] + chart["height"] <= SCREEN
    assert table["y"] <= SCREEN / 2
    assert page.locator("#variants-rows .span").count() == 5  # a bar for each compared variant


def test_what_is_not_asked_at_once_is_folded_and_the_rest_short(open_report: Any) -> None:
    page = open_report(sample_analysis.realistic()).page
    page.set_viewport_size({"width": 1440, "height": SCREEN})
    assert page.locator("section.folded > details[open]").count() == 0
    first = page.locator("section.folded").first.bounding_box()
    assert first is not None
    assert first["y"] <= 8 * SCREEN
    assert len(page.content()) <= 2_000_000
    samples = page.locator("#samples > details")
    page.get_by_role("link", name="Samples").click()
    page.wait_for_function("document.querySelector('#samples > details').open")
    assert samples.locator(".chart").first.is_visible()


def test_one_picker_sets_roofline_and_ops(open_report: Any) -> None:
    report = open_report(sample_analysis.realistic())
    page = report.page
    report.visit("traced")
    assert page.locator("#traced fieldset.tabs:visible").count() == 0
    assert page.locator(".costs-panel:visible caption").inner_text() == "Ops of baseline"
    pick(page, "amp+ckpt")
    assert page.locator(".costs-panel:visible caption").inner_text() == "Ops of amp+ckpt"
    assert visible(page) == {(variant, kind) for variant in ("baseline", "amp+ckpt") for kind in ("op", "step")}
    page.locator("#traced fieldset.tabs input[value='2']").evaluate(
        "input => { input.checked = true; input.closest('fieldset').dispatchEvent(new Event('change')); }"
    )  # as a link to a row does
    assert page.locator("[data-pick]").input_value() == "ckpt"
    pick(page, "baseline")
    assert {variant for variant, _ in visible(page)} == {"baseline"}
    assert report.complaints == []


def visible(page: Page) -> set[tuple[str, str]]:
    """(variant, kind) of the dots that the roofline shows."""
    shown = page.evaluate(
        "document.querySelector('[data-figure=roofline]').data"
        ".filter(trace => trace.meta?.kind && trace.visible !== false)"
        ".map(trace => [trace.meta.series, trace.meta.kind])"
    )
    return {(variant, kind) for variant, kind in shown}


def test_layers_of_the_roofline_switch(open_report: Any) -> None:
    report = open_report(sample_analysis.realistic())
    page = report.page
    report.visit("traced")
    assert visible(page) == {(variant, kind) for variant in ("baseline", "amp") for kind in ("op", "step")}
    page.get_by_role("checkbox", name="ckpt", exact=True).check(force=True)
    page.get_by_role("checkbox", name="amp", exact=True).uncheck(force=True)
    page.get_by_role("checkbox", name="operations").uncheck(force=True)
    assert visible(page) == {("baseline", "step"), ("ckpt", "step")}
    arrows = page.evaluate(
        "document.querySelector('[data-figure=roofline]').layout.annotations"
        ".filter(item => item.showarrow && item.visible).map(item => JSON.parse(item.name).series)"
    )
    assert arrows == ["ckpt"]


def test_layers_switch_with_the_keyboard(open_report: Any) -> None:
    report = open_report(sample_analysis.realistic())
    report.visit("traced")
    box = report.page.get_by_role("checkbox", name="flash", exact=True)
    box.focus()
    report.page.keyboard.press("Space")
    assert ("flash", "op") in visible(report.page)


def test_the_table_of_operations_sorts_with_the_unknown_last(open_report: Any) -> None:
    report = open_report(sample_analysis.realistic())
    report.visit("traced")
    assert report.sort("costs", "Time") == "descending"
    times = [float(text.split()[0]) for text in report.column("costs", 3)]
    assert times == sorted(times, reverse=True)
    assert report.sort("costs", "Potential savings") == "descending"
    texts = report.column("costs", 5)
    known = [float(text.split()[0]) for text in texts if not text.startswith("n/a")]
    assert known == sorted(known, reverse=True)
    assert report.sort("costs", "Potential savings") == "ascending"
    texts = report.column("costs", 5)
    assert all(text.startswith("n/a") for text in texts[-2:])
    assert [float(text.split()[0]) for text in texts[:-2]] == sorted(known)


def test_the_filter_narrows_and_follows_the_variant(open_report: Any) -> None:
    report = open_report(sample_analysis.realistic())
    page = report.page
    report.visit("traced")
    page.locator("[data-filter=costs]").fill("softmax BACKWARD")
    assert report.names("costs") == ["aten::_softmax_backward_data"]
    assert page.locator("[data-block=traced-savings] [data-count]").inner_text() == "1 of 15"
    pick(page, "ckpt")
    assert report.names("costs") == ["aten::_softmax_backward_data"]
    page.locator("[data-filter=costs]").fill("")
    assert len(report.names("costs")) == 15


def test_claims_and_tracebacks_open_on_demand(open_report: Any) -> None:
    page = open_report(sample_analysis.every_status()).page
    traceback = page.get_by_text("ZeroDivisionError: <b>division</b> by zero")
    assert not traceback.is_visible()
    row = page.locator("#variants-rows tbody tr", has_text="failed").first
    button = row.get_by_role("button")
    button.click()
    assert button.get_attribute("aria-expanded") == "true"
    assert traceback.is_visible()


def test_the_timeline_follows_the_chosen_variant(open_report: Any) -> None:
    report = open_report(sample_analysis.realistic())
    report.visit("memory")
    report.page.locator("select[data-panels=memory-of]").select_option(label="ckpt")
    chart = report.page.locator('[data-figure="memory-timeline-2"]')
    chart.locator(".main-svg").first.wait_for(state="attached")
    peak = chart.evaluate("chart => chart.layout.shapes[0].y0")
    assert peak == pytest.approx(412 * 0.55, rel=1e-4)


def saved(page: Page, button: Any) -> str:
    with page.expect_download() as download:
        button.click()
    return Path(download.value.path()).read_text(encoding="utf-8")


def test_json_and_csv_can_be_saved(shared_report: Any) -> None:
    page = shared_report(sample_analysis.realistic).page
    assert json.loads(saved(page, page.get_by_role("button", name="Save JSON")))["title"] == "gpt:size=nano"
    rows = list(csv.reader(io.StringIO(saved(page, page.locator("[data-csv=variants]")))))
    assert rows[0][:3] == ["Variant", "Step time", "Speed-up"]
    assert len(rows) == 1 + 8
    step = sample_analysis.realistic().variants[1].step_time
    assert isinstance(step, sample_analysis.MedianEstimate)
    assert rows[2][0] == "amp"
    assert float(rows[2][1]) == pytest.approx(step.value)
    ops = list(csv.DictReader(io.StringIO(saved(page, page.locator("[data-csv=costs]")))))
    assert float(ops[0]["Time"]) == pytest.approx(0.043)
    assert ops[-1]["Potential savings"] == "n/a"


def test_the_theme_switches_and_figures_follow(open_report: Any) -> None:
    report = open_report(sample_analysis.realistic())
    report.visit("summary")
    ink = "document.querySelector('[data-figure=pareto]').layout.template.layout.font.color"
    before = report.page.evaluate(ink)
    report.page.get_by_role("button", name="Switch between light and dark").click()
    assert report.page.evaluate(ink) != before
    assert report.complaints == []
