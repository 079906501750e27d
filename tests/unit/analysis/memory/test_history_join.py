"""Joining the recorder's events with the allocator's history: by address and occurrence, from the right end."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfkit.analysis.memory.account import build_memory_account
from perfkit.analysis.memory.history_join import join_history
from perfkit.core.allocations import GRAPH_POOL, InitialBlock, PrivateSegment, ReservedSegments, build_allocations
from perfkit.store.memory_file import read_allocations
from perfkit.trace.memory.snapshot import read_snapshot

A, B, C = 0x1000, 0x2000, 0x3000
H200 = Path(__file__).parents[3] / "fixtures" / "recorded" / "h200"


def events(rows, *, reserved=(), **texts):
    """`rows` of (address, size); texts by column, one an event."""
    names = ("", *sorted({text for column in texts.values() for text in column if text}))
    segments = [np.array(values, np.int64) for values in zip(*reserved, strict=True)]
    return build_allocations(
        device="cuda:0",
        source="made up",
        names=names,
        time_ns=range(len(rows)),
        address=[address for address, _ in rows],
        size=[size for _, size in rows],
        **{column: [names.index(text) for text in values] for column, values in texts.items()},
        reserved=ReservedSegments(at_event=segments[0], address=segments[1], size=segments[2])
        if reserved
        else ReservedSegments.make_empty(),
    )


def column(found, name):
    return [found.get_text(getattr(found, name), event) for event in range(len(found))]


def test_lines_fill_what_the_recorder_does_not_know():
    recorder = events([(A, 512), (B, 1024), (A, -512)], op=["aten::mm", "", ""], line=["", "mine.py:1 f", ""])
    history = events([(A, 100), (B, 1000), (A, -100)], op=["x", "y", ""], line=["a.py:1 f", "b.py:2 g", ""])
    found = join_history(recorder, history)
    assert column(found, "line") == ["a.py:1 f", "mine.py:1 f", ""]
    assert column(found, "op") == ["aten::mm", "y", ""]
    assert found.size.tolist() == [512, 1024, -512]


@pytest.mark.parametrize(
    ("rows", "history", "lines", "expected"),
    [
        (  # the same address again is another allocation
            [(A, 512), (A, -512), (A, 1024), (A, -1024)],
            [(A, 512), (A, -512), (A, 1024), (A, -1024)],
            ["first", "", "second", ""],
            ["first", "", "second", ""],
        ),
        (  # a history whose start was cut is counted from the end
            [(A, 512), (A, -512), (A, 1024), (A, -1024), (A, 2048)],
            [(A, -1024), (A, 2048)],
            ["", "third"],
            ["", "", "", "", "third"],
        ),
        (  # one that goes on longer from the start
            [(A, 512), (A, -512), (A, 1024)],
            [(A, 512), (A, -512), (A, 1024), (A, -1024), (A, 4096)],
            ["one", "", "two", "", "three"],
            ["one", "", "two"],
        ),
        # a block smaller than its request takes nothing over
        ([(A, 512), (B, 512)], [(A, 4096), (B, 512)], ["wrong", "right"], ["", "right"]),
        ([(-1, 512)], [(-1, 512)], ["which?"], [""]),  # without an address nothing is joined
    ],
)
def test_allocations_are_joined_by_address_and_occurrence(rows, history, lines, expected):
    assert column(join_history(events(rows), events(history, line=lines)), "line") == expected


MIB = 1 << 20


def standing(size, address=C, **more):
    block = InitialBlock(address=address, size_bytes=size, category="parameter", name="fc.weight")
    return replace(events([(A, 512), (A, -512)]), known=(block,), **more)


def known(recorder, history):
    found = join_history(recorder, history)
    return [block.size_bytes for block in found.known], found.unexplained_bytes


def test_what_was_not_split_off_a_known_block_is_its_own_and_no_longer_unexplained():
    recorder = standing(3 * MIB // 2, unexplained_bytes=MIB)
    assert known(recorder, standing(2 * MIB)) == ([2 * MIB], MIB // 2)
    assert known(recorder, standing(2 * MIB, address=B)) == ([3 * MIB // 2], MIB), "another block"
    assert known(recorder, standing(4 * MIB)) == ([3 * MIB // 2], MIB), "no block for this tensor"


def test_a_known_block_that_comes_and_goes_or_does_not_add_up_is_left_as_it_is():
    moving = standing(3 * MIB // 2, address=A, unexplained_bytes=MIB)
    assert known(moving, standing(2 * MIB, address=A)) == ([3 * MIB // 2], MIB)
    full = standing(3 * MIB // 2, unexplained_bytes=512)
    assert known(full, standing(2 * MIB)) == ([3 * MIB // 2], 512), "the allocator had not given as much"


def test_segments_are_placed_among_the_recorders_events():
    recorder = events([(C, 256), (A, 512), (B, 1024), (A, -512)])  # C: not in the history
    history = events(
        [(A, 512), (B, 1024), (A, -512)],
        reserved=[(0, 0x1000, 2 << 20), (1, 0x800000, 20 << 20), (3, 0x1000, -(2 << 20))],
    )
    found = join_history(recorder, history)
    assert found.reserved.at_event.tolist() == [0, 2, 4]
    assert found.reserved.size.tolist() == [2 << 20, 20 << 20, -(2 << 20)]


def test_segments_keep_their_order_where_events_are_told_in_another():
    recorder = events([(B, 512), (A, 512)])
    history = events([(A, 512), (B, 512)], reserved=[(1, 0, 2 << 20), (2, 1, 2 << 20)])
    assert join_history(recorder, history).reserved.at_event.tolist() == [2, 2]


def test_a_history_of_nothing_changes_nothing():
    recorder = events([(A, 512)], line=["mine"], reserved=[(0, 0, 2 << 20)])
    found = join_history(recorder, events([]))
    assert column(found, "line") == ["mine"]
    assert len(found.reserved) == 1


def test_a_private_pool_counts_whole_and_once():
    """A pool of 8 KiB with 1 KiB allocated; a replay gave a tensor 2 KiB, and the allocator is not told."""
    outside, allocated, replayed = (
        InitialBlock(address=address, size_bytes=size, category="parameter", name=name)
        for address, size, name in ((A, 512, "outside"), (C, 1024, "allocated"), (C + 1024, 2048, "replayed"))
    )
    recorder = replace(events([(B, 512), (B, -512)]), known=(outside, allocated, replayed), unexplained_bytes=0)
    workspace = InitialBlock(address=A + 512, size_bytes=256, category="", name="")
    history = replace(
        events([(B, 512), (B, -512)]),
        known=(outside, allocated, workspace),
        private=(PrivateSegment(C, 8192, 7168),),
    )
    found = join_history(recorder, history)
    assert [(block.name, block.category, block.size_bytes) for block in found.known] == [
        ("outside", "parameter", 512), ("allocated", "parameter", 1024), ("", GRAPH_POOL, 7168),
    ]  # fmt: skip
    assert found.unexplained_bytes == 256
    assert build_memory_account(found).peak_bytes == 512 + 8192 + 256 + 512


def test_a_step_of_cuda_graphs_on_an_h200():
    """gpt nano under reduce-overhead: 150 MiB of graphs' pools, and what the counters said is allocated besides."""
    recorder = read_allocations(H200 / "cuda_graphs_memory.parquet")
    (history,) = read_snapshot(H200 / "cuda_graphs_history.json.gz").allocations
    assert sum(segment.size_bytes for segment in history.private) == 150 * 2**20
    found = join_history(recorder, history)
    assert build_memory_account(found).peak_bytes == build_memory_account(history).peak_bytes + 150 * 2**20
    assert build_memory_account(found).peak_bytes == pytest.approx(210_210_816, rel=1e-5)


@pytest.mark.parametrize("size", [8519680, 32 * 2**20])
def test_what_cublas_keeps_is_told_by_its_size(size):
    """A block that stands throughout and that no tensor is in; one of another size stays unexplained."""
    workspace = InitialBlock(address=C, size_bytes=size, category="", name="")
    other = InitialBlock(address=C + size, size_bytes=2**20, category="", name="")
    recorder = replace(events([(A, 512), (A, -512)]), unexplained_bytes=size + 2**20)
    history = replace(events([(A, 512), (A, -512)]), known=(workspace, other))
    found = join_history(recorder, history)
    assert [(block.category, block.size_bytes) for block in found.known] == [("workspace", size)]
    assert found.unexplained_bytes == 2**20
    held = replace(recorder, known=(InitialBlock(address=C, size_bytes=size, category="parameter", name="w"),))
    assert [block.category for block in join_history(held, history).known] == ["parameter"]
