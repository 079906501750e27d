"""Idle time of a device after calls of the host, against times that can be added up by hand."""

from pathlib import Path
from typing import Any

import pytest

from perfkit.analysis.model.idle import ELSEWHERE
from perfkit.analysis.model.launches import GapRow, HostCallRow
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.idle.host_calls import is_allocation
from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.analysis.trace.time.launch_queue import is_synchronizing
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import kernel, launch, mark, op, write_trace


def runtime(name: str, start: float, duration: float) -> dict[str, Any]:
    return {**launch(99, start, duration), "name": name, "args": {}}


def found(tmp_path: Path, *events: dict[str, Any]) -> tuple[HostCallRow, ...]:
    return analyze_trace(read_trace(write_trace(tmp_path / "trace.json.gz", events)), None).host_calls


# A step of 200 us: a kernel from 20 to 50 and one from 100 to 190.
STEP = [
    mark("ProfilerStep#1", 0, 200), op("aten::a", 0, 10), launch(1, 5), kernel("k", 1, 20, 30),
    op("aten::b", 85, 10), launch(2, 90), kernel("k", 2, 100, 90),
]  # fmt: skip


def test_the_device_is_idle_from_the_end_of_its_work_to_the_next_launch(tmp_path: Path) -> None:
    rows = found(tmp_path, *STEP, op("aten::item", 29, 25), runtime("cudaStreamSynchronize", 30, 22))
    (row,) = rows
    assert (row.kind, row.name, row.op, row.calls) == ("wait", "cudaStreamSynchronize", "aten::item", 1)
    assert row.seconds == pytest.approx(22e-6)
    assert row.idle_s == pytest.approx(40e-6)  # from 50 to 90


def test_two_calls_share_the_idle_time_and_do_not_count_it_twice(tmp_path: Path) -> None:
    rows = found(tmp_path, *STEP, runtime("cudaStreamSynchronize", 30, 22), runtime("cudaDeviceSynchronize", 60, 5))
    assert {row.name: round((row.idle_s or 0) * 1e6) for row in rows} == {
        "cudaStreamSynchronize": 10, "cudaDeviceSynchronize": 30,
    }  # fmt: skip


def test_kinds_of_calls(tmp_path: Path) -> None:
    loader = mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 55, 20)
    rows = found(
        tmp_path,
        *STEP,
        loader,
        runtime("cudaMalloc", 60, 5),
        runtime("hipMemcpy", 56, 2),
        runtime("cudaMemcpyAsync", 57, 1),
    )
    assert {(row.kind, row.name.split("#")[0]) for row in rows} == {
        ("data", "enumerate(DataLoader)"), ("allocation", "cudaMalloc"), ("wait", "hipMemcpy"),
    }  # fmt: skip
    # The loader's time is the loader's; what the allocation has is from its end to the launch at 90.
    assert {row.kind: round((row.idle_s or 0) * 1e6) for row in rows} == {"data": 20, "allocation": 15, "wait": 0}


def slow(tmp_path: Path, *events: dict[str, Any]) -> RankTrace:
    """A step of 10 ms: kernels from 0.1 to 0.2 ms and from 9 ms on."""
    step = [
        mark("ProfilerStep#1", 0, 10_000), op("aten::a", 0, 90), launch(1, 50), kernel("k", 1, 100, 100),
        op("aten::b", 8990, 20), launch(2, 9000), kernel("k", 2, 9010, 990),
    ]  # fmt: skip
    return analyze_trace(read_trace(write_trace(tmp_path / "trace.json.gz", [*step, *events])), None)


def test_what_the_host_does_for_long_after_a_call_is_not_the_calls(tmp_path: Path) -> None:
    synchronised = runtime("cudaStreamSynchronize", 150, 60)
    result = slow(tmp_path, synchronised)
    assert [round((row.idle_s or 0) * 1e6) for row in result.host_calls] == [10]
    (gap,) = long(result)
    # Until the end of the call that launches.
    assert (round(gap.seconds * 1e6), gap.gaps, gap.next_op) == (9001 - 210, 1, "aten::b")
    loader = mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 200, 8700)
    fetched = slow(tmp_path, synchronised, loader)
    assert {row.kind: round((row.idle_s or 0) * 1e6) for row in fetched.host_calls} == {"data": 8700, "wait": 0}
    assert long(fetched) == []
    assert fetched.launches is not None
    assert fetched.launches.late_s == pytest.approx(101e-6)  # from the end of the fetch to that of the launch


def long(result: RankTrace) -> list[GapRow]:
    return [row for row in result.gaps if row.cause == ELSEWHERE]


def python(name: str, start: float, duration: float) -> dict[str, Any]:
    return {**mark(name, start, duration), "cat": "python_function"}


def test_a_long_gap_is_told_with_what_the_host_was_in(tmp_path: Path) -> None:
    result = slow(
        tmp_path,
        python("train.py(10): main", 0, 10_000),
        python("nn.Module: Encoder_0", 210, 8750),
        python("/home/me/prep/data.py(31): preprocess", 220, 8700),
        python("<built-in function sum>", 230, 8600),
        python("other.py(1): short", 240, 100),
        mark("collate", 215, 8740),
        op("aten::item", 8960, 10),
    )
    (gap,) = long(result)
    assert gap == GapRow(
        cause=ELSEWHERE, frame="/home/me/prep/data.py(31): preprocess",
        user_frame="/home/me/prep/data.py(31): preprocess",
        builtin="<built-in function sum>", module="Encoder_0", range="collate", op="", call="", next_op="aten::b",
        gaps=1.0, seconds=pytest.approx(8801e-6), longest_s=pytest.approx(8801e-6),
        longest_start_s=pytest.approx(200e-6),
    )  # fmt: skip
    assert result.launches is not None
    assert result.launches.late_s == 0
    assert result.launches.starved_s == pytest.approx(8801e-6)


def test_calls_outside_of_steps_are_left_out(tmp_path: Path) -> None:
    assert found(tmp_path, *STEP, runtime("cudaDeviceSynchronize", 300, 5)) == ()


def test_without_a_device_idle_time_is_not_known(tmp_path: Path) -> None:
    events = [mark("ProfilerStep#1", 0, 200), op("aten::a", 0, 10), mark("perfkit::data", 20, 30)]
    (row,) = found(tmp_path, *events)
    assert (row.kind, row.idle_s) == ("data", None)
    assert row.seconds == pytest.approx(30e-6)


def test_a_trace_of_nothing_has_no_calls(tmp_path: Path) -> None:
    assert found(tmp_path) == ()


def allocating(pattern: str, tensors: int) -> list[dict[str, Any]]:
    """A step with requests (`m`) and releases (`f`) of device memory in this order, and ops that make a tensor."""
    names = {"m": "hipMalloc", "f": "hipFree"}
    calls = [runtime(names[kind], 300.0 + 10 * n, 2) for n, kind in enumerate(pattern)]
    made = [op("aten::empty", 2000.0 + 10 * n, 3) for n in range(tensors)]
    return [mark("ProfilerStep#1", 0, 9000), op("aten::mm", 0, 10), launch(1, 5), kernel("k", 1, 20, 30), *calls, *made]


@pytest.mark.parametrize(
    ("pattern", "tensors", "uncached"),
    [
        ("mmf" * 20, 30, True),
        ("mf" * 40, 70, True),
        ("mmf" * 20, 300, False),  # a cache serves most tensors
        ("f" * 30 + "m" * 30, 30, False),  # a cache that was emptied
        ("m" * 30 + "f" * 5, 30, False),  # a first step, which takes what later ones reuse
        ("mf" * 4, 5, False),
    ],
)
def test_whether_an_allocator_caches_memory(tmp_path: Path, pattern: str, tensors: int, uncached: bool) -> None:
    path = write_trace(tmp_path / "trace.json.gz", allocating(pattern, tensors))
    assert analyze_trace(read_trace(path), None).has_uncached_allocations == uncached


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("AscendCL@aclrtSynchronizeStreamWithTimeout", "wait"),
        ("aclrtSynchronizeDevice", "wait"),
        ("AscendCL@aclrtMemcpy", "wait"),
        ("AscendCL@aclrtMalloc", "allocation"),
        ("urEventWait", "wait"),
        ("AscendCL@aclnnAdd", ""),
    ],
)
def test_calls_of_other_runtimes(name: str, kind: str) -> None:
    assert (is_synchronizing(name), is_allocation(name)) == (kind == "wait", kind == "allocation")
