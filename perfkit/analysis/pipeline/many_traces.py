"""Traces of more ranks than are analyzed in full: a summary of each, and whole results of a few chosen ones.

Each file is read by one process and reduced to its rank's figures and arrivals. Once all ranks were compared, the files
of the chosen ranks are read again.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from perfkit.analysis.model.fleet import RankRow
from perfkit.analysis.model.trace_analysis import MOST_FULL
from perfkit.analysis.parallel import engines
from perfkit.analysis.pipeline.file_analysis import RankSummary, TraceJob, TraceOutcome, analyze_file
from perfkit.analysis.pipeline.trace_results import (
    FullResults,
    apply_job_transfers,
    describe_devices,
    explain_missing_ceilings,
    keep_one_timeline,
)
from perfkit.analysis.ranks.fleet import FleetReducer, ReducedJob
from perfkit.analysis.trace.trace_labels import NamedTrace, make_unique_labels
from perfkit.core.errors import PerfkitError, RunFormatError
from perfkit.core.note import Note, make_note

_MOST_NAMED = 3


class SummaryCollector:
    """The summaries of files, in any order; their collectives are kept on disk."""

    def __init__(self) -> None:
        self.fleet = FleetReducer()
        self._sources: dict[str, str] = {}
        self._fullness: dict[str, tuple[bool, int]] = {}
        self._device_names: set[str] = set()
        self._device_warnings: dict[str, Note] = {}
        self._truncated: list[str] = []
        self._failed: dict[str, PerfkitError] = {}

    def add(self, source: str, result: RankSummary | PerfkitError) -> None:
        if isinstance(result, PerfkitError):
            self._failed[source] = result
            return
        self.fleet.add_member(result.member, result.arrivals)
        self._sources[result.member.path] = source
        self._fullness[result.member.path] = result.fullness
        self._device_names.add(result.device_name)
        if result.warning is not None:
            self._device_warnings[result.warning.text] = result.warning
        if result.is_truncated:
            self._truncated.append(result.member.path)

    def reduce_jobs(self) -> list[ReducedJob]:
        """The ranks of each job under unique labels. The first error is raised where no file could be read."""
        members = self.fleet.members
        if not members:
            first = min(self._failed)
            raise RunFormatError(
                f"none of the {len(self._failed)} traces could be read; first error: {self._failed[first]}"
            )
        self.fleet.sort_tables()
        named = [NamedTrace(member.row.label, member.path, member.row.rank) for member in members]
        labels = make_unique_labels(named)
        return self.fleet.reduce_jobs({trace.path: label for trace, label in zip(named, labels, strict=True)})

    def choose_sources(self, jobs: Sequence[ReducedJob]) -> list[str]:
        """The files to analyze in full, the first job's first."""
        chosen: dict[str, None] = {}
        for job in jobs:
            fullest = max(job.paths, key=lambda path: self._fullness[path])
            mine = [job.paths[0], *_list_notable_paths(job)]
            chosen |= dict.fromkeys([*mine, fullest] if self._fullness[fullest][1] >= 0 else mine)
        return [self._sources[path] for path in list(chosen)[:MOST_FULL]]

    def list_warnings(self, chosen: int, known: str) -> Iterator[Note]:
        """What was not read, and what the files that are not among the `chosen` show; without the text `known`."""
        for source in sorted(self._failed):
            error = self._failed[source]
            yield make_note("trace.skipped", f"skipped: {error}", error_id=error.id)
        for text in sorted(self._device_warnings.keys() - {known}):
            yield self._device_warnings[text]
        yield from describe_devices(self._device_names)
        if self._truncated:
            cut = sorted(self._truncated)
            more = f" and {len(cut) - _MOST_NAMED:,} more" if len(cut) > _MOST_NAMED else ""
            text = f"{len(cut):,} files are damaged or truncated ({', '.join(cut[:_MOST_NAMED])}{more})"
            yield make_note("trace.truncated_files", text, files=len(cut))
        traces = len(self._fullness)
        text = (
            f"of {traces:,} traces, {chosen} are analyzed in full: the first, the slowest, the median and the fastest "
            "rank, the straggler and the one with most memory; the ranks' figures and collectives are of all"
        )
        yield make_note("trace.chosen_ranks", text, traces=traces, chosen=chosen)


def analyze_chosen(
    summaries: SummaryCollector, work: Sequence[TraceJob], *, engine: str, jobs: int | None
) -> FullResults:
    """Compare all ranks, and analyze the files of the chosen ones in full."""
    reduced = summaries.reduce_jobs()
    sources = set(summaries.choose_sources(reduced))
    chosen = [job for job in work if job.source in sources]
    results: dict[int, TraceOutcome] = {}
    warnings = []
    for job, result in engines.run_parallel(analyze_file, chosen, engine=engine, jobs=jobs):
        if isinstance(result, PerfkitError):
            warnings.append(make_note("trace.skipped", f"skipped: {result}", error_id=result.id))
        else:
            results[job.number] = result
    if not results:
        raise RunFormatError(f"none of the {len(chosen)} traces to analyze in full could be read again")
    labels = {path: row.label for job in reduced for row, path in _list_rows(job)}
    traces = [keep_one_timeline(results[number].rank) for number in sorted(results)]
    known = explain_missing_ceilings(results[min(results)].ceilings)
    labeled = [replace(trace, label=labels.get(trace.file_info.path, trace.label)) for trace in traces]
    shown = apply_job_transfers(labeled, reduced)
    return FullResults(shown, reduced, [*summaries.list_warnings(len(traces), known), *warnings])


def _list_rows(job: ReducedJob) -> list[tuple[RankRow, str]]:
    return [] if job.fleet is None else list(zip(job.fleet.ranks, job.paths, strict=True))


def _list_notable_paths(job: ReducedJob) -> Iterator[str]:
    """The straggler, the rank that others wait for most, and the slowest, the median and the fastest."""
    rows = _list_rows(job)
    if job.fleet is None:
        return
    yield from (path for row, path in rows if row.label == job.fleet.straggler)
    row, path = max(rows, key=lambda pair: pair[0].caused_s or 0.0)
    if row.caused_s:
        yield path
    by_step = sorted(rows, key=lambda pair: pair[0].step_s)
    yield by_step[-1][1]
    yield by_step[len(by_step) // 2][1]
    yield by_step[0][1]
