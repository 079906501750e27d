"""Collects the columns of all pieces of a trace, classifies and sorts them by time."""

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import (
    DEVICE_CATEGORIES,
    NONE,
    Category,
    Flows,
    Ints,
    MemoryEvents,
    SyncRecords,
    UntimedWork,
)
from perfkit.trace.readers.event_table.growing_columns import GrowingColumn, reorder_columns, select_rows
from perfkit.trace.readers.event_table.piece_columns import UNKNOWN_DURATION, Columns, PieceColumns
from perfkit.trace.readers.event_table.tables import TraceTables

# Which table the numbers of a column refer to.
_REFERS_TO = {name: name for name in ("cat", "name", "thread", "signature", "geometry", "collective", "stated")}

# In whole microseconds, work of this length is never written as none.
_NOT_ROUNDED_NS = 2000
# A month: no recording is longer.
_LONGEST_NS = 30 * 86_400 * 10**9
_GROUPS = ("rows", "flows", "memory", "syncs", "counters")
_COMPACT = frozenset({"correlation", "external_id", "device", "stream", "sequence", "moved_bytes", "node", "id"})


class TraceCollector:
    """Collects the parts of a trace, in file order, and renumbers them by its own tables.

    Without `allocations` what the parts bring of these is not kept.
    """

    def __init__(self, tables: TraceTables, allocations: bool = True) -> None:
        self.tables = tables
        self._kept = slice(None) if allocations else slice(0)
        self.notes: Counter[str] = Counter()
        self.metadata: list[tuple[int, str, bytes]] = []
        self._columns: dict[str, dict[str, GrowingColumn]] = {group: {} for group in _GROUPS}
        self._numbers: dict[tuple[int, str], NDArray[np.int32]] = {}

    def add(self, part: PieceColumns, origin: int | None = None) -> None:
        """`origin` names the tables that the part's numbers refer to, None where these are the collection's own."""
        if origin is not None:
            for name, entries in part.entries.items():
                table = getattr(self.tables, name)
                known = self._numbers.get((origin, name), np.zeros(0, np.int32))
                new = np.fromiter(map(table.__getitem__, entries), np.int32, len(entries))
                self._numbers[origin, name] = np.concatenate((known, new))
                table.take_fresh()
        memory = {name: column[self._kept] for name, column in part.memory.items()}
        for group, columns in zip(_GROUPS, (part.rows, part.flows, memory, part.syncs, part.counters), strict=True):
            for name, column in columns.items():
                mine = self._columns[group]
                if name not in mine:
                    mine[name] = GrowingColumn(compact=name in _COMPACT and group in ("rows", "flows"))
                mine[name].extend(self._renumber_column(name, column, origin))
        for thread, kind, statement in part.metadata:
            number = int(self._renumber_column("thread", np.asarray([thread]), origin)[0])
            self.metadata.append((number, kind, statement))
        self.notes += part.notes

    @property
    def is_empty(self) -> bool:
        """True if no part had an event."""
        return not any(map(len, self._columns["rows"].values()))

    def take_rows(self) -> Columns:
        """The rows, once: they are handed over and no longer kept here."""
        return self._take_group("rows")

    def build_flows(self) -> Flows:
        """The ends of arrows, in the order of the file."""
        return Flows(**self._take_group("flows"))

    def build_memory_events(self) -> MemoryEvents:
        """The allocator's events, in the order of time."""
        columns = self._take_group("memory")
        reorder_columns(columns, np.argsort(columns["time_ns"], kind="stable"))
        return MemoryEvents(**columns)

    def build_syncs(self) -> SyncRecords:
        """The records of synchronisation, in the order of the file."""
        return SyncRecords(**self._take_group("syncs"))

    def take_counters(self) -> Columns:
        """The samples of counters, once, in the order of the file: their name and thread, time and value."""
        return self._take_group("counters")

    def _renumber_column(self, name: str, column: NDArray[Any], origin: int | None) -> NDArray[Any]:
        if origin is None or name not in _REFERS_TO:
            return column
        numbers = self._numbers[origin, _REFERS_TO[name]]
        renumbered: NDArray[Any] = np.append(numbers, np.int32(NONE))[column]  # NONE is -1 and so takes the last
        return renumbered

    def _take_group(self, group: str) -> Columns:
        columns = self._columns[group]
        return {name: columns.pop(name).take() for name in list(columns)}


def drop_impossible(rows: Columns) -> int:
    """Make impossible durations unknown, so that ends and sums of durations fit 64 bits; returns their number."""
    duration = rows["duration"]
    bad = np.flatnonzero(
        (duration < UNKNOWN_DURATION)
        | (duration > _LONGEST_NS)
        | (rows["start_ns"] > np.iinfo(np.int64).max - _LONGEST_NS)
    )
    if len(bad):
        rows["duration"] = np.array(duration)
        rows["duration"][bad] = UNKNOWN_DURATION
    return len(bad)


def drop_untimed(rows: Columns) -> UntimedWork:
    """Take out the records of a device's work that have no time; events of the CPU without a duration get 0.

    CUPTI leaves the times of a kernel 0 where it could not collect them ("a value of 0 for both the start and end
    timestamps indicates that timestamp information could not be collected for the kernel", `CUpti_ActivityKernel9`;
    pytorch#188481, kineto#109). No work takes no time, so that one with a beginning and no duration has none either;
    but of a trace in whole microseconds, as torch wrote them before 2.4, it may have taken less than one. There only
    what takes at least two microseconds wherever it has a time (the same name, grid and block) has none.
    """
    device, duration = np.isin(rows["category"], DEVICE_CATEGORIES), rows["duration"]
    untimed = device & (duration < 0)
    none = device & (duration == 0) & (rows["correlation"] != NONE)
    if none.any():
        timed = device & (duration > 0)
        if not (duration[timed] % 1000).any():
            none &= (rows["start_ns"] == 0) | _is_longer_elsewhere(rows, none, timed)
        untimed |= none
    if (duration < 0).any():
        rows["duration"] = np.maximum(duration, 0)
    found = UntimedWork(rows["correlation"][untimed], rows["start_ns"][untimed], rows["name"][untimed])
    if len(found.start_ns):
        select_rows(rows, ~untimed)
    return found


def _is_longer_elsewhere(rows: Columns, asked: NDArray[np.bool_], timed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask work that takes at least two microseconds wherever it was timed."""
    kind = rows["name"].astype(np.int64) * (int(rows["geometry"].max()) + 2) + rows["geometry"] + 1
    kinds = np.unique(kind[asked])
    alike = np.flatnonzero(timed & np.isin(kind, kinds))
    never = np.iinfo(np.int64).max
    shortest = np.full(len(kinds), never, np.int64)
    np.minimum.at(shortest, np.searchsorted(kinds, kind[alike]), rows["duration"][alike])
    longer = np.zeros(len(kind), np.bool_)
    longer[asked] = ((shortest >= _NOT_ROUNDED_NS) & (shortest < never))[np.searchsorted(kinds, kind[asked])]
    return longer


def end_and_order(rows: Columns) -> Ints:
    """Put an `end_ns` in the place of `duration`; the order of rows by start, longer ones first among equals."""
    rows["end_ns"] = rows.pop("duration")
    rows["end_ns"] += rows["start_ns"]
    start = rows["start_ns"]
    order = np.argsort(start, kind="stable")
    ordered = start[order]
    same = ordered[1:] == ordered[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    members = order[tied]
    order[tied] = members[np.lexsort((members, -rows["end_ns"][members], ordered[tied]))]
    return order


def move_sizes_to_copies(rows: Columns, category: NDArray[np.int8]) -> None:
    """ROCm records the size of a copy with the call that starts it: give it to the copy."""
    size = rows["moved_bytes"]
    call = np.flatnonzero((category == Category.LAUNCH) & (size != NONE) & (rows["correlation"] != NONE))
    if len(call):
        call = call[np.argsort(rows["correlation"][call], kind="stable")]
        copies = np.flatnonzero(np.isin(category, (Category.COPY, Category.FILL)) & (size == NONE))
        wanted = rows["correlation"][copies]
        known = rows["correlation"][call]
        position = np.minimum(np.searchsorted(known, wanted), len(call) - 1)
        size[copies] = np.where(known[position] == wanted, size[call[position]], NONE)
    size[~np.isin(category, (Category.COPY, Category.FILL))] = NONE


def link_by_external_id(rows: Columns, category: NDArray[np.int8]) -> None:
    """Link by `External id` where device events have no correlation, as in older files."""
    device = np.isin(category, (Category.KERNEL, Category.COPY, Category.FILL))
    if (rows["correlation"][device] != NONE).any():
        return
    linked = device | (category == Category.LAUNCH)
    rows["correlation"] = np.where(linked, rows["external_id"], rows["correlation"])
