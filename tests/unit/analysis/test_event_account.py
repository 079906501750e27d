from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.event_account import TIMELINE_POINTS, account
from perfkit.analysis.replay import AllocationEvent, KnownBlock
from perfkit.analysis.result import MemoryShare

PHASES = ("", "data", "forward", "backward", "optimizer")


def events_of(*steps: tuple[str, int, int, int]) -> list[AllocationEvent]:
    return [
        AllocationEvent(i * 1e-3, address, size, phase, n, "aten::op")
        for i, (phase, n, address, size) in enumerate(steps)
    ]


def test_a_step_by_hand() -> None:
    events = events_of(
        ("forward", 0, 1, 100),  # an activation
        ("forward", 0, 2, 7),  # a temporary
        ("forward", 0, 2, -7),
        ("backward", 1, 3, 40),  # a gradient
        ("backward", 1, 4, 60),  # a temporary: the peak, 50 + 100 + 40 + 60
        ("backward", 1, 4, -60),
        ("backward", 1, 1, -100),
        ("optimizer", 2, 3, -40),
    )
    known = [KnownBlock(90, 30, "parameter", "weight"), KnownBlock(91, 20, "optimizer state", "exp_avg")]
    result = account(events, known, "events", lambda peak: (MemoryShare(category="process", bytes=1000 - peak),))
    assert result is not None
    assert (result.peak_bytes, result.peak_phase) == (250, "backward")
    assert {share.category: share.bytes for share in result.categories} == {
        "activation": 100,
        "temporary": 60,
        "gradient": 40,
        "parameter": 30,
        "optimizer state": 20,
    }
    assert result.beyond == (MemoryShare(category="process", bytes=750),)
    assert result.timeline_categories["activation"] == (0, 100, 100, 100, 100, 100, 100, 0, 0)
    assert result.timeline_categories["temporary"] == (0, 0, 7, 0, 0, 60, 0, 0, 0)
    assert result.largest[0].name == "aten::op in forward"


def test_nothing_known_and_nothing_recorded_is_no_account() -> None:
    assert account([], [], "events") is None


def test_known_blocks_alone_are_the_peak() -> None:
    result = account([], [KnownBlock(1, 30, "parameter", "weight")], "events")
    assert result is not None
    assert (result.peak_bytes, result.peak_phase) == (30, "")


blocks = st.integers(0, 12)
sizes = st.integers(-50, 50)


@given(
    st.lists(st.tuples(st.sampled_from(PHASES), st.integers(0, 5), blocks, sizes), max_size=60),
    st.lists(st.tuples(blocks, st.integers(0, 50)), max_size=6),
)
def test_any_sequence_of_events_balances(steps: list[tuple[str, int, int, int]], known: list[tuple[int, int]]) -> None:
    events = events_of(*steps)
    result = account(events, [KnownBlock(address, size, "parameter", "p") for address, size in known], "events")
    if result is None:
        return
    assert sum(share.bytes for share in result.categories) == result.peak_bytes
    totals: dict[int, int] = defaultdict(int)
    for series in result.timeline_categories.values():
        for moment, value in enumerate(series):
            assert value >= 0
            totals[moment] += value
    assert max(totals.values()) == result.peak_bytes


def test_a_long_timeline_is_thinned_and_keeps_its_peak() -> None:
    rising = [("forward", 0, address, 1) for address in range(1000)]
    falling = [("backward", 1, address, -1) for address in range(1000)]
    result = account(events_of(*rising, *falling), [], "events")
    assert result is not None
    assert len(result.timeline_s) <= TIMELINE_POINTS
    assert max(result.timeline_categories["activation"]) == result.peak_bytes == 1000
