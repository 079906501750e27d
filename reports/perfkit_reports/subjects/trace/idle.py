"""Why the device had nothing to do: its idle time by cause, and where the host was."""

from binascii import crc32
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from perfkit import units
from perfkit.analysis.model.idle import BETWEEN, CAUSES, ELSEWHERE, HELD_UP, LATE, OTHER_STREAM, STARTING, SYNC
from perfkit.analysis.model.launches import GapRow
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.time_split import UNRECORDED
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.trace.idle_gaps import format_place
from perfkit_reports.cells import (
    make_calls_cell,
    make_code_cell,
    make_seconds_cell,
    make_share_cell,
    make_short_cell,
    make_text_cell,
)
from perfkit_reports.document.blocks import Bar, Bars, Block, Section
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.selected_item import SelectedItem
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.selection import make_idle_key
from perfkit_reports.subjects.tables import make_table
from perfkit_reports.subjects.trace.sentences import get_time_basis
from perfkit_reports.subjects.trace.series import list_detailed_traces
from perfkit_reports.subjects.trace.trace_blocks import build_trace_blocks

TITLE = "Why the device was idle"


_MEANING = {
    SYNC: f"“{SYNC}”: its own time, and on to the next launch if that comes within a millisecond.",
    ELSEWHERE: f"“{ELSEWHERE}”: a millisecond or more in which nothing was launched.",
    LATE: f"“{LATE}”: gaps of less than a millisecond, until the call that launches returned.",
    STARTING: f"“{STARTING}”: at most 50 us from a launch to its kernel.",
    BETWEEN: f"“{BETWEEN}”: at most 10 us from one to the next.",
    OTHER_STREAM: f"“{OTHER_STREAM}”: more than that takes, before a kernel of another stream than worked last.",
    HELD_UP: f"“{HELD_UP}”: a kernel that was launched began later than starting it takes.",
    UNRECORDED: f"“{UNRECORDED}”: whether the device worked is not in the trace.",
}


class _IdleRow(NamedTuple):
    row: GapRow
    whole: float


def _make_place_cell(row: GapRow) -> Cell:
    if not row.named:
        return Cell("(shorter ones together)")
    return make_short_cell(format_place(row), 80)


_COLUMNS: tuple[Column[_IdleRow], ...] = (
    Column("Cause", lambda told: make_text_cell(told.row.cause), numeric=False),
    Column(
        "The host was in",
        lambda told: _make_place_cell(told.row),
        numeric=False,
        wrap=True,
        help="for more than half of each gap, the innermost first",
    ),
    Column(
        "Module or range",
        lambda told: make_short_cell(told.row.module or told.row.range, 40),
        numeric=False,
        wrap=True,
        help="around what the host was in",
    ),
    Column(
        "Before",
        lambda told: make_code_cell(told.row.following),
        numeric=False,
        help="the op of the kernel that came next",
    ),
    Column("Gaps", lambda told: make_calls_cell(told.row.gaps), help="per step"),
    Column("Device idle", lambda told: make_seconds_cell(told.row.seconds), help="per step"),
    Column("Of the idle time", lambda told: make_share_cell(told.row.seconds / told.whole), meter=True),
    Column("Longest", lambda told: make_seconds_cell(told.row.longest_s)),
    Column(
        "At",
        lambda told: make_seconds_cell(told.row.longest_start_s),
        help="when the longest began, since the first event of the trace",
        weight=Weight.DETAIL,
    ),
)


def build_idle_section(analysis: TraceAnalysis) -> Section | None:
    """The causes of each trace's idle time; None where no device was idle."""
    traces = list_detailed_traces(analysis)
    blocks = build_trace_blocks("idle", traces, _build_idle)
    if not blocks:
        return None
    shown = {row.cause for trace in traces for row in trace.gaps if row.seconds > 0}
    told = tuple(meaning for cause, meaning in _MEANING.items() if cause in shown)
    return Section("idle", TITLE, blocks, nav="Idle time", intro=told)


def sum_by_cause(rows: Iterable[GapRow]) -> dict[str, float]:
    """Seconds per step of each cause that took any."""
    spent: dict[str, float] = {}
    for row in rows:
        spent[row.cause] = spent.get(row.cause, 0.0) + row.seconds
    return {cause: spent[cause] for cause in CAUSES if spent.get(cause)}


def list_selected_idle(trace: RankTrace, owner: str) -> Iterator[SelectedItem]:
    """What a page tells of each cause, and of the place of the host in which most of it passed."""
    whole = sum(row.seconds for row in trace.gaps)
    for cause, took in sum_by_cause(trace.gaps).items():
        rows = [row for row in trace.gaps if row.cause == cause]
        most = max(rows, key=lambda row: row.seconds)
        facts = (
            ("Time", make_seconds_cell(took)),
            ("Share", make_share_cell(took / whole)),
            ("Gaps", make_calls_cell(sum(row.gaps for row in rows))),
            ("Longest", make_seconds_cell(max(row.longest_s for row in rows))),
            ("The host was mostly in", _make_place_cell(most)),
            ("Before", make_code_cell(most.following)),
        )
        yield SelectedItem(make_idle_key(cause), f"{crc32(cause.encode()):08x}", "idle", cause, facts, owner=owner)


def _build_idle(trace: RankTrace, end: str) -> Sequence[Block]:
    spent = sum_by_cause(trace.gaps)
    whole = sum(spent.values())
    if not whole:
        return ()
    shares = tuple(TimeShare(category=cause, seconds=took, share=took / whole) for cause, took in spent.items())
    of_step = f", {units.format_percent(whole / trace.step_s)} of the time" if trace.step_s > 0 else ""
    return (
        Bars(
            id=f"idle-causes{end}",
            title="",
            bars=(Bar(f"{units.format_seconds(whole)} {get_time_basis(trace)}{of_step}", shares),),
            label="Shares of the idle time by cause",
            whole="of the idle time",
            caption="While no device works, the critical path leads through the host or through a wait.",
        ),
        *make_table(
            f"gaps{end}",
            TITLE,
            _COLUMNS,
            [_IdleRow(row, whole) for row in trace.gaps],
            "place",
            show_title=False,
            about=lambda told: make_idle_key(told.row.cause),
        ),
    )
