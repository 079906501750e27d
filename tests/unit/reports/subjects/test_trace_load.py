"""What a report shows of a device's load: spread of calls, SM efficiency, occupancy and queue lengths."""

from typing import Any

import plotly.graph_objects as go
import pytest

from perfkit.analysis.model.launches import DeviceLoad, QueueSeries, StreamQueue
from perfkit.analysis.model.step import OpRow
from perfkit_reports.document.blocks import Chart, Table
from perfkit_reports.document.cells import Cell
from perfkit_reports.subjects.trace.queue_length import build_queue_blocks
from perfkit_reports.subjects.trace.rows.costs import build_cost_columns
from perfkit_reports.subjects.trace.trace_sentences import describe_load
from tests.fixtures.figures import list_figures
from tests.fixtures.rank_traces import rank_trace, row

_SPREAD = {"All calls": "1,200", "Shortest call": "1.50 us", "Median call": "2.00 us", "p99 call": "9.00 us"}
_LOAD = {"SM efficiency": "62.5 %", "Occupancy": "12.5 %", "Blocks per SM": "0.625"}


def cells(kind: str, shown: OpRow) -> dict[str, Cell]:
    return {column.title: column.cell(shown) for column in build_cost_columns(kind, "H100")}


@pytest.mark.parametrize(("kind", "titles"), [("kernels", _SPREAD | _LOAD), ("ops", _SPREAD)])
def test_rows_show_the_spread_of_their_calls_and_kernels_their_load(kind: str, titles: dict[str, str]) -> None:
    spread: dict[str, Any] = {"all_calls": 1200, "least_s": 1.5e-6, "median_s": 2e-6, "p99_s": 9e-6}
    load = {"sm_efficiency": 0.625, "occupancy": 0.125, "blocks_per_sm": 0.625}
    found = cells(kind, row("gemm", 0.5, **spread, **load))
    assert {title: found[title].text for title in titles} == titles
    unknown = cells(kind, row("gemm", 0.5))
    assert all(unknown[title].text == "n/a" and unknown[title].reason for title in titles)
    assert ("Occupancy" in found) is (kind == "kernels")


@pytest.mark.parametrize(
    ("load", "figures"),
    [
        (DeviceLoad(sm_efficiency=0.6, occupancy=0.25, known_share=1.0, occupancy_share=1.0), ["60.0 %", "25.0 %"]),
        (
            DeviceLoad(sm_efficiency=0.6, occupancy=0.25, known_share=0.8, occupancy_share=0.5),
            ["60.0 %", "25.0 %", "50.0 %"],
        ),
        (DeviceLoad(sm_efficiency=0.6, occupancy=None, known_share=1.0, occupancy_share=0.0), ["60.0 %"]),
        (DeviceLoad(sm_efficiency=None, occupancy=None, known_share=0.0, occupancy_share=0.0), []),
    ],
)
def test_the_load_of_a_step_in_a_sentence(load: DeviceLoad, figures: list[str]) -> None:
    text = describe_load(rank_trace(device_load=load))
    assert [figure for figure in list_figures(text) if "%" in figure] == figures
    assert ("nknown" in text) is (load.occupancy is None)
    assert ("at least" in text) is (0 < load.known_share < 1)


def test_no_sentence_without_kernels() -> None:
    assert describe_load(rank_trace()) == ""


def test_queue_lengths_over_time_and_by_stream() -> None:
    queue = StreamQueue(
        device=0, stream="7", launched=3402, without_launch=334, mean=135.9, median=143.0, most=361.0, empty_share=0.056
    )
    series = QueueSeries(begin_s=0.01, interval_s=0.02, mean=(0.5, 2.25), most=(1, 4))
    chart, table = build_queue_blocks(rank_trace(queues=(queue,), queue_series=series), "-0")
    assert isinstance(chart, Chart)
    go.Figure(chart.figure)  # raises on an unknown name or a bad value
    most, mean = chart.figure["data"]
    assert (most["x"], most["y"], mean["y"]) == ([10.0, 30.0], [1, 4], [0.5, 2.25])
    assert {"30.0", "2.25", "4"} <= {*list_figures(mean["hovertext"][1].replace(" ms", ""))}
    assert isinstance(table, Table)
    (shown,) = table.rows
    assert [column.cell(shown).text for column in table.columns] == [
        "7",
        "0",
        "136",
        "143",
        "361",
        "5.6 %",
        "3,402",
        "334",
    ]
    assert build_queue_blocks(rank_trace(), "-0") == ()
