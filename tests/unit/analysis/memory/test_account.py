from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.memory.account import LARGEST, build_memory_account, find_largest_blocks
from perfkit.analysis.memory.classify import classify_blocks
from perfkit.analysis.memory.non_allocator_memory import NonAllocatorMemory
from perfkit.analysis.model.memory_model import LiveBlock, MemoryAccount, MemoryShare
from perfkit.core.allocations import (
    ACTIVATION,
    CATEGORIES,
    NONE,
    PARAMETER,
    Allocations,
    FailedRequest,
    InitialBlock,
    ReservedSegments,
    TimeBand,
    build_allocations,
)
from perfkit.core.record.trace_marks import PHASES
from tests.unit.analysis.memory.recording import Recording

DATA, FORWARD, BACKWARD, OPTIMIZER = range(len(PHASES))
MS = 1_000_000


def recorded(*events: tuple[int, int, int], **fields: Any) -> Allocations:
    """Events of (visit and phase, address, size), 1 ms apart, of one step."""
    phase, address, size = zip(*events, strict=True) if events else ((), (), ())
    return build_allocations(
        device="cpu",
        source="by hand",
        time_ns=[moment * MS for moment in range(len(events))],
        phase=phase,
        visit=phase,
        step=[3] * len(events),
        address=address,
        size=size,
        **fields,
    )


def by_category(result: MemoryAccount) -> dict[str, int]:
    return {share.category: share.bytes for share in result.categories}


A_STEP = (
    (FORWARD, 1, 100),  # an activation
    (FORWARD, 2, 7),  # a temporary
    (FORWARD, 2, -7),
    (BACKWARD, 3, 40),  # a gradient
    (BACKWARD, 4, 60),  # a temporary: the peak, 50 + 100 + 40 + 60
    (BACKWARD, 4, -60),
    (BACKWARD, 1, -100),
    (OPTIMIZER, 3, -40),
)
TRAINED = (
    InitialBlock(address=90, size_bytes=30, category="parameter", name="weight"),
    InitialBlock(address=91, size_bytes=20, category="optimizer state", name="weight.exp_avg"),
)


def test_a_step_by_hand() -> None:
    result = build_memory_account(
        recorded(*A_STEP, known=TRAINED, bands=(TimeBand(kind="step", name="3", start_ns=0, end_ns=8 * MS),)),
        lambda peak: NonAllocatorMemory((MemoryShare(category="libraries", bytes=1000 - peak),), 1000, "VmHWM"),
    )
    assert (result.peak_bytes, result.peak_phase, result.peak_step) == (250, "backward", 3)
    assert by_category(result) == {
        "activation": 100,
        "temporary": 60,
        "gradient": 40,
        "parameter": 30,
        "optimizer state": 20,
    }
    assert result.categories[0].category == "activation"
    assert result.outside_allocator == (MemoryShare(category="libraries", bytes=750),)
    assert (result.process_bytes, result.process_source) == (1000, "VmHWM")
    assert (result.device, result.source) == ("cpu", "by hand")
    assert result.timeline_categories["activation"] == (0, 100, 100, 100, 100, 100, 100, 0, 0)
    assert result.timeline_categories["temporary"] == (0, 0, 7, 0, 0, 60, 0, 0, 0)
    assert result.peak_s == pytest.approx(0.004)
    assert result.step_peaks == (250,)
    assert [band.name for band in result.bands] == ["3"]
    assert (result.largest_blocks[0].bytes, result.largest_blocks[0].category) == (100, "activation")
    assert sum(row.bytes for row in result.rows) == 250
    assert (result.fragmentation, result.growth, result.failed_request) == (None, (), None)


def test_what_the_allocator_held_and_the_request_that_failed() -> None:
    obtained = ReservedSegments(at_event=np.array([0]), address=np.array([0]), size=np.array([512]))
    failed = FailedRequest(bytes=4096, message="CUDA out of memory")
    result = build_memory_account(
        recorded((FORWARD, 0, 100), (FORWARD, 300, 150), (FORWARD, 0, -100), reserved=obtained, failed=failed)
    )
    assert result.failed_request == failed
    assert (result.fragmentation.reserved_bytes, result.fragmentation.allocated_bytes) == (512, 250)
    assert (result.outside_allocator, result.process_bytes) == (
        (MemoryShare(category="reserved but free", bytes=262),),
        None,
    )


def test_nothing_known_and_nothing_recorded_is_no_account() -> None:
    assert build_memory_account(recorded()) is None


def test_known_blocks_alone_are_the_peak() -> None:
    result = build_memory_account(recorded(known=TRAINED))
    assert (result.peak_bytes, result.peak_phase, result.peak_step) == (50, "", None)
    assert by_category(result) == {"parameter": 30, "optimizer state": 20}


def test_what_the_allocator_counted_and_nobody_explains_is_unknown() -> None:
    result = build_memory_account(recorded((FORWARD, 7, -10), (FORWARD, 8, 2), known=TRAINED, unexplained_bytes=100))
    assert (result.peak_bytes, result.peak_step) == (150, None)
    assert by_category(result) == {"unknown": 100, "parameter": 30, "optimizer state": 20}


names = ("", *CATEGORIES)
event = st.tuples(
    st.integers(NONE, len(PHASES) - 1),
    st.integers(0, 3),
    st.integers(NONE, 2),
    st.integers(NONE, 9),
    st.integers(-50, 50),
    st.integers(0, len(names) - 1),
)
block = st.builds(
    InitialBlock,
    address=st.integers(NONE, 12),
    size_bytes=st.integers(0, 50),
    category=st.sampled_from(CATEGORIES),
    name=st.just("w"),
)


@given(st.lists(event, max_size=60), st.lists(block, max_size=6), st.integers(0, 300))
def test_any_sequence_of_events_balances(
    events: list[tuple[int, ...]], known: list[InitialBlock], unexplained_bytes: int
) -> None:
    """Frees too many, frees missing, addresses unknown or lost, phases and steps in any order."""
    phase, visit, step, address, size, category = zip(*events, strict=True) if events else ((),) * 6
    recording = build_allocations(
        device="cpu",
        source="anything",
        names=names,
        time_ns=range(len(events)),
        phase=phase,
        visit=visit,
        step=step,
        address=address,
        size=size,
        category=category,
        known=tuple(known),
        unexplained_bytes=unexplained_bytes,
    )
    result = build_memory_account(recording)
    if result is None:
        assert not any(block.size_bytes for block in known)
        assert not any(size)
        return
    assert sum(share.bytes for share in result.categories) == result.peak_bytes
    assert sum(row.bytes for row in result.rows) == result.peak_bytes
    drawn = np.sum(list(result.timeline_categories.values()), axis=0)
    assert len(drawn) == len(result.timeline_s)
    assert drawn.max() == result.peak_bytes
    assert all(peak <= result.peak_bytes for peak in result.step_peaks)
    if result.peak_step is None:  # everything is drawn, so it can be held against a replay event by event
        assert np.diff(drawn).tolist() == _changes(recording)


def _changes(recording: Allocations) -> list[int]:
    """By how much each event changes what is alive."""
    alive = {block.address: block.size_bytes for block in recording.known if block.size_bytes}
    changes = []
    for address, size in zip(recording.address.tolist(), recording.size.tolist(), strict=True):
        if address == NONE or size == 0:
            changes.append(size)
        elif size > 0:
            changes.append(size - alive.get(address, 0))
            alive[address] = size
        else:
            changes.append(-alive.pop(address, -size))
    return changes


def found(recording: Recording, alive: list[bool] | None = None) -> tuple[LiveBlock, ...]:
    allocations, lives = recording.build()
    mask = np.ones(len(lives), np.bool_) if alive is None else np.array(alive)
    return find_largest_blocks(allocations, lives, classify_blocks(allocations, lives), mask)


def test_what_is_known_of_each_block() -> None:
    weight = InitialBlock(address=1, size_bytes=5, category=PARAMETER, name="a.weight", shape="[5]", dtype="int8")
    recording = Recording((weight,))
    recording.unseen(4)
    recording.phase("forward")
    texts = {"module": "blocks.0", "line": "model.py:12 forward", "shape": "[2, 8]", "dtype": "fp32"}
    block = recording.make("aten::gelu", size=64, **texts)
    recording.make("", size=3)
    recording.outside()
    recording.make("", size=2)
    recording.make("", size=1, line="loop.py:9 main")
    recording.phase("backward")
    recording.free(block, op="autograd::engine::evaluate_function: GeluBackward0")
    assert found(recording) == (
        LiveBlock(
            bytes=64,
            category=ACTIVATION,
            name="aten::gelu in blocks.0",
            op="aten::gelu",
            phase="forward",
            freed_by="GeluBackward0",
            **texts,
        ),
        LiveBlock(bytes=5, category=PARAMETER, name="a.weight", shape="[5]", dtype="int8"),
        LiveBlock(bytes=4, category="unknown", name="allocated before the recording"),
        LiveBlock(bytes=3, category=ACTIVATION, name="forward", phase="forward"),
        LiveBlock(bytes=2, category="unknown", name="no recorded op"),
        LiveBlock(bytes=1, category="unknown", name="loop.py:9 main", line="loop.py:9 main"),
    )


def test_what_took_the_address_of_a_block_did_not_keep_it() -> None:
    recording = Recording()
    recording.replace(recording.make("aten::mm"), op="aten::gelu")
    assert [block.freed_by for block in found(recording)] == ["", ""]


def test_only_those_alive_and_no_more_than_asked_for() -> None:
    recording = Recording()
    recording.phase("forward")
    for size in range(1, 31):
        recording.make("aten::gelu", size=size)
    alive = [size != 30 for size in range(1, 31)]
    assert [block.bytes for block in found(recording, alive)] == list(range(29, 29 - LARGEST, -1))


def test_of_equal_ones_the_oldest_first() -> None:
    recording = Recording()
    for op in ("b", "a", "c"):
        recording.make(op)
    assert [block.op for block in found(recording)] == ["b", "a", "c"]
    assert CATEGORIES[-1] == "unknown"
