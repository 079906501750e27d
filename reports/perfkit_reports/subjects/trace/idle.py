"""Idle time of the device by cause, and where the CPU was meanwhile."""

from binascii import crc32
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from perfkit.analysis.model.idle import (
    BETWEEN,
    CAUSES,
    ELSEWHERE,
    HELD_UP,
    LATE,
    OTHER_DEVICE,
    OTHER_STREAM,
    STARTING,
    SYNC,
)
from perfkit.analysis.model.launches import GapRow
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.time_split import UNRECORDED
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.trace.idle.idle_gaps import format_place
from perfkit.core import units
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
from perfkit_reports.subjects.trace.series import list_detailed_traces
from perfkit_reports.subjects.trace.trace_blocks import build_trace_blocks
from perfkit_reports.subjects.trace.trace_sentences import get_time_basis, name_critical_device

TITLE = "Idle time by cause"


_MEANING = {
    SYNC: f"“{SYNC}”: the blocking call, plus the time to the next launch if within 1 ms.",
    ELSEWHERE: f"“{ELSEWHERE}”: nothing launched for 1 ms or more.",
    LATE: f"“{LATE}”: gaps of less than 1 ms, until the launch call returned.",
    STARTING: f"“{STARTING}”: from a launch to its kernel, at most 50 us.",
    BETWEEN: f"“{BETWEEN}”: gaps of at most 10 us.",
    OTHER_STREAM: f"“{OTHER_STREAM}”: a longer gap before a kernel on a different stream than the last one.",
    HELD_UP: f"“{HELD_UP}”: a launched kernel began later than launch latency explains.",
    OTHER_DEVICE: f"“{OTHER_DEVICE}”: gaps of 1 ms or more, with work queued of more than 50 us.",
    UNRECORDED: f"“{UNRECORDED}”: the trace does not show device activity.",
}


class _IdleRow(NamedTuple):
    row: GapRow
    whole: float


def _make_place_cell(row: GapRow) -> Cell:
    if not row.is_named:
        return Cell("(shorter gaps combined)")
    return make_short_cell(format_place(row), 80)


_COLUMNS: tuple[Column[_IdleRow], ...] = (
    Column("Cause", lambda entry: make_text_cell(entry.row.cause), numeric=False),
    Column(
        "CPU activity",
        lambda entry: _make_place_cell(entry.row),
        numeric=False,
        wrap=True,
        help="for more than half of each gap; innermost first",
    ),
    Column(
        "Module or range",
        lambda entry: make_short_cell(entry.row.module or entry.row.range, 40),
        numeric=False,
        wrap=True,
        help="enclosing module or range",
    ),
    Column(
        "Next op",
        lambda entry: make_code_cell(entry.row.next_op),
        numeric=False,
        help="the op of the next kernel",
    ),
    Column("Gaps", lambda entry: make_calls_cell(entry.row.gaps), help="per step"),
    Column("Device idle", lambda entry: make_seconds_cell(entry.row.seconds), help="per step"),
    Column("% of idle time", lambda entry: make_share_cell(entry.row.seconds / entry.whole), meter=True),
    Column("Longest", lambda entry: make_seconds_cell(entry.row.longest_s)),
    Column(
        "Starts at",
        lambda entry: make_seconds_cell(entry.row.longest_start_s),
        help="start of the longest gap, from the first event of the trace",
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
    meanings = tuple(meaning for cause, meaning in _MEANING.items() if cause in shown)
    return Section("idle", TITLE, blocks, nav="Idle time", intro=meanings)


def sum_by_cause(rows: Iterable[GapRow]) -> dict[str, float]:
    """Seconds per step of each cause that took any."""
    spent: dict[str, float] = {}
    for row in rows:
        spent[row.cause] = spent.get(row.cause, 0.0) + row.seconds
    return {cause: spent[cause] for cause in CAUSES if spent.get(cause)}


def list_selected_idle(trace: RankTrace, owner: str) -> Iterator[SelectedItem]:
    """The facts of each cause, with the main CPU activity."""
    whole = sum(row.seconds for row in trace.gaps)
    for cause, took in sum_by_cause(trace.gaps).items():
        rows = [row for row in trace.gaps if row.cause == cause]
        most = max(rows, key=lambda row: row.seconds)
        facts = (
            ("Time", make_seconds_cell(took)),
            ("Share", make_share_cell(took / whole)),
            ("Gaps", make_calls_cell(sum(row.gaps for row in rows))),
            ("Longest", make_seconds_cell(max(row.longest_s for row in rows))),
            ("Main CPU activity", _make_place_cell(most)),
            ("Next op", make_code_cell(most.next_op)),
        )
        yield SelectedItem(make_idle_key(cause), f"{crc32(cause.encode()):08x}", "idle", cause, facts, owner=owner)


def _build_idle(trace: RankTrace, end: str) -> Sequence[Block]:
    spent = sum_by_cause(trace.gaps)
    whole = sum(spent.values())
    if not whole:
        return ()
    shares = tuple(TimeShare(category=cause, seconds=took, share=took / whole) for cause, took in spent.items())
    of_what = "step" if trace.steps else "trace"
    on_device = f", {name}" if (name := name_critical_device(trace)) else ""
    of_step = f", {units.format_percent(whole / trace.step_s)} of the {of_what}" if trace.step_s > 0 else ""
    return (
        Bars(
            id=f"idle-causes{end}",
            title="",
            bars=(Bar(f"{units.format_seconds(whole)} {get_time_basis(trace)}{of_step}{on_device}", shares),),
            label="Idle time by cause",
            whole="of the idle time",
            caption="While the device idles, the critical path runs through the CPU or a wait.",
        ),
        *make_table(
            f"gaps{end}",
            TITLE,
            _COLUMNS,
            [_IdleRow(row, whole) for row in trace.gaps],
            "place",
            show_title=False,
            about=lambda entry: make_idle_key(entry.row.cause),
        ),
    )
