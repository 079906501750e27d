"""What tables of costs say of figures that are estimates or have bounds only."""

from perfkit.analysis.model.step import OpRow
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.trace.rows.costs import build_cost_columns, get_shown_rows, is_ranked_by_savings
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


def test_rows_are_sorted_by_time_where_the_savings_of_most_of_it_are_unknown() -> None:
    costed, long, outside = (
        row("a", 0.1, attainable_s=0.02),
        row("b", 0.3),
        row("c", 0.9, phase="outside steps"),
    )
    rows = (costed, long, outside)
    assert not is_ranked_by_savings(rows)
    assert [shown.name for shown in get_shown_rows(rank_trace(ops=(*rows, row("d", 0.35))), "ops")] == list("dbac")
    known = (row("a", 0.4, attainable_s=0.3), row("b", 0.5, attainable_s=0.49), row("c", 0.6))
    assert is_ranked_by_savings(known)
    assert [shown.name for shown in get_shown_rows(rank_trace(ops=known), "ops")] == list("abc")


def test_a_kernel_is_shown_with_its_op_and_module() -> None:
    (column,) = [column for column in build_cost_columns("kernels", "H100") if column.title == "Op"]
    cell = column.cell(row("gemm", 0.1, kind="kernel", op="aten::addmm", module="Net/Block/Mlp/Linear and 2 more"))
    assert (cell.text, cell.whole, cell.detail) == ("addmm", "aten::addmm", "Mlp/Linear and 2 more")
    assert column.weight == Weight.BRIEF
