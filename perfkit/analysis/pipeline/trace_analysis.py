"""Builds the report data of trace files: read, analyze each, reduce, compare."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

import perfkit
from perfkit.analysis.difference.difference import compare_traces
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import MOST_FULL, TraceAnalysis
from perfkit.analysis.parallel import engines
from perfkit.analysis.parallel.worker_processes import count_default_jobs
from perfkit.analysis.pipeline.file_analysis import (
    DEFAULT_LIMITS,
    RankSummary,
    TraceJob,
    TraceOutcome,
    analyze_file,
    summarize_file,
)
from perfkit.analysis.pipeline.many_traces import SummaryCollector, analyze_chosen
from perfkit.analysis.pipeline.trace_findings import collect_trace_findings
from perfkit.analysis.pipeline.trace_results import FullResults, ResultCollector
from perfkit.analysis.ranks.job_notes import describe_jobs, name_jobs
from perfkit.analysis.ranks.joint_simulation import MOST_RANKS
from perfkit.analysis.replay.what_if_syntax import parse_what_if
from perfkit.analysis.timeline.step_timeline import Window
from perfkit.analysis.trace.trace_labels import label_sides, label_traces
from perfkit.analysis.trace.trace_provenance import build_trace_provenance
from perfkit.core.errors import PerfkitError, UsageError
from perfkit.core.text_blocks import ReadLimits
from perfkit.core.urls import is_url
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.catalog.catalog import resolve_entry
from perfkit.devices.lookup.trace_ceilings import HERE
from perfkit.store.summary import compute_digest
from perfkit.trace.readers.trace_sources import Named, derive_trace_name, expand_sources

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
    window: Window | None = None,
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
        window: the time that timelines show, instead of steps, in seconds since the first event of a trace.
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
        check_device(device)
    like = TraceJob(
        "", device, _convert_path(counters), limits, 1, 0, captures, what_ifs=tuple(what_ifs), window=window
    )
    work = build_jobs(sources, like, engine=engine, jobs=jobs)
    full = analyze_all(work, engine=engine, jobs=jobs, progress=progress)
    return build_analysis(full, others, like._replace(counters=None, what_ifs=()), command)


def build_jobs(sources: Sequence[str], like: TraceJob, *, engine: str, jobs: int | None) -> list[TraceJob]:
    """A job for each of the files, with the options of `like`."""
    readers = min(MOST_READERS, count_default_jobs() if jobs is None else jobs) if len(sources) == 1 else 1
    place = make_absolute if engine == engines.RAY else str
    return [
        like._replace(
            source=place(source),
            readers=readers,
            number=number,
            captures=tuple(map(place, like.captures)),
            must_fit=len(sources) == 1,
            with_others=1 < len(sources) <= MOST_RANKS,
        )
        for number, source in enumerate(sources)
    ]


def analyze_all(
    work: Sequence[TraceJob], *, engine: str, jobs: int | None, progress: Progress | None = None
) -> FullResults:
    """Analyze the files; of more than `MOST_FULL` only chosen ones in full."""
    if len(work) > MOST_FULL:
        summaries = SummaryCollector()
        for job, summary in summarize_all(work, engine=engine, jobs=jobs, progress=progress):
            summaries.add(job.source, summary)
        return analyze_chosen(summaries, work, engine=engine, jobs=jobs)
    gathered = ResultCollector()
    for done, (job, result) in enumerate(engines.run_parallel(analyze_file, work, engine=engine, jobs=jobs)):
        gathered.add(job, result)
        if progress is not None:
            progress(_make_progress(done + 1, len(work), job, result))
    return gathered.finish(work)


def summarize_all(
    work: Sequence[TraceJob], *, engine: str, jobs: int | None, progress: Progress | None
) -> Iterator[tuple[TraceJob, RankSummary | PerfkitError]]:
    """Summarize the files: see `summarize_file`."""
    for done, (job, summary) in enumerate(engines.run_parallel(summarize_file, work, engine=engine, jobs=jobs)):
        yield job, summary
        if progress is not None:
            progress(_make_progress(done + 1, len(work), job, summary))


def build_analysis(full: FullResults, others: Sequence[str], like: TraceJob, command: str) -> TraceAnalysis:
    """Build the report data of traces; `others` are those to compare with, read `like` these."""
    analyzed, warnings = full.traces, list(full.warnings)
    files = [path for job in full.jobs for path in job.paths]
    file_count = len(files) if len(files) > len(full.traces) else 0
    fleets = [job.fleet for job in full.jobs if job.fleet is not None]
    if len(full.jobs) > 1:
        names = name_jobs([job.paths for job in full.jobs])
        warnings.append(describe_jobs(names, [len(job.paths) for job in full.jobs]))
        fleets = [
            replace(job.fleet, job=name) for name, job in zip(names, full.jobs, strict=True) if job.fleet is not None
        ]
    change = None
    if others:
        before = _analyze_baseline(analyzed[0], others, like)
        if len(analyzed) == 1:
            after, before = label_sides(analyzed[0], before)
            analyzed = (after,)
        else:
            before = label_traces([*analyzed, before])[-1]
        change = compare_traces(analyzed[0], before)
    return TraceAnalysis(
        title=_make_title(analyzed, len(files)),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        perfkit=perfkit.__version__,
        command=command,
        traces=analyzed,
        fleet=next(iter(fleets), None),
        other_fleets=tuple(fleets[1:]),
        difference=change,
        findings=collect_trace_findings(analyzed, next(iter(fleets), None), change, fleets[1:]),
        provenance=build_trace_provenance(analyzed, file_count),
        warnings=tuple(dict.fromkeys(warnings)),
        files_digest=compute_digest(files) if file_count else "",
        file_count=file_count,
    )


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


def _make_progress(
    done: int, total: int, job: TraceJob, result: TraceOutcome | RankSummary | PerfkitError
) -> TraceProgress:
    if isinstance(result, PerfkitError):
        return TraceProgress(done, total, job.source, 0, 0.0, str(result))
    json_bytes = result.json_bytes if isinstance(result, RankSummary) else result.rank.file_info.json_bytes
    return TraceProgress(done, total, job.source, json_bytes, result.seconds)


def check_device(device: str) -> None:
    """A wrong name is known before anything is read."""
    if device.strip().lower() != HERE:
        resolve_entry(device)


def _make_title(traces: Sequence[RankTrace], files: int) -> str:
    first = traces[0]
    what = derive_trace_name(first.file_info.path) if files == 1 else f"{files:,} traces"
    where = first.device_name or ("a CPU" if is_cpu(first.device) else "an unnamed device")
    return f"{what} on {where}"


def make_absolute(source: str) -> str:
    """Absolute paths, for other machines of a cluster."""
    return source if is_url(source) else str(Path(source).absolute())


def _convert_path(path: str | Path | None) -> str | None:
    return None if path is None else str(path)
