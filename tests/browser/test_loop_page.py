"""The report of a loop that perfkit was attached to, in a browser at desktop and phone width."""

from typing import Any

import pytest

from tests.fixtures import sample_loops

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    "name",
    [
        "alone",
        "hostile",
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("with_capture", "out_of_memory")),
    ],
)
def test_opens_cleanly(shared_report: Any, name: str) -> None:
    shared_report(getattr(sample_loops, name), width=390).opens_cleanly(390, 1440)


def test_a_lone_loop_is_compared_with_nothing(shared_report: Any) -> None:
    page = shared_report(sample_loops.alone).page
    assert page.locator("[data-figure=pareto], [data-pick]").count() == 0
    titles = page.locator("#variants-rows thead th").all_inner_texts()
    assert [title.strip() for title in titles] == ["Loop", "Step time", "Data wait", "tokens/s", "Peak memory", "MFU"]
    page.get_by_role("link", name="Recording").click()
    assert page.get_by_text("4 microbatches").is_visible()


def test_the_traceback_of_a_loop_opens_on_demand(open_report: Any) -> None:
    page = open_report(sample_loops.out_of_memory()).page
    traceback = page.get_by_text("ZeroDivisionError: <b>division</b> by zero")
    assert not traceback.is_visible()
    page.locator("#variants-rows").get_by_role("button", name="Details").click()
    assert traceback.is_visible()
