"""Reading a trace into columns, and refusing files that are none."""

import gzip
import io
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from perfkit.core.errors import RunFormatError
from perfkit.core.text_blocks import TextBlocks
from perfkit.trace.kernel_geometry import parse_geometry
from perfkit.trace.model import NONE, Category, Trace
from perfkit.trace.readers import trace_formats
from perfkit.trace.readers.kineto.kineto_reader import read_kineto
from perfkit.trace.readers.trace_formats import TraceFormat
from perfkit.trace.readers.trace_reader import read_trace
from perfkit.trace.trace_text import TraceText
from tests.fixtures.traces import kernel, mark, op, write_trace

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


def test_kernels_that_were_launched_alike_share_a_geometry(tmp_path: Path) -> None:
    def kernel(start: int, **args: Any) -> dict[str, Any]:
        return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": start, "dur": 1, "args": args}

    small = {"grid": [2, 1, 1], "block": [64, 1, 1], "shared memory": 16, "registers per thread": 24}
    events = [kernel(1, **small), kernel(2, **small | {"block": [32, 1, 1]}), kernel(3), kernel(4, **small)]
    trace = read_trace(write(tmp_path / "t.json", {"traceEvents": events}))
    assert trace.geometry.tolist() == [0, 1, NONE, 0]
    assert [parse_geometry(each)[:4] for each in trace.geometries] == [(2, 64, 16, 24), (2, 32, 16, 24)]


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
    assert np.array_equal(trace.select_events(Category.OP), [])


@pytest.mark.parametrize(
    ("damage", "note"),
    [
        (lambda whole: gzip.compress(whole)[:-20], "reading.damaged"),
        (lambda whole: whole[:-30], "reading.truncated"),
        (lambda whole: whole.replace(b"outer", b"ou\xff\xfe"), "reading.invalid_utf8 2"),
        (lambda whole: b"\xef\xbb\xbf" + whole, "reading.encoding"),
        (lambda whole: whole.decode().encode("utf-16"), "reading.encoding"),
        (lambda whole: whole.replace(b'"dur": 1.25', b'"dur": NaN'), "reading.not_finite 1"),
        (lambda whole: whole.replace(b"outer", b"out\x01er"), "reading.control_characters 1"),
        (lambda whole: whole.replace(b"outer", b"out\ner"), "reading.control_characters 1"),
        (lambda whole: whole.replace(b"outer", b'f<"x">(", a")'), "reading.unescaped_quotes 1"),
        (lambda whole: whole.replace(b"outer", b'ou"ter'), "reading.unescaped_quotes 1"),
        (lambda whole: whole.replace(b'"dur": 1.25,', b'"dur": 1.25,,'), "reading.broken_events 1"),
        (lambda whole: whole.replace(b'"dur": 0.5', b'"dur": -0.5'), "reading.negative_durations 1"),
        (lambda whole: whole.replace(b'"dur": 0.5, ', b""), "reading.no_durations 1"),
        (lambda whole: whole.replace(b"{}]}", b"]}"), ""),
    ],
)
def test_damage_is_repaired_or_left_out_and_noted(tmp_path: Path, damage: Any, note: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(damage(json.dumps({"traceEvents": [*EVENTS, {}]}).encode()))
    trace = read_trace(path)
    assert note in " ".join(f"{each.id} {each.figures.get('count')}" for each in trace.notes)
    assert len(trace) >= 4
    assert {"span", "gemm"} & set(trace.names)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"   \n", "empty"),
        (b"hello", "b'hello'"),
        (b"\0" * 1000, "not JSON"),
        (b"{}", "a JSON object without traceEvents"),
        (b'{"steps": 3}', "without traceEvents"),
        (b'{"steps": [3, ', "before its events begin: ends after 14 bytes"),
        (b"[[1, 2], [3]]", "a list of 2 values, none of them an event"),
        (b'{"traceEvents": {"a": 1}}', "traceEvents is not a list"),
        (b'{"traceEvents": 7}', "traceEvents is not a list"),
        (b"PK\x03\x04rest", "a zip archive"),
    ],
)
def test_files_that_are_no_trace_are_named(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(RunFormatError, match=re.escape(words)) as caught:
        read_trace(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress, bytes])
def test_a_file_cut_off_is_read_up_to_its_last_whole_event(tmp_path: Path, compress: Any) -> None:
    generator = random.Random(3)
    events = [
        {"ph": "X", "cat": "cpu_op", "name": generator.randbytes(20).hex(), "ts": index, "dur": 1, "args": {"a": {}}}
        for index in range(20_000)
    ]
    whole = compress(json.dumps({"traceEvents": events}).encode())
    path = tmp_path / "trace.json"
    path.write_bytes(whole[: len(whole) * 2 // 3])
    trace = read_trace(path)
    assert 10_000 < len(trace) < 15_000
    assert [trace.names[each] for each in trace.name] == [each["name"] for each in events[: len(trace)]]
    assert "reading.truncated" in {note.id for note in trace.notes} or trace.notes[0].id == "reading.damaged"
    assert trace.cut


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match="cannot be read"):
        read_trace(tmp_path / "none.json")
    with pytest.raises(RunFormatError, match="is a folder"):
        read_trace(tmp_path)


def test_a_range_that_was_open_when_the_recording_ended_ends_with_it(tmp_path: Path) -> None:
    """Its writer gives it an end of its own, here 13 s later: nothing tells what the program did meanwhile."""
    profiler = {
        "ph": "X",
        "cat": "Trace",
        "name": "PyTorch Profiler (0)",
        "pid": "Spans",
        "tid": "x",
        "ts": 0,
        "dur": 90,
    }
    events = [
        mark("ProfilerStep#1", 10, 13e6),
        mark("inner", 15, 5),
        op("aten::add", 20, 30),
        kernel("add", 1, 60, 100),
    ]
    trace = read_trace(write_trace(tmp_path / "open.json", [*events, profiler]))
    ends = {trace.names[name]: end for name, end in zip(trace.name.tolist(), trace.end_ns.tolist(), strict=True)}
    assert (ends["ProfilerStep#1"], ends["inner"], ends["add"]) == (160_000, 20_000, 160_000)
    assert [(note.id, note.figures) for note in trace.notes] == [("reading.unfinished", {"count": 1})]
    # Without the profiler's span nothing tells when the recording ended; a step may end with waiting.
    whole = read_trace(write_trace(tmp_path / "whole.json", events))
    assert int(whole.end_ns.max()) == 13_000_010_000
    assert not whole.notes


def test_a_format_is_recognized_by_its_text_and_read_by_its_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_lines(text: TraceText) -> Trace:
        """Kernels as `NAME BEGIN DURATION` lines, by way of the columns that Kineto's reader makes of them."""
        rows = [line.split() for line in b"".join(text.blocks).decode().splitlines()[1:]]
        events = [kernel(name, number, float(ts), float(dur)) for number, (name, ts, dur) in enumerate(rows)]
        blocks = TextBlocks(io.BytesIO(json.dumps({"traceEvents": events}).encode()), "", 0, text.limits)
        return read_kineto(text._replace(blocks=blocks))

    monkeypatch.setattr(
        trace_formats, "FORMATS", (TraceFormat(lambda head: head.startswith(b"LINES\n"), read_lines, ()),)
    )
    lines = tmp_path / "trace.json"
    lines.write_bytes(gzip.compress(b"LINES\ngemm 10 5\nadd 20 1\n"))
    trace = read_trace(lines)
    assert [trace.names[name] for name in trace.name] == ["gemm", "add"]
    assert (trace.end_ns - trace.start_ns).tolist() == [5000, 1000]
    assert len(read_trace(write_trace(tmp_path / "kineto.json", EVENTS))) == 5


def test_nodes_of_two_graphs_that_are_numbered_by_themselves(tmp_path: Path) -> None:
    events = [kernel("k", number, number * 10, 1) for number in range(3)]
    for event, about in zip(events, ({"graph id": 2}, {"graph id": 3}, {}), strict=True):
        event["args"] |= about | {"graph node id": 1 if about else 0}
    trace = read_trace(write_trace(tmp_path / "t.json", events))
    assert trace.node.tolist() == [2 << 32 | 1, 3 << 32 | 1, NONE]
