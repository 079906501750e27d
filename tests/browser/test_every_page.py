"""Pages of every kind: small, short before their details, whole on a phone, with names, roles and contrast."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from perfkit_reports.render import html
from tests.browser.accessibility import list_violations
from tests.browser.conftest import follow
from tests.fixtures.report_pages import REPORT_PAGES

pytestmark = pytest.mark.browser

_BYTES = 2_000_000
_SCREENS, _WIDTH, _HEIGHT, _PHONE = 8, 1440, 900, 390

# Sections, and controls but for headings of tables, by what they are called; those of folded parts are not shown.
_SHOWN = """() => [...document.querySelectorAll("section, .side nav a, select, input, button:not(thead button)")]
  .filter((part) => part.checkVisibility())
  .map((part) => part.id || part.ariaLabel || part.name || (part.closest("label") ?? part).innerText)"""


@pytest.fixture(scope="module", params=REPORT_PAGES)
def page(browser: Browser, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("page")
    report = folder / "report.html"
    report.write_text(html.render(REPORT_PAGES[request.param](folder)), encoding="utf-8")
    page = browser.new_page(
        viewport={"width": _WIDTH, "height": _HEIGHT}, color_scheme="light", reduced_motion="reduce"
    )
    follow(page, report)
    yield page
    page.close()


def test_a_page_is_small_and_short_before_its_details(page: Page) -> None:
    assert Path(unquote(urlsplit(page.url).path)).stat().st_size <= _BYTES
    assert page.evaluate("document.documentElement.scrollHeight") <= _SCREENS * _HEIGHT


def test_nothing_vanishes_on_a_phone_and_nothing_scrolls_sideways(page: Page) -> None:
    shown = page.evaluate(_SHOWN)
    page.set_viewport_size({"width": _PHONE, "height": _HEIGHT})
    assert [part for part in shown if part not in page.evaluate(_SHOWN)] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= _PHONE
    page.set_viewport_size({"width": _WIDTH, "height": _HEIGHT})


def test_axe_finds_nothing(page: Page) -> None:
    assert list_violations(page) == []
