"""Reading a trace into columns, and refusing files that are none."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfkit.errors import RunFormatError
from perfkit.trace.read import NONE, Category, read_trace

EVENTS: list[dict[str, Any]] = [
    {"ph": "M", "name": "process_name", "ts": 1.0, "pid": 7, "tid": 0, "args": {"name": "python"}},
    {"ph": "X", "cat": "cpu_op", "name": "inner", "pid": 7, "tid": 9, "ts": 10.5, "dur": 1.25,
     "args": {"External id": 2}},
    {"ph": "X", "cat": "cpu_op", "name": "outer", "pid": 7, "tid": 9, "ts": 10.5, "dur": 8.001,
     "args": {"External id": "1"}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 9, "ts": 10.75, "dur": 0.5,
     "args": {"correlation": 33}},
    {"ph": "X", "cat": "Kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 12, "dur": 2,
     "args": {"correlation": 33, "device": 0, "stream": "7"}},
    {"ph": "X", "cat": "Trace", "name": "span", "pid": "Spans", "tid": "PyTorch Profiler", "ts": 0.0, "dur": 99.0},
    {"ph": "i", "name": "[memory]", "pid": 7, "tid": 9, "ts": 11.0, "s": "t",
     "args": {"Addr": 140000000000, "Bytes": -256, "Device Type": 0, "Device Id": -1, "Total Allocated": 512}},
    {"ph": "i", "name": "[memory]", "pid": 7, "tid": 9, "ts": 10.6, "s": "t",
     "args": {"Addr": 140000000000, "Bytes": 256, "Device Type": 0, "Device Id": -1, "Total Allocated": 768}},
]  # fmt: skip


def write(path: Path, value: object) -> Path:
    data = json.dumps(value).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_columns(tmp_path: Path, name: str) -> None:
    file = {
        "traceEvents": EVENTS,
        "baseTimeNanoseconds": 5,
        "deviceProperties": [{"id": 0, "name": "H100", "sms": 132}],
    }
    trace = read_trace(write(tmp_path / name, file))
    assert [trace.names[each] for each in trace.name] == ["span", "outer", "inner", "cudaLaunchKernel", "gemm"]
    assert trace.start_ns.tolist() == [0, 10500, 10500, 10750, 12000]
    assert trace.end_ns.tolist() == [99000, 18501, 11750, 11250, 14000]
    assert trace.category.tolist() == [Category.OTHER, Category.OP, Category.OP, Category.LAUNCH, Category.KERNEL]
    assert trace.external_id.tolist() == [NONE, 1, 2, NONE, NONE]
    assert trace.correlation.tolist() == [NONE, NONE, NONE, 33, 33]
    assert trace.stream[-1] == 7
    assert trace.threads[trace.thread[1]] == ("7", "9")
    assert (trace.devices, trace.base_ns, trace.has_device_events) == ({0: "H100"}, 5, True)


def test_memory_events_in_the_order_of_time(tmp_path: Path) -> None:
    memory = read_trace(write(tmp_path / "t.json", {"traceEvents": EVENTS})).memory
    assert memory.time_ns.tolist() == [10600, 11000]
    assert memory.size.tolist() == [256, -256]
    assert memory.allocated.tolist() == [768, 512]
    assert memory.address.tolist() == [140000000000] * 2


def test_a_bare_list_of_events(tmp_path: Path) -> None:
    assert len(read_trace(write(tmp_path / "t.json", EVENTS))) == 5


def test_no_events(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "t.json", {"traceEvents": []}))
    assert len(trace) == len(trace.memory) == 0
    assert not trace.has_device_events
    assert np.array_equal(trace.of(Category.OP), [])


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda whole: gzip.compress(whole)[:-20], "truncated or damaged gzip"),
        (lambda whole: gzip.compress(whole)[:8] + b"\0" * 40, "truncated or damaged gzip"),
        (lambda whole: whole[:-30], "truncated or damaged JSON"),
        (lambda whole: b"", "truncated or damaged JSON"),
        (lambda whole: whole.replace(b"outer", b"\xff\xfe"), "truncated or damaged JSON"),
        (lambda whole: b'{"steps": 3}', "not a trace of torch.profiler"),
        (lambda whole: b"[[1, 2]]", "not a trace of torch.profiler"),
        (lambda whole: b'{"traceEvents": {}}', "not a trace of torch.profiler"),
    ],
)
def test_files_that_are_no_trace_are_named(tmp_path: Path, damage: Any, words: str) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(damage(json.dumps({"traceEvents": EVENTS}).encode()))
    with pytest.raises(RunFormatError, match=words) as caught:
        read_trace(path)
    assert str(path) in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match="cannot be read"):
        read_trace(tmp_path / "none.json")
