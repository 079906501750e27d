"""How the host feeds a device; times in microseconds, one step of 200."""

from pathlib import Path

import pytest

from perfkit.analysis.model.launches import Launches
from perfkit.analysis.model.time_split import IDLE_QUEUED, WAITING_FOR_CPU
from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.analysis.trace.time.launch_queue import summarize_launches
from perfkit.analysis.trace.work.work_analysis import analyze_work
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace


def call(name: str, start: float, duration: float, correlation: int = 0) -> Event:
    return {**launch(correlation, start, duration), "name": name}


def analysed(tmp_path: Path, events: list[Event]) -> Launches:
    ops = read_ops(read_trace(write_trace(tmp_path / "t.json.gz", [mark("ProfilerStep#1", 0, 200), *events])))
    found = analyze_work(ops, Roofs(None, "cuda"))
    assert found.waiting is not None
    result = summarize_launches(ops, found.windows, found.waiting, found.split)
    assert result is not None
    return result


def test_kernels_that_wait_behind_others_are_queued(tmp_path: Path) -> None:
    events = [op("aten::mm", 0, 50)]
    for number, (at, start) in enumerate([(10, 20), (12, 60), (14, 100)], start=1):
        events += [launch(number, at), kernel("gemm", number, start, 40)]
    found = analysed(tmp_path, events)
    # When the first begins two others wait, then one, then none.
    assert found.queue_depth == 1.0
    assert found.delay_s == pytest.approx(48e-6)  # 10, 48, 86
    assert found.idle_s == found.starved_s == pytest.approx(60e-6)  # 140 to 200; of 0 to 20 nothing is known


def test_short_kernels_and_the_gaps_before_them(tmp_path: Path) -> None:
    events = [op("aten::mm", 0, 50)]
    for number, (start, duration) in enumerate([(20, 10), (33, 2), (40, 4), (50, 6)], start=1):
        events += [launch(number, 10 + number), kernel("small", number, start, duration)]
    found = analysed(tmp_path, events)
    assert (found.short_kernels, found.short_s) == (2.0, pytest.approx(6e-6))
    assert found.short_gap_s == pytest.approx((3 + 5) * 1e-6)


def test_a_call_that_waits_within_another_counts_once(tmp_path: Path) -> None:
    events = [
        op("aten::item", 10, 30),
        op("aten::_local_scalar_dense", 12, 26),
        call("cudaMemcpyAsync", 14, 4, 1),
        call("cudaStreamSynchronize", 19, 15),
        kernel("Memcpy DtoH (Device -> Pinned)", 1, 20, 2, cat="gpu_memcpy"),
        call("cudaDeviceSynchronize", 100, 7),
        op("aten::_local_scalar_dense", 150, 20),  # of a tensor of the host: nothing to wait for
        call("cudaDeviceSynchronize", 300, 7),  # after the step
    ]
    found = analysed(tmp_path, events)
    assert (found.sync_calls, found.sync_s) == (2.0, pytest.approx((15 + 7) * 1e-6))


def test_the_kernels_of_a_graph_share_its_launch(tmp_path: Path) -> None:
    events = [call("cudaGraphLaunch", 10, 4, 1), kernel("one", 1, 20, 10), kernel("two", 1, 40, 10)]
    found = analysed(tmp_path, events)
    assert (found.graph_launches, found.kernels) == (1.0, 2.0)
    assert found.starved_s == pytest.approx(150e-6)  # the gap within the graph is not the host's
    assert found.idle_s == pytest.approx((10 + 150) * 1e-6)


def test_the_device_without_data_is_starved_but_not_by_the_host(tmp_path: Path) -> None:
    events = [
        mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 60),
        op("aten::mm", 60, 50),
        launch(1, 8),  # of before: what is queued is not waited for
        kernel("gemm", 1, 20, 10),
        launch(2, 70),
        kernel("gemm", 2, 80, 100),
    ]
    ops = read_ops(read_trace(write_trace(tmp_path / "t.json.gz", [mark("ProfilerStep#1", 0, 200), *events])))
    found = analyze_work(ops, Roofs(None, "cuda"))
    parts = {share.category: round(share.seconds * 1e6) for share in found.split.compute_shares()}
    # Not known from 0 to 20, and idle from 30 to 80, queued from 71 on; fetching lasts until 60.
    assert (parts["not recorded"], parts["waiting for data"]) == (20, 30)
    assert (parts[IDLE_QUEUED], parts[WAITING_FOR_CPU]) == (9, 31)
    assert found.waiting is not None
    result = summarize_launches(ops, found.windows, found.waiting, found.split)
    assert result is not None
    assert (result.starved_s, result.idle_s) == (pytest.approx(61e-6), pytest.approx(70e-6))
