"""Traces of more ranks than are analyzed in full: a summary of each, and whole results of a few chosen ones.

Each file is read by one process and reduced to its rank's figures and arrivals. Once all ranks were compared, the files
of the chosen ranks are read again.
"""

from collections.abc import Iterator, Mapping, Sequence

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
from perfkit.core.texts.name_lists import list_first

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

    def choose_sources(self, jobs: Sequence[ReducedJob]) -> dict[str, list[str]]:
        """The files to analyze in full, the first job's first, with the reasons for each."""
        reasons: dict[str, list[str]] = {}
        for job in jobs:
            for path, reason in (*_list_notable_paths(job), *self._find_fullest(job)):
                reasons.setdefault(self._sources[path], []).append(reason)
        return dict(list(reasons.items())[:MOST_FULL])

    def _find_fullest(self, job: ReducedJob) -> Iterator[tuple[str, str]]:
        path = max(job.paths, key=lambda path: self._fullness[path])
        if self._fullness[path][1] >= 0:
            yield path, "most memory"

    def list_warnings(self, chosen: Mapping[str, Sequence[str]], known: str) -> Iterator[Note]:
        """What was not read, and what the files that are not among the `chosen` show; without the text `known`.

        `chosen` are the labels of the traces analyzed in full, with the reasons for each.
        """
        for source in sorted(self._failed):
            error = self._failed[source]
            yield make_note("trace.skipped", f"skipped: {error}", error_id=error.id)
        for text in sorted(self._device_warnings.keys() - {known}):
            yield self._device_warnings[text]
        yield from describe_devices(self._device_names)
        if self._truncated:
            cut = sorted(self._truncated)
            text = f"{len(cut):,} files are damaged or truncated ({list_first(cut, _MOST_NAMED)})"
            yield make_note("trace.truncated_files", text, files=len(cut))
        traces = len(self._fullness)
        listed = ", ".join(f"{label} ({', '.join(reasons)})" for label, reasons in chosen.items())
        text = (
            f"of {traces:,} traces, {len(chosen)} are analyzed in full: {listed}; findings on steps and memory are of "
            "these, figures of ranks, versions and collectives of all"
        )
        yield make_note("trace.chosen_ranks", text, traces=traces, chosen=len(chosen))


def analyze_chosen(
    summaries: SummaryCollector, work: Sequence[TraceJob], *, engine: str, jobs: int | None
) -> FullResults:
    """Compare all ranks, and analyze the files of the chosen ones in full."""
    reduced = summaries.reduce_jobs()
    reasons = summaries.choose_sources(reduced)
    chosen = [job for job in work if job.source in reasons]
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
    read = [job for job in chosen if job.number in results]
    traces = [keep_one_timeline(results[job.number].rank) for job in read]
    known = explain_missing_ceilings(results[min(results)].ceilings)
    labeled = [replace(trace, label=labels.get(trace.file_info.path, trace.label)) for trace in traces]
    shown = apply_job_transfers(labeled, reduced)
    named = {trace.label: reasons[job.source] for trace, job in zip(labeled, read, strict=True)}
    return FullResults(shown, reduced, [*summaries.list_warnings(named, known), *warnings])


def _list_rows(job: ReducedJob) -> list[tuple[RankRow, str]]:
    return [] if job.fleet is None else list(zip(job.fleet.ranks, job.paths, strict=True))


def _list_notable_paths(job: ReducedJob) -> Iterator[tuple[str, str]]:
    """The paths of ranks to look at, each with the reason."""
    yield job.paths[0], "first"
    if job.fleet is None:
        return
    rows = _list_rows(job)
    yield from ((path, "straggler") for row, path in rows if row.label == job.fleet.straggler)
    row, path = max(rows, key=lambda pair: pair[0].caused_s or 0.0)
    if row.caused_s:
        yield path, "most waited for"
    row, path = max(rows, key=lambda pair: pair[0].last_share or 0.0)
    if row.last_share:
        yield path, "last in most steps"
    by_step = sorted(rows, key=lambda pair: pair[0].step_s)
    yield by_step[-1][1], "slowest"
    yield by_step[len(by_step) // 2][1], "median"
    yield by_step[0][1], "fastest"
