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
# Dots of the roofline by key, each with the first cell of its row on paper or the switch of its kind.
_DOTS = """() => {
  const squeeze = (part) => part.innerText.replace(/\\s+/g, "");
  const rows = new Map([...document.querySelectorAll("main tr[data-key]")]
    .filter((row) => row.checkVisibility()).map((row) => [row.dataset.key, squeeze(row.cells[0])]));
  const kinds = new Map([...document.querySelectorAll("[data-layers] input[data-key=kind]")]
    .map((box) => [box.dataset.value, squeeze(box.closest("label"))]));
  const shown = document.querySelector("[data-figure=roofline]").data
    .filter((trace) => trace.meta?.kind && trace.visible !== false);
  return shown.flatMap(({ customdata, meta }) =>
    customdata.map((key) => [key, rows.get(key) ?? (meta.kind === "step" ? kinds.get("step") : null)]));
}"""
# Names of the kinds of work and of the series that are told apart by color.
_LOOKS = """() => [...document.querySelectorAll("[data-layers] input:is([data-key=work], [data-key=series]):checked")]
  .map((box) => box.closest("label").innerText.replace(/\\s+/g, ""))"""


@pytest.fixture
def page(browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Page:
    report = tmp_path / "report.html"
    report.write_text(html.render(REPORT_PAGES[request.param](tmp_path)), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
    follow(page, report)
    return page


def _print(page: Page, folder: Path) -> str:
    """The text on paper, without spaces."""
    path = folder / "report.pdf"
    page.pdf(path=path, **_PAPER)
    sheets = (normalize("NFKC", sheet.extract_text()) for sheet in PdfReader(path).pages)  # without ligatures
    return "".join("".join(sheet.split()) for sheet in sheets)


@pytest.mark.parametrize("page", ["plan", "history"], indirect=True)
def test_every_row_and_legend_is_on_paper(page: Page, tmp_path: Path) -> None:
    printed = _print(page, tmp_path)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    texts = page.evaluate(_TEXTS)
    assert len(texts) > 10
    assert [text for text in texts if text not in printed] == []
    page.close()


@pytest.mark.parametrize(("page", "points"), [("plan", 6), ("history", 18), ("trace", 10)], indirect=["page"])
def test_nothing_is_cut_at_the_right_and_every_point_is_drawn(page: Page, points: int) -> None:
    page.set_viewport_size({"width": _WIDTH, "height": 1000})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(_CUT, _WIDTH) == []
    drawn = dict(page.evaluate(_COUNT))
    assert max(drawn.values()) >= points, drawn
    page.close()


@pytest.mark.parametrize("page", ["trace"], indirect=True)
def test_every_dot_of_a_roofline_is_in_a_table_or_legend_on_paper(page: Page, tmp_path: Path) -> None:
    tabs = page.locator('[class*="-panel"][hidden]').count()
    printed = _print(page, tmp_path)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    dots = page.evaluate(_DOTS)
    assert len(dots) > 10
    assert [key for key, name in dots if name is None or normalize("NFKC", name) not in printed] == []
    looks = page.evaluate(_LOOKS)
    assert looks
    assert [name for name in looks if name not in printed] == []
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator('[class*="-panel"][hidden]').count() == tabs
    page.close()
