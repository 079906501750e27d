"""The memory of traces through the whole analysis: which device, what is kept of many ranks, what is found."""

import re
from pathlib import Path

import msgspec
import pytest

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.pipeline import trace_results
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.trace.trace_memory import shorten_account
from tests.fixtures.traces import Event, kernel, launch, mark, memory, op, out_of_memory, write_trace

MIB = 2**20


def step(*events: Event) -> list[Event]:
    """A step with an op that works on a device, and memory events."""
    return [
        mark("ProfilerStep#0", 0, 100),
        op("aten::mm", 10, 20, [[8, 4], [4, 4]]),
        launch(1, 12),
        kernel("gemm", 1, 40, 10),
        *events,
    ]


def analysed(folder: Path, *events: Event) -> RankTrace:
    return analyze_traces([str(write_trace(folder / "trace.json.gz", step(*events)))]).traces[0]


def test_a_trace_without_memory_has_no_account(tmp_path: Path) -> None:
    assert analysed(tmp_path).memory is None


def test_the_fullest_gpu_is_shown_and_the_others_are_named(tmp_path: Path) -> None:
    events = [
        memory(11, 1, 9 * MIB),
        memory(12, 2, 2 * MIB, 1, total=2 * MIB),
        memory(13, 3, 4 * MIB, 1, total=4 * MIB, device=1),
    ]
    found = analysed(tmp_path, *events)
    assert found.memory is not None
    assert (found.memory.device, found.memory.peak_bytes, found.memory.peak_step) == ("cuda:1", 4 * MIB, 0)
    (note,) = [note for note in found.notes if note.id == "trace.other_memory"]
    assert re.findall(r"cuda:\d|cpu", note.text) == ["cuda:1", "cuda:0", "cpu"]


def test_the_cpu_is_shown_where_no_gpu_was_recorded(tmp_path: Path) -> None:
    found = analysed(tmp_path, memory(11, 1, 128, total=128), memory(20, 1, -128, total=64))
    assert found.memory is not None
    assert (found.memory.device, found.memory.peak_bytes) == ("cpu", 128)
    assert found.memory.source.startswith("the CPU's memory only")
    assert found.memory.largest_blocks[0].shape == "[8, 4]"
    assert "memory.missing_events" in [note.id for note in found.notes]


def test_a_request_that_failed_is_a_finding_and_its_rank_comes_before_fuller_ones(tmp_path: Path) -> None:
    full = step(memory(11, 1, 900 * MIB, 1, total=900 * MIB))
    failing = step(memory(11, 1, 500 * MIB, 1, total=500 * MIB), out_of_memory(13, 600 * MIB, total=500 * MIB))
    for name, events in (("rank0", full), ("rank1", failing)):
        write_trace(tmp_path / "job" / f"{name}.json.gz", events)
    found = analyze_traces([str(tmp_path / "job")], jobs=1)
    warned = [finding for finding in found.findings if finding.id == "memory.request_failed"]
    assert [finding.variant for finding in warned] == [found.traces[1].label]
    assert any(entry.figure == "memory account" for entry in found.provenance)


def test_of_many_ranks_the_balance_is_kept_and_the_rest_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_results, "WHOLE_RANKS", 1)
    monkeypatch.setattr(trace_results, "ROWS_OF_OTHER_RANKS", 1)
    events = step(
        op("aten::add", 40, 10, [[8, 4]]),
        memory(11, 1, 128, total=128),
        memory(41, 2, 64, total=192),
        memory(60, 2, -64),
    )
    fuller = [*events, memory(70, 3, 512, total=640)]
    for rank, written in enumerate((events, events, fuller, events)):
        write_trace(tmp_path / "job" / f"rank{rank}.json.gz", written)
    first, second, third, fourth = (trace.memory for trace in analyze_traces([str(tmp_path / "job")], jobs=1).traces)
    assert first is not None
    assert second is not None
    assert third is not None
    assert third.timeline_s  # the fullest
    assert fourth == second
    assert (first.categories, first.largest_blocks) == (second.categories, second.largest_blocks)
    assert (len(first.rows), len(second.rows)) == (2, 1)
    assert len(first.timeline_s) > 1
    assert (second.timeline_s, second.timeline_categories, second.bands, second.step_peaks) == ((), {}, (), ())
    assert len(msgspec.json.encode(second)) < len(msgspec.json.encode(first))


def test_nothing_is_left_of_nothing() -> None:
    assert shorten_account(None, 5) is None
