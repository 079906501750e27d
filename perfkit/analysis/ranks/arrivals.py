"""The arrivals of a rank at its collectives: the summary of a trace for comparing ranks, small enough to send."""

from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

import numpy as np

from perfkit.analysis.ranks.exchanges import Exchange, find_exchanges
from perfkit.analysis.ranks.jobs import TraceOrigin
from perfkit.analysis.trace.collective_rows import MessageKey, make_row_key
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.analysis.trace.time.intervals import measure_covered
from perfkit.analysis.trace.work.collective_messages import (
    build_message,
    find_recorded_collectives,
    find_recorded_numbers,
)
from perfkit.analysis.trace.work.exposed_time import find_exposed_time
from perfkit.analysis.trace.work.work_analysis import WorkAnalysis
from perfkit.cost.calls.collective import SYNCHRONIZING, CollectiveType, classify_collective
from perfkit.trace.annotations import COLLECTIVE_RANGES
from perfkit.trace.event_names import mark_named
from perfkit.trace.event_nesting import find_around_times
from perfkit.trace.model import NONE, Category, CollectiveRecord, Ints, Small, Trace
from perfkit.trace.ops.kernels import find_communication
from perfkit.trace.ops.ops import Ops

# These backends' CPU ranges only enqueue; the device times the work.
_ENQUEUE = ("nccl:", "xccl:")


class CollectiveKind(NamedTuple):
    """Collectives of one kind in one process group. `group_rows` is empty where the trace does not name it."""

    group: str
    description: str
    size: int
    kind: str

    @property
    def shown(self) -> str:
        """The group as the program describes it, else by its name."""
        return self.group if self.description in ("", "undefined") else self.description


@dataclass(frozen=True)
class Arrivals:
    """The synchronising collectives of one rank, one row each in the order of time.

    Attributes:
        kinds: table that `kind` indexes.
        step: the step's number as marked (its index where steps were found, not marked), NONE outside of all.
        number: with kind and step the same on all ranks: what the trace recorded (`Seq`) where it did for all of the
            kind, else a running number among those of the kind in the step.
        elements: what all ranks of the group should agree on: the elements of the whole message. NONE if not known.
        start_ns, end_ns: absolute, by the clock of the rank's host: on the device where it was traced.
        kernel: row of `Ops.kernels`; None where these are ranges of the host.
        messages: table that `message` indexes, NONE where the size is unknown: see `make_row_key`.
        exposed_ns: the time of each without compute, within the steps.
        exchanges: the bytes that all-to-alls moved between ranks.
        origin: tells the trace's job from others.
    """

    kinds: tuple[CollectiveKind, ...]
    kind: Small
    step: Ints
    number: Ints
    elements: Ints
    start_ns: Ints
    end_ns: Ints
    kernel: Ints | None = None
    messages: tuple[MessageKey, ...] = ()
    message: Small | None = None
    exposed_ns: Ints | None = None
    exchanges: tuple[Exchange, ...] = ()
    origin: TraceOrigin | None = None

    def __len__(self) -> int:
        return len(self.kind)


def find_arrivals(ops: Ops, work: WorkAnalysis | None = None) -> Arrivals:
    """The synchronizing collectives of a trace; for CPU backends, their ranges.

    Messages, exposed times and exchanges are known with the `work` of the trace only.
    """
    trace = ops.trace
    events = find_communication(trace)
    kernel: Ints | None = None
    if len(events) and trace.category[events[0]] == Category.KERNEL:
        kernel = np.searchsorted(ops.kernels.event, events)  # both in the order of time
        record = find_recorded_collectives(ops, events, ops.kernel_op[kernel])
        name = _name_kernels(ops, events, ops.kernels.launch[kernel])
        step, recorded = ops.kernel_step[kernel], find_recorded_numbers(ops, events, ops.kernel_op[kernel])
    else:
        events = events[~mark_named(trace, events, lambda name: name.startswith(_ENQUEUE))]
        record = find_recorded_collectives(ops, events, np.full(len(events), NONE, np.int64))
        name = trace.name[events].astype(np.int64)
        step = ops.steps.locate_times(trace.start_ns[events])
        recorded = find_recorded_numbers(ops, events, np.full(len(events), NONE, np.int64))
    table: dict[CollectiveKind, int] = {}
    pairs = group_rows(record, name)  # few distinct ones, however many events
    kinds = [_number_kind(table, ops, record[row], name[row]) for row in pairs.first.tolist()]
    kind = np.asarray(kinds, np.int32)[pairs.of]
    kept = np.flatnonzero(kind != NONE)
    events, kind, step = events[kept], kind[kept], _get_step_numbers(ops)[step[kept]]
    messages, message, exposed_ns = ((), None, None) if work is None else _find_messages(events, work)
    return Arrivals(
        kinds=tuple(table),
        kind=kind,
        step=step,
        number=_number_collectives(kind, step, recorded[kept]),
        elements=np.asarray([*map(_count_elements, trace.collectives), NONE], np.int64)[record[kept]],
        start_ns=trace.base_ns + trace.start_ns[events],
        end_ns=trace.base_ns + trace.end_ns[events],
        kernel=None if kernel is None else kernel[kept],
        messages=messages,
        message=message,
        exposed_ns=exposed_ns,
        exchanges=() if work is None else find_exchanges(work),
        origin=_describe_origin(trace),
    )


def _describe_origin(trace: Trace) -> TraceOrigin | None:
    if not len(trace):
        return None
    start_ns, end_ns = trace.base_ns + int(trace.start_ns.min()), trace.base_ns + int(trace.end_ns.max())
    content = crc32(trace.end_ns.tobytes(), crc32(trace.start_ns.tobytes()))
    return TraceOrigin(
        str(trace.path),
        trace.rank,
        trace.job,
        start_ns,
        end_ns,
        content,
        has_date=trace.base_ns > 0,
        trace_id=trace.properties.get("trace_id", ""),
        version=trace.properties.get("nccl_version", ""),
    )


def _find_messages(events: Ints, work: WorkAnalysis) -> tuple[tuple[MessageKey, ...], Small, Ints]:
    """The table of messages, the message of each event, and its exposed time."""
    pieces, table = work.pieces, work.exchanged.table
    piece = np.minimum(np.searchsorted(pieces.event, events), len(pieces) - 1)
    is_piece = pieces.event[piece] == events
    keys: dict[MessageKey, int] = {}
    numbers = [
        NONE if build_message(about) is None else keys.setdefault(make_row_key(about), len(keys)) for about in table
    ]
    message = np.where(is_piece, np.asarray([*numbers, NONE], np.int32)[work.exchanged.which[piece]], NONE)
    alone = find_exposed_time(pieces, pieces.windows.spans, work.critical_device)
    exposed_ns = measure_covered(pieces.start_ns[piece], pieces.end_ns[piece], alone)
    return tuple(keys), message.astype(np.int32), np.where(is_piece, exposed_ns, 0)


def _name_kernels(ops: Ops, events: Ints, launch: Ints) -> Ints:
    """The name of each kernel: the backend's range around its launch says more than its own name."""
    trace = ops.trace
    name = trace.name[events].astype(np.int64)
    ranges = trace.select_events(Category.RANGE)
    ranges = ranges[mark_named(trace, ranges, lambda name: name.startswith(COLLECTIVE_RANGES))]
    known = np.flatnonzero(launch != NONE)
    around = find_around_times(trace, ranges, trace.thread[launch[known]], trace.start_ns[launch[known]])
    inside = around != NONE
    name[known[inside]] = trace.name[ranges[around[inside]]]
    return name


def _number_kind(table: dict[CollectiveKind, int], ops: Ops, record: int, name: int) -> int:
    """The kind's number in `table`; NONE for kinds that do not synchronize all ranks."""
    about = None if record == NONE else ops.trace.collectives[record]
    text = ops.trace.names[name] if about is None else about.name
    kind = classify_collective(text)
    # A send-receive kernel may be an all-to-all or a message to one rank: its name does not show which.
    if kind not in SYNCHRONIZING or "sendrecv" in text.lower():
        return NONE
    if about is None:
        key = CollectiveKind("", "", NONE, str(kind))
    else:
        key = CollectiveKind(about.group, about.group_description, about.group_size, str(kind))
    return table.setdefault(key, len(table))


def _count_elements(about: CollectiveRecord) -> int:
    kind = classify_collective(about.name)
    if kind in (CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER):
        return about.sent
    return about.received if kind is CollectiveType.ALL_GATHER else NONE


def _get_step_numbers(ops: Ops) -> Ints:
    """The step number behind each step index, equal on all ranks; NONE (-1) takes the last entry, which is NONE."""
    numbers = ops.steps.number
    marked = ops.steps.basis.startswith("marked") and len(np.unique(numbers)) == len(numbers)
    return np.append(numbers if marked else np.arange(len(numbers)), NONE)


# Collectives that were coalesced share a recorded number; few are.
_COALESCED = 64


def _number_collectives(kind: Small, step: Ints, given: Ints) -> Ints:
    """The recorded numbers where all collectives of a kind have one, else running numbers."""
    among = _number_within_step(kind * np.int64(1 << 32) + np.maximum(given, 0), step)
    usable = (given != NONE) & (given < 1 << 25) & (among < _COALESCED)
    recorded = (np.bincount(kind, ~usable) == 0)[kind]
    numbers: Ints = np.where(recorded, given * _COALESCED + among, _number_within_step(kind, step))
    return numbers


def _number_within_step(kind: Small | Ints, step: Ints) -> Ints:
    """0, 1, 2 ... among the rows of equal kind and step."""
    of = group_rows(kind.astype(np.int64), step).of
    order = np.argsort(of, kind="stable")
    result = np.empty(len(of), np.int64)
    result[order] = np.arange(len(of)) - np.searchsorted(of[order], of[order], side="left")
    return result
