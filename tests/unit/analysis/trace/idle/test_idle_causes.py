"""Idle time of a device with work queued, by what came next; times in microseconds."""

from pathlib import Path

import pytest

from perfkit.analysis.model.launches import QueuedIdle
from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace


def queued(tmp_path: Path, events: list[Event]) -> QueuedIdle | None:
    step = [mark("ProfilerStep#1", 0, 1000), op("aten::mm", 0, 990)]
    result = analyze_trace(read_trace(write_trace(tmp_path / "t.json.gz", [*step, *events])), None)
    assert result.launches is not None
    return result.launches.queued_idle


def test_what_starting_takes_and_what_nothing_explains_are_apart(tmp_path: Path) -> None:
    events = [
        launch(1, 0),
        launch(2, 2),
        launch(3, 4),
        kernel("first", 1, 10, 10),
        kernel("follows", 2, 24, 16),  # 4 us after the one before it
        kernel("held_up", 3, 300, 20),  # 260 us
        launch(4, 400),
        kernel("into_idle", 4, 420, 80),  # 19 us after its launch
        launch(5, 600),
        kernel("late", 5, 700, 20, stream=9),  # 99 us after its launch
    ]
    found = queued(tmp_path, events)
    assert found is not None
    assert (found.between_s, found.between_gaps) == (pytest.approx(4e-6), 1)
    assert (found.launching_s, found.launching_gaps) == (pytest.approx(19e-6), 1)
    assert (found.long_s, found.long_gaps) == (pytest.approx((260 + 99) * 1e-6), 2)
    assert found.same_stream_s == pytest.approx(260e-6)
    assert (found.longest_s, found.longest_before) == (pytest.approx(260e-6), "held_up")


def test_a_device_that_never_waits_with_work_queued_has_none(tmp_path: Path) -> None:
    assert (
        queued(tmp_path, [launch(1, 0), kernel("first", 1, 10, 10), launch(2, 12), kernel("second", 2, 20, 10)]) is None
    )
