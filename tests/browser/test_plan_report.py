"""The report on a plan, and a bench with one, as people use them."""

from typing import Any

import pytest

from tests.fixtures import sample_analysis
from tests.fixtures import sample_plans as sample

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    "name", ["realistic", "nothing", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("ranks", "alone"))]
)
def test_opens_offline_without_errors_and_without_sideways_scrolling(shared_report: Any, name: str) -> None:
    shared_report(getattr(sample, name), width=390).opens_cleanly(390, 1440)


def test_bars_of_what_is_needed_have_their_bounds_and_the_limit(shared_report: Any) -> None:
    report = shared_report(sample.realistic)
    report.visit("memory")
    chart = report.page.locator('[data-figure="needed"]')
    assert chart.locator(".errorbars path").count() >= 1
    assert chart.locator(".shapelayer path").count() == 1
    labels = chart.locator(".annotation-text").all_text_contents()
    assert "limit 1.00 GiB" in labels
    assert "baseline: 1.40–1.89 GiB" in labels


def test_a_bench_shows_what_was_predicted_beside_what_was_measured(open_report: Any) -> None:
    report = open_report(sample_analysis.predicted())
    assert report.visit("predicted") <= 1440
    rows = report.page.locator("#predicted tbody tr").all_inner_texts()
    assert "+5.0 %" in rows[1]
    bars = report.page.locator('[data-figure="predicted-memory"] .annotation-text').all_text_contents()
    assert bars[:2] == ["baseline, predicted", "baseline, measured"]
