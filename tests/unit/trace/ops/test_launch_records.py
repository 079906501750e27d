"""Launches and what is recorded of the work that they started."""

from pathlib import Path

from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, write_trace


def call(name: str, start: float, duration: float, id: int) -> Event:
    return {**launch(id, start, duration), "name": name}


def test_calls_are_matched_with_their_work_within_other_calls_and_captures(tmp_path: Path) -> None:
    events = [
        launch(1, 10),
        kernel("first", 1, 20, 5),
        call("cudaLaunchKernel", 30, 8, 2),  # its driver's call has the kernel
        call("cuLaunchKernel", 32, 4, 3),
        kernel("second", 3, 45, 5),
        call("cudaStreamBeginCapture", 60, 1, 4),
        launch(5, 62),
        call("cudaStreamEndCapture", 64, 1, 6),
        call("cudaGraphLaunch", 70, 2, 7),
        kernel("third", 7, 80, 5),
        kernel("fourth", 7, 86, 5),
        launch(8, 95),  # lost
    ]
    ops = read_ops(read_trace(write_trace(tmp_path / "trace.json.gz", events)))
    found = ops.launches
    ids = ops.trace.correlation[found.event].tolist()
    assert ids == [1, 2, 3, 4, 5, 6, 7, 8]
    assert found.kernels.tolist() == [1, 0, 1, 0, 0, 0, 2, 0]

    def select(mask: list[bool]) -> set[int]:
        return {number for number, marked in zip(ids, mask, strict=True) if marked}

    assert select(found.starts_work.tolist()) == {1, 2, 7, 8}
    assert select(found.is_graph.tolist()) == {7}
    assert select(found.has_kernel.tolist()) == select(found.has_record.tolist()) == {1, 2, 3, 7}
    assert not found.untimed.any()
    assert ops.launches is found
