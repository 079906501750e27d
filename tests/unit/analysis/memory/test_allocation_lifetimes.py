from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.memory.allocation_lifetimes import AT_START, Lifetimes, build_lifetimes
from perfkit.core.allocations import NONE, Allocations, InitialBlock, build_allocations

Event = tuple[int, int]  # address, size


def recorded(*events: Event, known: tuple[Event, ...] = (), unexplained: int = 0) -> Allocations:
    return build_allocations(
        device="cpu",
        source="by hand",
        time_ns=range(len(events)),
        address=[address for address, _ in events],
        size=[size for _, size in events],
        known=tuple(InitialBlock(address=at, size_bytes=size, category="parameter", name="w") for at, size in known),
        unexplained_bytes=unexplained,
    )


def rows(lives: Lifetimes) -> list[tuple[int, int, int, int]]:
    columns = (lives.size, lives.born, lives.died, lives.known)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize(
    ("recording", "expected"),
    [
        (
            recorded((1, 100), (2, 7), (2, -7), (1, -100), (2, 9)),
            [(100, 0, 3, NONE), (7, 1, 2, NONE), (9, 4, 5, NONE)],
        ),
        (  # known blocks live from the start
            recorded((1, -30), (3, 5), known=((1, 30), (2, 20))),
            [(30, AT_START, 0, 0), (20, AT_START, 2, 1), (5, 1, 2, NONE)],
        ),
        (  # a block ends when its address is allocated again
            recorded((1, 10), (1, 20), (2, 5), known=((2, 30),)),
            [(30, AT_START, 2, 0), (10, 0, 1, NONE), (20, 1, 3, NONE), (5, 2, 3, NONE)],
        ),
        # a free of what nobody allocated is a block from the start
        (recorded((2, 5), (1, -10)), [(10, AT_START, 1, NONE), (5, 0, 2, NONE)]),
        (recorded((1, 10), (1, -512)), [(10, 0, 1, NONE)]),  # the size of the allocation counts
        (recorded((1, 10), (1, 0), (1, -10), known=((2, 0),)), [(10, 0, 2, NONE)]),  # without bytes, passed over
        (recorded(known=((1, 10), (1, 20))), [(20, AT_START, 0, 1)]),  # in one place, the last counts
        (  # what frees explain is part of the unexplained
            recorded((1, -10), known=((2, 20),), unexplained=100),
            [(20, AT_START, 1, 0), (10, AT_START, 0, NONE), (90, AT_START, 1, NONE)],
        ),
        (recorded((1, -10), unexplained=4), [(10, AT_START, 0, NONE)]),  # they explain more than was counted
        (recorded(), []),
    ],
)
def test_blocks_live_from_their_allocation_to_their_free(
    recording: Allocations, expected: list[tuple[int, int, int, int]]
) -> None:
    assert rows(build_lifetimes(recording)) == expected


def without_addresses(*events: tuple[int, str], known: tuple[tuple[int, str], ...] = ()) -> Allocations:
    names = ("", "activation", "gradient")
    return build_allocations(
        device="cpu",
        source="by hand",
        names=names,
        time_ns=range(len(events)),
        address=[NONE] * len(events),
        size=[size for size, _ in events],
        category=[names.index(category) for _, category in events],
        known=tuple(
            InitialBlock(address=NONE, size_bytes=size, category=category, name="w") for size, category in known
        ),
    )


@pytest.mark.parametrize(
    ("recording", "expected"),
    [
        (  # the youngest of size and category ends
            without_addresses(
                (8, "activation"), (8, "gradient"), (8, "activation"), (-8, "activation"), (-8, "activation")
            ),
            [(8, 0, 4, NONE), (8, 1, 5, NONE), (8, 2, 3, NONE)],
        ),
        (  # a free too many is a block from the start
            without_addresses(
                (8, "activation"), (-8, "activation"), (-8, "activation"), (8, "activation"), (-8, "activation")
            ),
            [(8, AT_START, 2, NONE), (8, 0, 1, NONE), (8, 3, 4, NONE)],
        ),
        (  # a known block ends by its size and category
            without_addresses((-8, "gradient"), (-8, ""), known=((8, "gradient"),)),
            [(8, AT_START, 0, 0), (8, AT_START, 1, NONE)],
        ),
        (  # frees of no category go by size
            without_addresses((8, "activation"), (6, "gradient"), (-6, ""), (-8, "")),
            [(8, 0, 3, NONE), (6, 1, 2, NONE)],
        ),
    ],
)
def test_without_addresses_blocks_end_by_size_and_category(
    recording: Allocations, expected: list[tuple[int, int, int, int]]
) -> None:
    assert rows(build_lifetimes(recording)) == expected


def alive_at(lives: Lifetimes, event: int) -> int:
    return int(lives.size[lives.alive_after(event)].sum())


def replayed(events: list[Event], known: list[Event], unexplained: int) -> list[int]:
    """Bytes alive at every moment, event by event."""
    alive = {address: size for address, size in known if size > 0}
    totals, from_start = [0], [0] * (len(events) + 1)
    for index, (address, size) in enumerate(events):
        if size > 0:
            alive[address] = size
        elif size < 0 and alive.pop(address, None) is None:
            for moment in range(index + 1):
                from_start[moment] -= size
        totals.append(sum(alive.values()))
    totals[0] = sum({address: size for address, size in known if size > 0}.values())
    rest = max(unexplained - from_start[0], 0)
    return [total + start + rest for total, start in zip(totals, from_start, strict=True)]


events_of_few_blocks = st.lists(st.tuples(st.integers(0, 9), st.integers(-40, 40)), max_size=60)
known_blocks = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 40)), max_size=6)


@given(events_of_few_blocks, known_blocks, st.integers(0, 30))
def test_any_events_are_replayed_as_one_by_one(events: list[Event], known: list[Event], unexplained: int) -> None:
    lives = build_lifetimes(recorded(*events, known=tuple(known), unexplained=unexplained))
    expected = replayed(events, known, unexplained)
    assert [alive_at(lives, moment - 1) for moment in range(len(events) + 1)] == expected
    assert (lives.size > 0).all()
    assert (lives.born < lives.died).all()
    assert (np.diff(lives.born) >= 0).all()


@given(
    st.lists(st.tuples(st.integers(-4, 4), st.sampled_from(("", "activation", "gradient"))), max_size=60),
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from(("activation", "gradient"))), max_size=6),
)
def test_without_addresses_sizes_and_categories_add_up(
    events: list[tuple[int, str]], known: list[tuple[int, str]]
) -> None:
    recording = without_addresses(*events, known=tuple(known))
    lives = build_lifetimes(recording)
    told = any(category for size, category in events if size < 0)

    def kind(life: int) -> str:
        if lives.known[life] != NONE:
            return recording.known[lives.known[life]].category if told else ""
        event = lives.died[life] if lives.born[life] == AT_START else lives.born[life]
        return recording.get_text(recording.category, int(event)) if told else ""

    alive = Counter((size, category if told else "") for size, category in known if size)
    from_start: dict[tuple[int, str], list[int]] = defaultdict(list)
    moments = [alive.copy()]
    for index, (size, category) in enumerate(events):
        key = (abs(size), category if told else "")
        if size > 0 or (size < 0 and alive[key]):
            alive[key] += 1 if size > 0 else -1
        elif size < 0:
            from_start[key].append(index)
        moments.append(alive.copy())
    for moment, expected in enumerate(moments):
        for key, ends in from_start.items():
            expected[key] += sum(end >= moment for end in ends)
        living = np.flatnonzero(lives.alive_after(moment - 1)).tolist()
        assert Counter((int(lives.size[life]), kind(life)) for life in living) == +expected
