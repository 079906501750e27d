"""Traces of other formats than JSON, exported for Perfetto: read again they hold the same events."""

import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from perfkit.analysis.export.chrome_events import PROCESS
from perfkit.analysis.export.event_splicing import write_events
from perfkit.analysis.export.perfetto import write_perfetto
from perfkit.analysis.export.recorded_events import encode_head, encode_trace_events
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.core.text_blocks import ReadLimits
from perfkit.trace.model import NONE, Category, Trace
from perfkit.trace.readers.trace_reader import has_json_events, read_trace
from tests.fixtures.gpu_traces import training_file
from tests.fixtures.synthetic_machine import kineto, machine
from tests.fixtures.synthetic_machine.random_programs import program
from tests.fixtures.trace_formats import write_nsys, write_pftrace, write_rocprofv3, write_xplane

Writer = Callable[[Path, Path], Path]
LIMITS = ReadLimits()
COLUMNS = ("category", "start_ns", "end_ns", "correlation", "external_id", "device", "stream", "moved_bytes")


def rows(trace: Trace) -> list[tuple[object, ...]]:
    """Name, inputs, geometry and numbers of every event."""
    columns = [getattr(trace, column).tolist() for column in COLUMNS]
    names = [trace.names[name] for name in trace.name.tolist()]
    inputs = [() if each == NONE else trace.signatures[each] for each in trace.signature.tolist()]
    shapes = [b"" if each == NONE else trace.geometries[each] for each in trace.geometry.tolist()]
    return sorted(zip(names, inputs, shapes, *columns, strict=True))


@pytest.mark.parametrize("write", [write_pftrace, write_nsys, write_xplane, write_rocprofv3])
def test_an_export_of_another_format_has_its_events_and_the_tracks(tmp_path: Path, write: Writer) -> None:
    source = kineto.write(machine.run(program(2))[0], tmp_path / "trace.json", ahead_ns=1_700_000_000_000_000_000)
    other = write(source, tmp_path / "other")
    analysis = analyze_traces(other)
    written = write_perfetto(analysis.traces[0], analysis.findings, tmp_path / "other.perfetto.json.gz")
    before, after = read_trace(other), read_trace(written)
    assert rows(after) == rows(before)
    assert (after.base_ns, after.devices) == (before.base_ns, before.devices)
    again = analyze_traces(written).traces[0]
    assert [(step.number, step.seconds) for step in again.steps] == [
        (step.number, step.seconds) for step in analysis.traces[0].steps
    ]
    events = json.loads(gzip.decompress(written.read_bytes()))["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["pid"] == PROCESS and event["name"] == "thread_name"}
    assert "steps" in tracks
    starts, ends = ([event["id"] for event in events if event["ph"] == phase] for phase in ("s", "f"))
    assert starts == ends
    launched = {event["args"].get("correlation") for event in events if event.get("cat") == "cuda_runtime"}
    assert set(starts) <= launched


def test_inputs_and_geometry_are_written_as_they_were(tmp_path: Path) -> None:
    trace = read_trace(training_file(tmp_path / "step.json", rank=1))
    write_events(encode_head(trace), encode_trace_events(trace), tmp_path / "again.json.gz")
    again = read_trace(tmp_path / "again.json.gz")
    assert rows(again) == rows(trace)
    assert (again.rank, again.world_size, again.thread_names) == (trace.rank, trace.world_size, trace.thread_names)
    assert again.are(Category.KERNEL).any()


def test_only_files_of_json_events_are_such(tmp_path: Path) -> None:
    source = training_file(tmp_path / "step.json")
    assert has_json_events(source, LIMITS)
    packed = tmp_path / "step.json.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    assert has_json_events(packed, LIMITS)
    sqlite3.connect(tmp_path / "empty.sqlite").execute("CREATE TABLE StringIds (id INT)").connection.close()
    assert not has_json_events(tmp_path / "empty.sqlite", LIMITS)
