"""Loads the run behind a name: a variant of a suite, a report on traces or memory, or a file of either."""

from collections.abc import Iterator
from pathlib import Path

from perfkit.analysis.compare.sides import LoadedSide
from perfkit.analysis.model.comparison import ComparedRun, LivePoint
from perfkit.analysis.model.memory_analysis import MemoryAnalysis
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import WHOLE_RANKS, TraceAnalysis
from perfkit.analysis.pipeline.memory_analysis import analyze_memory
from perfkit.analysis.pipeline.stored_results import read_memory_analysis, read_trace_analysis
from perfkit.analysis.pipeline.suite_analysis import SuiteInspection, inspect_suite
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.suite.runs import VariantRuns
from perfkit.core.errors import RunFormatError, UsageError, make_unknown_name_error
from perfkit.core.urls import is_url
from perfkit.store.layout import SUITE_FILE, get_rank_folder
from perfkit.store.live import LIVE_FILE, LiveWindow, read_live
from perfkit.store.named_variant import split_variant
from perfkit.store.report_kinds import find_kind
from perfkit.store.suite_reader import read_suite
from perfkit.store.summary import MEMORY_REPORT_FILE, TRACE_REPORT_FILE

# Most points of a curve: a log is thinned to them.
MOST_POINTS = 600


def load_side(named: str) -> LoadedSide:
    """Load the side that a name stands for: a folder or file, or `FOLDER@VARIANT` (else the baseline) of a suite.

    `UsageError` for what cannot be compared, `RunFormatError` for what cannot be read.
    """
    path, variant = split_variant(named)
    folder = Path(path)
    if not is_url(path) and not folder.exists():
        raise UsageError(f"{named}: no such file or folder", id="usage.no_file")
    if (folder / SUITE_FILE).is_file():
        return _load_suite_variant(path, variant, inspect_suite(read_suite(folder)))
    if variant:
        raise UsageError(f"{named}: only a suite's folder has variants, and {path} is not one")
    kind = find_kind(folder)
    if kind is not None and kind.noun:
        raise UsageError(f"{path} is a report on {kind.noun}: name runs, traces or memory recordings")
    if (folder / TRACE_REPORT_FILE).is_file():
        return _load_trace_analysis(path, read_trace_analysis(folder))
    if (folder / MEMORY_REPORT_FILE).is_file():
        return _load_memory_analysis(path, read_memory_analysis(folder))
    return _load_file(path)


def _load_suite_variant(path: str, variant: str, examined: SuiteInspection) -> LoadedSide:
    analysis = examined.analysis
    by_name = {member.name: member for member in analysis.variants}
    if variant and variant not in by_name:
        raise make_unknown_name_error(f"variant of {path}", variant, by_name)
    chosen = by_name[variant] if variant else next((v for v in analysis.variants if v.is_baseline), None)
    chosen = chosen or next(iter(analysis.variants), None)
    if chosen is None:
        raise UsageError(f"{path}: the suite ended before anything ran")
    runs, passes = examined.of[chosen.name]
    traced = passes.trace
    record = next(iter(runs.records), None)
    environment = record.environment if record is not None else None
    return LoadedSide(
        ComparedRun(
            name=path,
            path=path,
            kind="suite",
            subject=chosen.name if len(analysis.variants) > 1 else "",
            created_at=analysis.created_at,
            workload=_describe_workload(analysis, chosen, runs),
            device="" if environment is None else environment.device,
            device_name="" if environment is None else environment.device_name,
            environment=environment,
            ceilings=analysis.ceilings,
            trace=traced if traced is not None and traced.steps else None,
            memory=chosen.memory,
            step_samples=chosen.step_samples,
            losses=chosen.losses,
            live=tuple(_read_live_points(Path(path), runs)),
        ),
        chosen,
        () if variant or len(analysis.variants) < 2 or chosen.loop is not None else analysis.variants,
        tuple(trace for trace in passes.traces if trace.steps),
        passes.fleet.straggler if passes.fleet else "",
    )


def _describe_workload(analysis: Analysis, variant: Variant, runs: VariantRuns) -> str:
    """The workload of every step, and the number of ranks."""
    if not runs.runs:
        return analysis.workload
    ranks = f" on {variant.world_size} ranks" if variant.world_size > 1 else ""
    return f"{runs.runs[0].spec.workload.label}{ranks}"


def _read_live_points(folder: Path, runs: VariantRuns) -> Iterator[LivePoint]:
    """Read the first rank's live log, which exists before the records of a running job."""
    logs = (get_rank_folder(folder / run.path, 0) / LIVE_FILE for run in runs.runs)
    log = next((log for log in logs if log.is_file()), None)
    windows = [line for line in read_live(log) if isinstance(line, LiveWindow)] if log is not None else []
    every = max(1, len(windows) // MOST_POINTS)
    yield from (LivePoint(last_step=window.last_step, step_s=window.step_s) for window in windows[::every])


def _load_trace_analysis(path: str, analysis: TraceAnalysis) -> LoadedSide:
    trace = analysis.traces[0]
    side = _make_trace_side(path, trace, analysis.created_at, trace.label if len(analysis.traces) > 1 else "")
    straggler = analysis.fleet.straggler if analysis.fleet else ""
    return LoadedSide(side, ranks=analysis.traces[:WHOLE_RANKS], straggler=straggler)


def _make_trace_side(path: str, trace: RankTrace, created_at: str, of: str) -> ComparedRun:
    return ComparedRun(
        name=path,
        path=path,
        kind="trace",
        subject=of,
        created_at=created_at,
        device=trace.device,
        device_name=trace.device_name,
        ceilings=trace.ceilings,
        trace=trace,
        memory=trace.memory,
    )


def _load_memory_analysis(path: str, analysis: MemoryAnalysis) -> LoadedSide:
    fullest = max(analysis.accounts, key=lambda account: account.peak_bytes)
    of = fullest.device if len(analysis.accounts) > 1 else ""
    side = ComparedRun(name=path, path=path, kind="memory", subject=of, created_at=analysis.created_at, memory=fullest)
    return LoadedSide(side)


def _load_file(path: str) -> LoadedSide:
    """Load a trace, else a memory recording; any other file is refused as a trace."""
    try:
        return _load_trace_analysis(path, analyze_traces(path))
    except RunFormatError as not_a_trace:
        try:
            return _load_memory_analysis(path, analyze_memory(path))
        except RunFormatError:
            raise not_a_trace from None
