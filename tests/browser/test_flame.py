"""Flame graphs as people use them: zoom, search, the keyboard, and from a dot to the block and back."""

from typing import Any

import pytest
from msgspec.structs import replace
from playwright.sync_api import Page

from perfkit.analysis.model.step import FlameGraph
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from tests.fixtures import sample_trace_analysis as sample

pytestmark = pytest.mark.browser

FLAME = FlameGraph(
    grouping="module",
    names=("Net_0", "Attention_1", "aten::_softmax", sample.SOFTMAX, "aten::mm", "Linear_2"),
    kinds=("module", "op", "kernel"),
    parent=(-1, 0, 0, 1, 2, 3),
    name=(0, 1, 5, 2, 4, 3),
    kind=(0, 0, 0, 1, 1, 2),
    values={"time": (0.01, 0.006, 0.004, 0.006, 0.004, 0.006), "flops": (4e9, 0.0, 4e9, 0.0, 4e9, 0.0)},
    min_share=0.001,
)
PHASES = replace(
    FLAME, grouping="phase", names=("forward", "Attention_1", "aten::_softmax", sample.SOFTMAX, "aten::mm", "b")
)


def with_flames(*flames: FlameGraph) -> TraceAnalysis:
    analysis = sample.alone()
    return replace(analysis, traces=tuple(replace(trace, flames=flames) for trace in analysis.traces))


def blocks(page: Page) -> dict[str, float]:
    """The width of each block that has a name, in parts of the whole."""
    found = page.locator(".flame .block").evaluate_all(
        "(blocks) => blocks.map((block) => [block.textContent, parseFloat(block.style.width) / 100])"
    )
    return {name: round(width, 3) for name, width in found if name}


def test_blocks_are_as_wide_as_what_they_take_and_zoom(open_report: Any) -> None:
    report = open_report(with_flames(FLAME, PHASES))
    page = report.page
    report.visit("flame")
    assert blocks(page)["Attention_1"] == 0.6
    page.locator(".block", has_text="Linear_2").click()
    assert blocks(page) == {"everything": 1.0, "Net_0": 1.0, "Linear_2": 1.0, "aten::mm": 1.0}
    page.locator(".flame [data-reset]").click()
    page.get_by_label("Width").select_option(label="FLOPs")
    assert blocks(page)["Linear_2"] == 1.0
    assert "Attention_1" not in blocks(page)
    page.locator(".flame [data-tree]").first.select_option("phases")
    assert "forward" in blocks(page)
    assert report.complaints == []


def test_a_search_marks_what_fits_and_sums_it_once(open_report: Any) -> None:
    report = open_report(with_flames(FLAME))
    report.visit("flame")
    report.page.get_by_label("Find").fill("softmax")
    assert report.page.locator(".block.hit").count() == 2
    assert report.page.locator(".flame [data-status]").inner_text() == "6.00 ms, 60.0 % of the work in a step matches"


def test_the_keyboard_walks_zooms_and_chooses(open_report: Any) -> None:
    report = open_report(with_flames(FLAME))
    page = report.page
    report.visit("flame")
    page.locator('.block[tabindex="0"]').focus()
    for pressed in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(pressed)
    told = page.locator(".flame [data-status]").inner_text()
    assert told == "Linear_2: 4.00 ms, 40.0 % of the work in a step; 40.0 % of Net_0"
    page.keyboard.press("Enter")
    assert page.evaluate("perfkitSelection.get()") == "module:Net_0/Linear_2"
    assert blocks(page)["Linear_2"] == 1.0
    page.keyboard.press("Escape")
    assert not page.locator("#drawer").is_visible()
    page.keyboard.press("Backspace")
    assert blocks(page)["Linear_2"] == 0.4


@pytest.mark.parametrize("width", [1440, pytest.param(390, marks=pytest.mark.nightly)])
def test_from_a_row_to_its_block_and_the_link_shows_it(open_report: Any, width: int) -> None:
    report = open_report(with_flames(FLAME), width=width)
    page = report.page
    report.visit("savings")
    page.get_by_role("radio", name="Kernels").check(force=True)
    page.locator("#kernels-0-rows .choose", has_text="softmax_warp_forward").first.click()
    page.locator("#drawer").get_by_role("button", name="flame graph").click()
    chosen = page.locator(".block.chosen")
    assert chosen.count() == 1
    assert "softmax_warp_forward" in str(chosen.get_attribute("aria-label"))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    link = page.evaluate("location.href")  # `page.url` is told of it later
    page.goto("about:blank")
    page.goto(link)
    page.locator("#drawer").wait_for(state="visible")
    assert page.locator(".block.chosen").count() == 1


def test_a_change_is_colored_by_its_direction(open_report: Any) -> None:
    analysis = sample.realistic()
    change = analysis.difference
    assert change is not None
    slower = replace(FLAME, values={"time": (0.005, 0.001, 0.004, 0.001, 0.004, 0.001)})
    after = tuple(replace(trace, flames=(FLAME,)) for trace in analysis.traces)
    changed = replace(change, before_trace=replace(change.before_trace, flames=(slower,)))
    report = open_report(replace(analysis, traces=after, difference=changed))
    page = report.page
    report.visit("flame")
    of = "(block) => block.style.getPropertyValue('--of')"
    assert page.locator(".block", has_text="Attention_1").evaluate(of) == "#D55E00"
    assert page.locator(".block", has_text="Linear_2").evaluate(of) == ""
    assert "before 1.00 ms" in str(page.locator(".block", has_text="Attention_1").get_attribute("title"))


def test_what_is_gone_is_hatched_as_wide_as_it_was_and_not_there_by_kind_of_work(open_report: Any) -> None:
    analysis = sample.realistic()
    change = analysis.difference
    assert change is not None
    # Before, Attention_1 was Other_1, of half the time that the whole takes now.
    other = replace(FLAME, names=("Net_0", "Other_1", *FLAME.names[2:]), values={"time": (0.009, 0.005, 0.004) * 2})
    after = tuple(replace(trace, flames=(FLAME,)) for trace in analysis.traces)
    changed = replace(change, before_trace=replace(change.before_trace, flames=(other,)))
    report = open_report(replace(analysis, traces=after, difference=changed))
    page = report.page
    report.visit("flame")
    gone = page.locator(".block.gone", has_text="Other_1")
    assert "5.00 ms" in str(gone.get_attribute("title"))
    assert blocks(page)["Other_1"] == round(5 / 15, 3)
    assert blocks(page)["Attention_1"] == round(6 / 15, 3)
    page.get_by_label("Color").select_option("work")
    assert "Other_1" not in blocks(page)
    assert blocks(page)["Attention_1"] == 0.6
    assert report.complaints == []


def test_paper_has_all_of_it_whatever_was_zoomed_to(open_report: Any) -> None:
    report = open_report(with_flames(FLAME))
    page = report.page
    report.visit("flame")
    page.locator(".block", has_text="Linear_2").click()
    assert "Attention_1" not in blocks(page)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert blocks(page)["Attention_1"] == 0.6
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert "Attention_1" not in blocks(page)


def test_a_graph_is_reached_by_tab_when_the_focused_block_is_not_drawn_any_more(open_report: Any) -> None:
    report = open_report(with_flames(FLAME, PHASES))
    page = report.page
    report.visit("flame")
    page.locator(".block", has_text="Attention_1").focus()
    page.get_by_label("Width").select_option(label="FLOPs")  # it has none
    assert "Attention_1" not in blocks(page)
    assert page.locator('.block[tabindex="0"]').inner_text() == "everything"
