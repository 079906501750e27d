"""Blocks that a caching allocator does not split, from its events to the account: tensors keep what they are, and all
sums are the allocator's own."""

import torch

from perfkit.analysis.memory.account import build_memory_account
from perfkit.analysis.memory.history_join import join_history
from perfkit.core.allocations import PARAMETER, UNKNOWN, Allocations, InitialBlock
from perfkit.instruments.memory.allocation_places import PlaceIndex
from perfkit.instruments.memory.block_labels import TensorOwner, label_blocks
from perfkit.instruments.memory.columns import build_columns
from perfkit.instruments.memory.profiler_events import ProfiledAllocation, TensorUse
from perfkit.instruments.memory.propagate_labels import propagate_labels
from perfkit.trace.memory.snapshot import parse_snapshot
from tests.fixtures.caching_allocator import CachingAllocator
from tests.unit.instruments.memory.hand import at, made, recorded

CUDA = torch.device("cuda", 0)
KIB, MIB = 1 << 10, 1 << 20
PLACE = at("forward", module="fc")
SHAPES = {"hidden": (384, 1024), "output": (640, 1024)}  # 1.5 and 2.5 MiB in fp32
WEIGHT = InitialBlock(address=0, size_bytes=13 * MIB + 256 * KIB, category=PARAMETER, name="fc.weight")


class Played:
    """A weight that stands, a recorded step that finds a hole of 2 MiB, and a detailed one in which it is taken."""

    def __init__(self) -> None:
        self.allocator = CachingAllocator()
        self.allocator.recording = False
        self.weight = self.allocator.malloc(WEIGHT.size_bytes)
        hole, _ = self.allocator.malloc(2 * MIB), self.allocator.malloc(2 * MIB)
        self.allocator.free(hole)
        self.allocator.recording = True
        self.light, _ = self._step()
        self.peak = self.allocator.peak
        self.snapshot = self.allocator.snapshot()
        self.allocator.recording = False
        assert self.allocator.malloc(2 * MIB) == hole
        self.detailed, self.uses = self._step()

    def _step(self) -> tuple[list[ProfiledAllocation], list[TensorUse]]:
        begin = len(self.allocator.reported)
        blocks = [self.allocator.malloc(4 * shape[0] * shape[1]) for shape in SHAPES.values()]
        for block in blocks:
            self.allocator.free(block)
        events = [
            made(10 * number, address, size, "aten::mm", device=CUDA, allocated=allocated)
            for number, (address, size, allocated) in enumerate(self.allocator.reported[begin:])
        ]
        shapes = enumerate(zip(blocks, SHAPES.values(), strict=True))
        return events, [TensorUse(15, block, number, shape, torch.float32) for number, (block, shape) in shapes]

    def recording(self) -> Allocations:
        places = [PLACE._replace(step=2)] * len(self.detailed)
        owner = {0: TensorOwner(PARAMETER, "fc.hidden")}
        told = label_blocks(recorded(self.detailed, self.uses), places, {}, owner, {})
        there = [PLACE._replace(step=1)] * len(self.light)
        found = propagate_labels(self.light, there, self.detailed, places, told)
        known = [InitialBlock(address=self.weight, size_bytes=WEIGHT.size_bytes, category=PARAMETER, name=WEIGHT.name)]
        return build_columns(CUDA, list(zip(self.light, there, found, strict=True)), known, PlaceIndex([]), "played")


def test_sizes_differ_between_the_steps() -> None:
    played = Played()
    assert [event.size for event in played.light[:2]] == [2 * MIB, 5 * MIB // 2]
    assert [event.size for event in played.detailed[:2]] == [3 * MIB // 2, 5 * MIB // 2]


def test_tensors_in_blocks_that_were_not_split_keep_shape_dtype_and_category() -> None:
    found = Played().recording()
    told = [[found.get_text(getattr(found, name), at) for name in ("shape", "dtype", "category")] for at in (0, 1)]
    assert told == [["[384, 1024]", "fp32", PARAMETER], ["[640, 1024]", "fp32", ""]]


def test_the_sum_is_the_allocators_own_peak() -> None:
    """Here what was not split off the weight, and the block beside the hole, are unknown: nothing told of them."""
    played = Played()
    balance = build_memory_account(played.recording())
    assert balance.peak_bytes == played.peak == sum(share.bytes for share in balance.categories)
    assert {share.category: share.bytes for share in balance.categories}[UNKNOWN] == 768 * KIB + 2 * MIB


def test_the_history_tells_what_was_not_split_off_what_stands() -> None:
    played = Played()
    (history,) = parse_snapshot(played.snapshot, "played").allocations
    balance = build_memory_account(join_history(played.recording(), history))
    assert balance.peak_bytes == played.peak == sum(share.bytes for share in balance.categories)
    sizes = {share.category: share.bytes for share in balance.categories}
    assert (sizes[PARAMETER], sizes[UNKNOWN]) == (14 * MIB + 2 * MIB, 2 * MIB)
