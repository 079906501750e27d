"""What tables of costs say of figures that are estimates or have bounds only."""

from perfkit.analysis.model.step import OpRow
from perfkit_reports.document.cells import Cell
from perfkit_reports.subjects.trace.costs import build_cost_columns
from perfkit_reports.subjects.trace.trace_sentences import describe_coverage as coverage_story
from tests.fixtures.figures import list_figures
from tests.fixtures.rank_traces import coverage, rank_trace, row


def cells(shown: OpRow) -> dict[str, Cell]:
    return {column.title: column.cell(shown) for column in build_cost_columns("ops", "H100")}


def test_bounds_are_shown_as_such() -> None:
    found = cells(row("flash_attn::varlen", 0.5, flops=1e12, max_flops=4e12, bytes=2.0**30))
    assert found["FLOPs"].text == "1.00 TFLOP to 4.00 TFLOP"
    assert found["Bytes"].text == "1.00 GiB"


def test_an_estimate_is_shown_as_such() -> None:
    found = cells(row("mine::blend", 0.5, bytes=2.0**30, is_estimate=True))
    assert (found["Bytes"].text, found["Bytes"].tone) == ("about 1.00 GiB", "unsure")
    assert found["Bytes"].detail.startswith("estimate")


def test_coverage_tells_estimates_and_bounds_apart_from_what_is_known() -> None:
    trace = rank_trace(coverage=coverage(bytes_s=0.6, bounded_s=0.2, estimated_s=0.3))
    text = coverage_story(trace)
    assert {"60.0 %", "20.0 %", "30.0 %"} <= {*list_figures(text)}
