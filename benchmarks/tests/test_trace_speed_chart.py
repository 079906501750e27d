"""The chart of the README is drawn from the results beside it."""

import json

from benchmarks.trace_speed_chart import CHART, RESULTS, draw_chart


def test_the_chart_is_current() -> None:
    assert CHART.read_text() == draw_chart(json.loads(RESULTS.read_text())["rows"]), (
        "python -m benchmarks.trace_speed_chart"
    )
