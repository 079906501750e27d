"""Which step raised the peak: told by readings of a fake allocator."""

import pytest
import torch

from perfkit.attach.loop.loop_follower import StepCounts
from perfkit.attach.loop.peak_watch import ALLOCATOR, PROCESS, PeakWatch

SHORT = StepCounts(input_shapes=1, input_shape=(8, 512))
LONG = StepCounts(input_shapes=2, input_shape=(8, 4096))


class FakeAllocator:
    """An allocator's peak, which a test sets, with the number of its readings."""

    def __init__(self) -> None:
        self.peak, self.readings = 1000, 0

    def read(self) -> int:
        self.readings += 1
        return self.peak


@pytest.fixture
def allocator() -> FakeAllocator:
    return FakeAllocator()


@pytest.fixture
def watch(allocator: FakeAllocator) -> PeakWatch:
    made = PeakWatch(torch.device("cpu"), allocator.read)
    made.begin(1)
    return made


def list_rises(watch: PeakWatch) -> list[tuple[str, int, int]]:
    return [(rise.kind, rise.step, rise.bytes) for rise in watch.rises]


def test_each_kind_of_step_is_told_from_the_others(watch: PeakWatch, allocator: FakeAllocator) -> None:
    for step, counts, peak in [
        (2, SHORT, 1200), (3, SHORT, 1200), (4, LONG, 2000), (5, SHORT, 2000),
        (6, StepCounts(evaluations=32, input_shapes=1, input_shape=(8, 512)), 2800), (7, SHORT, 2800),
    ]:  # fmt: skip
        allocator.peak = peak
        watch.look(counts, step)
    assert list_rises(watch) == [
        ("first_step", 1, 1000), ("step", 2, 1200), ("step", 4, 2000), ("evaluation", 6, 2800)
    ]  # fmt: skip
    assert (watch.rises[2].input_shape, watch.rises[3].evaluations) == ((8, 4096), 32)
    assert [rise.has_new_shape for rise in watch.rises] == [False, False, True, False]


def test_shapes_that_were_not_looked_at_are_no_others(watch: PeakWatch, allocator: FakeAllocator) -> None:
    allocator.peak = 1500
    watch.look(StepCounts(), 2, warms_up=True)
    allocator.peak = 2000
    watch.look(SHORT, 3, warms_up=True)
    assert [rise.has_new_shape for rise in watch.rises] == [False, False, False]


def test_timed_steps_of_known_shapes_are_not_read(watch: PeakWatch, allocator: FakeAllocator) -> None:
    watch.look(SHORT, 2)
    before = allocator.readings
    for step in range(3, 23):
        watch.look(SHORT, step)
    assert allocator.readings == before
    watch.look(SHORT, 23, warms_up=True)
    assert allocator.readings == before + 1


def test_a_long_loop_is_read_now_and_then(watch: PeakWatch, allocator: FakeAllocator) -> None:
    watch.look(SHORT, 2)
    allocator.peak = 5000
    for step in range(3, 103):
        watch.look(SHORT, step)
    (rise,) = watch.rises[1:]
    assert (rise.kind, rise.step, rise.steps) == ("step", 52, 50)


def test_the_programs_own_reset_is_no_rise(watch: PeakWatch, allocator: FakeAllocator) -> None:
    allocator.peak = 400
    watch.look(SHORT, 2)
    allocator.peak = 700
    watch.look(LONG, 3)
    assert list_rises(watch) == [("first_step", 1, 1000), ("step", 3, 700)]


def test_what_an_instrument_takes_is_passed_over(watch: PeakWatch, allocator: FakeAllocator) -> None:
    allocator.peak = 3000
    watch.pass_over()
    watch.look(LONG, 2)
    assert len(watch.rises) == 1


def test_the_end_tells_what_nobody_watched(watch: PeakWatch, allocator: FakeAllocator) -> None:
    watch.end(30)
    assert len(watch.rises) == 1
    allocator.peak = 3000
    watch.end(30)
    assert list_rises(watch)[-1] == ("unwatched", 30, 3000)


def test_little_more_is_no_rise(watch: PeakWatch, allocator: FakeAllocator) -> None:
    allocator.peak = 1004
    watch.look(LONG, 2)
    assert len(watch.rises) == 1


def test_the_source_is_the_allocator_where_it_keeps_a_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PeakWatch(torch.device("cpu")).source == PROCESS
    asked: list[torch.device] = []

    def answer(device: torch.device) -> int:
        asked.append(device)
        return 77

    monkeypatch.setattr(torch.cuda, "max_memory_allocated", answer)
    device = torch.device("cuda", 0)
    watch = PeakWatch(device)
    watch.begin(1)
    assert (watch.source, watch.rises[0].bytes, asked) == (ALLOCATOR, 77, [device])
