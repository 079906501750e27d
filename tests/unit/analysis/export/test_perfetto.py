"""A trace written back with our tracks: in Chrome's format, and read again as it was."""

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from perfkit.analysis.export.chrome_events import PROCESS, CounterTrack, Slice, Track, encode_events
from perfkit.analysis.export.event_splicing import write_spliced_trace
from perfkit.analysis.export.perfetto import write_perfetto
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.core.errors import RunFormatError, UsageError
from perfkit.core.text_blocks import ReadLimits
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.gpu_traces import training_file
from tests.fixtures.several_gpus import A100, A100_FLOPS, FLOPS, H100, H100_FLOPS, Recorder
from tests.fixtures.traces import memory, op, write_trace


def exported(source: Path, path: Path) -> list[dict[str, Any]]:
    """Our events in what is written of a trace."""
    analysis = analyze_traces(source)
    write_perfetto(analysis.traces[0], analysis.findings, path)
    content = json.loads(gzip.decompress(path.read_bytes()))
    return [event for event in content["traceEvents"] if event.get("pid") == PROCESS]


def tracks(events: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    return {name: [e for e in events if e["ph"] == "X" and e["tid"] == tid] for tid, name in names.items()}


def test_times_are_exact_and_in_the_unit_of_the_trace() -> None:
    slices = [Slice(7_000_000_000_000_001, 7_000_000_000_002_501, "a", {"b": 1})]
    values = [(-1, {"x": 2.0})]
    lines = list(encode_events([Track("t", slices)], [CounterTrack("c", values)]))
    assert b'"ts":7000000000000.001,"dur":2.498,"args":{"b":1}' in lines[-2]
    assert b'"ph":"C","name":"c"' in lines[-1]
    assert b'"ts":-0.001' in lines[-1]
    assert b'"ts":7000000000000001,"dur":2498' in list(encode_events([Track("t", slices)], [], unit_ns=1))[-1]


@pytest.mark.parametrize("begin", [7_862_400_000_313, 1_760_000_000_000_313])  # of three months, since 1970
def test_slices_nest_or_follow_each_other_whatever_a_double_makes_of_their_times(begin: int) -> None:
    """Perfetto drops complete events that overlap in part, and has their times as `int64_t(double * 1000)`."""
    whole = [Slice(1000 * begin + at, 1000 * begin + at + 7, "tile") for at in range(0, 7000, 7)]
    whole += [Slice(1000 * begin + at, 1000 * begin + at + 313, "tile") for at in range(10_000, 323_000, 313)]
    part = [
        Slice(1000 * begin + 8000, 1000 * begin + 8100, "outer"),
        Slice(1000 * begin + 8050, 1000 * begin + 8200, "in"),
    ]
    events = [
        json.loads(line)
        for line in encode_events([Track("t", sorted([*whole, *part], key=lambda each: each.begin_ns))], [])
    ]
    spans = [(int(e["ts"] * 1000), int(e["ts"] * 1000) + int(e["dur"] * 1000)) for e in events if e["ph"] == "X"]
    open_ends: list[int] = []
    for start, end in spans:
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1]
        open_ends.append(end)
    assert len(spans) == 2002


def test_a_trace_written_back_is_read_as_it_was(tmp_path: Path) -> None:
    source = training_file(tmp_path / "step.json", rank=1)
    ours = exported(source, tmp_path / "step.perfetto.json.gz")
    assert ours
    before, after = (analyze_traces(path).traces[0] for path in (source, tmp_path / "step.perfetto.json.gz"))
    assert before.file_info.events == after.file_info.events
    assert replace(before, label="", file_info=after.file_info) == replace(after, label="", file_info=after.file_info)
    text = gzip.decompress((tmp_path / "step.perfetto.json.gz").read_bytes())
    events = source.read_bytes().partition(b'"traceEvents": [')[2]
    assert text.endswith(events), "the file's own events, flows and metadata stand as they are"


def test_the_tracks_tell_what_the_analysis_does(tmp_path: Path) -> None:
    source = training_file(tmp_path / "step.json")
    events = exported(source, tmp_path / "out.json.gz")
    found = tracks(events)
    assert list(found) == [
        "steps",
        "findings",
        "critical path",
        "device idle: cause",
        "bound: stream 7",
        "bound: stream 9",
    ]
    written = json.loads(source.read_bytes())["traceEvents"]
    kernels = [event for event in written if event.get("cat") == "kernel" and event["args"]["stream"] == 7]
    bound = found["bound: stream 7"]
    assert [each["ts"] for each in bound] == [each["ts"] for each in kernels]
    assert [each["dur"] for each in bound] == pytest.approx([each["dur"] for each in kernels], abs=0.0021)
    product = bound[0]
    assert product["args"]["op"] == "aten::mm"
    assert 0 < product["args"]["% of roofline"] < 100
    assert product["name"] == f"compute-bound {product['args']['% of roofline']:.0f} %"
    path = found["critical path"]
    assert all(0 < other["ts"] - one["ts"] - one["dur"] < 0.003 for one, other in pairwise(path))
    counters = [event for event in events if event["ph"] == "C"]
    assert {name for event in counters for name in event["args"]} == {"% of roofline", "TFLOP/s", "GB/s"}
    assert counters[-1]["args"]["TFLOP/s"] == 0, "nothing is reached after the last kernel"


def test_memory_is_a_counter_of_all_categories(tmp_path: Path) -> None:
    events = [
        op("aten::add", 0, 100, [(4, 4), (4, 4)]),
        memory(10, 1000, 64),
        memory(20, 2000, 32),
        memory(50, 1000, -64),
    ]
    source = write_trace(tmp_path / "memory.json", events)
    told = [event for event in exported(source, tmp_path / "o.json.gz") if event["name"].startswith("memory of")]
    assert [sum(event["args"].values()) for event in told][-1] == 32
    assert max(sum(event["args"].values()) for event in told) == 96


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (b'[{"ph":"X","name":"a","ts":1,"dur":1}]', 2),
        (b' { "traceEvents" : [ ] , "x": 1}', 1),
        (b'{"traceEvents":[]}', 1),
        (b'{"meta": {"traceEvents": [1]}, "traceEvents": [\n{"ph":"X","name":"a","ts":1,"dur":1}]}', 2),
    ],
)
def test_events_are_put_before_those_of_the_file_however_it_is_written(tmp_path: Path, text: bytes, count: int) -> None:
    (tmp_path / "in.json").write_bytes(text)
    write_spliced_trace(str(tmp_path / "in.json"), [b'{"name":"ours"}'], tmp_path / "out.json.gz", ReadLimits())
    content = json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes()))
    events = content["traceEvents"] if isinstance(content, dict) else content
    assert (events[0], len(events)) == ({"name": "ours"}, count)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_holds_no_events_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"a": 1}')
    with pytest.raises(RunFormatError, match=r"in\.json"):
        write_spliced_trace(str(tmp_path / "in.json"), [], tmp_path / "out.json.gz", ReadLimits())
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == []


def test_an_export_is_not_exported_again(tmp_path: Path) -> None:
    exported(training_file(tmp_path / "step.json"), tmp_path / "once.json.gz")
    with pytest.raises(UsageError, match=r"once\.json.* export"):
        exported(tmp_path / "once.json.gz", tmp_path / "twice.json.gz")
    assert not (tmp_path / "twice.json.gz").exists()


def test_a_trace_that_lasts_no_time_has_no_place_for_findings(tmp_path: Path) -> None:
    source = write_trace(tmp_path / "trace.json", [op("aten::add", 5, 0, [(4, 4), (4, 4)])])
    analysis = analyze_traces(source)
    found = Finding(id="limit.no_shapes", severity="note", title="t", variant="", evidence="e", action="a")
    write_perfetto(analysis.traces[0], [found], tmp_path / "o.json.gz")
    content = json.loads(gzip.decompress((tmp_path / "o.json.gz").read_bytes()))
    assert "findings" not in tracks([event for event in content["traceEvents"] if event.get("pid") == PROCESS])


def test_only_our_own_events_are_left_out_of_a_trace(tmp_path: Path) -> None:
    ours = {"ph": "X", "cat": "perfkit", "name": "bound", "pid": PROCESS, "tid": 1, "ts": 0, "dur": 10}
    path = write_trace(tmp_path / "trace.json", [op("aten::add", 0, 5, [(4, 4), (4, 4)]), ours])
    assert len(read_trace(path)) == 1


def test_each_device_has_its_own_roofs_and_idle_time(tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.step(1, 0, 9000)
    recorder.run(0, 10, 60, 700)
    recorder.run(1, 20, 60, 900)
    recorder.run(1, 30, 960, 900)
    known = [{"id": number, **properties} for number, properties in enumerate((H100, A100))]
    source = write_trace(tmp_path / "trace.json", recorder.events, deviceProperties=known)
    shown = tracks(exported(source, tmp_path / "out.json.gz"))
    reached = {
        name: {piece["args"]["% of roofline"] for piece in pieces}
        for name, pieces in shown.items()
        if name.startswith("bound")
    }
    assert reached == {
        "bound: device 0, stream 7": {round(100 * FLOPS / H100_FLOPS / 700e-6, 1)},
        "bound: device 1, stream 7": {round(100 * FLOPS / A100_FLOPS / 900e-6, 1)},
    }
    assert {"device 0 idle: cause", "device 1 idle: cause"} <= shown.keys()
