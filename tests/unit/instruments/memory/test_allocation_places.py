"""Where moments are, against ranges drawn by hand."""

from perfkit.core.allocations import NONE, TimeBand
from perfkit.core.record.trace_marks import PHASES
from perfkit.instruments.memory.allocation_places import AllocationPlace, PlaceIndex
from tests.unit.instruments.memory.hand import mark

FORWARD, BACKWARD, OPTIMIZER = (PHASES.index(name) for name in ("forward", "backward", "optimizer"))

# Two steps; in the first two microbatches. As the profiler gives them: by their start, the outer one first.
STEPS = [
    mark("step#7", 0, 100),
    mark("forward", 10, 30),
    mark("backward", 30, 50),
    mark("forward", 55, 60),
    mark("backward", 60, 80),
    mark("optimizer", 85, 95),
    mark("step#8", 200, 300),
    mark("forward", 210, 230),
]


def test_steps_phases_visits_and_turns() -> None:
    times = [5, 15, 35, 52, 57, 70, 90, 97, 150, 205, 215, 400]
    found = PlaceIndex(STEPS).at(times, [1] * len(times))
    assert [(place.step, place.phase, place.visit, place.turn) for place in found] == [
        (7, NONE, 0, 0),
        (7, FORWARD, 1, 1),
        (7, BACKWARD, 2, 2),
        (7, NONE, 2, 2),
        (7, FORWARD, 3, 3),
        (7, BACKWARD, 4, 4),
        (7, OPTIMIZER, 5, 5),
        (7, NONE, 5, 5),
        (NONE, NONE, 5, 5),
        (8, NONE, 5, 0),
        (8, FORWARD, 6, 1),
        (NONE, NONE, 6, 1),
    ]


def test_steps_without_phases() -> None:
    found = PlaceIndex([mark("step#0", 0, 10), mark("step#1", 20, 30)]).at([5, 15, 25], [1, 1, 1])
    assert [(place.step, place.phase, place.visit, place.turn) for place in found] == [
        (0, NONE, 0, 0),
        (NONE, NONE, 0, 0),
        (1, NONE, 0, 0),
    ]


def test_phases_without_steps_count_their_turns_from_the_start() -> None:
    found = PlaceIndex([mark("forward", 0, 10), mark("backward", 20, 30)]).at([5, 25], [1, 1])
    assert [(place.step, place.phase, place.turn) for place in found] == [(NONE, FORWARD, 1), (NONE, BACKWARD, 2)]


def test_nothing_marked() -> None:
    nowhere = AllocationPlace(step=NONE, phase=NONE, visit=0, turn=0, module="", sharding="")
    assert PlaceIndex([]).at([1, 2], [1, 2]) == [nowhere, nowhere]
    assert PlaceIndex([]).build_bands() == ()


def modules(ranges, times, threads=None) -> list[str]:
    return [place.module for place in PlaceIndex(ranges).at(times, threads or [1] * len(times))]


def test_the_innermost_module_counts() -> None:
    nested = [mark("module::h", 0, 100), mark("module::h.0", 10, 40), mark("module::h.0.fc", 20, 30)]
    nested.append(mark("module::h.1", 50, 60))
    assert modules(nested, [5, 15, 25, 35, 45, 55, 65, 101]) == ["h", "h.0", "h.0.fc", "h.0", "h", "h.1", "h", ""]


def test_a_module_called_twice() -> None:
    assert modules([mark("module::fc", 0, 10), mark("module::fc", 20, 30)], [5, 15, 25]) == ["fc", "", "fc"]


def test_ranges_that_overlap_without_nesting() -> None:
    """A hook may end a range while one inside of it goes on."""
    overlapping = [mark("module::a", 0, 20), mark("module::b", 10, 30)]
    assert modules(overlapping, [5, 15, 25, 35]) == ["a", "b", "b", ""]
    outer_ends_first = [mark("module::a", 0, 50), mark("module::b", 10, 20), mark("module::c", 15, 60)]
    assert modules(outer_ends_first, [12, 17, 30, 55, 61]) == ["b", "c", "c", "c", ""]


def test_modules_are_of_their_thread_steps_and_phases_of_all() -> None:
    ranges = [mark("step#1", 0, 100), mark("backward", 10, 90), mark("module::fc", 20, 40, thread=2)]
    mine, other, third = PlaceIndex(ranges).at([30, 31, 32], [1, 2, 3])
    assert [place.module for place in (mine, other, third)] == ["", "fc", ""]
    assert {(place.step, place.phase) for place in (mine, other, third)} == {(1, BACKWARD)}


def test_sharding_is_told_beside_the_module() -> None:
    ranges = [mark("module::h", 0, 100), mark("FSDP::all_gather (h)", 10, 20), mark("module::h.fc", 12, 18)]
    found = PlaceIndex(ranges).at([5, 15, 19, 25], [1] * 4)
    assert [(place.module, place.sharding) for place in found] == [
        ("h", ""),
        ("h.fc", "FSDP::all_gather (h)"),
        ("h", "FSDP::all_gather (h)"),
        ("h", ""),
    ]


def test_bands_with_the_depth_of_modules() -> None:
    ranges = [
        mark("step#3", 0, 100),
        mark("forward", 10, 60),
        mark("module::h", 20, 50),
        mark("module::h.0", 21, 30),
        mark("module::h.1", 30, 40),
        mark("module::h.1.fc", 31, 39),
        mark("FSDP::all_gather", 32, 33),
        mark("module::elsewhere", 25, 26, thread=9),
    ]
    assert set(PlaceIndex(ranges).build_bands()) == {
        TimeBand(kind="step", name="3", start_ns=0, end_ns=100),
        TimeBand(kind="phase", name="forward", start_ns=10, end_ns=60),
        TimeBand(kind="module", name="h", start_ns=20, end_ns=50),
        TimeBand(kind="module", name="h.0", start_ns=21, end_ns=30, depth=1),
        TimeBand(kind="module", name="h.1", start_ns=30, end_ns=40, depth=1),
        TimeBand(kind="module", name="h.1.fc", start_ns=31, end_ns=39, depth=2),
        TimeBand(kind="module", name="elsewhere", start_ns=25, end_ns=26),
    }
