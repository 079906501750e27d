"""Parts of many traces, merged: the result is that of the whole, wherever and in whatever order parts are written."""

from pathlib import Path

import msgspec
import pytest

from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.pipeline import trace_analysis, trace_parts
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.pipeline.trace_parts import Part, merge_parts, write_part
from perfkit.core.errors import RunFormatError, UsageError
from tests.fixtures.gpu_traces import training_file

RANKS = 7


def write_job(folder: Path) -> Path:
    for rank in range(RANKS):
        training_file(
            folder / f"rank{rank}.json", rank=rank, world_size=RANKS, late_us=3.0 * (rank % 4), slower=1.0 + rank / 50
        )
    return folder


def list_fields(analysis: TraceAnalysis) -> dict[str, object]:
    return {**msgspec.to_builtins(analysis), "created_at": "", "command": ""}


def write_parts(traces: Path, into: str, count: int) -> None:
    for number in reversed(range(1, count + 1)):
        write_part(str(traces), Part(number, count), into, jobs=1)


@pytest.mark.parametrize("most_full", [2, 16])
def test_merged_parts_are_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_full: int) -> None:
    monkeypatch.setattr(trace_analysis, "MOST_FULL", most_full)
    monkeypatch.setattr(trace_parts, "MOST_FULL", most_full)
    monkeypatch.setattr(trace_parts, "_RANKS_PER_FILE", 2)
    traces = write_job(tmp_path / "job")
    (traces / "rank5.json").write_text('{"traceEvents": [')
    write_parts(traces, str(tmp_path / "parts"), 2)
    merged = merge_parts(str(tmp_path / "parts"), jobs=1)
    whole = analyze_traces(str(traces), jobs=1)
    assert whole.fleet is not None
    assert len(whole.fleet.ranks) == RANKS - 1
    assert list_fields(merged) == list_fields(whole)


def test_parts_may_be_at_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_analysis, "MOST_FULL", 2)
    monkeypatch.setattr(trace_parts, "MOST_FULL", 2)
    traces, url = write_job(tmp_path / "job"), f"file://{tmp_path}/bucket/parts"
    write_parts(traces, url, 3)
    assert list_fields(merge_parts(url, jobs=1)) == list_fields(analyze_traces(str(traces), jobs=1))


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    traces, parts = write_job(tmp_path / "job"), str(tmp_path / "parts")
    write_part(str(traces), Part(1, 3), parts, jobs=1)
    write_part(str(traces), Part(3, 3), parts, jobs=1)
    with pytest.raises(UsageError, match=r"lacks 1 of 3 parts.*2/3"):
        merge_parts(parts)


def test_parts_of_other_counts_options_or_traces_are_not_mixed(tmp_path: Path) -> None:
    traces, parts = write_job(tmp_path / "job"), tmp_path / "parts"
    write_part(str(traces), Part(1, 2), str(parts), jobs=1)
    write_part(str(traces), Part(2, 2), str(parts), device="a100-sxm-80gb", jobs=1)
    with pytest.raises(UsageError, match="part 2 has other"):
        merge_parts(str(parts))
    write_part(str(traces), Part(1, 3), str(parts), jobs=1)
    with pytest.raises(UsageError, match="of 2 and of 3"):
        merge_parts(str(parts))
    with pytest.raises(UsageError, match="8 parts"):
        write_part(str(traces), Part(1, 8), str(parts))


def test_a_damaged_summary_is_named(tmp_path: Path) -> None:
    traces, parts = write_job(tmp_path / "job"), tmp_path / "parts"
    write_part(str(traces), Part(1, 1), str(parts), jobs=1)
    (summary,) = parts.glob("*.parquet")
    summary.write_bytes(summary.read_bytes()[:-100])
    with pytest.raises(RunFormatError, match=summary.name):
        merge_parts(str(parts))
