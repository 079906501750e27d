"""What steps leave behind, on recordings made by hand; bytes are in KiB."""

from collections.abc import Callable

import numpy as np
import pytest

from perfkit.analysis.memory.allocation_lifetimes import build_lifetimes
from perfkit.analysis.memory.growth import find_growth
from perfkit.analysis.model.memory_model import MemoryGrowth
from perfkit.core.allocations import (
    ACTIVATION,
    CATEGORIES,
    NONE,
    OPTIMIZER_STATE,
    UNKNOWN,
    FailedRequest,
    TextNumbers,
    build_allocations,
)

KIB = 1024
ALL = [ACTIVATION, OPTIMIZER_STATE, UNKNOWN]


class Recording:
    """Writes down allocations and frees; every event of a step has its number."""

    def __init__(self) -> None:
        self.events: list[tuple[int, int, int, str, str, str, str]] = []
        self.step = NONE
        self.alive: dict[int, int] = {}

    def alloc(
        self, kib: float, category: str = ACTIVATION, op: str = "aten::mm", shape: str = "", line: str = ""
    ) -> int:
        address = 1000 * (len(self.events) + 1)
        self.alive[address] = int(kib * KIB)
        self.events.append((self.step, address, int(kib * KIB), category, op, shape, line))
        return address

    def free(self, address: int) -> None:
        self.events.append((self.step, address, -self.alive.pop(address), "", "", "", ""))

    def grown(self, failed: FailedRequest | None = None) -> tuple[MemoryGrowth, ...]:
        names = TextNumbers()
        step, address, size, category, op, shape, line = zip(*self.events, strict=True)
        made = build_allocations(
            device="cpu",
            source="test",
            time_ns=range(len(step)),
            step=step,
            address=address,
            size=size,
            op=[names.number(text) for text in op],
            shape=[names.number(text) for text in shape],
            line=[names.number(text) for text in line],
            names=names.list_texts(),
            failed=failed,
        )
        lives = build_lifetimes(made)
        purpose = [UNKNOWN if born < 0 else category[born] for born in lives.born.tolist()]
        return find_growth(made, lives, np.array([CATEGORIES.index(name) for name in purpose], np.int8))


def recorded(steps: int, step: Callable[[Recording, int], object]) -> Recording:
    """Steps with work that leaves nothing behind, and what `step` does in them."""
    recording = Recording()
    for number in range(steps):
        recording.step = number
        work = recording.alloc(1000, op="aten::work")
        step(recording, number)
        recording.free(work)
    return recording


def test_a_list_of_activations_is_a_leak_with_its_origin() -> None:
    def keep(recording: Recording, number: int) -> None:
        recording.alloc(64, op="aten::relu", shape="[8, 2048]", line="train.py:12 train")
        recording.alloc(64, op="aten::relu", shape="[8, 2048]", line="train.py:12 train")

    (leak,) = recorded(4, keep).grown()
    assert leak == MemoryGrowth(
        bytes_per_step=128 * KIB,
        blocks_per_step=2.0,
        steps=4,
        category=ACTIVATION,
        op="aten::relu",
        line="train.py:12 train",
        shape="[8, 2048]",
    )


def test_three_steps_are_needed() -> None:
    assert recorded(2, lambda r, number: r.alloc(64)).grown() == ()
    assert len(recorded(3, lambda r, number: r.alloc(64)).grown()) == 1


def test_a_leak_between_steps_is_found_too() -> None:
    recording = Recording()
    for number in range(4):
        recording.step = number
        recording.free(recording.alloc(1000))
        recording.step = NONE
        recording.alloc(64, line="log.py:3 log")
    (leak,) = recording.grown()
    assert (leak.bytes_per_step, leak.line) == (64 * KIB, "log.py:3 log")


def test_a_leak_from_the_origin_of_what_lasts_is_measured_without_it() -> None:
    def both(recording: Recording, number: int) -> None:
        for _ in range(10 if number == 0 else 1):
            recording.alloc(50)

    (leak,) = recorded(5, both).grown()
    assert leak.bytes_per_step == 50 * KIB


@pytest.mark.parametrize(
    ("steps", "step"),
    [
        pytest.param(5, lambda r, number: number or r.alloc(500, OPTIMIZER_STATE), id="state made in the first step"),
        pytest.param(6, lambda r, number: number < 4 and r.alloc(64), id="a cache that fills"),
        pytest.param(5, lambda r, number: (r.alloc(0.5), r.alloc(0.5)), id="losses kept, too small to tell"),
        pytest.param(5, lambda r, number: r.alloc(900 if number == 2 else 2), id="a burst in one step"),
    ],
)
def test_what_is_no_leak(steps: int, step: Callable[[Recording, int], object]) -> None:
    assert recorded(steps, step).grown() == ()


def test_buffers_that_take_turns_are_none() -> None:
    buffers: list[int] = []

    def turn(recording: Recording, number: int) -> None:
        buffers.append(recording.alloc(64))
        if len(buffers) > 2:
            recording.free(buffers.pop(0))

    assert recorded(6, turn).grown() == ()


@pytest.mark.parametrize("steps", [4, 5, 6, 12])
def test_a_list_emptied_every_second_step_is_none(steps: int) -> None:
    held: list[int] = []

    def gather(recording: Recording, number: int) -> None:
        held.append(recording.alloc(64))
        if number % 2:
            while held:
                recording.free(held.pop())

    assert recorded(steps, gather).grown() == ()


def test_what_takes_the_place_of_others_is_none() -> None:
    old: list[int] = []

    def replace(recording: Recording, number: int) -> None:
        if number == 0:
            old.extend(recording.alloc(64, op="aten::old") for _ in range(6))
        recording.free(old.pop())
        recording.alloc(64, op="aten::new")

    assert recorded(5, replace).grown() == ()


def test_a_leak_of_changing_shapes_is_one_without_shape() -> None:
    def keep(recording: Recording, number: int) -> None:
        length = 16 * (number % 3 + 1)
        recording.alloc(length, op="aten::relu", shape=f"[{length}]", line="train.py:12 train")

    (leak,) = recorded(5, keep).grown()  # 16, 32, 48, 16, 32: after the first step 128 in four
    assert (leak.bytes_per_step, leak.shape, leak.line) == (32 * KIB, "", "train.py:12 train")


def test_a_leak_whose_origin_was_recorded_in_one_step_has_its_category() -> None:
    (leak,) = recorded(5, lambda r, number: r.alloc(64, op="aten::relu" if number == 2 else "")).grown()
    assert (leak.bytes_per_step, leak.category, leak.op) == (64 * KIB, ACTIVATION, "")


@pytest.mark.parametrize("steps", [3, 4, 6])
@pytest.mark.parametrize("begins", [1, 2, 4])
@pytest.mark.parametrize("factors", [16, 40, 128])
def test_state_that_a_communication_hook_builds_up_is_none(steps: int, begins: int, factors: int) -> None:
    """As PowerSGD: factors once, an error in place of the last one, and a copy that gloo may hold a step longer."""
    errors: list[int] = []
    copies: list[int] = []

    def compress(recording: Recording, number: int) -> None:
        if number < begins:
            return
        if number == begins:
            recording.alloc(factors, UNKNOWN, op="aten::empty")
        errors.append(recording.alloc(128, UNKNOWN, op="aten::zeros" if number == begins else "aten::sub"))
        if len(errors) > 1:
            recording.free(errors.pop(0))
        if copies:
            recording.free(copies.pop())
        if number == begins + 1:
            copies.append(recording.alloc(128, UNKNOWN, op="aten::clone"))

    assert recorded(steps, compress).grown() == ()


def test_leaks_come_by_size() -> None:
    leaks = recorded(4, lambda r, number: (r.alloc(8, op="aten::small"), r.alloc(80, op="aten::large"))).grown()
    assert [leak.op for leak in leaks] == ["aten::large", "aten::small"]


def test_what_the_step_that_failed_held_is_none() -> None:
    recording = recorded(2, lambda recording, number: recording.alloc(64, op="aten::leak"))
    recording.step = 2
    recording.alloc(64, op="aten::leak")
    assert len(recording.grown()) == 1
    assert recording.grown(FailedRequest(bytes=None, message="out of memory")) == ()


def test_nothing_grows_without_steps() -> None:
    recording = Recording()
    for _ in range(10):
        recording.alloc(64)
    assert recording.grown() == ()
