"""The report of a check as people use it: opened from disk in a browser, offline, at desktop and phone width."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import sample_checks as sample

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("every_verdict", "hostile") else pytest.param(name, marks=pytest.mark.nightly)
        for name in sample.ALL
    ],
)
def test_opens_offline_without_errors_and_without_sideways_scrolling(shared_report: Any, name: str) -> None:
    shared_report(sample.ALL[name], width=390).opens_cleanly(390, 1440)


def test_the_verdict_is_what_is_seen_first(shared_report: Any) -> None:
    page = shared_report(sample.every_verdict, width=390).page
    assert page.locator(".verdict").bounding_box()["y"] < 300
    assert page.locator(".verdict").inner_text() == "✗ fail"
    assert page.locator("h1").bounding_box()["y"] < 400


def test_the_table_of_ops_sorts_by_what_is_clicked(open_report: Any) -> None:
    report = open_report(sample.every_verdict())
    report.visit("why")
    heading = report.page.locator("#ops-0-rows th", has_text=re.compile("Before"))
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    names = report.page.locator("#ops-0-rows tbody tr > :first-child").all_inner_texts()
    assert names == ["aten::mm", "aten::_softmax", "aten::clone", "aten::_to_copy"]
    heading.get_by_role("button").click()
    names = report.page.locator("#ops-0-rows tbody tr > :first-child").all_inner_texts()
    assert names[-1] == "aten::mm"


def test_variants_fold_with_the_keyboard(open_report: Any) -> None:
    page = open_report(sample.every_verdict()).page
    first = page.locator("#pairs details").first
    assert first.evaluate("each => each.open")
    first.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert not first.evaluate("each => each.open")


def test_a_figure_within_a_fold_is_drawn_when_it_opens(open_report: Any) -> None:
    page = open_report(sample.one_of_two()).page
    closed = page.locator("#pairs details:not([open])").first
    number = closed.locator(".chart").get_attribute("data-figure")
    closed.locator("summary").click()
    page.locator(f"[data-figure={number}] .main-svg").first.wait_for(state="attached")


def test_the_numbers_can_be_saved(shared_report: Any) -> None:
    page = shared_report(sample.every_verdict).page
    with page.expect_download() as download:
        page.locator(".side [data-save]").click()
    saved = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    assert saved["verdict"] == "fail"
    assert len(saved["variants"][0]["pairs"]) == sample.PAIRS
    with page.expect_download() as download:
        page.locator("#why [data-csv]").first.click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text(encoding="utf-8"))))
    assert float(rows[0]["After"]) == pytest.approx(1.22e-3)


def test_both_themes_and_print_show_the_bars(open_report: Any) -> None:
    page = open_report(sample.every_verdict()).page
    color = "getComputedStyle(document.querySelector('.forest .interval')).stroke"
    light = page.evaluate(color)
    page.locator("[data-theme-toggle]").click()
    assert page.evaluate(color) != light
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.locator("#pairs .main-svg").first.wait_for(state="attached")
    assert not page.locator(".side").is_visible()
