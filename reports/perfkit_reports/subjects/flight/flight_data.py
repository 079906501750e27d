"""Ranks and their calls as raw rows, in bytes."""

from typing import Any, NamedTuple

from perfkit.analysis.model.flight import DumpedRank, FlightAnalysis
from perfkit.flight.flight_record import RecordedCollective
from perfkit.flight.mismatch import MismatchedCollective
from perfkit_reports.document.tables import RawTable


class RankCall(NamedTuple):
    """The call of a rank; None where it did not enter."""

    rank: int
    call: RecordedCollective | None


def list_calls(meeting: MismatchedCollective) -> list[RankCall]:
    """Every rank that is known to have entered, or not to have."""
    absent = [RankCall(rank, None) for rank in meeting.absent]
    return sorted([*(RankCall(rank, call) for rank, call in meeting.calls.items()), *absent], key=lambda row: row.rank)


_RANK = {
    "rank": int, "file": str, "group": str, "op": str, "sequence": int, "finished": bool, "shapes": str, "bytes": int,
    "call_site": str, "unfinished": int, "collectives": int,
}  # fmt: skip
_CALL = {
    "meeting": str, "mismatch": str, "rank": int, "entered": bool, "op": str, "sequence": int, "finished": bool,
    "shapes": str, "bytes": int, "call_site": str,
}  # fmt: skip


def build_data(analysis: FlightAnalysis) -> tuple[RawTable, ...]:
    """A row a rank, and a row for each rank of a collective in which ranks did not meet."""
    return (
        RawTable("ranks", _RANK, lambda: [_build_rank_row(rank) for rank in analysis.ranks]),
        RawTable(
            "calls",
            _CALL,
            lambda: [
                {
                    "meeting": meeting.name,
                    "mismatch": meeting.mismatch.value,
                    "rank": row.rank,
                    "entered": row.call is not None,
                    **_build_call_row(row.call),
                }
                for meeting in analysis.mismatched_collectives
                for row in list_calls(meeting)
            ],
        ),
    )


def _build_rank_row(rank: DumpedRank) -> dict[str, Any]:
    row = {name: getattr(rank, name) for name in ("rank", "file", "group", "unfinished", "collectives")}
    return {**row, **_build_call_row(rank.pending_collective or rank.last_collective)}


def _build_call_row(call: RecordedCollective | None) -> dict[str, Any]:
    if call is None:
        return dict.fromkeys(("op", "sequence", "finished", "shapes", "bytes", "call_site"))
    return {
        "op": call.op,
        "sequence": call.sequence,
        "finished": call.finished,
        "shapes": str(call.tensors),
        "bytes": call.tensors.bytes,
        "call_site": call.call_site,
    }
