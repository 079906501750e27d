"""The columns that are written, against events written by hand."""

import torch

from perfkit.core.allocations import NONE, InitialBlock
from perfkit.core.record.trace_marks import PHASES
from perfkit.instruments.memory.allocation_places import PlaceIndex
from perfkit.instruments.memory.block_labels import BlockLabel
from perfkit.instruments.memory.columns import build_columns
from tests.unit.instruments.memory.hand import CPU, at, made, mark

CUDA = torch.device("cuda", 0)
WEIGHT = InitialBlock(address=100, size_bytes=1000, category="parameter", name="fc.weight")


def together(*events):
    """Events in step 0 or, from 100 ns on, 1, labelled by their address."""
    return [
        (
            event,
            at("forward", step=int(event.time_ns >= 100), module="fc"),
            BlockLabel(op=f"op{event.address}", keeper="k"),
        )
        for event in events
    ]


def texts(found, name: str) -> list[str]:
    return [found.get_text(getattr(found, name), event) for event in range(len(found))]


def test_every_column() -> None:
    label = BlockLabel("aten::mm", "fc", "a.py:1 f", "[2]", "fp32", "gradient", "MmBackward0")
    place = at("backward", step=3, turn=2, module="fc")
    found = build_columns(
        CPU, [(made(10, 1, 8), place, label), (made(20, 1, -8), place, label)], [], PlaceIndex([]), "by hand"
    )
    assert (found.device, found.source, found.failed, found.unexplained_bytes) == ("cpu", "by hand", None, 0)
    assert (found.time_ns.tolist(), found.address.tolist(), found.size.tolist()) == ([10, 20], [1, 1], [8, -8])
    assert found.phase.tolist() == [PHASES.index("backward")] * 2
    assert (found.visit.tolist(), found.step.tolist()) == ([2, 2], [3, 3])
    assert texts(found, "op") == ["aten::mm", "MmBackward0"], "of a free, what held the block last"
    for name, text in [("module", "fc"), ("line", "a.py:1 f"), ("shape", "[2]"), ("dtype", "fp32")]:
        assert texts(found, name) == [text, text]
    assert texts(found, "category") == ["gradient", "gradient"]


def test_of_the_step_before_only_survivors_are_kept_outside_of_any_step() -> None:
    before = together(made(1, 1, 8), made(2, 2, 16), made(3, 1, -8), made(4, 3, 32), made(5, 3, 64), made(6, 9, -5))
    after = together(made(100, 4, 128), made(101, 2, -16))
    found = build_columns(CPU, [*before, *after], [], PlaceIndex([]), "", start=len(before))
    # 1 was freed; of 3 the second block stands where the first ended unseen; 9 was there before all.
    assert found.address.tolist() == [2, 3, 4, 2]
    assert found.size.tolist() == [16, 64, 128, -16]
    assert found.step.tolist() == [NONE, NONE, 1, 1]
    assert texts(found, "op") == ["op2", "op3", "op4", "k"]
    assert found.time_ns.tolist() == sorted(found.time_ns.tolist())


def test_survivors_that_are_known_are_told_once_with_the_size_that_was_reported() -> None:
    before = together(made(1, 100, 1024), made(2, 2, 16))
    found = build_columns(CPU, [*before, *together(made(100, 3, 8))], [WEIGHT], PlaceIndex([]), "", start=2)
    assert [(block.address, block.size_bytes, block.name) for block in found.known] == [(100, 1024, "fc.weight")]
    assert found.address.tolist() == [2, 3]


def test_sizes_of_what_is_known_are_rounded_as_the_allocator_does() -> None:
    def size(device: torch.device, bytes_: int) -> int:
        block = InitialBlock(address=1, size_bytes=bytes_, category="buffer", name="b")
        return build_columns(device, [], [block], PlaceIndex([]), "").known[0].size_bytes

    assert [size(CUDA, bytes_) for bytes_ in (1, 512, 513, 1000)] == [512, 512, 1024, 1024]
    assert [size(CPU, bytes_) for bytes_ in (1, 512, 513, 1000)] == [1, 512, 513, 1000]


def test_a_known_block_that_is_freed_has_the_size_that_its_free_reports() -> None:
    """The rest that was not split off goes with it, so that the sum stays the allocator's own."""
    mib = 1 << 20
    weight = InitialBlock(address=100, size_bytes=3 * mib // 2, category="parameter", name="fc.weight")
    freed = made(100, 100, -2 * mib, device=CUDA, allocated=mib)
    found = build_columns(CUDA, together(freed, made(101, 100, mib, device=CUDA)), [weight], PlaceIndex([]), "")
    assert [block.size_bytes for block in found.known] == [2 * mib]
    assert found.unexplained_bytes == mib, "3 MiB were there before the free"
    taken = together(made(100, 100, 4 * mib, device=CUDA, allocated=8 * mib), made(101, 100, -4 * mib, device=CUDA))
    (known,) = build_columns(CUDA, taken, [weight], PlaceIndex([]), "").known
    assert known.size_bytes == 3 * mib // 2, "the free is of the next block there"


def test_bytes_that_cudas_allocator_counted_beside_those_explained() -> None:
    # Before the first event it had 5000 - 512; the weight takes 1024 of it, the survivor 512.
    before = together(made(1, 2, 512, device=CUDA, allocated=9999))
    after = together(made(100, 3, 512, device=CUDA, allocated=5000))
    found = build_columns(CUDA, [*before, *after], [WEIGHT], PlaceIndex([]), "", start=1)
    assert found.unexplained_bytes == 5000 - 512 - 1024 - 512
    # A free comes after the bytes were there: 4000 + 512 before it.
    freed = together(made(100, 8, -512, device=CUDA, allocated=4000))
    assert build_columns(CUDA, freed, [], PlaceIndex([]), "").unexplained_bytes == 4512
    less = together(made(100, 3, 512, device=CUDA, allocated=600))
    assert build_columns(CUDA, less, [WEIGHT], PlaceIndex([]), "").unexplained_bytes == 0, "never negative"
    assert build_columns(CPU, together(made(100, 3, 512, allocated=600)), [], PlaceIndex([]), "").unexplained_bytes == 0


def test_bands_of_the_steps_that_count() -> None:
    places = PlaceIndex([mark("step#0", 0, 90), mark("forward", 10, 80), mark("step#1", 100, 190)])
    events = together(made(1, 1, 8), made(101, 2, 8))
    found = build_columns(CPU, events, [], places, "", start=1)
    assert [(band.kind, band.name) for band in found.bands] == [("step", "1")]
    assert build_columns(CPU, events, [], places, "", start=2).bands == (), "no event counts"


def test_no_events() -> None:
    found = build_columns(CPU, [], [WEIGHT], PlaceIndex([]), "")
    assert (len(found), found.known, found.names) == (0, (WEIGHT,), ("",))
