"""The dashboard as people use it: served, opened in a browser, while a job writes its log."""

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from perfkit.core.files import write_bytes, write_json
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.store.layout import RUN_FILE
from perfkit.store.live import LiveEvent
from perfkit.store.summary import PROCESS_FILE
from perfkit_reports.view.server import open_server
from tests.browser.accessibility import list_violations
from tests.fixtures.suites import changed, record, write_suite
from tests.fixtures.view_folder import append, silent, start, view_folder, windows

pytestmark = pytest.mark.browser


@dataclass
class Shown:
    """A page of the dashboard, with what it asked for and complained of."""

    page: Page
    url: str
    folder: Path
    token: str
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def runs(self) -> list[str]:
        """The paths of the runs that the list shows, from top to bottom."""
        rows = self.page.locator("#list tbody tr").all()
        return [str(row.get_attribute("data-path")) for row in rows]

    def row(self, path: str) -> str:
        return self.page.locator(f'#list tr[data-path="{path}"]').inner_text()

    def goes_cleanly(self) -> None:
        assert self.complaints == []
        assert [url for url in self.requests if not url.startswith((self.url, "data:", "blob:"))] == []

    def points(self, chart: str) -> list[int]:
        """How many points each line of a chart has."""
        count: list[int] = self.page.evaluate(
            "name => document.querySelector(`[data-chart=${name}]`).data.filter(line => line.meta !== 'events')"
            ".map(line => line.x.filter(value => value !== null).length)",
            chart,
        )
        return count


Show = Callable[..., Shown]


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """`show("live/job", width=390)` serves a folder with one run of each kind and opens a page of it."""
    folder = view_folder(tmp_path / "runs")
    pages: list[Page] = []
    with open_server(folder, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()

        def opened(address: str = "", width: int = 1440, scheme: str = "light") -> Shown:
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
            page.set_default_timeout(15_000)
            pages.append(page)
            shown = Shown(page, server.url, folder, server.token)
            page.on("console", lambda message: shown.complaints.append(f"{message.type}: {message.text}"))
            page.on("pageerror", lambda error: shown.complaints.append(str(error)))
            page.on("request", lambda request: shown.requests.append(request.url))
            page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
            page.goto(server.url + address)
            if not address.startswith("report"):
                page.locator("html[data-ready=true]").wait_for(state="attached")
            return shown

        yield opened
        for page in pages:
            page.close()
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("address", ["", "live/job"])
def test_pages_fit_their_screen_and_ask_for_nothing_outside(show: Show, address: str, width: int, scheme: str) -> None:
    shown = show(address, width, scheme)
    shown.page.mouse.wheel(0, 4000)
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
    shown.goes_cleanly()


@pytest.mark.parametrize("address", ["", "live/job", "nowhere"])
def test_axe_finds_nothing_on_a_page_of_the_server(show: Show, address: str) -> None:
    page = show(address).page if address != "nowhere" else _open_refused(show)
    assert list_violations(page) == []


def _open_refused(show: Show) -> Page:
    shown = show()
    shown.page.goto(f"{shown.url}report/nowhere/")
    return shown.page


def test_the_list_shows_what_is_known_and_why_not(show: Show) -> None:
    shown = show()
    assert [path for path in shown.runs() if path != "damaged"] == [
        "job", "bench/large", "bench/gpt", "trace", "unreported",
    ]  # fmt: skip
    for text in ("50.0 ms", "160 samples/s", "40.0 %", "Test CPU", "baseline, amp"):
        assert text in shown.row("bench/gpt")
    assert "ckpt out of memory" in shown.row("bench/large")
    unknown = shown.page.locator('#list tr[data-path="unreported"] .num .na').first
    assert (unknown.inner_text(), "perfkit report" in str(unknown.get_attribute("title"))) == ("n/a", True)


def test_the_list_filters_by_words_kind_and_status(show: Show) -> None:
    shown = show()
    words = shown.page.get_by_placeholder("Filter")
    words.fill("GPT bench")
    assert shown.runs() == ["bench/large", "bench/gpt"]
    words.fill("out of memory")
    assert shown.runs() == ["bench/large"]
    words.fill("")
    shown.page.get_by_label("Kind").select_option("trace")
    assert shown.runs() == ["trace"]
    shown.page.get_by_label("Status").select_option("failed")
    assert shown.runs() == []
    assert shown.page.get_by_text("No run matches.").is_visible()
    shown.page.get_by_label("Kind").select_option("")
    assert shown.runs() == ["bench/large"]
    assert shown.page.locator("#count").inner_text() == "1 of 6, 1 running"
    shown.page.reload()
    assert shown.runs() == ["bench/large"]  # the filter outlives a reload


def test_the_list_sorts_with_the_unknown_last(show: Show) -> None:
    shown = show()
    shown.page.get_by_role("button", name="Step time").click()
    known = ["job", "trace", "bench/gpt", "bench/large"]
    assert shown.runs()[:4] == known
    shown.page.get_by_role("button", name="Step time").click()
    assert shown.runs()[:4] == known[::-1]
    heading = shown.page.locator("#list th", has_text="Step time")
    assert heading.get_attribute("aria-sort") == "descending"


def test_the_list_refreshes_and_keeps_filter_and_order(show: Show) -> None:
    shown = show()
    shown.page.get_by_placeholder("Filter").fill("bench")
    shown.page.locator("#list button[data-key=name]").click()
    write_suite(shown.folder / "bench" / "new", {"baseline": [record(0.02)]})
    write_suite(shown.folder / "other", {"baseline": [record(0.02)]})
    expect(shown.page.locator('#list tr[data-path="bench/new"]')).to_be_visible()
    assert sorted(shown.runs()) == ["bench/gpt", "bench/large", "bench/new"]
    assert shown.page.locator("#list th", has_text="Run").get_attribute("aria-sort") == "ascending"
    expect(shown.page.locator("#count")).to_have_text("3 of 8, 1 running")
    for place in range(205):
        write_bytes(shown.folder / "bench" / f"look{place}" / PROCESS_FILE, b"{}")
    expect(shown.page.locator("#count")).to_have_text("208 of 213, 1 running")
    assert len(shown.runs()) == 200
    shown.page.get_by_role("button", name="Show 8 more").click()
    assert len(shown.runs()) == 208


def test_a_job_that_ends_is_no_longer_shown_as_running(show: Show) -> None:
    shown = show()
    assert "running" in shown.row("job")
    write_json(shown.folder / "job/baseline@2/0" / RUN_FILE, RunResult(status=RunStatus.OK))
    expect(shown.page.locator('#list tr[data-path="job"] .pill')).to_have_text("ok")


def test_a_report_opens_and_works(show: Show) -> None:
    shown = show()
    shown.page.locator('#list tr[data-path="bench/gpt"]').get_by_role("link", name="gpt").click()
    shown.page.locator("html[data-ready=true]").wait_for(state="attached")
    assert "2.10×" in shown.page.locator("h1").inner_text()
    shown.page.locator("#samples summary").first.click()
    shown.page.locator("#samples .chart").first.scroll_into_view_if_needed()
    shown.page.locator("#samples .chart .main-svg").first.wait_for(state="attached")
    with shown.page.expect_download() as saved:
        shown.page.get_by_role("button", name="Save JSON").click()
    assert saved.value.suggested_filename == "report.json"
    shown.goes_cleanly()


@pytest.mark.nightly
def test_a_missing_report_is_drawn_while_one_waits(show: Show) -> None:
    shown = show("report/unreported")
    shown.page.locator("#summary").wait_for(timeout=60_000)
    assert "70.0\u00a0ms per step" in shown.page.locator("h1").inner_text()
    assert not (shown.folder / "unreported" / "report.html").exists()
    shown.page.get_by_role("link", name="All runs").click()
    expect(shown.page.locator('#list tr[data-path="unreported"]')).to_be_visible()
    shown.goes_cleanly()


def test_the_live_page_grows_while_the_job_writes(show: Show) -> None:
    shown = show("live/job")
    page = shown.page
    assert shown.points("step") == [30, 30]
    assert page.locator("#events tbody tr").count() == 2
    expect(page.locator("#standing")).to_contain_text("running")
    page.evaluate("window.same = true")
    rank = shown.folder / "job/baseline@2/0/rank0"
    event = LiveEvent(time_s=2e9, step=1700, kind="trace", text="<img src=x onerror=alert(1)>")
    append(rank, [*windows(5, first=30, step_s=0.5), event])
    expect(page.locator("#tiles .card").first).to_contain_text("ms")
    expect(page.locator("#events tbody tr").first).to_contain_text("<img src=x onerror=alert(1)>")
    assert shown.points("step") == [35, 35]
    assert float(page.locator("#tiles .card b").first.inner_text().removesuffix(" ms")) > 450
    append(rank, [LiveEvent(time_s=2e9 + 1, step=1750, kind="end", text="the loop ended")])
    expect(page.locator("#standing")).to_contain_text("ended at step 1,750")
    expect(page.locator("#standing")).to_contain_text("the loop ended")
    assert page.evaluate("window.same")  # it was not loaded again
    assert page.locator("img").count() == 0
    shown.goes_cleanly()


def test_every_chart_is_drawn(show: Show) -> None:
    shown = show("live/job")
    for chart in ("step", "throughput", "data", "memory", "mfu", "power"):
        assert all(count == 30 for count in shown.points(chart)), chart
        marks = shown.page.evaluate(
            "name => document.querySelector(`[data-chart=${name}]`).layout.shapes.length", chart
        )
        assert marks == 2


def test_several_ranks_are_drawn_together(show: Show) -> None:
    shown = show("live/job")
    shown.page.get_by_role("checkbox", name="rank 1").check(force=True)
    expect(shown.page.locator("#standing p")).to_have_count(2)
    assert shown.points("step") == [30, 30]
    legend = shown.page.locator("#charts figure").first.locator(".legend li")
    assert [item.strip() for item in legend.all_inner_texts()] == ["rank 0", "rank 1"]
    shown.page.get_by_role("radio", name="time").check(force=True)
    kind = shown.page.evaluate("document.querySelector('[data-chart=step]').layout.xaxis.type")
    assert kind == "date"


def test_a_silent_job_says_for_how_long_and_what_is_not_known_why(show: Show) -> None:
    shown = show("live/job")
    rank = shown.folder / "job/baseline@2/0/rank0"
    (rank / "live.jsonl").unlink()
    bare = {"mfu": None, "power_w": None, "units_per_s": None, "data_wait_s": None}
    lines = [changed(line, **bare) for line in windows(4)]
    silent(append(rank, [start(peak_flops=None), *lines]), 90)
    expect(shown.page.locator("#standing")).to_contain_text("no output for 9")
    expect(shown.page.locator("#standing .pill")).to_have_text("silent")
    mfu = shown.page.locator("#charts figure", has_text="MFU")
    expect(shown.page.locator("#tiles .card", has_text="MFU")).to_contain_text("peak unknown")
    expect(shown.page.locator("#charts figure", has_text="Power")).to_contain_text("not reported by the device")
    assert mfu.locator("[data-chart]").is_visible()  # its utilization is known
    assert shown.points("step") == [4, 4]  # the log was replaced, and read from its beginning


def test_the_choice_of_light_or_dark_is_kept(show: Show) -> None:
    shown = show()
    shown.page.get_by_role("button", name="Switch between light and dark").click()
    shown.page.goto(shown.url + "live/job")
    assert shown.page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_page_with_the_token_asks_for_a_trace_and_one_without_has_no_button(show: Show) -> None:
    without = show("live/job")
    assert without.page.locator("#trace").is_hidden()
    shown = show(f"live/job#token={without.token}")
    assert "token" not in shown.page.url
    shown.page.locator("#trace").click()
    shown.page.locator("#asked").filter(has_text="next steps").wait_for()
    assert (shown.folder / "job" / "trace-now").exists()
    shown.goes_cleanly()
    shown.page.locator("#trace").click()
    shown.page.locator("#asked").filter(has_text="already requested").wait_for()


def test_two_runs_are_ticked_and_compared_with_the_keyboard_and_the_link_shows_them(show: Show) -> None:
    shown = show()
    page = shown.page
    bar = page.get_by_role("region", name="Runs to compare")
    assert not bar.is_visible()
    page.get_by_label("Compare bench/gpt").focus()
    page.keyboard.press("Space")
    expect(bar).to_contain_text("first: bench/gpt")
    expect(bar.get_by_role("link")).to_have_text("Choose another run")
    page.get_by_label("Variant of bench/gpt").select_option("amp")
    page.get_by_label("Compare unreported").focus()
    page.keyboard.press("Space")
    expect(bar.get_by_role("link")).to_have_text("Compare 2 runs")
    page.reload()
    assert page.get_by_label("Compare unreported").is_checked(), "what was chosen outlives a reload"
    assert page.get_by_label("Variant of bench/gpt").input_value() == "amp"
    page.set_viewport_size({"width": 390, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    bar.get_by_role("link").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare?run=bench%2Fgpt%40amp&run=unreported")
    title = re.compile(r"unreported.*gpt@amp\b.*\b40\s%")
    page.get_by_role("heading", level=1, name=title).wait_for(timeout=120_000)
    assert page.get_by_role("table", name="Side by side").is_visible()
    page.get_by_role("link", name="All runs").click()
    page.get_by_role("heading", level=1, name="Runs").wait_for()
    shown.goes_cleanly()


def test_each_variant_of_a_run_is_compared_and_what_is_no_run_has_no_box(show: Show) -> None:
    page = show().page
    assert page.get_by_label("Compare damaged").count() == 0
    page.get_by_label("Compare bench/gpt").check()
    page.get_by_label("Variant of bench/gpt").select_option("each variant")
    link = page.get_by_role("region", name="Runs to compare").get_by_role("link")
    assert link.get_attribute("href") == "/compare?run=bench%2Fgpt%40baseline&run=bench%2Fgpt%40amp"
    page.get_by_role("button", name="Clear").click()
    assert not page.get_by_label("Compare bench/gpt").is_checked()
    assert page.evaluate("location.search") == ""
