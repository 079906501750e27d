"""The flight records of a job's ranks as columns: thousands of recorders fit into memory, and are matched by NumPy.

Ranks run one program, so their calls differ in number only: each distinct call is kept once.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from perfkit.flight.flight_record import FlightRecord, ProcessGroup, RecordedCollective

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class RankCalls(NamedTuple):
    """The record of a rank in columns, a row per call in the order of their start; `call` indexes a table of calls
    without numbers."""

    version: str
    groups: dict[str, ProcessGroup]
    call: NDArray[np.int32]
    number: Ints
    sequence: Ints
    finished: Bools

    @property
    def dropped(self) -> bool:
        """True if the ring buffer was full and dropped the oldest records."""
        return len(self.number) > 0 and int(self.number[0]) > 0


class PackedRecord(NamedTuple):
    """The record of a rank with a table of its own, to be sent between processes."""

    rows: RankCalls
    calls: tuple[RecordedCollective, ...]


def pack_record(record: FlightRecord) -> PackedRecord:
    """The same record in columns."""
    table: dict[RecordedCollective, int] = {}
    rows = [table.setdefault(replace(call, number=0, sequence=0), len(table)) for call in record.collectives]
    columns = ([getattr(call, name) for call in record.collectives] for name in ("number", "sequence"))
    number, sequence = (np.asarray(column, np.int64) for column in columns)
    finished = np.asarray([call.finished for call in record.collectives], np.bool_)
    call = np.asarray(rows, np.int32)
    return PackedRecord(RankCalls(record.version, record.groups, call, number, sequence, finished), tuple(table))


class JobRecords:
    """The records of a job by rank. Equal calls and groups of its ranks are one; `calls` are those that rows index."""

    def __init__(self) -> None:
        self.calls: list[RecordedCollective] = []
        self.ranks: dict[int, RankCalls] = {}
        self._table: dict[RecordedCollective, int] = {}
        self._groups: dict[ProcessGroup, ProcessGroup] = {}

    def add(self, rank: int, record: PackedRecord) -> None:
        numbers = [self._number_call(call) for call in record.calls]
        groups = {name: self._groups.setdefault(group, group) for name, group in record.rows.groups.items()}
        call = np.asarray(numbers, np.int32)[record.rows.call] if numbers else record.rows.call
        self.ranks[rank] = record.rows._replace(call=call, groups=groups)

    def _number_call(self, call: RecordedCollective) -> int:
        number = self._table.setdefault(call, len(self.calls))
        if number == len(self.calls):
            self.calls.append(call)
        return number

    @property
    def groups(self) -> tuple[ProcessGroup, ...]:
        """The distinct groups."""
        return tuple(self._groups)

    def build_call(self, rank: int, row: int) -> RecordedCollective:
        """The call in a row of a rank."""
        rows = self.ranks[rank]
        return replace(
            self.calls[int(rows.call[row])],
            number=int(rows.number[row]),
            sequence=int(rows.sequence[row]),
        )

    def find_pending_call(self, rank: int) -> RecordedCollective | None:
        """The first call that a rank began and has not finished: those after it wait for it. None where all ended."""
        rows = np.flatnonzero(~self.ranks[rank].finished)
        return self.build_call(rank, int(rows[0])) if len(rows) else None

    def find_last_call(self, rank: int) -> RecordedCollective | None:
        """The last call that a rank entered; None where it entered none."""
        count = len(self.ranks[rank].call)
        return self.build_call(rank, count - 1) if count else None


def collect_records(records: Mapping[int, FlightRecord]) -> JobRecords:
    """The records by rank in columns."""
    job = JobRecords()
    for rank, record in sorted(records.items()):
        job.add(rank, pack_record(record))
    return job
