import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit_reports.render.parquet import encode_parquet
from perfkit_reports.subjects.trace.series import list_traces
from perfkit_reports.subjects.trace.trace_data import build_data
from tests.fixtures import sample_accounts
from tests.fixtures import sample_trace_analysis as sample


def tables(analysis: TraceAnalysis) -> dict[str, pa.Table]:
    return {each.name: pq.read_table(io.BytesIO(encode_parquet(each))) for each in build_data(analysis)}


def test_every_table_reads_back_with_its_schema(traces: TraceAnalysis) -> None:
    for each in build_data(traces):
        again = pq.read_table(io.BytesIO(encode_parquet(each)))
        assert again.to_pylist() == [{**row} for row in each.rows()]
        assert again.column_names == list(each.schema)


def test_no_row_is_cut_and_unknown_is_null() -> None:
    analysis = sample.realistic()
    made = tables(analysis)
    assert made["kernels"].num_rows == sum(len(trace.kernels) for trace in list_traces(analysis))
    rope = [row for row in made["kernels"].to_pylist() if row["op"] == "mylib::fused_rope"]
    assert [row["flops"] for row in rope] == [None] * 3
    assert [row["trace"] for row in rope] == ["rank 0", "rank 1", "main rank 0"]
    assert made["ranks"].num_rows == 2
    assert made["changes"].to_pylist()[4]["before_s"] is None


def test_a_trace_is_one_row_with_what_it_lacks_as_null() -> None:
    row = tables(sample.cpu_only())["traces"].to_pylist()[0]
    assert (row["label"], row["device"], row["file_info_events"]) == ("rank 0", "cpu", 184_211)
    assert row["launches_idle_s"] is None
    assert row["mfu"] == pytest.approx(0.158)
    assert row["coverage_kernels"] == 990


def test_time_of_each_step_and_stream_sums_to_one() -> None:
    sums: dict[str, float] = {}
    for row in tables(sample.alone())["time"].to_pylist():
        sums[row["scope"]] = sums.get(row["scope"], 0.0) + row["share"]
    assert sums == pytest.approx(
        dict.fromkeys(("step", "step 10", "step 11", "step 12", "stream 0/7", "stream 0/20"), 1.0)
    )


def test_memory_of_all_traces_sums_to_the_peak() -> None:
    analysis = sample.alone(memory=sample_accounts.step(300 * 2**20))
    made = tables(analysis)
    rows = [row for row in made["memory"].to_pylist() if row["in_peak"]]
    assert sum(row["bytes"] for row in rows) == 300 * 2**20
    assert {row["trace"] for row in rows} == {"rank 0"}
    assert made["memory_timeline"].num_rows > 0
    assert tables(sample.alone())["memory"].num_rows == 0
