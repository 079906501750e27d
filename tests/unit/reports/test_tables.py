import io

import pyarrow.parquet as pq
import pytest

from perfkit.analysis.model.suite import Analysis
from perfkit_reports.arrow import parquet
from perfkit_reports.tables import SCHEMAS, tables


def test_every_table_reads_back_with_its_schema(analysis: Analysis) -> None:
    for name, table in tables(analysis).items():
        again = pq.read_table(io.BytesIO(parquet(table)))
        assert again.equals(table)
        assert again.column_names == list(SCHEMAS[name])


def test_unknown_is_null_not_zero(every_status: Analysis) -> None:
    rows = {row["variant"]: row for row in tables(every_status)["variants"].to_pylist()}
    skipped = rows["zero2@2"]
    assert (skipped["step_s"], skipped["peak_allocated_bytes"], skipped["engaged"], skipped["ratio"]) == (None,) * 4
    assert rows["amp"]["ratio"] == pytest.approx(0.617)
    assert rows["amp"]["on_pareto_front"] is True


def test_steps_keep_process_order_and_mark_warm_up(realistic: Analysis) -> None:
    rows = [row for row in tables(realistic)["steps"].to_pylist() if row["variant"] == "amp"]
    timed = [row for row in rows if not row["warmup"]]
    assert len(timed) == 3 * 20
    assert len(rows) - len(timed) == 5 + 6 + 7
    assert timed[21]["repeat"] == 1
    assert timed[21]["step"] == 1
    assert timed[21]["wall_s"] == realistic.variants[1].step_samples[1][1]


def test_memory_at_the_peak_sums_to_the_peak(realistic: Analysis) -> None:
    rows = [row for row in tables(realistic)["memory"].to_pylist() if row["variant"] == "ckpt" and row["in_peak"]]
    account = realistic.variants[2].memory
    assert account is not None
    assert sum(row["bytes"] for row in rows) == account.peak_bytes
