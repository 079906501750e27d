"""A headless Chromium, and reports written to disk and opened from there as a user does."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from perfkit.analysis.model.memory_analysis import MemoryAnalysis
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.check.result import Check
from perfkit_reports.render import html as document_html
from perfkit_reports.subjects import memory, trace
from perfkit_reports.subjects.check.document import document as check_document
from perfkit_reports.subjects.suite.document import document as suite_document

Reported = Analysis | TraceAnalysis | MemoryAnalysis | Check

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


@dataclass
class Opened:
    """A report in a browser, with what it asked for and complained of."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def opens_cleanly(self, *widths: int) -> None:
        """Go through all sections at these widths, the first of which it was opened with: nothing scrolls sideways,
        complains, runs a script or asks for anything outside."""
        self.page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        for width in widths:
            self.page.set_viewport_size({"width": width, "height": 900})
            for section in self.sections():
                self.visit(section)
                assert self.page.evaluate("document.documentElement.scrollWidth") <= width, section
        assert self.complaints == []
        assert [url for url in self.requests if not url.startswith(("file:", "data:"))] == []
        assert self.page.locator("img").count() == 0

    def sections(self) -> list[str]:
        """Their names, from top to bottom."""
        return [str(section.get_attribute("id")) for section in self.page.locator("main > section").all()]

    def visit(self, section: str) -> None:
        """Scroll a section into view and wait until its figures are drawn."""
        self.page.locator(f"#{section}").scroll_into_view_if_needed()
        for chart in self.page.locator(f"#{section} .chart:visible").all():
            chart.scroll_into_view_if_needed()
            chart.locator(".main-svg").first.wait_for(state="attached")

    def column(self, group: str, number: int) -> list[str]:
        """The texts of a column of the table shown in a group of panels, hidden rows left out."""
        rows = self.page.locator(f".{group}-panel:not([hidden]) tbody tr:not([hidden])")
        return rows.locator(f"td:nth-child({number})").all_inner_texts()

    def names(self, group: str) -> list[str]:
        """What names the rows of that table, hidden rows left out."""
        return self.page.locator(f".{group}-panel:not([hidden]) tbody tr:not([hidden]) > th").all_inner_texts()

    def sort(self, group: str, title: str) -> str | None:
        """Click a heading of that table; the order it is then sorted in."""
        heading = self.page.locator(f".{group}-panel:not([hidden]) th", has_text=title)
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
    pages: list[Page] = []

    def opened(analysis: Reported, width: int = 1440) -> Opened:
        path = tmp_path / "report.html"
        path.write_text(_rendered(analysis), encoding="utf-8")
        page = browser.new_page(viewport={"width": width, "height": 900}, accept_downloads=True)
        pages.append(page)
        result = Opened(page)
        page.on("console", lambda message: result.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: result.complaints.append(str(error)))
        page.on("request", lambda request: result.requests.append(request.url))
        page.goto(path.as_uri())
        page.locator("html[data-ready=true]").wait_for(state="attached")
        return result

    yield opened
    for page in pages:
        page.close()


def _rendered(analysis: Reported) -> str:
    if isinstance(analysis, Analysis):
        return document_html.render(suite_document(analysis))
    if isinstance(analysis, Check):
        return document_html.render(check_document(analysis))
    if isinstance(analysis, TraceAnalysis):
        return document_html.render(trace.document(analysis))
    return document_html.render(memory.document(analysis))
