"""Findings about mismatched collectives."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.flight import DumpedRank
from perfkit.flight.mismatch import Mismatch, MismatchedCollective
from perfkit.flight.mismatch_text import describe_crossing, describe_disagreement, format_ranks

_DIFFERS = {
    Mismatch.ORDER: "Call collectives in one order on all ranks of a group: look for a branch that only some ranks "
    "take.",
    Mismatch.SIZES: "Pass the same shapes on all ranks: check the last, uneven batch and parameters without gradient.",
    Mismatch.DTYPES: "Pass the same dtype on all ranks: look for autocast or a cast on only some ranks.",
}
_CROSSED = (
    "Call these collectives in one order on all ranks, or start them as one: look for a branch that only some ranks "
    "take."
)
_UNFINISHED = (
    "Check the network and ranks whose device has stopped (dmesg, nvidia-smi, NCCL_DEBUG=INFO): all ranks entered "
    "it, so the program is not at fault."
)
_IDS = {
    Mismatch.ORDER: "collective.order",
    Mismatch.CROSSED: "collective.order",
    Mismatch.SIZES: "collective.shapes",
    Mismatch.DTYPES: "collective.dtypes",
    Mismatch.UNFINISHED: "collective.unfinished",
}
_NO_RECORD = "Find out how these ranks ended, or dump their recorders too with TORCH_NCCL_DUMP_ON_TIMEOUT=1."
_ABSENT = "Find where rank {rank} is: its Python stack (perfkit attach PID, py-spy dump), its log, its traceback."
_ABSENT_WAITS = "Fix {name} first: rank {rank} waits in it, so it blocks this one too."


def build_flight_findings(meetings: Sequence[MismatchedCollective], ranks: Sequence[DumpedRank]) -> tuple[Finding, ...]:
    """One finding for each mismatched collective, in their order.

    One that all have entered has none where another holds it up: it is counted there.
    """
    by_rank = {rank.rank: rank for rank in ranks}
    counts = Counter(meeting.blocked_by for meeting in meetings)
    return tuple(
        Finding(
            id=_choose_id(meeting),
            severity="warning",
            title=_format_title(meeting),
            variant="",
            evidence="; ".join(_list_evidence(meeting, counts[place])),
            action=_choose_action(meeting, by_rank),
        )
        for place, meeting in enumerate(meetings)
        if meeting.blocked_by is None or meeting.mismatch not in (Mismatch.UNFINISHED, Mismatch.CROSSED)
    )


def _choose_id(meeting: MismatchedCollective) -> str:
    return _IDS.get(meeting.mismatch, "collective.absent_rank" if meeting.absent else "collective.no_record")


def _format_title(meeting: MismatchedCollective) -> str:
    if meeting.mismatch in _DIFFERS:
        return f"Collective {meeting.sequence} of {meeting.group.label}: {meeting.mismatch}"
    if meeting.mismatch is Mismatch.CROSSED:
        return f"{_name_ranks(tuple(meeting.crossed))} wait for each other"
    if meeting.mismatch is Mismatch.UNFINISHED:
        return f"{meeting.name}: {meeting.mismatch}"
    if meeting.absent:
        return f"{_name_ranks(meeting.absent)} never entered {meeting.name}"
    return f"{_name_ranks(meeting.unrecorded)} left no record of {meeting.name}"


def _name_ranks(ranks: Sequence[int]) -> str:
    return format_ranks(ranks).capitalize()


def _list_evidence(meeting: MismatchedCollective, held_up: int) -> Iterator[str]:
    if meeting.mismatch is Mismatch.CROSSED:
        yield describe_crossing(meeting)
    rank = (meeting.waiting or tuple(meeting.calls))[0]
    call = meeting.calls[rank]
    where = f" at {call.call_site}" if call.call_site else ""
    ended = " and completed it" if call.finished else ""
    if meeting.mismatch in _DIFFERS:
        yield describe_disagreement(meeting)
        yield f"rank {rank} called it{where}{ended}"
    else:
        yield f"rank {rank} called {call.op} of {call.tensors}{where}{ended}"
    if meeting.mismatch is Mismatch.ABSENT and meeting.waiting:
        yield f"{format_ranks(meeting.waiting)} wait{'s' if len(meeting.waiting) == 1 else ''} in it"
    if meeting.absent and meeting.unrecorded:
        yield f"{format_ranks(meeting.unrecorded)} left no record"
    if held_up:
        yield f"it holds up {held_up} other mismatched collective{'' if held_up == 1 else 's'}"


def _choose_action(meeting: MismatchedCollective, ranks: Mapping[int, DumpedRank]) -> str:
    if meeting.mismatch in _DIFFERS:
        return _DIFFERS[meeting.mismatch]
    if meeting.mismatch is Mismatch.CROSSED:
        return _CROSSED
    if meeting.mismatch is Mismatch.UNFINISHED:
        return _UNFINISHED
    if not meeting.absent:
        return _NO_RECORD
    absent = [ranks[rank] for rank in meeting.absent]
    first = next((rank for rank in absent if rank.pending_collective is None), absent[0])
    if first.pending_collective is None:
        return _ABSENT.format(rank=first.rank)
    name = f"{first.pending_collective.op} {first.pending_collective.sequence} of {first.group}"
    return _ABSENT_WAITS.format(rank=first.rank, name=name)
