"""What limits a step, by its critical path and its time split."""

from typing import Any

import pytest

from perfkit.analysis.model.replay import ReplaySummary
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.trace import RankTrace
from perfkit_reports.subjects.trace.limit import describe_limit, find_limit, is_limited_by_cpu, join_unplaced
from tests.fixtures import rank_traces
from tests.fixtures.figures import list_figures


def limited(split: dict[str, float], path: dict[str, float] | None = None, **changes: Any) -> RankTrace:
    """A trace of 2 s whose step has these shares, with this critical path."""
    replayed = ReplaySummary(
        recorded_s=2.0,
        replayed_s=2.0,
        error=0.0,
        nodes=9,
        busy_share=0.5,
        reason="",
        critical_path={},
        step_path=path or {},
    )
    parts = tuple(TimeShare(category=name, seconds=2 * share, share=share) for name, share in split.items())
    changed = {"device": "cuda", "step_s": 2.0, "steps": (), "replay": replayed if path else None, **changes}
    return rank_traces.rank_trace(time_split=parts, **changed)


def test_the_critical_path_decides_and_the_time_split_has_the_figure() -> None:
    split = {"memory-bound": 0.55, "idle waiting for the CPU": 0.35, "communication": 0.1}
    by_cpu = limited(split, {"host": 1.2, "other kernels": 0.8})
    by_kernels = limited(split, {"host": 0.6, "other kernels": 0.8, "GEMM": 0.6})
    assert [(find_limit(each).by, find_limit(each).share) for each in (by_cpu, by_kernels)] == [
        ("idle waiting for the CPU", 0.35),
        ("memory-bound", 0.55),
    ]
    assert list_figures(describe_limit(by_cpu, None)) == ["35 %", "2.00 s"]
    assert "GPU" in describe_limit(by_cpu, None)
    assert [is_limited_by_cpu(each) for each in (by_cpu, by_kernels)] == [True, False]


def test_calls_that_wait_are_the_cpus_and_a_wait_for_data_is_named_where_it_is_longest() -> None:
    split = {"compute-bound": 0.2, "waiting for data": 0.45, "idle waiting for the CPU": 0.35}
    assert find_limit(limited(split, {"waits": 1.5, "GEMM": 0.5})).by == "waiting for data"


def test_calls_that_block_are_told_from_late_launches() -> None:
    split = {"memory-bound": 0.2, "idle waiting for the CPU": 0.8}
    blocked, late = (limited(split, path) for path in ({"waits": 1.5, "host": 0.5}, {"waits": 0.5, "host": 1.5}))
    assert [find_limit(each).by for each in (blocked, late)] == ["idle waiting for the CPU"] * 2
    assert describe_limit(blocked, None) != describe_limit(late, None)
    assert list_figures(describe_limit(blocked, None)) == ["80 %", "2.00 s"]


def test_where_the_device_hardly_waits_the_share_of_the_path_is_the_evidence() -> None:
    trace = limited({"compute-bound": 0.93, "idle waiting for the CPU": 0.07}, {"host": 1.6, "GEMM": 0.4})
    assert list_figures(describe_limit(trace, None)) == ["80 %", "2.00 s"]


def test_a_longer_part_off_the_path_is_not_contradicted() -> None:
    split = {"idle waiting for the CPU": 0.25, "communication": 0.3, "memory-bound": 0.45}
    assert list_figures(describe_limit(limited(split, {"host": 1.8, "GEMM": 0.2}), None)) == ["90 %", "2.00 s"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_without_a_path_and_on_a_cpu_the_largest_part_is_named(device: str) -> None:
    path = {"host": 2.0} if device == "cpu" else None
    trace = limited({"communication": 0.62, "Python and dispatch": 0.38}, path, device=device)
    assert find_limit(trace).by == "communication"


def test_work_of_unknown_bound_counts_together_where_it_is_most_work() -> None:
    much = limited({"no FLOP or byte estimate": 0.45, "memory-bound": 0.15, "communication": 0.4})
    little = limited({"no FLOP or byte estimate": 0.1, "memory-bound": 0.15, "communication": 0.75})
    assert list_figures(describe_limit(much, None)) == ["60 %", "2.00 s"]
    assert [part.category for part in join_unplaced(little.time_split)] == ["memory-bound", "communication"]


def test_what_is_not_recorded_has_no_known_limit() -> None:
    most = limited({"not recorded": 0.7, "memory-bound": 0.3}, {"host": 2.0})
    assert (find_limit(most).by, list_figures(find_limit(most).reason)) == ("", ["70 %"])
    lost = limited({"Python and dispatch": 1.0}, missing_device_reason="no kernels recorded")
    assert find_limit(lost).reason == "no kernels recorded"
    assert "2.00 s" in describe_limit(lost, None)
