"""Idle time of a device after calls of the host, against times that can be added up by hand."""

from pathlib import Path
from typing import Any

import pytest

from perfkit.analysis.model.trace import HostCallRow
from perfkit.analysis.trace.host_calls import host_calls
from perfkit.analysis.trace.work.windows import windows
from perfkit.trace.ops import read_ops
from perfkit.trace.read import read_trace
from tests.fixtures.traces import kernel, launch, mark, op, write_trace


def runtime(name: str, start: float, duration: float) -> dict[str, Any]:
    return {**launch(99, start, duration), "name": name, "args": {}}


def found(tmp_path: Path, *events: dict[str, Any]) -> tuple[HostCallRow, ...]:
    ops = read_ops(read_trace(write_trace(tmp_path / "trace.json.gz", events)))
    return host_calls(ops, windows(ops))


# A step of 200 us: a kernel from 20 to 50 and one from 100 to 190.
STEP = [
    mark("ProfilerStep#1", 0, 200), op("aten::a", 0, 10), launch(1, 5), kernel("k", 1, 20, 30),
    op("aten::b", 85, 10), launch(2, 90), kernel("k", 2, 100, 90),
]  # fmt: skip


def test_the_device_is_idle_from_the_end_of_its_work_to_the_next(tmp_path: Path) -> None:
    rows = found(tmp_path, *STEP, op("aten::item", 29, 25), runtime("cudaStreamSynchronize", 30, 22))
    (row,) = rows
    assert (row.kind, row.name, row.op, row.calls) == ("wait", "cudaStreamSynchronize", "aten::item", 1)
    assert row.seconds == pytest.approx(22e-6)
    assert row.idle_s == pytest.approx(50e-6)  # from 50 to 100


def test_two_calls_share_the_idle_time_and_do_not_count_it_twice(tmp_path: Path) -> None:
    rows = found(tmp_path, *STEP, runtime("cudaStreamSynchronize", 30, 22), runtime("cudaDeviceSynchronize", 60, 5))
    assert {row.name: round((row.idle_s or 0) * 1e6) for row in rows} == {
        "cudaStreamSynchronize": 10, "cudaDeviceSynchronize": 40,
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
    assert {row.kind: round((row.idle_s or 0) * 1e6) for row in rows} == {"data": 45, "allocation": 40, "wait": 44}


def test_calls_outside_of_steps_are_left_out(tmp_path: Path) -> None:
    assert found(tmp_path, *STEP, runtime("cudaDeviceSynchronize", 300, 5)) == ()


def test_without_a_device_idle_time_is_not_known(tmp_path: Path) -> None:
    events = [mark("ProfilerStep#1", 0, 200), op("aten::a", 0, 10), mark("perfkit::data", 20, 30)]
    (row,) = found(tmp_path, *events)
    assert (row.kind, row.idle_s) == ("data", None)
    assert row.seconds == pytest.approx(30e-6)


def test_a_trace_of_nothing_has_no_calls(tmp_path: Path) -> None:
    assert found(tmp_path) == ()
