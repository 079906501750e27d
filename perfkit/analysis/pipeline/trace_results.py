"""Collects the full results of traces, and shortens those of many."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import WHOLE_RANKS
from perfkit.analysis.pipeline.file_analysis import TraceJob, TraceOutcome
from perfkit.analysis.pipeline.gains import bound_gains
from perfkit.analysis.ranks.arrivals import Arrivals
from perfkit.analysis.ranks.fleet import FleetReducer, ReducedJob
from perfkit.analysis.ranks.joint_simulation import RankReplay, simulate_jointly
from perfkit.analysis.ranks.transfers import apply_transfers
from perfkit.analysis.trace.trace_labels import label_traces
from perfkit.analysis.trace.trace_memory import make_fullness_key, shorten_account
from perfkit.core.errors import PerfkitError, RunFormatError
from perfkit.core.note import Note, make_note
from perfkit.devices.lookup.trace_ceilings import TraceCeilings

# What the tables of the others are shortened to.
ROWS_OF_OTHER_RANKS = 25


class FullResults(NamedTuple):
    """The traces that were analyzed in full, and the jobs of all readable files."""

    traces: tuple[RankTrace, ...]
    jobs: Sequence[ReducedJob]
    warnings: Sequence[Note]


class ResultCollector:
    """Full results in the order of the files, whatever the order they come in."""

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

    def finish(self, work: Sequence[TraceJob]) -> FullResults:
        """The results of all files; raises the first error where none could be read."""
        if not self._ranks:
            error = self._failed[min(self._failed)]
            if len(work) == 1:
                raise error
            raise RunFormatError(f"none of the {len(work)} traces could be read; first error: {error}")
        ordered = [self._ranks[index] for index in sorted(self._ranks)]
        first = ordered[0][1]
        failed = [self._failed[index] for index in sorted(self._failed)]
        warnings = [make_note("trace.skipped", f"skipped: {error}", error_id=error.id) for error in failed]
        known = explain_missing_ceilings(first)
        device_notes = [device.warning for _, device in ordered if device.warning is not None]
        warnings += [warning for warning in device_notes if warning.text != known]
        warnings += describe_devices({device.device_name for _, device in ordered})
        if len(work) > WHOLE_RANKS:
            text = (
                f"of {len(work)} traces, the first {WHOLE_RANKS} keep all table rows, the others the first "
                f"{ROWS_OF_OTHER_RANKS} of each table; totals, splits and collectives are complete for all"
            )
            warnings.append(make_note("trace.shortened_ranks", text, traces=len(work), whole=WHOLE_RANKS))
        shown = [keep_one_timeline(rank) if len(work) > 1 else rank for rank, _ in ordered]
        traces = label_traces(self._simulate_together(shown))
        jobs = self.fleet.reduce_jobs({trace.file_info.path: trace.label for trace in traces})
        return FullResults(apply_job_transfers(traces, jobs), jobs, warnings)

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


def apply_job_transfers(traces: Sequence[RankTrace], jobs: Sequence[ReducedJob]) -> tuple[RankTrace, ...]:
    """The traces with what the other ranks of their job show of their collectives."""
    result = list(traces)
    for job in jobs:
        paths = set(job.paths)
        places = [place for place, trace in enumerate(traces) if trace.file_info.path in paths]
        mine = [traces[place] for place in places]
        shown = apply_transfers(mine, job.transfers, job.hosts)
        for place, trace in zip(places, shown, strict=True):
            result[place] = bound_gains(trace)
    return tuple(result)


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


def keep_one_timeline(rank: RankTrace) -> RankTrace:
    """Keep one timeline per rank, that of the median step: all of them would fill the page."""
    return replace(rank, timelines=rank.timelines[:1])


def explain_missing_ceilings(first: TraceCeilings) -> str:
    """The warning that the first trace has no ceilings, which a finding says with advice; else ""."""
    return "" if first.ceilings.ceilings else f"no ceilings: {first.ceilings.notes[0]}"


def describe_devices(names: Collection[str]) -> list[Note]:
    """The warning that traces come from devices with different names."""
    if len(names) < 2:
        return []
    listed = ", ".join(sorted(name or "(unnamed)" for name in names))
    text = f"the traces come from different devices ({listed}); each is compared with its own ceilings"
    return [make_note("trace.different_devices", text, devices=len(names))]
