"""The page of a history in a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from perfkit.check.history.history import read_history
from perfkit.check.history.result import History
from perfkit_reports.render.report_files import write_document
from perfkit_reports.subjects.history.history_document import build_document
from tests.browser.conftest import Opened, follow
from tests.fixtures.sample_histories import noisy_steps, write_past

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)>"
GIB = 2**30


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    folder = tmp_path_factory.mktemp("history")
    peaks = [GIB] * 10 + [GIB + 2**26] * 20
    write_past(folder, noisy_steps([(18, 0.1), (12, 0.106)], 0.01, 3), peaks=peaks, revisions=[HOSTILE] * 30)
    write_past(folder, noisy_steps([(12, 0.05)], 0.01, 4), variant="ckpt", prefix="other")
    return read_history(folder)


@pytest.fixture(params=[1440, pytest.param(390, marks=pytest.mark.nightly)])
def opened(
    request: pytest.FixtureRequest, browser: Browser, history: History, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    report, *_ = write_document(build_document(history), tmp_path_factory.mktemp("report"))
    page = browser.new_page(viewport={"width": request.param, "height": 900}, accept_downloads=True)
    yield follow(page, report)
    page.close()


def test_it_opens_cleanly(opened: Opened) -> None:
    size = opened.page.viewport_size
    opened.opens_cleanly(size["width"])


def test_changes_come_first_and_are_worded(opened: Opened) -> None:
    rows = opened.page.locator("#changes-table-rows tbody tr")
    first = rows.first.inner_text()

    assert "step" in first
    assert "worse" in first
    assert "+6" in first or "+5" in first
    assert rows.count() == 4  # wall and CPU time, and two peaks
    assert HOSTILE[:7] in rows.first.inner_text()  # shown as text


def test_a_workload_and_a_quantity_are_picked(opened: Opened) -> None:
    page = opened.page
    page.locator("#changes select[name=Quantity]").select_option("step time")
    assert page.locator("#changes-table-rows tbody tr:visible").count() == 1
    assert page.locator("[data-count]").inner_text().startswith("2 of ")
    page.locator("#changes select[name=Workload]").select_option("gpt ckpt")
    assert page.locator("#changes-table-rows tbody tr:visible").count() == 0
    assert page.locator("[data-count]").inner_text().startswith("1 of ")


def test_series_without_a_change_are_folded_and_drawn_when_opened(opened: Opened) -> None:
    fold = opened.page.locator("#series details.fold")
    assert "without a change" in fold.locator("summary").inner_text()
    fold.locator("summary").click()
    chart = fold.locator(".chart").first
    chart.scroll_into_view_if_needed()
    chart.locator(".main-svg").first.wait_for(state="attached")


def test_colors_follow_the_theme(opened: Opened) -> None:
    before = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    opened.page.get_by_role("button", name="Switch between light and dark").click()
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") != before
