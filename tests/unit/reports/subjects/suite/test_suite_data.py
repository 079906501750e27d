from pathlib import Path

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.suite import Analysis
from perfkit.store.parquet import read_arrays
from perfkit_reports.document.tables import RawTable
from perfkit_reports.render.parquet import encode_parquet
from perfkit_reports.subjects.suite.suite_document import build_document


def tables(analysis: Analysis) -> dict[str, RawTable]:
    return {data.name: data for data in build_document(analysis).data}


def test_every_row_has_the_columns_of_its_table(tmp_path: Path, analysis: Analysis) -> None:
    for data in tables(analysis).values():
        path = tmp_path / f"{data.name}.parquet"
        path.write_bytes(encode_parquet(data))
        assert list(read_arrays(path, list(data.schema))) == list(data.schema)
        assert all(list(row) == list(data.schema) for row in data.rows())


def test_the_tables_are_these(nothing_measured: Analysis) -> None:
    assert list(tables(nothing_measured)) == [
        "variants", "steps", "losses", "experts", "kernels", "ops", "modules", "phases", "roofline", "gemms",
        "attentions", "time", "ceilings",
        "memory", "memory_timeline", "memory_largest", "memory_rows", "memory_growth", "memory_bands",
    ]  # fmt: skip


def test_unknown_is_null_not_zero(every_status: Analysis) -> None:
    rows = {row["variant"]: row for row in tables(every_status)["variants"].rows()}
    skipped = rows["zero2@2"]
    assert (skipped["step_s"], skipped["peak_allocated_bytes"], skipped["active"], skipped["ratio"]) == (None,) * 4
    assert rows["amp"]["ratio"] == pytest.approx(0.617)
    assert rows["amp"]["on_pareto_front"] is True


def test_steps_keep_process_order_and_mark_warm_up(realistic: Analysis) -> None:
    rows = [row for row in tables(realistic)["steps"].rows() if row["variant"] == "amp"]
    timed = [row for row in rows if not row["warmup"]]
    assert len(timed) == 3 * 20
    assert len(rows) - len(timed) == 5 + 6 + 7
    assert timed[21]["repeat"] == 1
    assert timed[21]["step"] == 1
    assert timed[21]["wall_s"] == realistic.variants[1].step_samples[1][1]


def test_memory_at_the_peak_sums_to_the_peak(realistic: Analysis) -> None:
    rows = [row for row in tables(realistic)["memory"].rows() if row["variant"] == "ckpt" and row["in_peak"]]
    account = realistic.variants[2].memory
    assert account is not None
    assert sum(row["bytes"] for row in rows) == account.peak_bytes


def test_the_wait_for_data_is_that_of_a_bench_too(realistic: Analysis) -> None:
    variants = tuple(replace(variant, data_wait_share=0.25) for variant in realistic.variants)
    rows = tables(replace(realistic, variants=variants))["variants"].rows()
    assert {row["data_wait_share"] for row in rows} == {0.25}
