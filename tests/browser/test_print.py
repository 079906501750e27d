"""What a page shows is on paper, too: every row, legend and point, and nothing is cut at the right."""

from pathlib import Path
from unicodedata import normalize

import pytest
from playwright.sync_api import Browser, Page
from pypdf import PdfReader

from perfkit_reports.render import html
from tests.browser.conftest import follow
from tests.fixtures.report_pages import REPORT_PAGES

pytestmark = pytest.mark.browser

_PAPER = {"format": "A4", "margin": dict.fromkeys(("top", "right", "bottom", "left"), "10mm")}
_WIDTH = 718  # pixels between these margins

# The texts of table cells and legends that are shown on paper, without those of hidden panels and columns.
_TEXTS = """() => [...document.querySelectorAll("main :is(tbody :is(th, td):not([colspan]), .legend li)")]
  .filter((part) => part.checkVisibility())
  .map((part) => part.innerText.replace(/\\s+/g, ""))"""
# Points of drawn figures that lie outside their figure, and parts of the page that end right of the paper.
_CUT = """(width) => {
  const seen = (selector) => [...document.querySelectorAll(selector)].filter((part) => part.checkVisibility());
  const box = (part) => part.getBoundingClientRect();
  const points = seen(".chart").flatMap((chart) =>
    [...chart.querySelectorAll(".point")].filter(
      (point) => box(point).left < box(chart).left - 1 || box(point).right > box(chart).right + 1));
  const parts = seen("main :is(table, .legend li, .main-svg, p, li)").filter((part) => box(part).right > width + 1);
  return [...points, ...parts].map((part) => part.outerHTML.slice(0, 200));
}"""
_COUNT = """() => [...document.querySelectorAll(".chart")].filter((chart) => chart.checkVisibility())
  .map((chart) => [chart.dataset.figure, chart.querySelectorAll(".scatterlayer .point").length])"""


@pytest.fixture
def page(browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Page:
    report = tmp_path / "report.html"
    report.write_text(html.render(REPORT_PAGES[request.param](tmp_path)), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
    follow(page, report)
    return page


@pytest.mark.parametrize("page", ["plan", "history"], indirect=True)
def test_every_row_and_legend_is_on_paper(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "report.pdf"
    page.pdf(path=path, **_PAPER)
    sheets = (normalize("NFKC", sheet.extract_text()) for sheet in PdfReader(path).pages)  # without ligatures
    printed = "".join("".join(sheet.split()) for sheet in sheets)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    texts = page.evaluate(_TEXTS)
    assert len(texts) > 10
    assert [text for text in texts if text not in printed] == []
    page.close()


@pytest.mark.parametrize(("page", "points"), [("plan", 6), ("history", 18)], indirect=["page"])
def test_nothing_is_cut_at_the_right_and_every_point_is_drawn(page: Page, points: int) -> None:
    page.set_viewport_size({"width": _WIDTH, "height": 1000})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(_CUT, _WIDTH) == []
    drawn = dict(page.evaluate(_COUNT))
    assert max(drawn.values()) >= points, drawn
    page.close()
