from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from perfkit.instruments.memory.allocation_places import AllocationPlace
from perfkit.instruments.memory.block_labels import BlockLabel
from perfkit.instruments.memory.profiler_events import ProfiledAllocation
from perfkit.instruments.memory.unseen_frees import Event, add_unseen_frees, find_blocks_of_hooked_programs

BACKWARD = 2
REDUCE, AFTER = "FSDP::post_backward_reduce (blocks.0)", "FSDP::pre_backward (blocks.1)"


def event(address: int, size: int, *, step: int, sharding: str = "", turn: int = 1, op: str = "") -> Event:
    made = ProfiledAllocation(0, 1, address, size, torch.device("cpu"), 0, op, "", 0, -1, "", ())
    place = AllocationPlace(step=step, phase=BACKWARD, visit=10 * step + turn, turn=turn, module="", sharding=sharding)
    return made, place, BlockLabel(op=op)


def step(number: int, *, freed: bool) -> list[Event]:
    """A buffer that is freed two allocations later, in the next range, where it is seen."""
    first = 100 * number
    events = [
        event(first, 64, step=number, sharding=REDUCE),
        event(first + 1, 8, step=number, sharding=REDUCE),
        event(first + 1, -8, step=number, sharding=REDUCE),
        event(first + 2, 8, step=number, sharding=AFTER),
        event(first + 2, -8, step=number, sharding=AFTER),
        event(first, -64, step=number, sharding=AFTER),
        event(first + 3, 8, step=number, sharding=AFTER),
        event(first + 3, -8, step=number, sharding=AFTER),
    ]
    return events if freed else [each for each in events if each[0].size != -64]


def told(events: list[Event]) -> list[tuple[int, int]]:
    return [(made.address, made.size) for made, _, _ in events]


@pytest.mark.parametrize("unseen", [1, 2, 3])
def test_a_free_is_where_that_of_its_like_is(unseen: int) -> None:
    recorded = [each for number in (1, 2, 3) for each in step(number, freed=number != unseen)]
    whole = [each for number in (1, 2, 3) for each in step(number, freed=True)]
    assert told(add_unseen_frees(recorded)) == told(whole)


def test_likes_of_a_gpu_are_told_by_the_size_of_their_tensor() -> None:
    """Their blocks may have other sizes in every step."""

    def grown(events: list[Event], block: int) -> list[Event]:
        return [
            (made._replace(size=made.size // 64 * block), place, label._replace(bytes=64))
            if abs(made.size) == 64
            else (made, place, label)
            for made, place, label in events
        ]

    recorded = [*grown(step(1, freed=True), 72), *grown(step(2, freed=False), 80)]
    whole = [*grown(step(1, freed=True), 72), *grown(step(2, freed=True), 80)]
    assert told(add_unseen_frees(recorded)) == told(whole)


def test_what_is_never_seen_freed_ends_with_its_range() -> None:
    recorded = [each for number in (1, 2) for each in step(number, freed=False)]
    found = add_unseen_frees(recorded)
    ends = [index for index, (made, _, _) in enumerate(found) if made.size == -64]
    assert [found[index - 1][0].size for index in ends] == [-8, -8]
    assert [found[index][1].sharding for index in ends] == [REDUCE, REDUCE]
    assert [found[index + 1][1].sharding for index in ends] == [AFTER, AFTER]


def test_without_a_range_it_ends_with_its_phase() -> None:
    op = "c10d::allreduce_"
    recorded = [
        each
        for number in (1, 2)
        for each in (
            event(number, 64, step=number, op=op),
            event(9, 8, step=number),
            event(9, -8, step=number, turn=2),
        )
    ]
    found = add_unseen_frees(recorded)
    assert told(found)[:4] == [(1, 64), (9, 8), (1, -64), (9, -8)]
    assert found[2][1].turn == 1


def test_a_block_of_one_step_alone_stays() -> None:
    recorded = [event(1, 99, step=1, sharding=REDUCE), *step(2, freed=True), *step(3, freed=True)]
    assert told(add_unseen_frees(recorded)) == told(recorded)


def test_a_block_whose_address_is_taken_before_ends_there() -> None:
    first, second = step(1, freed=True), step(2, freed=False)
    again = [event(200, 16, step=2), event(200, -16, step=2)]  # at the address of the second step's buffer
    recorded = [*first, second[0], *again, *second[1:]]
    assert told(add_unseen_frees(recorded)) == told(recorded)


def test_other_blocks_are_left_alone() -> None:
    recorded = [event(1, 64, step=1, op="aten::mm"), event(2, 8, step=2, op="aten::mm")]
    assert add_unseen_frees(recorded) == recorded


def test_a_plain_block_that_another_step_frees_in_its_phase_is_freed() -> None:
    def copy(number: int, *, freed: bool, turn: int = 1) -> list[Event]:
        block = event(number, 64, step=number, op="aten::cat")
        free = event(number, -64, step=number, op="aten::cat", turn=turn)
        return [block, *([free] if freed else []), event(9, 8, step=number), event(9, -8, step=number)]

    assert told(add_unseen_frees(copy(1, freed=True) + copy(2, freed=False))) == told(
        copy(1, freed=True) + copy(2, freed=True)
    )
    later = copy(1, freed=True, turn=2) + copy(2, freed=False)
    assert add_unseen_frees(later) == later


def test_blocks_of_a_communication_hook_end_with_backward_unless_they_are_held() -> None:
    def hook(number: int, error: int) -> list[Event]:
        return [
            event(100 * number, 64, step=number, op="aten::clone"),
            event(error, 64, step=number, op="aten::sub"),
            event(9, 8, step=number, turn=2),
            event(9, -8, step=number, turn=2),
        ]

    recorded = [event(7, 16, step=1, op="aten::empty"), *hook(1, 11), *hook(2, 12), *hook(3, 13)]
    assert add_unseen_frees(recorded) == recorded
    frees = [(place.step, made.address) for made, place, _ in add_unseen_frees(recorded, {13, 7}) if made.size == -64]
    assert frees == [(1, 100), (2, 11), (2, 200), (3, 12), (3, 300)]
    every = {100, 200, 300, 11, 12, 13, 7}
    assert add_unseen_frees(recorded, every) == recorded  # a list that a hook of the program's fills


def test_only_a_program_with_a_communication_hook_is_asked_for_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=dist.FileStore(f"{tmp_path}/store", 1), rank=0, world_size=1)
    try:
        wrapped = DistributedDataParallel(torch.nn.Linear(2, 2))
        assert find_blocks_of_hooked_programs() is None
        wrapped.register_comm_hook(None, fp16_compress_hook)
        held = find_blocks_of_hooked_programs()
        assert held is not None
        assert wrapped.module.weight.untyped_storage().data_ptr() in held
    finally:
        dist.destroy_process_group()
