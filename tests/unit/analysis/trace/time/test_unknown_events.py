"""Traces whose events are not known to be work: nothing can be saved in them."""

from pathlib import Path

import pytest

from perfkit.analysis.model.time_split import PYTHON, UNKNOWN_EVENTS
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.trace.readers.trace_reader import read_trace
from perfkit_reports.subjects.trace.fixes import list_gains
from perfkit_reports.subjects.trace.trace_headline import build_headline
from tests.fixtures.foreign_traces import Event, complete, composer_events, mindspore_events, write_events
from tests.fixtures.traces import op

WITHOUT_CATEGORIES = [complete(f"gemm_{n % 3}", 0, 7, 900.0 * n, 40.0) for n in range(50)]
BROWSER = [complete("RunTask", 3, 1, 700.0 * n, 90.0, cat="devtools.timeline") for n in range(50)]


def analyzed(tmp_path: Path, events: list[Event]) -> TraceAnalysis:
    return analyze_traces([str(write_events(tmp_path / "t.json", events))])


@pytest.mark.parametrize(
    "events",
    [mindspore_events(), composer_events(), WITHOUT_CATEGORIES, BROWSER],
    ids=["MindSpore", "Composer", "no category", "a browser"],
)
def test_nothing_is_saved_where_no_event_is_known_to_be_work(tmp_path: Path, events: list[Event]) -> None:
    found = analyzed(tmp_path, events)
    (trace,) = found.traces
    assert trace.unknown_work_reason
    assert {part.category: part.share for part in trace.time_split if part.share} == {UNKNOWN_EVENTS: 1.0}
    assert [finding.id for finding in found.findings] == ["limit.unknown_work"]
    assert list_gains(found) == []


def test_the_headline_says_what_a_foreign_file_is_of(tmp_path: Path) -> None:
    (browser, other) = (analyzed(tmp_path, events) for events in (BROWSER, composer_events()))
    (trace,) = browser.traces
    assert trace.foreign_content
    assert trace.foreign_content in build_headline(browser)
    assert other.traces[0].foreign_content == ""


def test_a_few_events_of_a_browser_beside_ops_do_not_hide_them(tmp_path: Path) -> None:
    (trace,) = analyzed(tmp_path, [*BROWSER, op("aten::mul", 50, 300, [(7, 7)] * 2)]).traces
    assert trace.foreign_content == ""
    assert trace.is_work_known


@pytest.mark.parametrize(
    ("events", "source"), [(BROWSER, "unknown"), ([op("aten::mul", 0, 30, [(7, 7)] * 2)], "derived")]
)
def test_a_device_without_a_name_is_not_recorded(tmp_path: Path, events: list[Event], source: str) -> None:
    entries = {entry.figure: entry.how for entry in analyzed(tmp_path, events).provenance}
    assert entries["device"] == source


def test_a_collective_without_an_op_is_work(tmp_path: Path) -> None:
    gloo = complete("gloo:all_gather", 41, 8, 30.0, 70.0, cat="user_annotation")
    (trace,) = analyzed(tmp_path, [gloo]).traces
    assert trace.is_work_known


@pytest.mark.parametrize(
    "events",
    [
        [complete("cudaMemGetInfo", 41, 6, 20.0, 8_000_000.0, cat="cuda_runtime", args={"correlation": 3})],
        [
            complete("ProfilerStep#4", 41, 6, 0.0, 270_000.0, cat="user_annotation"),
            op("aten::to", 60, 31, [(5, 5)]),
            op("aten::view", 190, 12, [(5, 5)]),
        ],
    ],
    ids=["one runtime call", "ops without work"],
)
def test_no_time_is_saved_where_no_op_works(tmp_path: Path, events: list[Event]) -> None:
    found = analyzed(tmp_path, events)
    (trace,) = found.traces
    assert trace.unknown_work_reason
    assert trace.framework == "torch"
    assert [finding.id for finding in found.findings] == ["limit.unknown_work"]
    assert list_gains(found) == []
    assert trace.gains is None


def test_unknown_events_beside_ops_are_not_pythons_time(tmp_path: Path) -> None:
    events = [op("aten::add", 0, 100, [(9, 9)] * 2), *composer_events(1), op("aten::add", 29_900, 100, [(9, 9)] * 2)]
    for event in composer_events(1):
        event["ts"] += 200
    trace = analyze_trace(read_trace(write_events(tmp_path / "t.json", events)), None)
    split = {part.category: part.seconds for part in trace.time_split}
    assert not trace.unknown_work_reason
    # Composer's ranges last 17 ms, of which the first op takes 0.1.
    assert split[UNKNOWN_EVENTS] == pytest.approx(16.9e-3)
    assert split[PYTHON] == pytest.approx(12.9e-3)
