"""Segments, blocks and gaps, on maps small enough to be added up by hand."""

import pickle
import random
from pathlib import Path

import numpy as np
import pytest

from perfkit.analysis.memory.allocation_lifetimes import build_lifetimes
from perfkit.analysis.memory.fragmentation import compute_fragmentation
from perfkit.analysis.model.memory_model import Fragmentation
from perfkit.core.allocations import NONE, Allocations, InitialBlock, ReservedSegments, build_allocations
from perfkit.trace.memory.snapshot import read_snapshot
from tests.fixtures.caching_allocator import CachingAllocator


def reserved(*pieces: tuple[int, int, int], expandable: bool = False) -> ReservedSegments:
    """Pieces as (events before it, address, signed size)."""
    at_event, address, size = (np.array(column, np.int64) for column in zip(*pieces, strict=True))
    return ReservedSegments(
        at_event=at_event, address=address, size=size, expandable=np.full(len(pieces), expandable, np.bool_)
    )


def recorded(held: ReservedSegments, *events: tuple[int, int], **more: object) -> Allocations:
    """Events as (address, signed size)."""
    address, size = zip(*events, strict=True) if events else ((), ())
    return build_allocations(
        device="cuda:0", source="test", time_ns=range(len(events)), address=address, size=size, reserved=held, **more
    )


def at(events: Allocations, event: int | None = None) -> Fragmentation | None:
    return compute_fragmentation(events, build_lifetimes(events), len(events) - 1 if event is None else event)


def balance(reserved: int, allocated: int, largest: int | None) -> Fragmentation:
    return Fragmentation(
        reserved_bytes=reserved,
        allocated_bytes=allocated,
        free_bytes=reserved - allocated,
        largest_free_bytes=largest,
    )


@pytest.mark.parametrize(
    ("pieces", "expandable", "events", "expected"),
    [
        (((0, 1000, 100),), False, ((1010, 20), (1050, 10)), balance(100, 30, 40)),  # 10 before, 20 between, 40 after
        (((0, 1000, 100), (0, 1100, 100)), False, ((1000, 60),), balance(200, 60, 100)),  # gaps of 40 and 100 touch
        (((0, 1000, 100), (0, 1100, 100)), True, ((1000, 60),), balance(200, 60, 140)),
        (((0, 1000, 100), (0, 1100, 100)), True, ((1050, 100),), balance(200, 100, 50)),  # a block across both
        # obtained again where a larger one was, with borders of its own
        (
            ((0, 1000, 200), (0, 1000, -200), (0, 1000, 100), (0, 1100, 100)),
            False,
            ((1000, 10),),
            balance(200, 10, 100),
        ),
    ],
)
def test_a_request_fits_into_one_segment_or_one_that_expands(
    pieces: tuple[tuple[int, int, int], ...],
    expandable: bool,
    events: tuple[tuple[int, int], ...],
    expected: Fragmentation,
) -> None:
    assert at(recorded(reserved(*pieces, expandable=expandable), *events)) == expected


def test_unmapping_cuts_a_part_out_of_a_mapped_range() -> None:
    held = reserved((0, 1000, 300), (1, 1100, -100), expandable=True)
    events = recorded(held, (1000, 40), (1200, 10))
    assert at(events) == balance(200, 50, 90)  # 60 before the hole, 90 after it
    assert at(events, 0) == balance(300, 40, 260)  # before the event that follows the unmapping


def test_segments_are_counted_from_the_event_for_which_they_were_obtained() -> None:
    events = recorded(reserved((0, 1000, 100), (1, 5000, 50), (2, 5000, -50)), (1000, 100), (5000, 50), (5000, -50))
    assert at(events, 0) == balance(100, 100, 0)
    assert at(events, 1) == balance(150, 150, 0)


def test_blocks_known_and_blocks_only_freed_later_lie_where_they_are() -> None:
    known = (InitialBlock(address=1000, size_bytes=30, category="parameter", name="w"),)
    events = recorded(reserved((0, 1000, 100)), (1040, 10), (1090, -10), known=known)
    assert at(events, 0) == balance(100, 50, 40)  # 1030..1040 and 1050..1090


def test_bytes_without_an_address_leave_the_largest_piece_unknown() -> None:
    events = recorded(reserved((0, 1000, 100)), (1000, 10), unexplained_bytes=25)
    assert at(events) == balance(100, 35, None)


def test_what_was_not_recorded_in_full_has_no_balance() -> None:
    assert at(recorded(ReservedSegments.make_empty(), (1000, 10))) is None
    assert at(recorded(reserved((0, 1000, 100)), (5000, 10))) is None  # outside of all segments
    assert at(recorded(reserved((0, 1000, 100)), (1095, 10))) is None  # across a segment's end
    assert at(recorded(reserved((0, 1000, 100)), (1000, 10), (1005, 10))) is None  # two blocks in one place
    assert at(recorded(reserved((0, 1000, -100), (0, 3000, 50)), (3000, 10))) is None  # given back by nobody
    assert at(recorded(reserved((0, 1000, 100)), (NONE, 200))) is None  # more allocated than reserved


def test_before_the_first_event() -> None:
    known = (InitialBlock(address=1020, size_bytes=30, category="parameter", name="w"),)
    assert at(recorded(reserved((0, 1000, 100)), (1000, 10), known=known), -1) == balance(100, 30, 50)


@pytest.mark.parametrize("seed", range(20))
def test_any_map_balances_and_its_largest_gap_is_that_of_a_map_of_bytes(seed: int) -> None:
    generator = np.random.default_rng(seed)
    owner = np.full(400, -1)  # the segment of each byte
    pieces = []
    for number, start in enumerate(range(0, 400, 40)):
        if generator.random() < 0.7:
            length = int(generator.choice([20, 40]))  # of 40, it touches the next
            pieces.append((0, 1000 + start, length))
            owner[start : start + length] = number
    taken = np.zeros(400, bool)
    blocks = []
    for _ in range(60):
        start, length = int(generator.integers(400)), int(generator.integers(1, 12))
        span = slice(start, start + length)
        if (
            start + length <= 400
            and owner[start] >= 0
            and (owner[span] == owner[start]).all()
            and not taken[span].any()
        ):
            taken[span] = True
            blocks.append((1000 + start, length))
    longest = run = 0
    for byte in range(400):
        free = owner[byte] >= 0 and not taken[byte]
        run = 0 if not free else run + 1 if byte and owner[byte] == owner[byte - 1] else 1
        longest = max(longest, run)
    found = at(recorded(reserved(*pieces), *blocks))
    assert found == balance(int((owner >= 0).sum()), int(taken.sum()), longest)


@pytest.mark.parametrize("seed", range(10))
def test_a_snapshot_of_a_caching_allocator_has_its_own_counts(tmp_path: Path, seed: int) -> None:
    choose, allocator = random.Random(seed), CachingAllocator()
    live: list[int] = []
    allocator.recording = seed % 2 == 0  # else only what comes after the first hundred requests is in the history
    for number in range(300):
        allocator.recording = allocator.recording or number == 100
        if live and choose.random() < 0.48:
            allocator.free(live.pop(choose.randrange(len(live))))
        else:
            live.append(allocator.malloc(choose.choice([100, 5_000, 300_000, 2_000_000, 9_000_000, 30_000_000])))
        if choose.random() < 0.02:
            allocator.empty_cache()
    allocator.malloc(700)  # so that nothing is given back after the last event
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(allocator.snapshot()))
    (events,) = read_snapshot(path).allocations
    free = [block.size for blocks in allocator.segments().values() for block in blocks if block.state == "inactive"]
    assert at(events) == balance(allocator.reserved, allocator.allocated, max(free, default=0))
