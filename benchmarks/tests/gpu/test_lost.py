import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu.lost import Lost, count_lost_kernels

H100 = Path("examples/h100_qwen1.5_forward.json.gz")


def launch(correlation: int) -> dict[str, Any]:
    return {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1, "dur": 1, **args(correlation)}


def kernel(correlation: int, ts: float = 5, dur: float = 2) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": "gemm", "ts": ts, "dur": dur, **args(correlation)}


def args(correlation: int) -> dict[str, Any]:
    return {"args": {"correlation": correlation}}


def test_kernels_that_are_not_there_or_have_no_time() -> None:
    events = [launch(1), kernel(1), launch(2), launch(3), kernel(3, ts=0, dur=0), launch(4), kernel(4, dur=0)]
    assert count_lost_kernels(events) == Lost(launches=4, without_kernel=1, without_time=2)
    assert count_lost_kernels(events).share == 0.75


def test_what_launches_no_kernel_is_not_counted() -> None:
    copy = {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "ts": 1, "dur": 1, **args(7)}
    assert count_lost_kernels([launch(1), kernel(1), copy, {"ph": "M", "name": "process_name"}]).launches == 1


@pytest.mark.parametrize(("keep", "lost"), [(1, 0), (2, 0.5)])
def test_a_recorded_trace(keep: int, lost: float) -> None:
    """A real trace lost nothing; of one with every second kernel taken away half are missed."""
    events = json.loads(gzip.decompress(H100.read_bytes()))["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    others = [event for event in events if event.get("cat") != "kernel"]
    assert count_lost_kernels([*others, *kernels[::keep]]).share == pytest.approx(lost, abs=0.01)
