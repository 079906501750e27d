"""Reduces several ranks of one job to stragglers and delays, in memory independent of their number.

Only a few figures of each rank stay in memory; its collectives go to a temporary file, from which they are read one
rank at a time. Ranks are processed in the order of their numbers, whatever the order in which they are added.
"""

import statistics
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as with_columns
from typing import BinaryIO, NamedTuple, cast

import numpy as np
from msgspec.structs import replace

from perfkit.analysis.compare.rank_environments import compare_traced_ranks
from perfkit.analysis.model.fleet import LATE, STEP, WAIT, Fleet, RankRow, SkewRow, StepGrid
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.ranks.arrivals import Arrivals, CollectiveKind
from perfkit.analysis.ranks.clocks import RankClock
from perfkit.analysis.ranks.exchanges import build_exchange_map
from perfkit.analysis.ranks.fleet_member import FleetMember, build_member, rename_member
from perfkit.analysis.ranks.grid import MOST_ROWS, build_step_grid
from perfkit.analysis.ranks.jobs import group_jobs
from perfkit.analysis.ranks.matching import build_collective_rows, match_collectives
from perfkit.analysis.ranks.notes import collect_fleet_notes
from perfkit.analysis.ranks.skew import (
    MatchedCollectives,
    compute_lateness,
    make_common_ends,
    reduce_collectives,
    sum_margins,
    sum_saved_waits,
)
from perfkit.analysis.ranks.slot_messages import reduce_messages
from perfkit.analysis.ranks.slots import CollectiveRows, Source
from perfkit.analysis.ranks.step_lateness import StepLateness, compute_step_lateness
from perfkit.analysis.ranks.straggler import find_late_ranks, find_straggler
from perfkit.analysis.ranks.timings import build_timings
from perfkit.analysis.ranks.transfers import MeasuredTransfers, measure_transfers
from perfkit.analysis.trace.collective_rows import MessageKey
from perfkit.trace.model import NONE, Ints

_COLUMNS = len(CollectiveRows._fields)


class ReducedJob(NamedTuple):
    """A job's fleet, None for a single rank, with the paths and hosts of its traces and what their collectives
    transferred."""

    paths: tuple[str, ...]
    hosts: tuple[str, ...]
    fleet: Fleet | None
    transfers: tuple[MeasuredTransfers, ...]


class FleetReducer:
    """Takes ranks one by one; results may be asked for at any time."""

    def __init__(self) -> None:
        self._spool = cast(BinaryIO, tempfile.TemporaryFile(prefix="perfkit-arrivals-"))  # noqa: SIM115
        self._values = 0
        self._kinds: dict[CollectiveKind, int] = {}
        self._messages: dict[MessageKey, int] = {}
        self._members: list[FleetMember] = []

    def add(self, rank: RankTrace, arrivals: Arrivals) -> None:
        """Add a rank, in any order."""
        self.add_member(build_member(rank, arrivals), arrivals)

    def add_member(self, member: FleetMember, arrivals: Arrivals) -> None:
        """Add a rank of which only the figures are kept, in any order."""
        rows = build_collective_rows(arrivals, self._kinds, self._messages)
        member = member._replace(first=self._values)
        self._write_rows(member, rows)
        self._members.append(member)
        self._values += _COLUMNS * len(arrivals)

    def sort_tables(self) -> None:
        """Number kinds and messages in their own order, so that results do not depend on the order of ranks."""
        kinds, messages = sorted(self._kinds), sorted(self._messages, key=str)
        kind = np.argsort([self._kinds[key] for key in kinds]) if kinds else np.empty(0, np.int64)
        message = np.argsort([self._messages[key] for key in messages]) if messages else np.empty(0, np.int64)
        for member in self._members:
            rows = self._read_rows(member)
            self._write_rows(
                member, rows._replace(kind=kind[rows.kind], message=np.append(message, NONE)[rows.message])
            )
        self._kinds = {key: number for number, key in enumerate(kinds)}
        self._messages = {key: number for number, key in enumerate(messages)}

    @property
    def members(self) -> list[FleetMember]:
        """The added ranks in the order of their numbers."""
        return sorted(self._members, key=lambda member: member.order)

    def list_jobs(self) -> list[list[str]]:
        """The paths of the added traces by job, the job with most ranks first."""
        return [[member.path for member in members] for members in self._group_members()]

    def _group_members(self) -> list[list[FleetMember]]:
        members = self.members
        return [[members[index] for index in job] for job in group_jobs([member.origin for member in members])]

    def build_fleet(self, labels: Mapping[str, str] | None = None) -> Fleet | None:
        """Build the fleet of the first job; `labels` by path replace the ranks' own, which may be shared.

        None for fewer than two ranks, and for traces without ranks or common collectives.
        """
        return next((job.fleet for job in self.reduce_jobs(labels or {})[:1]), None)

    def reduce_jobs(self, labels: Mapping[str, str]) -> list[ReducedJob]:
        """Reduce each job, the one with most ranks first; see `build_fleet`."""
        return [
            self._reduce([rename_member(member, labels) for member in members]) for members in self._group_members()
        ]

    def _reduce(self, members: Sequence[FleetMember]) -> ReducedJob:
        paths = tuple(member.path for member in members)
        hosts = tuple(member.host for member in members)
        if len(members) < 2:
            return ReducedJob(paths, hosts, None, ())
        chosen = _drop_duplicate_ranks(members)

        def source(index: int) -> CollectiveRows:
            return self._read_rows(chosen[index])

        owners = [member.clock for member in chosen]
        clocks, slots, matched = match_collectives(
            source, lambda index, rows: self._write_rows(chosen[index], rows), len(chosen), owners
        )
        if not matched.counted.any() and sum(member.row.rank is not None for member in members) < 2:
            return ReducedJob(paths, hosts, None, ())
        keys = tuple(self._messages)
        transfers = tuple(
            measure_transfers(
                member.path, source(index), slots, matched, keys, list(member.step_s) if member.steps else None
            )
            for index, member in enumerate(chosen)
        )
        unlike = {number for member in members for number in member.unlike}
        matched = _exclude_unlike_steps(matched, unlike) if any(member.steps for member in members) else matched
        parts = max(1, len(np.unique(matched.step[matched.counted])))
        arrivals: Source = source
        arrived = matched
        if owners[0] and len(set(owners)) == 1:
            arrivals = make_common_ends(source, len(chosen), slots)
            compared = reduce_collectives(arrivals, len(chosen), slots, clocks)
            arrived = with_columns(compared, counted=matched.counted)
        late = [compute_lateness(arrivals(index), slots, arrived) for index in range(len(chosen))]
        caused_ns = sum_margins(arrived, len(chosen))
        lateness = compute_step_lateness(arrivals, len(chosen), slots, arrived)
        last = lateness.compute_last_shares()
        placed = {
            id(member): replace(
                _add_lateness(
                    member.row,
                    late[index],
                    clocks[index],
                    parts,
                    _compute_mean_wait(lateness, index, parts),
                    last[index],
                ),
                caused_s=None if late[index] is None else int(caused_ns[index]) / 1e9 / parts,
            )
            for index, member in enumerate(chosen)
        }
        rows = tuple(placed.get(id(member), member.row) for member in members)
        chosen_rows = [placed[id(member)] for member in chosen]
        straggler, behind = _find_stragglers(chosen_rows, lateness)
        others = [index for index in range(len(chosen)) if index not in behind]
        kinds = list(self._kinds)
        sizes = [member.world_size for member in members]
        fleet = Fleet(
            ranks=rows,
            skew=_build_skew_rows(arrived, kinds, [member.row.label for member in chosen], parts),
            straggler=straggler,
            stragglers=tuple(chosen_rows[index].label for index in behind),
            stragglers_saved_s=sum_saved_waits(arrivals, slots, arrived, others) / 1e9 / parts if behind else None,
            step_spread=_compute_spread([row.step_s for row in rows]),
            notes=collect_fleet_notes(rows, paths, sizes, matched, kinds, clocks),
            grid=_build_grid(chosen, lateness),
            timings=build_timings(
                matched,
                reduce_messages(source, len(chosen), slots, keys),
                kinds,
                keys,
                parts,
                [member.host for member in chosen],
                {key: shared for member in chosen for key, shared in member.hosts_by_message},
            ),
            differences=compare_traced_ranks({member.row.label: member.environment for member in members}),
            exchange=build_exchange_map(
                {member.row.rank: member.exchanges for member in chosen if member.row.rank is not None}
            ),
        )
        return ReducedJob(paths, hosts, fleet, transfers)

    def _write_rows(self, member: FleetMember, rows: Iterable[Ints]) -> None:
        self._spool.seek(member.first * 8)
        self._spool.write(np.stack(tuple(rows)).astype(np.int64).tobytes())

    def _read_rows(self, member: FleetMember) -> CollectiveRows:
        self._spool.seek(member.first * 8)
        data = self._spool.read(_COLUMNS * member.length * 8)
        return CollectiveRows(*np.frombuffer(data, np.int64).reshape(_COLUMNS, member.length))


def _find_stragglers(rows: Sequence[RankRow], lateness: StepLateness) -> tuple[str, list[int]]:
    """The label of the latest rank, and all that come late together; empty where only one or none does."""
    straggler = find_straggler(rows, lateness)
    late = find_late_ranks(max(row.step_s for row in rows), lateness)
    labels = [rows[index].label for index in late]
    if len(late) < 2 or (straggler and straggler not in labels):
        return straggler, []
    return straggler or labels[0], late


def _add_lateness(
    row: RankRow,
    late_ns: int | None,
    clock: RankClock | None,
    parts: int,
    wait_s: float | None,
    last_share: float | None,
) -> RankRow:
    return replace(
        row,
        wait_s=wait_s,
        last_share=last_share,
        late_s=None if late_ns is None else late_ns / 1e9 / parts,
        clock_offset_s=None if clock is None or clock.island else clock.offset_ns / 1e9,
    )


def _compute_mean_wait(lateness: StepLateness, rank: int, parts: int) -> float | None:
    waits = lateness.wait_s[rank]
    return None if np.isnan(waits).all() else float(np.nansum(waits)) / parts


def _build_grid(members: Sequence[FleetMember], lateness: StepLateness) -> StepGrid | None:
    """The grid of the steps of every rank's own trace; none for traces without steps."""
    steps = sorted({number for member in members for number in member.step_s})
    if not steps:
        return None
    times = np.array([[member.step_s.get(number, np.nan) for number in steps] for member in members])
    shared = np.isin(steps, lateness.steps)
    at = np.searchsorted(lateness.steps, np.array(steps)[shared])
    figures = {STEP: times}
    for name, values in ((LATE, lateness.late_s), (WAIT, lateness.wait_s)):
        figures[name] = np.full(times.shape, np.nan)
        figures[name][:, shared] = values[:, at]
    if len(members) > MOST_ROWS:
        # Merged ranks show the longest wait, which would hide a rank that never waits.
        del figures[WAIT]
    return build_step_grid([member.row.label for member in members], steps, figures)


def _drop_duplicate_ranks(members: Sequence[FleetMember]) -> list[FleetMember]:
    """Drop further files of the same rank: a rank does not wait for itself."""
    seen: set[int] = set()
    result = []
    for member in members:
        if member.row.rank is not None and member.row.rank in seen:
            continue
        if member.row.rank is not None:
            seen.add(member.row.rank)
        result.append(member)
    return result


def _exclude_unlike_steps(matched: MatchedCollectives, unlike: set[int]) -> MatchedCollectives:
    """Exclude collectives outside all steps, or in a step that is an outlier on any rank."""
    left_out = np.isin(matched.step, [NONE, *unlike])
    return with_columns(matched, counted=matched.counted & ~left_out)


def _build_skew_rows(
    matched: MatchedCollectives, kinds: Sequence[CollectiveKind], labels: Sequence[str], parts: int
) -> tuple[SkewRow, ...]:
    """A row per kind, the one at which most time is waited first; groups of one description are one, on average."""
    groups: dict[tuple[str, str], list[int]] = {}
    for number, about in enumerate(kinds):
        if (matched.counted & (matched.kind == number)).any():
            groups.setdefault((about.kind, about.shown), []).append(number)
    rows = []
    for (kind, group), numbers in groups.items():
        mine = np.flatnonzero(matched.counted & np.isin(matched.kind, numbers))
        latest = matched.latest[mine]
        # Not the rank that is last most often: to be last by a hair costs nothing.
        awaited = int(np.bincount(latest, weights=matched.wait_ns[mine], minlength=len(labels)).argmax())
        rows.append(
            SkewRow(
                name=kind,
                group=group,
                calls=len(mine) / parts / len(numbers),
                wait_s=float(matched.wait_ns[mine].sum()) / 1e9 / parts / len(numbers),
                worst_wait_s=int(matched.worst_ns[mine].max()) / 1e9,
                latest_rank=labels[awaited] if matched.wait_ns[mine].any() else "",
                latest_share=int((latest == awaited).sum()) / len(mine) if matched.wait_ns[mine].any() else 0.0,
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.wait_s, row.name, row.group)))


def _compute_spread(steps: Sequence[float]) -> float | None:
    """The spread from the shortest to the longest mean step, over the median."""
    middle = statistics.median(steps)
    return (max(steps) - min(steps)) / middle if middle > 0 else None
