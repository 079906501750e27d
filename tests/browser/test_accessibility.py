"""Every kind of page has names, roles and contrast, in light and dark."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from perfkit_reports.render import html
from tests.browser.accessibility import list_violations
from tests.browser.conftest import follow
from tests.fixtures.report_pages import REPORT_PAGES

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("kind", REPORT_PAGES)
def test_axe_finds_nothing_on_a_page_of_any_kind(browser: Browser, tmp_path: Path, kind: str) -> None:
    report = tmp_path / "report.html"
    report.write_text(html.render(REPORT_PAGES[kind](tmp_path)), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light", reduced_motion="reduce")
    follow(page, report)
    assert list_violations(page) == []
    page.close()
