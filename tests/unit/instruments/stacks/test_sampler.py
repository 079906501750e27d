"""The sampling thread on threads of this process: where they are, and what of the process it leaves as it was."""

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from perfkit.instruments.stacks import forks
from perfkit.instruments.stacks.lock_waits import LockWaits
from perfkit.instruments.stacks.sampler import Sampler
from perfkit.instruments.stacks.switching import SHORT_S, SwitchInterval
from perfkit.store.stacks import FREE, HELD, SampledThread

ENOUGH = 8


def busy(until: Callable[[], bool]) -> None:
    while not until():
        sum(range(100))


@contextmanager
def sampling(**options: object) -> Iterator[Sampler]:
    made = Sampler(threading.get_ident(), 500.0, **options)  # type: ignore[arg-type]
    made.start()
    try:
        yield made
    finally:
        made.stop()


def functions(found: SampledThread) -> set[str]:
    return {found.functions[call.function].name for taken in found.taken for call in found.stack(taken.node)}


def test_a_thread_is_seen_where_it_is() -> None:
    before = sys.getswitchinterval(), threading.active_count(), random.getstate()
    with sampling(phase=lambda: "forward") as made:
        busy(lambda: made._number > ENOUGH)
    found = made.sampled("loop")
    assert "busy" in functions(found)
    assert {taken.phase for taken in found.taken} == {"forward"}
    assert (made.failure, found.pid) == ("", os.getpid())
    assert found.seconds > 0 < found.lock_s
    assert (sys.getswitchinterval(), threading.active_count(), random.getstate()) == before


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts a thread's changes of core")
def test_a_wait_for_the_lock_is_told_from_a_sleep() -> None:
    waits = LockWaits()
    waits.look()
    time.sleep(0.01)
    assert waits.told() == FREE
    waits.look()
    time.sleep(0.01)
    time.sleep(0.01)  # as a thread that slept and then waits for the lock
    assert waits.told() == HELD


def test_a_failure_ends_the_sampling_alone() -> None:
    def broken() -> str:
        raise ValueError("no phase")

    with sampling(phase=broken) as made:
        busy(lambda: made.failure != "")
    assert made.failure == "ValueError: no phase"
    assert sys.getswitchinterval() > SHORT_S


def test_it_ends_when_nobody_wants_it() -> None:
    asked: list[Sampler] = []

    def once(sampler: Sampler) -> bool:
        asked.append(sampler)
        return False

    with sampling(each_second=once) as made:
        busy(lambda: bool(asked))
        busy(lambda: not made._thread or not made._thread.is_alive())
    assert asked == [made]


def test_no_sampling_thread_is_there_while_the_process_forks() -> None:
    with sampling() as made:
        forks._pause()
        assert made._thread is None
        forks._resume()
        assert made._thread is not None
        assert made._thread.is_alive()
    forks._resume()
    assert made._thread is None


def test_a_child_has_no_sampler() -> None:
    class Fake:
        def __init__(self) -> None:
            self.log: list[str] = []

        def pause(self) -> None:
            self.log.append("pause")

        def resume(self) -> None:
            self.log.append("resume")

        def forget(self) -> None:
            self.log.append("forget")

    fake = Fake()
    forks.pause_around(fake)
    forks._forget()
    forks._resume()
    assert fake.log == ["forget"]


def test_the_switch_interval_is_the_programs_again() -> None:
    own = sys.getswitchinterval()
    switching = SwitchInterval()
    switching.shorten()
    switching.shorten()
    assert switching.short
    assert sys.getswitchinterval() == pytest.approx(SHORT_S)
    switching.restore()
    assert (sys.getswitchinterval(), switching.short) == (own, False)


def test_a_switch_interval_that_the_program_sets_meanwhile_stays() -> None:
    own = sys.getswitchinterval()
    switching = SwitchInterval()
    switching.shorten()
    try:
        sys.setswitchinterval(0.02)
        switching.restore()
        assert sys.getswitchinterval() == pytest.approx(0.02)
    finally:
        sys.setswitchinterval(own)


def test_a_thread_that_runs_python_makes_samples_late() -> None:
    ended = threading.Event()
    other = threading.Thread(target=busy, args=(ended.is_set,))
    other.start()
    try:
        with sampling() as made:
            busy(lambda: made._late >= 3)
    finally:
        ended.set()
        other.join()
    assert made.sampled("loop").late_s == pytest.approx(sys.getswitchinterval())
