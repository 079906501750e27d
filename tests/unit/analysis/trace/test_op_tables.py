"""Tables of more groups than anyone reads: the longest rows stay, the rest is summed, and no time is lost."""

from math import fsum
from pathlib import Path

import pytest

from perfkit.analysis.difference import difference
from perfkit.analysis.model.step import OUTSIDE
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace import coverage, module_rows, op_tables, step_rows
from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.analysis.trace.work import split_time
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace


def traced(tmp_path: Path, kernels: int) -> RankTrace:
    """One step of ops with a kernel each, the last the longest, then a copy, and one more kernel outside the step."""
    events: list[Event] = [mark("ProfilerStep#1", 0, 100 * kernels)]
    for number in range(kernels):
        at = 100 * number
        events += [op(f"aten::op_{number}", at, 10), launch(number, at + 1)]
        events.append(kernel(f"kernel_{number}", number, at + 20, 10 + number, stream=number))
    events.append(kernel("Memcpy HtoD (Pageable -> Device)", 777, 50, 5, cat="gpu_memcpy"))
    events += [op("aten::later", 200 * kernels, 10), launch(999, 200 * kernels + 1)]
    events.append(kernel("later", 999, 200 * kernels + 20, 7))
    return analyze_trace(read_trace(write_trace(tmp_path / f"trace{kernels}.json.gz", events)), None)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_tables, "MOST_ROWS", 4)
    monkeypatch.setattr(module_rows, "MOST_MODULES", 4)
    monkeypatch.setattr(coverage, "MOST_UNCOVERED", 4)
    monkeypatch.setattr(split_time, "MOST_STREAMS", 4)
    monkeypatch.setattr(step_rows, "MOST_SPLIT_STEPS", 1)


@pytest.mark.usefixtures("few")
def test_the_longest_have_rows_and_the_others_share_some(tmp_path: Path) -> None:
    trace = traced(tmp_path, 20)
    for rows, word in ((trace.kernels, "kernel"), (trace.ops, "op")):
        named = [row.name for row in rows if row.name.startswith((f"{word}_", "aten::op_"))]
        assert {name.rpartition("_")[2] for name in named} == {"16", "17", "18", "19"}
        rest = {(row.phase, row.bound): row for row in rows if row.name == f"(other {word}s)"}
        # 0 to 15 took 10 us more than their numbers each.
        assert rest["", "unknown"].seconds == pytest.approx(fsum(10 + number for number in range(16)) * 1e-6)
        assert rest["", "unknown"].calls == 16
        assert rest["", "copy"].seconds == pytest.approx(5e-6)
        assert rest[OUTSIDE, "unknown"].seconds == pytest.approx(7e-6)
        assert fsum(row.seconds for row in rows) == pytest.approx(trace.coverage.kernel_s, rel=1e-12)
    assert ("trace.shortened_tables", {"rows": 22, "shown": 4}) in [(note.id, note.figures) for note in trace.notes]


@pytest.mark.usefixtures("few")
def test_streams_and_uncovered_names_beyond_the_first_are_summed(tmp_path: Path) -> None:
    trace = traced(tmp_path, 20)
    assert len(trace.streams) == 5
    assert trace.streams[-1].stream == "(16 others)"
    assert fsum(row.busy_s for row in trace.streams) == pytest.approx(trace.coverage.kernel_s, rel=1e-12)
    assert sum(row.kernels for row in trace.streams) == trace.coverage.kernels
    uncovered = trace.coverage.uncovered
    assert "(others)" in {row.name for row in uncovered}
    assert fsum(row.share for row in uncovered) == pytest.approx(1)


@pytest.mark.usefixtures("few")
def test_a_difference_of_cut_tables_loses_no_time(tmp_path: Path) -> None:
    before, after = traced(tmp_path, 20), traced(tmp_path, 24)
    found = difference.compare_traces(after, before)
    assert fsum(row.before_s or 0 for row in found.changes) == pytest.approx(before.coverage.kernel_s)
    assert fsum(row.after_s or 0 for row in found.changes) == pytest.approx(after.coverage.kernel_s)


def test_few_rows_are_not_cut(tmp_path: Path) -> None:
    trace = traced(tmp_path, 20)
    assert len(trace.kernels) == 22
    assert not any("other" in row.name for row in (*trace.kernels, *trace.ops))
    assert "trace.shortened_tables" not in [note.id for note in trace.notes]


@pytest.mark.usefixtures("few")
def test_the_slowest_steps_have_a_split(tmp_path: Path) -> None:
    events = [mark("ProfilerStep#1", 0, 100), mark("ProfilerStep#2", 100, 300), mark("ProfilerStep#3", 400, 100)]
    events += [op("aten::a", at, 10) for at in (1, 101, 401)]
    trace = analyze_trace(read_trace(write_trace(tmp_path / "trace.json.gz", events)), None)
    assert [bool(step.time_split) for step in trace.steps] == [False, True, False]
