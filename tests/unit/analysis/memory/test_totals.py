import numpy as np

from perfkit.analysis.memory.allocation_lifetimes import AT_START, Lifetimes, build_lifetimes
from perfkit.analysis.memory.totals import compute_step_peaks, compute_totals, find_peak_event, find_steps
from perfkit.core.allocations import NONE, Allocations, InitialBlock, build_allocations


def recorded(*events: tuple[int, int, int], known_bytes: int = 0) -> Allocations:
    """Events of (step, address, size)."""
    step, address, size = zip(*events, strict=True) if events else ((), (), ())
    return build_allocations(
        device="cpu",
        source="by hand",
        time_ns=range(len(events)),
        step=step,
        address=address,
        size=size,
        known=(InitialBlock(address=99, size_bytes=known_bytes, category="parameter", name="w"),),
    )


def totals(recording: Allocations) -> list[int]:
    return compute_totals(build_lifetimes(recording), len(recording)).tolist()


def test_the_bytes_after_each_event() -> None:
    assert totals(recorded((0, 1, 100), (0, 2, 7), (0, 1, -100), (0, 3, -5), known_bytes=30)) == [35, 135, 142, 42, 37]


def test_sums_beyond_the_precision_of_floats_are_exact() -> None:
    huge = 2**60
    assert totals(recorded((0, 1, huge), (0, 2, 1), (0, 1, -huge))) == [0, huge, huge + 1, 1]


def test_the_peak_is_the_first_event_of_the_maximum() -> None:
    assert find_peak_event(np.array([0, 5, 9, 3, 9])) == 1
    assert find_peak_event(np.array([9, 5, 9])) == AT_START


def test_steps_from_their_first_event_to_their_last() -> None:
    steps = find_steps(recorded((NONE, 1, 5), (7, 2, 5), (NONE, 3, 5), (7, 4, 5), (4, 5, 5), (NONE, 6, 5)))
    assert (steps.number.tolist(), steps.first.tolist(), steps.last.tolist()) == ([7, 4], [1, 4], [3, 4])
    assert len(find_steps(recorded())) == 0


def test_the_peak_of_a_step_may_be_what_it_begins_with() -> None:
    recording = recorded((0, 1, 10), (0, 1, -10), (0, 2, 4), (1, 2, -4), (1, 3, 1), (2, 4, 6))
    assert totals(recording) == [0, 10, 0, 4, 0, 1, 7]
    assert compute_step_peaks(compute_totals(build_lifetimes(recording), 6), find_steps(recording)) == (10, 4, 7)


def test_without_lives_nothing_is_alive() -> None:
    nothing = np.empty(0, np.int64)
    assert compute_totals(Lifetimes(nothing, nothing, nothing, nothing), 2).tolist() == [0, 0, 0]
