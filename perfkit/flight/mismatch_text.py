"""Mismatches between ranks, and where a rank is, in words."""

from collections.abc import Sequence

from perfkit.core.texts.name_lists import list_first
from perfkit.flight.flight_record import FlightRecord
from perfkit.flight.mismatch import MismatchedCollective

_MOST = 8  # ranks that are listed


def format_ranks(ranks: Sequence[int]) -> str:
    """`rank 1`, `ranks 1, 2 and 5`, `ranks 0, 1, 2, 3, 4, 5, 6, 7 and 56 more`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > _MOST:
        return f"ranks {list_first([*map(str, ranks)], _MOST)}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def describe_absence(meeting: MismatchedCollective) -> str:
    """`rank 1 never entered all_reduce 12 of default_pg, in which rank 0 waits`."""
    waits = f"wait{'s' if len(meeting.waiting) == 1 else ''}"
    waiting = f", in which {format_ranks(meeting.waiting)} {waits}" if meeting.waiting else ""
    if meeting.absent:
        return f"{format_ranks(meeting.absent)} never entered {meeting.name}{waiting}"
    return f"{format_ranks(meeting.unrecorded)} left no record of {meeting.name}{waiting}"


def describe_position(record: FlightRecord) -> str:
    """`, waiting in all_reduce 12 of default_pg at train.py:7 (loss)`, or after the last collective; "" after none."""
    call = record.waits_in or record.last
    if call is None:
        return ""
    where = f" at {call.call_site}" if call.call_site else ""
    state = "after" if call.finished else "waiting in"
    return f", {state} {call.op} {call.sequence} of {record.groups[call.group].label}{where}"


def describe_crossing(meeting: MismatchedCollective) -> str:
    """`rank 0 waits in all_reduce 1 of dp; ranks 1 and 2 wait in all_reduce 4 of tp`."""
    by_name: dict[str, list[int]] = {}
    for rank, name in meeting.crossed.items():
        by_name.setdefault(name, []).append(rank)
    return "; ".join(
        f"{format_ranks(ranks)} {'waits' if len(ranks) == 1 else 'wait'} in {name}" for name, ranks in by_name.items()
    )


def describe_disagreement(meeting: MismatchedCollective) -> str:
    """Describe the differing calls, grouping ranks with equal calls."""
    groups: dict[str, list[int]] = {}
    for rank, call in sorted(meeting.calls.items()):
        groups.setdefault(f"{call.op} of {call.inputs} into {call.outputs}", []).append(rank)
    return "; ".join(f"{format_ranks(ranks)}: {text}" for text, ranks in groups.items())
