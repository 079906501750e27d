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
from perfkit_reports.cells import calls, code, seconds, share, short, text
from perfkit_reports.document.blocks import Bar, Bars, Block, Section
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.chosen import Chosen
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.selection import idle_key
from perfkit_reports.subjects.tables import table
from perfkit_reports.subjects.trace.parts import by_trace
from perfkit_reports.subjects.trace.series import detailed
from perfkit_reports.subjects.trace.story import per

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


class _Told(NamedTuple):
    row: GapRow
    whole: float


def _place(row: GapRow) -> Cell:
    if not row.named:
        return Cell("(shorter ones together)")
    return short(format_place(row), 80)


_COLUMNS: tuple[Column[_Told], ...] = (
    Column("Cause", lambda told: text(told.row.cause), numeric=False),
    Column(
        "The host was in",
        lambda told: _place(told.row),
        numeric=False,
        wrap=True,
        help="for more than half of each gap, the innermost first",
    ),
    Column(
        "Module or range",
        lambda told: short(told.row.module or told.row.range, 40),
        numeric=False,
        wrap=True,
        help="around what the host was in",
    ),
    Column("Before", lambda told: code(told.row.following), numeric=False, help="the op of the kernel that came next"),
    Column("Gaps", lambda told: calls(told.row.gaps), help="per step"),
    Column("Device idle", lambda told: seconds(told.row.seconds), help="per step"),
    Column("Of the idle time", lambda told: share(told.row.seconds / told.whole), meter=True),
    Column("Longest", lambda told: seconds(told.row.longest_s)),
    Column(
        "At",
        lambda told: seconds(told.row.longest_start_s),
        help="when the longest began, since the first event of the trace",
        weight=Weight.DETAIL,
    ),
)


def idle(analysis: TraceAnalysis) -> Section | None:
    """The causes of each trace's idle time; None where no device was idle."""
    traces = detailed(analysis)
    blocks = by_trace("idle", traces, _idle)
    if not blocks:
        return None
    shown = {row.cause for trace in traces for row in trace.gaps if row.seconds > 0}
    told = tuple(meaning for cause, meaning in _MEANING.items() if cause in shown)
    return Section("idle", TITLE, blocks, nav="Idle time", intro=told)


def by_cause(rows: Iterable[GapRow]) -> dict[str, float]:
    """Seconds per step of each cause that took any."""
    spent: dict[str, float] = {}
    for row in rows:
        spent[row.cause] = spent.get(row.cause, 0.0) + row.seconds
    return {cause: spent[cause] for cause in CAUSES if spent.get(cause)}


def chosen_idle(trace: RankTrace, owner: str) -> Iterator[Chosen]:
    """What a page tells of each cause, and of the place of the host in which most of it passed."""
    whole = sum(row.seconds for row in trace.gaps)
    for cause, took in by_cause(trace.gaps).items():
        rows = [row for row in trace.gaps if row.cause == cause]
        most = max(rows, key=lambda row: row.seconds)
        facts = (
            ("Time", seconds(took)),
            ("Share", share(took / whole)),
            ("Gaps", calls(sum(row.gaps for row in rows))),
            ("Longest", seconds(max(row.longest_s for row in rows))),
            ("The host was mostly in", _place(most)),
            ("Before", code(most.following)),
        )
        yield Chosen(idle_key(cause), f"{crc32(cause.encode()):08x}", "idle", cause, facts, owner=owner)


def _idle(trace: RankTrace, end: str) -> Sequence[Block]:
    spent = by_cause(trace.gaps)
    whole = sum(spent.values())
    if not whole:
        return ()
    shares = tuple(TimeShare(category=cause, seconds=took, share=took / whole) for cause, took in spent.items())
    of_step = f", {units.percent(whole / trace.step_s)} of the time" if trace.step_s > 0 else ""
    return (
        Bars(
            id=f"idle-causes{end}",
            title="",
            bars=(Bar(f"{units.seconds(whole)} {per(trace)}{of_step}", shares),),
            label="Shares of the idle time by cause",
            whole="of the idle time",
            caption="While no device works, the critical path leads through the host or through a wait.",
        ),
        *table(
            f"gaps{end}",
            TITLE,
            _COLUMNS,
            [_Told(row, whole) for row in trace.gaps],
            "place",
            show_title=False,
            about=lambda told: idle_key(told.row.cause),
        ),
    )
