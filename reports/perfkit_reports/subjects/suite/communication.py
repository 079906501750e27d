"""Compares ranks: step times, waiting, and exchanged data."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from perfkit.analysis.model.fleet import CollectiveVolume, RankRow, TimedRank
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.core import units
from perfkit_reports.cells import (
    make_calls_cell,
    make_optional_cell,
    make_seconds_cell,
    make_short_cell,
    make_text_cell,
)
from perfkit_reports.charts import exchange_map, rank_step_map
from perfkit_reports.document.blocks import Block, Details, Group, Section
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.tables import make_list, make_table
from perfkit_reports.subjects.trace import trace_columns, trace_sentences

_UNTRACED = "not traced, or its collectives have no match on other ranks"
_NOT_COUNTED = "not counted in this run"
_NOT_SEEN = "the trace lacks its size or number of ranks"


class _RankTimes(NamedTuple):
    """A rank's timed and traced steps; either may be missing."""

    name: str
    timed: TimedRank | None
    traced: RankRow | None


def _build_timed_column(name: str, pick: str) -> Column[_RankTimes]:
    def cell(row: _RankTimes) -> Cell:
        value = None if row.timed is None else getattr(row.timed, pick)
        return make_optional_cell(value, units.format_seconds, "no timed steps")

    return Column(name, cell, help="median of the timed steps")


def _build_traced_column(name: str, pick: str, why: str) -> Column[_RankTimes]:
    def cell(row: _RankTimes) -> Cell:
        return make_optional_cell(
            None if row.traced is None else getattr(row.traced, pick), units.format_seconds, _UNTRACED
        )

    return Column(name, cell, help=why)


_RANKS: tuple[Column[_RankTimes], ...] = (
    Column("Rank", lambda row: make_short_cell(row.name, 32), numeric=False),
    Column(
        "Host", lambda row: make_text_cell(row.timed.host if row.timed else ""), numeric=False, weight=Weight.DETAIL
    ),
    _build_timed_column("Step", "step_s"),
    _build_timed_column("CPU time", "cpu_s"),
    Column(
        "Last to arrive",
        lambda row: make_optional_cell(
            None if row.traced is None else row.traced.last_share, units.format_percent, _UNTRACED
        ),
        help="share of traced steps in which this rank arrived last at collectives",
    ),
    _build_traced_column("Wait", "wait_s", "waiting in collectives for the last rank, per traced step"),
    _build_traced_column("Straggler delay", "late_s", "lateness behind the first rank, per traced step"),
    _build_traced_column("Compute", "compute_s", "per traced step"),
    _build_traced_column(
        "Exposed", "exposed_communication_s", "communication not overlapped with compute, per traced step"
    ),
)
_VOLUMES: tuple[Column[CollectiveVolume], ...] = (
    Column("Collective", lambda row: make_text_cell(row.kind), numeric=False),
    Column("Calls", lambda row: make_calls_cell(row.calls), help="per traced step"),
    Column(
        "Requested",
        lambda row: make_optional_cell(row.message_bytes, units.format_bytes, _NOT_COUNTED),
        help="message bytes per step, counted at the program's calls",
    ),
    Column(
        "Theoretical",
        lambda row: make_optional_cell(row.theoretical_bytes, units.format_bytes, _NOT_COUNTED),
        help=(
            "minimum bytes over a rank's links: 2(N-1)/N of all-reduced data, (N-1)/N of gathered, scattered or "
            "exchanged data"
        ),
    ),
    Column(
        "Carried",
        lambda row: make_optional_cell(row.traced_bytes, units.format_bytes, _NOT_SEEN),
        help="the same formula applied to the traced steps",
    ),
    Column(
        "Executed as",
        lambda row: make_text_cell(row.backend_kind),
        numeric=False,
        help="shown if the backend uses a different collective",
    ),
    Column("Time", lambda row: make_seconds_cell(row.seconds), help="all calls, per traced step"),
    Column(
        "Exposed", lambda row: make_seconds_cell(row.exposed_s), help="not overlapped with compute, per traced step"
    ),
    Column(
        "Hidden",
        lambda row: make_optional_cell(row.hidden_share, lambda value: units.format_percent(value, 0), "no time spent"),
        help="share of its time overlapped with compute",
    ),
)


def build_sections(analysis: Analysis) -> Iterator[Section]:
    """Ranks and communication of variants with several ranks."""
    drawn = [
        (variant.name, blocks)
        for place, variant in enumerate(analysis.variants)
        if variant.world_size > 1 and (blocks := tuple(_build_blocks(variant, f"-{place}")))
    ]
    if not drawn:
        return
    (name, first), *others = drawn
    head = first if not others else (Group(id="ranks-of-first", title=name, blocks=first),)
    rest = (Details(id=f"ranks-of-{place}", title=name, blocks=of) for place, (name, of) in enumerate(others))
    yield Section("communication", "Ranks and communication", (*head, *rest), nav="Ranks")


def _build_blocks(variant: Variant, end: str) -> Iterator[Block]:
    fleet = variant.fleet
    if fleet is not None:
        yield from make_list(f"fleet{end}", trace_sentences.describe_fleet(fleet), style="paragraph")
    yield from make_table(f"ranks{end}", "Ranks", _RANKS, _list_ranks(variant), "rank", data="", limit=None)
    if variant.steps_by_rank is not None:
        yield rank_step_map.build_charts(variant.steps_by_rank, f"timed-steps{end}")
    elif fleet is not None and fleet.grid is not None:
        yield rank_step_map.build_charts(fleet.grid, f"traced-steps{end}")
    yield from make_table(f"volumes{end}", "Collectives per step", _VOLUMES, variant.volumes, "collective", data="")
    if variant.traced_step is not None:
        rows, what = variant.traced_step.collectives, "kind of collective"
        yield from make_table(f"collectives{end}", "Collectives", trace_columns.COLLECTIVES, rows, what, data="")
    if fleet is not None:
        skew = {"data": "", "sorted": "Waiting"}
        yield from make_table(f"skew{end}", "Waiting by rank", trace_columns.SKEW, fleet.skew, "collective", **skew)
        timings = trace_columns.TIMINGS, fleet.timings
        yield from make_table(f"timings{end}", "Latency of collectives", *timings, "kind of collective", data="")
        if fleet.exchange is not None:
            yield exchange_map.build_chart(fleet.exchange, f"exchange-chart{end}")


def _list_ranks(variant: Variant) -> Sequence[_RankTimes]:
    """Ranks by the wait they cause, else by step time."""
    traced = {row.rank: row for row in variant.fleet.ranks} if variant.fleet else {}
    timed = {row.rank: row for row in variant.ranks}
    numbers = sorted({*timed, *(number for number in traced if number is not None)})
    rows = [_RankTimes(f"rank {number}", timed.get(number), traced.get(number)) for number in numbers]
    return sorted(rows, key=lambda row: -(row.traced.late_s or 0.0) if row.traced else 0.0)
