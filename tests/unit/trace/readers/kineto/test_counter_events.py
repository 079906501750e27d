"""Counter events of several writers."""

from pathlib import Path

from perfkit.trace.model import NONE
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import op, write_trace


def counter(name: str, process: object, at: float, **series: object) -> dict[str, object]:
    return {"ph": "C", "name": name, "pid": process, "ts": at, "args": series}


def test_series_by_name_and_device(tmp_path: Path) -> None:
    events = [
        op("aten::mm", 0, 10),
        {"ph": "C", "name": "SM Active (%)", "pid": "GPU 3 Counters", "ts": 2.5, "args": {"": 45.5}},
        counter("Memory BW", 7, 1, value="12"),
        counter("queue", 0, 3, waiting=4, running=2, label="text"),
        counter("GPU 1 utilization", 9, 4, value=True),
        counter("broken", 0, 5, value=None),
        {"ph": "C", "name": "empty", "pid": 0, "ts": 6},
    ]
    samples = read_trace(write_trace(tmp_path / "trace.json", events)).counters
    rows = zip(
        samples.time_ns.tolist(), samples.counter.tolist(), samples.device.tolist(), samples.value.tolist(), strict=True
    )
    assert [(time, samples.names[number], device, value) for time, number, device, value in rows] == [
        (1000, "Memory BW", NONE, 12.0),
        (2500, "SM Active (%)", 3, 45.5),
        (3000, "queue: waiting", NONE, 4.0),
        (3000, "queue: running", NONE, 2.0),
    ]
