"""The sum of events against the allocator's own count."""

from pathlib import Path

from perfkit.core.note import Note
from perfkit.trace.memory.consistency import describe_inconsistencies
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, memory, out_of_memory, write_trace


def notes(folder: Path, *events: Event) -> tuple[Note, ...]:
    return describe_inconsistencies(read_trace(write_trace(folder / "trace.json.gz", events)).memory)


def test_events_that_agree_are_not_mentioned(tmp_path: Path) -> None:
    events = [memory(1, 7, 100, total=900), memory(2, 8, 50, total=950), memory(3, 7, -100, total=850)]
    assert notes(tmp_path, *events, out_of_memory(4, 2**30, 0, total=1)) == ()


def test_lost_events_are_told_for_their_device(tmp_path: Path) -> None:
    lost = [memory(1, 7, 512, 1, total=512), memory(2, 8, 512, 1, total=2048)]
    (told,) = notes(tmp_path, *lost, memory(3, 9, 64, total=64))
    assert (told.id, told.figures) == ("memory.missing_events", {"device": "cuda:0", "bytes": 1024})


def test_events_out_of_order_that_come_right_again_are_not_lost(tmp_path: Path) -> None:
    events = [
        memory(1, 7, 10, total=10),
        memory(2, 8, 20, total=60),
        memory(3, 9, 30, total=30),
        memory(4, 7, -10, total=50),
    ]
    assert notes(tmp_path, *events) == ()


def test_a_trace_without_counts_and_one_with_negative_counts(tmp_path: Path) -> None:
    (told,) = notes(tmp_path, memory(1, 7, 10))
    assert told.id == "memory.no_allocator_count"
    (told,) = notes(tmp_path, memory(1, 7, 10, total=-4), memory(2, 8, 10, total=6))
    assert (told.id, told.figures["events"]) == ("memory.negative_count", 1)
