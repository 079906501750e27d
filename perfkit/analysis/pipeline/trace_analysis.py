"""Builds the report data of trace files: read, analyze each, reduce, compare."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

import perfkit
from perfkit.analysis.difference.difference import compare_traces
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import WHOLE_RANKS, TraceAnalysis
from perfkit.analysis.parallel import engines
from perfkit.analysis.parallel.worker_processes import count_default_jobs
from perfkit.analysis.pipeline.file_analysis import DEFAULT_LIMITS, TraceJob, TraceOutcome, analyze_file
from perfkit.analysis.pipeline.trace_findings import collect_trace_findings
from perfkit.analysis.ranks.arrivals import Arrivals
from perfkit.analysis.ranks.fleet import FleetReducer, ReducedJob
from perfkit.analysis.ranks.job_notes import describe_jobs, name_jobs
from perfkit.analysis.ranks.joint_simulation import MOST_RANKS, RankReplay, simulate_jointly
from perfkit.analysis.ranks.transfers import apply_transfers
from perfkit.analysis.replay.what_if_syntax import parse_what_if
from perfkit.analysis.trace.trace_labels import label_sides, label_traces
from perfkit.analysis.trace.trace_memory import make_fullness_key, shorten_account
from perfkit.analysis.trace.trace_provenance import build_trace_provenance
from perfkit.core.errors import PerfkitError, RunFormatError, UsageError
from perfkit.core.note import Note, make_note
from perfkit.core.text_blocks import ReadLimits
from perfkit.core.urls import is_url
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.catalog.catalog import resolve_entry
from perfkit.devices.lookup.trace_ceilings import HERE, TraceCeilings
from perfkit.trace.readers.trace_sources import Named, derive_trace_name, expand_sources

# What the tables of the others are shortened to.
ROWS_OF_OTHER_RANKS = 25

# Processes that decode a single file; the one that decompresses it cannot feed many.
MOST_READERS = 4


class TraceProgress(NamedTuple):
    """The file `number` (from 1) that is done: for showing progress. `error` is empty where it could be read."""

    number: int
    total: int
    source: str
    json_bytes: int
    seconds: float
    error: str = ""


Progress = Callable[[TraceProgress], None]


def analyze_traces(
    traces: Named,
    *,
    against: Named = (),
    device: str | None = None,
    counters: str | Path | None = None,
    capture: Named = (),
    what_ifs: Sequence[str] = (),
    engine: str = engines.PROCESSES,
    jobs: int | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
    command: str = "",
    progress: Progress | None = None,
) -> TraceAnalysis:
    """Analyze traces of torch.profiler or JAX's profiler, from any machine.

    Args:
        traces: a file, a folder of ranks, a glob pattern or an fsspec URL, or several of them.
        against: the traces to compare with, likewise; the one with the rank of the first trace is used.
        device: a device of the catalog by id or name, overriding the trace's; or `here` for traces recorded on this
            machine, which are compared with its measured ceilings.
        counters: a CSV export of Nsight Compute, for a single trace.
        capture: traces with the captures of replayed graphs, likewise; each rank uses its own. By default those next to
            a trace, by the file names of servers.
        what_ifs: changes to simulate on each trace: see `perfkit.analysis.replay.what_if_syntax.parse_what_if`.
        engine, jobs: see `engines.run_parallel`.
        limits: limits on reading a trace.
        command: the command line, for the report.
        progress: called as each file is done.

    A file that cannot be read becomes a warning where others can be; where none can, its error is raised
    (`RunFormatError`). An invalid request is a `UsageError`.
    """
    for text in what_ifs:
        parse_what_if(text)
    sources = expand_sources(traces)
    others = expand_sources(against) if against else ()
    captures = expand_sources(capture) if capture else ()
    if counters is not None and len(sources) > 1:
        raise UsageError(f"--counters needs exactly one trace, got {len(sources)}", id="usage.conflict")
    if device is not None:
        _check_device(device)
    readers = min(MOST_READERS, count_default_jobs() if jobs is None else jobs) if len(sources) == 1 else 1
    place = _make_absolute if engine == engines.RAY else str
    work = [
        TraceJob(
            place(source),
            device,
            _convert_path(counters),
            limits,
            readers,
            number,
            tuple(map(place, captures)),
            must_fit=len(sources) == 1,
            what_ifs=tuple(what_ifs),
            with_others=1 < len(sources) <= MOST_RANKS,
        )
        for number, source in enumerate(sources)
    ]
    gathered = _ResultCollector()
    for done, (job, result) in enumerate(engines.run_parallel(analyze_file, work, engine=engine, jobs=jobs)):
        gathered.add(job, result)
        if progress is not None:
            progress(_make_progress(done + 1, len(work), job, result))
    analyzed, warnings = gathered.finish(work)
    reduced = gathered.fleet.reduce_jobs({trace.file_info.path: trace.label for trace in analyzed})
    analyzed = _apply_transfers(analyzed, reduced)
    fleets = [job.fleet for job in reduced if job.fleet is not None]
    if len(reduced) > 1:
        names = name_jobs([job.paths for job in reduced])
        warnings.append(describe_jobs(names, [len(job.paths) for job in reduced]))
        fleets = [
            replace(job.fleet, job=name) for name, job in zip(names, reduced, strict=True) if job.fleet is not None
        ]
    change = None
    if others:
        before = _analyze_baseline(analyzed[0], others, TraceJob("", device, None, limits, captures=captures))
        if len(analyzed) == 1:
            after, before = label_sides(analyzed[0], before)
            analyzed = (after,)
        else:
            before = label_traces([*analyzed, before])[-1]
        change = compare_traces(analyzed[0], before)
    return TraceAnalysis(
        title=_make_title(analyzed),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        perfkit=perfkit.__version__,
        command=command,
        traces=analyzed,
        fleet=next(iter(fleets), None),
        other_fleets=tuple(fleets[1:]),
        difference=change,
        findings=collect_trace_findings(analyzed, next(iter(fleets), None), change, fleets[1:]),
        provenance=build_trace_provenance(analyzed),
        warnings=tuple(dict.fromkeys(warnings)),
    )


class _ResultCollector:
    """Results in the order of the files, whatever the order they come in."""

    def __init__(self) -> None:
        self.fleet = FleetReducer()
        self._ranks: dict[int, tuple[RankTrace, TraceCeilings]] = {}
        self._failed: dict[int, PerfkitError] = {}
        self._kept_memory: int | None = None
        self._replays: dict[int, tuple[Arrivals, RankReplay | None]] = {}

    def add(self, job: TraceJob, result: TraceOutcome | PerfkitError) -> None:
        if isinstance(result, PerfkitError):
            self._failed[job.number] = result
            return
        self.fleet.add(result.rank, result.arrivals)
        rank = result.rank if job.number < WHOLE_RANKS else _shorten_tables(result.rank)
        self._ranks[job.number] = (rank, result.ceilings)
        if job.with_others:
            self._replays[job.number] = (result.arrivals, result.replay)
        if job.number >= WHOLE_RANKS:
            self._shorten_memory(job.number)

    def _shorten_memory(self, new: int) -> None:
        """Keep memory over time only for the first ranks and for the one that matters most."""
        candidates = {new, new if self._kept_memory is None else self._kept_memory}
        # Of equal ones the first, whatever the order in which they are done.
        self._kept_memory = max(
            candidates, key=lambda number: (make_fullness_key(self._ranks[number][0].memory), -number)
        )
        for number in candidates - {self._kept_memory}:
            rank, ceilings = self._ranks[number]
            self._ranks[number] = (replace(rank, memory=shorten_account(rank.memory, ROWS_OF_OTHER_RANKS)), ceilings)

    def finish(self, work: Sequence[TraceJob]) -> tuple[tuple[RankTrace, ...], list[Note]]:
        if not self._ranks:
            error = self._failed[min(self._failed)]
            if len(work) == 1:
                raise error
            raise RunFormatError(f"none of the {len(work)} traces could be read; first error: {error}")
        ordered = [self._ranks[index] for index in sorted(self._ranks)]
        first = ordered[0][1].ceilings
        failed = [self._failed[index] for index in sorted(self._failed)]
        warnings = [make_note("trace.skipped", f"skipped: {error}", error_id=error.id) for error in failed]
        # Where the first trace has no ceilings, a finding says so, with advice.
        known = "" if first.ceilings else f"no ceilings: {first.notes[0]}"
        device_notes = [device.warning for _, device in ordered if device.warning is not None]
        warnings += [warning for warning in device_notes if warning.text != known]
        names = {device.device_name for _, device in ordered}
        if len(names) > 1:
            listed = ", ".join(sorted(name or "(unnamed)" for name in names))
            text = f"the traces come from different devices ({listed}); each is compared with its own ceilings"
            warnings.append(make_note("trace.different_devices", text, devices=len(names)))
        if len(work) > WHOLE_RANKS:
            text = (
                f"of {len(work)} traces, the first {WHOLE_RANKS} keep all table rows, the others the first "
                f"{ROWS_OF_OTHER_RANKS} of each table; totals, splits and collectives are complete for all"
            )
            warnings.append(make_note("trace.shortened_ranks", text, traces=len(work), whole=WHOLE_RANKS))
        return label_traces(
            self._simulate_together([_keep_one_timeline(rank) if len(work) > 1 else rank for rank, _ in ordered])
        ), warnings

    def _simulate_together(self, ranks: list[RankTrace]) -> list[RankTrace]:
        """Their gains with all ranks of a job at once, where these are few."""
        if len(self._replays) < 2:
            return ranks
        replays = [self._replays[number] for number in sorted(self._ranks)]
        result = list(ranks)
        for paths in map(set, self.fleet.list_jobs()):
            places = [place for place, rank in enumerate(ranks) if rank.file_info.path in paths]
            numbers = [ranks[place].rank for place in places]
            if len(places) < 2 or None in numbers or len(set(numbers)) < len(numbers):
                continue
            mine = [replays[place] for place in places]
            simulated = simulate_jointly(
                [ranks[place] for place in places], [came for came, _ in mine], [replay for _, replay in mine]
            )
            for place, rank in zip(places, simulated, strict=True):
                result[place] = rank
        return result


def _apply_transfers(traces: Sequence[RankTrace], jobs: Sequence[ReducedJob]) -> tuple[RankTrace, ...]:
    """The traces with what the other ranks of their job show of their collectives."""
    result = list(traces)
    for job in jobs:
        paths = set(job.paths)
        places = [place for place, trace in enumerate(traces) if trace.file_info.path in paths]
        mine = [traces[place] for place in places]
        shown = apply_transfers(mine, job.transfers, [trace.host for trace in mine])
        for place, trace in zip(places, shown, strict=True):
            result[place] = trace
    return tuple(result)


def _analyze_baseline(after: RankTrace, others: Sequence[str], like: TraceJob) -> RankTrace:
    """Analyze the trace of the same rank among `others`, else the first."""
    first: RankTrace | None = None
    for source in others:
        rank = analyze_file(like._replace(source=source, must_fit=False)).rank
        if rank.rank == after.rank:
            return rank
        first = first or rank
    assert first is not None
    return first


def _make_progress(done: int, total: int, job: TraceJob, result: TraceOutcome | PerfkitError) -> TraceProgress:
    if isinstance(result, PerfkitError):
        return TraceProgress(done, total, job.source, 0, 0.0, str(result))
    return TraceProgress(done, total, job.source, result.rank.file_info.json_bytes, result.seconds)


def _check_device(device: str) -> None:
    """A wrong name is known before anything is read."""
    if device.strip().lower() != HERE:
        resolve_entry(device)


def _shorten_tables(rank: RankTrace) -> RankTrace:
    count = ROWS_OF_OTHER_RANKS
    return replace(
        rank,
        kernels=rank.kernels[:count],
        ops=rank.ops[:count],
        modules=rank.modules[:count],
        host_calls=rank.host_calls[:count],
        streams=rank.streams[:count],
        gaps=rank.gaps[:count],
        replay=rank.replay and replace(rank.replay, segments=rank.replay.segments[:count]),
        flames=(),
        timelines=(),
    )


def _keep_one_timeline(rank: RankTrace) -> RankTrace:
    """Keep one timeline per rank, that of the median step: all of them would fill the page."""
    return replace(rank, timelines=rank.timelines[:1])


def _make_title(traces: Sequence[RankTrace]) -> str:
    first = traces[0]
    what = derive_trace_name(first.file_info.path) if len(traces) == 1 else f"{len(traces)} traces"
    where = first.device_name or ("a CPU" if is_cpu(first.device) else "an unnamed device")
    return f"{what} on {where}"


def _make_absolute(source: str) -> str:
    """Absolute paths, for other machines of a cluster."""
    return source if is_url(source) else str(Path(source).absolute())


def _convert_path(path: str | Path | None) -> str | None:
    return None if path is None else str(path)
