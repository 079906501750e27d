"""Histories by hand: expandable segments, blocks that wait, and what was there at the start."""

from typing import Any

from perfkit.trace.memory.block_sizes import AllocatorSettings
from perfkit.trace.memory.history import build_held_memory, build_history
from perfkit.trace.memory.history_replay import HistoryReplay, replay_history

PAGE = 2 << 20


def replayed(entries: list[tuple[str, int, int]], segments: list[dict[str, Any]]) -> HistoryReplay:
    history = build_history([{"action": action, "addr": address, "size": size} for action, address, size in entries])
    return replay_history(history, build_held_memory(segments), AllocatorSettings())


def segment(address: int, *blocks: tuple[int, str], expandable: bool = False) -> dict[str, Any]:
    return {
        "address": address,
        "total_size": sum(size for size, _ in blocks),
        "is_expandable": expandable,
        "blocks": [{"size": size, "state": state} for size, state in blocks],
    }


def reserved(result: HistoryReplay) -> list[tuple[int, int, int, bool]]:
    columns = (result.reserved.at_event, result.reserved.address, result.reserved.size, result.reserved.expandable)
    return list(zip(*(each.tolist() for each in columns), strict=True))


def test_pages_of_an_expandable_segment_come_and_go() -> None:
    entries = [
        ("segment_map", 10 * PAGE, 2 * PAGE),
        ("alloc", 10 * PAGE, 3 << 20),
        ("segment_unmap", 8 * PAGE, PAGE),  # of what was mapped before the history
        ("free_requested", 10 * PAGE, 3 << 20),
        ("free_completed", 10 * PAGE, 3 << 20),
        ("segment_unmap", 11 * PAGE, PAGE),
    ]
    result = replayed(entries, [segment(9 * PAGE, (2 * PAGE, "inactive"), expandable=True)])
    assert reserved(result) == [
        (0, 8 * PAGE, PAGE, True),
        (0, 9 * PAGE, PAGE, True),
        (0, 10 * PAGE, 2 * PAGE, True),
        (1, 8 * PAGE, -PAGE, True),
        (2, 11 * PAGE, -PAGE, True),
    ]
    assert result.size.tolist() == [3 << 20, -(3 << 20)]  # nothing is kept unsplit there
    assert result.missing == 0


def test_a_block_that_waits_for_a_stream_is_not_allocated() -> None:
    held = [segment(0, (512, "active_awaiting_free"), (1024, "active_allocated"), (512, "inactive"))]
    result = replayed([("alloc", 512, 700), ("free_requested", 0, 100)], held)
    assert result.size.tolist() == [1024, -512]
    assert result.allocated_by.tolist() == [-1, -1]
    assert len(result.from_start) == 0


def test_blocks_that_nobody_made_were_there() -> None:
    held = [segment(0, (512, "active_allocated"), (1024, "active_allocated"))]
    result = replayed([("alloc", 512, 700)], held)
    assert result.from_start.tolist() == [0]
    assert result.freed_by.tolist() == [1]


def test_a_segment_given_back_after_the_history_is_missed() -> None:
    result = replayed([("segment_alloc", 0, PAGE), ("alloc", 0, 100)], [segment(PAGE, (PAGE, "inactive"))])
    assert result.missing == PAGE
    assert result.lost == 1


def test_sizes_of_no_caching_allocator_are_left_alone() -> None:
    result = replayed(
        [("alloc", 0, 100), ("alloc", 100, 7)], [segment(0, (100, "active_allocated"), (7, "active_allocated"))]
    )
    assert result.size.tolist() == [100, 7]


def test_a_history_of_torch_that_knew_one_kind_of_free() -> None:
    result = replayed([("alloc", 0, 100), ("free", 0, 100)], [segment(0, (512, "inactive"))])
    assert result.size.tolist() == [512, -512]
    assert result.freed_by.tolist() == [1, -1]
