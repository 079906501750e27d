"""Analyzes one trace file, in a worker process or on a cluster."""

from time import perf_counter
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.pipeline.replayed_analysis import analyze_and_replay
from perfkit.analysis.ranks.arrivals import Arrivals, find_arrivals
from perfkit.analysis.ranks.joint_simulation import RankReplay
from perfkit.analysis.trace.capture_joining import join_captures
from perfkit.analysis.trace.trace_device import find_critical_device, identify_devices
from perfkit.analysis.trace.trace_memory import summarize_memory
from perfkit.core.errors import RunFormatError
from perfkit.core.note import list_texts, make_note
from perfkit.core.text_blocks import ReadLimits
from perfkit.devices.lookup.trace_ceilings import TraceCeilings, resolve_trace_ceilings
from perfkit.trace.counters.match_counters import read_counters
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace

DEFAULT_LIMITS = ReadLimits()


class TraceJob(NamedTuple):
    """One file to analyze, as sent to a process or Ray task. `readers` is the number of decoding processes.

    `number` is its place among those that were asked for. `captures` are traces of captures for the graphs that it
    replays, of which some `must_fit`. `what_ifs` are changes to simulate; `with_others`: of all ranks
    at once.
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


def analyze_file(job: TraceJob) -> TraceOutcome:
    """Read and analyze one file: the function that workers run."""
    started = perf_counter()
    trace = read_trace(job.source, limits=job.limits, workers=job.readers)
    if not len(trace):
        notes = f" ({'; '.join(list_texts(trace.notes))})" if trace.notes else ""
        raise RunFormatError(f"{job.source}: all events have zero duration: nothing to analyze{notes}")
    counted = None if job.counters is None else read_counters(job.counters)
    ops, graphs, join_notes = join_captures(
        read_ops(trace), job.source, job.captures, job.limits, must_fit=job.must_fit, workers=job.readers
    )
    devices = identify_devices(ops)
    known = {device: resolve_trace_ceilings(device, job.device) for device in devices}
    device_ceilings = known[devices[find_critical_device(ops)]]
    whole = analyze_and_replay(
        ops,
        device_ceilings.ceilings,
        by_device=[known[device].ceilings for device in devices],
        device_name=device_ceilings.device_name,
        counters=counted,
        what_ifs=job.what_ifs,
        with_others=job.with_others,
    )
    memory, remarks = summarize_memory(ops)
    rank = replace(
        whole.rank_trace,
        file_info=replace(whole.rank_trace.file_info, events=len(trace)),
        device_basis=device_ceilings.basis,
        memory=memory,
        graphs=graphs,
        notes=(*whole.rank_trace.notes, *join_notes, *remarks),
    )
    if rank.missing_device_reason:
        device_ceilings = device_ceilings._replace(
            ceilings=replace(
                device_ceilings.ceilings,
                ceilings=(),
                notes=(make_note("trace.unseen_device", rank.missing_device_reason),),
            ),
            warning=None,
        )
    return TraceOutcome(rank, find_arrivals(ops, whole.engine), device_ceilings, perf_counter() - started, whole.replay)
