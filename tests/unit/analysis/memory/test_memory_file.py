"""Files of memory to an analysis: devices, notes, findings, and files that hold nothing."""

from pathlib import Path

import msgspec
import pytest

from perfkit.analysis.model.memory_analysis import MemoryAnalysis
from perfkit.analysis.pipeline.memory_analysis import analyze_memory
from perfkit.core.errors import PerfkitError, RunFormatError
from tests.fixtures.traces import mark, memory, op, out_of_memory, write_trace

GIB = 2**30
STEP = [mark("ProfilerStep#0", 0, 100), op("aten::mm", 10, 20, [[8, 4], [4, 4]])]


def test_a_trace_of_two_devices(tmp_path: Path) -> None:
    events = [
        *STEP,
        memory(11, 1, 128, total=128),
        memory(12, 2, 2 * GIB, 1, total=3 * GIB, reserved=4 * GIB),
        out_of_memory(13, 8 * GIB, total=3 * GIB, reserved=4 * GIB),
    ]
    path = write_trace(tmp_path / "job.pt.trace.json.gz", events)
    found = analyze_memory(path, command="perfkit memory x")
    assert (found.title, found.file, found.command) == ("job", str(path), "perfkit memory x")
    assert "torch.profiler" in found.kind
    assert [(account.device, account.peak_bytes) for account in found.accounts] == [("cuda:0", 3 * GIB), ("cpu", 128)]
    assert found.findings[0].severity == "warning"
    assert found.findings[0].variant == "cuda:0"
    assert {entry.figure for entry in found.provenance} >= {"allocation events", "peak", "categories", "reserved bytes"}
    assert found.provenance[0].detail.startswith("2, from ")
    assert [note.id for note in found.notes] == ["memory.unseen_before"]
    assert msgspec.json.decode(msgspec.json.encode(found), type=MemoryAnalysis) == found


def test_findings_on_the_only_device_name_none(tmp_path: Path) -> None:
    found = analyze_memory(write_trace(tmp_path / "t.json.gz", [*STEP, out_of_memory(13, GIB), memory(12, 2, GIB, 1)]))
    assert {finding.variant for finding in found.findings} == {""}


def test_events_that_are_missing_are_noted(tmp_path: Path) -> None:
    events = [memory(1, 7, 512, 1, total=512), memory(2, 8, 512, 1, total=2048)]
    (note,) = analyze_memory(write_trace(tmp_path / "t.json.gz", events)).notes
    assert (note.id, note.figures["device"]) == ("memory.missing_events", "cuda:0")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "empty"),
        (b"no recording", "expected"),
        (b'{"traceEvents": [{"ph": "X", "name": "aten::mm", "ts": 1, "dur": 1}]}', "profile_memory=True"),
    ],
)
def test_what_holds_no_memory_is_refused_with_its_name(tmp_path: Path, text: bytes, told: str) -> None:
    path = tmp_path / "given.json"
    path.write_bytes(text)
    with pytest.raises(PerfkitError, match=told) as refused:
        analyze_memory(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PerfkitError, match=r"missing\.json"):
        analyze_memory(tmp_path / "missing.json")


def test_a_trace_whose_only_event_is_a_failure_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match=r"t\.json\.gz"):
        analyze_memory(write_trace(tmp_path / "t.json.gz", [out_of_memory(1, GIB)]))
