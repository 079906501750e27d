"""When a rehearsal collects garbage."""

import gc
import weakref

from perfkit.plan.rehearsal.garbage import collect_on_request


class Cycle:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_cycles_are_collected_on_request_alone() -> None:
    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    try:
        with collect_on_request() as collect:
            cycle = weakref.ref(Cycle())
            others = [[number] for number in range(100)]
            assert cycle() is not None
            collect()
            assert cycle() is None
        assert gc.isenabled()
    finally:
        gc.set_threshold(*thresholds)
    assert len(others) == 100


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collect_on_request():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
