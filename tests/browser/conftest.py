"""A headless Chromium, and reports written to disk and opened from there as a user does."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from perfkit.analysis.model.memory_analysis import MemoryAnalysis
from perfkit.analysis.model.plan import Plan
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.check.judge.result import Check
from perfkit_reports.render import html as document_html
from perfkit_reports.subjects.registry import build_document

Reported = Analysis | TraceAnalysis | MemoryAnalysis | Check | Plan

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


# Unfolds a section, scrolls it into view and waits until its figures are drawn; in the page, where a call takes no
# frames.
_VISIT = """async (id) => {
  const section = document.getElementById(id);
  for (const fold of section.querySelectorAll(":scope > details")) fold.open = true;
  section.scrollIntoView({ behavior: "instant" });
  for (const chart of section.querySelectorAll(".chart")) {
    if (!chart.checkVisibility()) continue;
    chart.scrollIntoView({ behavior: "instant", block: "center" });
    for (let frames = 0; !chart.querySelector(".main-svg"); frames += 1) {
      if (frames > 1800) throw new Error(`a figure of ${id} is not drawn`);
      await new Promise(requestAnimationFrame);
    }
  }
  return document.documentElement.scrollWidth;
}"""


@dataclass
class Opened:
    """A report in a browser, with what it asked for and complained of."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def opens_cleanly(self, *widths: int) -> None:
        """Go through all sections at these widths, the first of which it was opened with: nothing scrolls sideways,
        complains, runs a script or asks for anything outside."""
        for width in widths:
            self.page.set_viewport_size({"width": width, "height": 900})
            for section in self.sections():
                assert self.visit(section) <= width, section
        assert self.complaints == []
        assert [url for url in self.requests if not url.startswith(("file:", "data:"))] == []
        assert self.page.locator("img").count() == 0

    def sections(self) -> list[str]:
        """Their names, from top to bottom."""
        return [str(section.get_attribute("id")) for section in self.page.locator("main > section").all()]

    def visit(self, section: str) -> int:
        """Unfold a section, scroll it into view and wait until its figures are drawn. Returns the page's width then."""
        return int(self.page.evaluate(_VISIT, section))

    def column(self, group: str, number: int) -> list[str]:
        """The texts of a column of the table shown in a group of panels, hidden rows left out."""
        rows = self.page.locator(f".{group}-panel:not([hidden]) tbody tr:not([hidden])")
        return rows.locator(f"td:nth-child({number})").all_inner_texts()

    def names(self, group: str) -> list[str]:
        """What names the rows of that table, hidden rows left out."""
        return self.page.locator(f".{group}-panel:not([hidden]) tbody tr:not([hidden]) > th").all_inner_texts()

    def sort(self, group: str, title: str) -> str | None:
        """Click a heading of that table; the order it is then sorted in."""
        heading = self.page.locator(f".{group}-panel:not([hidden]) th", has_text=re.compile(rf"^\s*{re.escape(title)}"))
        heading.get_by_role("button").click()
        return heading.get_attribute("aria-sort")


Open = Callable[..., Opened]


@pytest.fixture(scope="module")  # Playwright runs an event loop on this thread, which no later test is to find
def browser(browser_path: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=browser_path, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def open_report(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """`open_report(analysis, width=1440)` renders, writes and opens a report."""
    opened: list[Opened] = []

    def shown(analysis: Reported, width: int = 1440) -> Opened:
        opened.append(_opened(browser, tmp_path / "report.html", analysis, width))
        return opened[-1]

    yield shown
    for each in opened:
        each.page.close()


@pytest.fixture(scope="module")
def shared_report(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """`shared_report(sample, width=1440)` opens the report on `sample()` once for all tests that only look at it."""
    opened: dict[Callable[[], Reported], Opened] = {}

    def shown(sample: Callable[[], Reported], width: int = 1440) -> Opened:
        if sample not in opened:
            path = tmp_path_factory.mktemp("shared") / "report.html"
            opened[sample] = _opened(browser, path, sample(), width)
        page = opened[sample].page
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("scrollTo(0, 0)")
        return opened[sample]

    yield shown
    for each in opened.values():
        each.page.close()


def _opened(browser: Browser, path: Path, analysis: Reported, width: int) -> Opened:
    path.write_text(_rendered(analysis), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900}, accept_downloads=True)
    return follow(page, path)


def follow(page: Page, path: Path) -> Opened:
    """Open a report in the page and wait until it is ready."""
    result = Opened(page)
    page.on("console", lambda message: result.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: result.complaints.append(str(error)))
    page.on("request", lambda request: result.requests.append(request.url))
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    page.goto(path.as_uri())
    page.locator("html[data-ready=true]").wait_for(state="attached")
    return result


def _rendered(analysis: Reported) -> str:
    return document_html.render(build_document(analysis))
