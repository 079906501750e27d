"""Analyzes one trace file, in a worker process or on a cluster."""

from time import perf_counter
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.model.launches import ReplayedGraph
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.pipeline.replayed_analysis import analyze_and_replay
from perfkit.analysis.ranks.arrivals import Arrivals, find_arrivals
from perfkit.analysis.ranks.fleet_member import FleetMember, build_member
from perfkit.analysis.ranks.joint_simulation import RankReplay
from perfkit.analysis.timeline.step_timeline import Window
from perfkit.analysis.trace.capture_joining import join_captures
from perfkit.analysis.trace.rank_trace import analyze_with_details
from perfkit.analysis.trace.trace_device import find_critical_device, identify_devices
from perfkit.analysis.trace.trace_memory import make_fullness_key, summarize_memory
from perfkit.core.errors import RunFormatError
from perfkit.core.note import Note, list_texts, make_note
from perfkit.core.text_blocks import ReadLimits
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.devices.lookup.trace_ceilings import TraceCeilings, resolve_trace_ceilings
from perfkit.trace.counters.match_counters import read_counters
from perfkit.trace.ops.ops import Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace

DEFAULT_LIMITS = ReadLimits()


class TraceJob(NamedTuple):
    """One file to analyze, as sent to a process or Ray task. `readers` is the number of decoding processes.

    `number` is its place among those that were asked for. `captures` are traces of captures for the graphs that it
    replays, of which some `must_fit`. `what_ifs` are changes to simulate; `with_others`: of all ranks
    at once. `window` is what the timeline shows instead of steps.
    """

    source: str
    device: str | None = None
    counters: str | None = None
    limits: ReadLimits = DEFAULT_LIMITS
    readers: int = 1
    number: int = 0
    captures: tuple[str, ...] = ()
    must_fit: bool = True
    what_ifs: tuple[str, ...] = ()
    with_others: bool = False
    window: Window | None = None

    def __fspath__(self) -> str:
        return self.source

    def __str__(self) -> str:  # its name in an engine's errors
        return self.source


class TraceOutcome(NamedTuple):
    """The results of one analyzed file."""

    rank: RankTrace
    arrivals: Arrivals
    ceilings: TraceCeilings
    seconds: float
    replay: RankReplay | None = None


class RankSummary(NamedTuple):
    """What is kept of a file among many: its rank's figures and arrivals, and what warnings on all files need.

    `fullness` is the sort key of its memory account.
    """

    member: FleetMember
    arrivals: Arrivals
    device_name: str
    warning: Note | None
    fullness: tuple[bool, int]
    is_truncated: bool
    json_bytes: int
    seconds: float


class _ReadFile(NamedTuple):
    """The ops of a file, with those of its captures, and the ceilings of each device and of the critical one.

    `events` are the file's own.
    """

    ops: Ops
    events: int
    graphs: tuple[ReplayedGraph, ...]
    notes: tuple[Note, ...]
    by_device: list[DeviceCeilings]
    critical: TraceCeilings


def analyze_file(job: TraceJob) -> TraceOutcome:
    """Read and analyze one file: the function that workers run."""
    started = perf_counter()
    read = _read_file(job)
    whole = analyze_and_replay(
        read.ops,
        read.critical.ceilings,
        by_device=read.by_device,
        device_name=read.critical.device_name,
        counters=None if job.counters is None else read_counters(job.counters),
        what_ifs=job.what_ifs,
        with_others=job.with_others,
        window=job.window,
    )
    memory, remarks = summarize_memory(read.ops)
    rank = replace(
        whole.rank_trace,
        file_info=replace(whole.rank_trace.file_info, events=read.events),
        device_basis=read.critical.basis,
        memory=memory,
        graphs=read.graphs,
        notes=(*whole.rank_trace.notes, *read.notes, *remarks),
    )
    ceilings = _drop_unseen(read.critical, rank)
    return TraceOutcome(rank, find_arrivals(read.ops, whole.engine), ceilings, perf_counter() - started, whole.replay)


def summarize_file(job: TraceJob) -> RankSummary:
    """Read one file and reduce it to what a comparison of many ranks needs: the function that workers run."""
    started = perf_counter()
    read = _read_file(job)
    analyzed = analyze_with_details(
        read.ops, read.critical.ceilings, by_device=read.by_device, device_name=read.critical.device_name
    )
    rank = analyzed.rank_trace
    arrivals = find_arrivals(read.ops, analyzed.engine)
    memory, _ = summarize_memory(read.ops)
    return RankSummary(
        member=build_member(rank, arrivals),
        arrivals=arrivals,
        device_name=read.critical.device_name,
        warning=_drop_unseen(read.critical, rank).warning,
        fullness=make_fullness_key(memory),
        is_truncated=rank.file_info.is_truncated,
        json_bytes=rank.file_info.json_bytes,
        seconds=perf_counter() - started,
    )


def _read_file(job: TraceJob) -> _ReadFile:
    trace = read_trace(job.source, limits=job.limits, workers=job.readers)
    if not len(trace):
        notes = f" ({'; '.join(list_texts(trace.notes))})" if trace.notes else ""
        raise RunFormatError(f"{job.source}: all events have zero duration: nothing to analyze{notes}")
    ops, graphs, join_notes = join_captures(
        read_ops(trace), job.source, job.captures, job.limits, must_fit=job.must_fit, workers=job.readers
    )
    devices = identify_devices(ops)
    known = {device: resolve_trace_ceilings(device, job.device) for device in devices}
    return _ReadFile(
        ops,
        len(trace),
        graphs,
        join_notes,
        [known[device].ceilings for device in devices],
        known[devices[find_critical_device(ops)]],
    )


def _drop_unseen(ceilings: TraceCeilings, rank: RankTrace) -> TraceCeilings:
    """No ceilings for a device whose work the trace lacks."""
    if not rank.missing_device_reason:
        return ceilings
    notes = (make_note("trace.unseen_device", rank.missing_device_reason),)
    return ceilings._replace(ceilings=replace(ceilings.ceilings, ceilings=(), notes=notes), warning=None)
