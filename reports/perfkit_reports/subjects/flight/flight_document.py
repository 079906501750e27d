"""Reports on mismatched collectives: the one that ranks wait in, the absent ranks, and differing shapes or order."""

from collections.abc import Iterator, Sequence

from perfkit.analysis.model.flight import DumpedRank, FlightAnalysis
from perfkit.core import units
from perfkit.flight.flight_record import RecordedCollective
from perfkit.flight.mismatch import MismatchedCollective
from perfkit.store.summary import FLIGHT_REPORT_FILE, SUMMARY_FILE, ReportSummary, compute_digest, make_unknown_figures
from perfkit_reports.cells import make_integer_cell, make_optional_cell, make_text_cell
from perfkit_reports.document.blocks import Block, Facts, Section, Text, Tile
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects import findings
from perfkit_reports.subjects.flight.equal_ranks import (
    MOST_RANKS,
    EqualRanks,
    format_rank_ranges,
    format_span,
    merge_equal_ranks,
)
from perfkit_reports.subjects.flight.flight_data import RankCall, build_data, list_calls
from perfkit_reports.subjects.method import build_provenance
from perfkit_reports.subjects.tables import make_table
from perfkit_reports.wording import format_plural, format_sentence

_MET = "All ranks joined every recorded collective."
_INTRO = ("The collective each rank waits in, else the last one it entered. Stacks start with the innermost frame.",)

_MOST_MEETINGS = 40  # tables

DumpedRanks = EqualRanks[DumpedRank]
_RANKS: tuple[Column[DumpedRanks], ...] = (
    Column("Rank", lambda row: _make_ranks_cell(row.ranks), weight=Weight.BRIEF),
    Column("State", lambda row: _make_state_cell(row.rows[0]), numeric=False, weight=Weight.BRIEF),
    Column(
        "Collective", lambda row: _make_op_cell(_get_call(row.rows[0])), numeric=False, code=True, weight=Weight.BRIEF
    ),
    Column(
        "Number",
        lambda row: _make_number_cell(_get_call(row.rows[0])),
        help="in its process group",
        weight=Weight.BRIEF,
    ),
    Column("Group", lambda row: make_text_cell(row.rows[0].group), numeric=False),
    Column("Shapes", lambda row: _make_shapes_cell(_get_call(row.rows[0])), numeric=False, wrap=True),
    Column(
        "Called at",
        lambda row: _make_site_cell(_get_call(row.rows[0])),
        numeric=False,
        code=True,
        wrap=True,
        weight=Weight.BRIEF,
    ),
    Column(
        "Unfinished",
        lambda row: Cell(format_span(rank.unfinished for rank in row.rows)),
        help="collectives entered and not finished",
    ),
    Column(
        "Recorded",
        lambda row: Cell(format_span(rank.collectives for rank in row.rows)),
        help="collectives in its dump",
        weight=Weight.DETAIL,
    ),
    Column("File", lambda row: make_text_cell(_format_files(row.rows)), numeric=False, wrap=True, weight=Weight.DETAIL),
)
RankCalls = EqualRanks[RankCall]
_CALLS: tuple[Column[RankCalls], ...] = (
    Column("Rank", lambda row: _make_ranks_cell(row.ranks), weight=Weight.BRIEF),
    Column("Collective", lambda row: _make_op_cell(row.rows[0].call), numeric=False, code=True, weight=Weight.BRIEF),
    Column("State", lambda row: Cell(_describe_state(row.rows[0].call)), numeric=False, weight=Weight.BRIEF),
    Column("Inputs", lambda row: _make_tensors_cell(row.rows[0].call, "inputs"), numeric=False, wrap=True),
    Column("Outputs", lambda row: _make_tensors_cell(row.rows[0].call, "outputs"), numeric=False, wrap=True),
    Column("Size", lambda row: _make_size_cell(row.rows[0].call)),
    Column("Called at", lambda row: _make_site_cell(row.rows[0].call), numeric=False, code=True, wrap=True),
)


def build_document(analysis: FlightAnalysis) -> Document:
    """Findings first, then the calls of each mismatched collective, then every rank.

    With many ranks, those at the same call share a row, and the page does not hold the analysis, which lies beside it.
    """
    return Document(
        kind="flight",
        title=analysis.title,
        eyebrow=("flight recorder", analysis.title, analysis.created_at[:10]),
        headline=build_headline(analysis),
        perfkit=analysis.perfkit,
        created_at=analysis.created_at,
        tiles=tuple(_build_tiles(analysis)),
        warnings=analysis.warnings,
        sections=tuple(_build_sections(analysis)),
        data=build_data(analysis),
        raw={FLIGHT_REPORT_FILE: analysis, SUMMARY_FILE: _build_summary(analysis)},
        saves=FLIGHT_REPORT_FILE if len(analysis.ranks) <= MOST_RANKS else "",
    )


def build_headline(analysis: FlightAnalysis) -> str:
    """The first finding, which often causes the others."""
    if not analysis.findings:
        return _MET
    return format_sentence(analysis.findings[0].title)


def _build_tiles(analysis: FlightAnalysis) -> Iterator[Tile]:
    waiting = [rank for rank in analysis.ranks if rank.pending_collective is not None]
    yield Tile("Ranks", Cell(f"{len(analysis.ranks):,}", detail="with a dump"))
    yield Tile("Waiting", Cell(f"{len(waiting):,}", detail="in an unfinished collective"))
    yield Tile("Collectives", Cell(f"{sum(rank.collectives for rank in analysis.ranks):,}", detail="total over ranks"))


def _build_sections(analysis: FlightAnalysis) -> Iterator[Section]:
    yield findings.build_section(analysis.findings, "", _MET)
    meetings = analysis.mismatched_collectives
    if meetings:
        blocks = [
            block
            for place, meeting in enumerate(meetings[:_MOST_MEETINGS], 1)
            for block in _build_meeting(meeting, place)
        ]
        more = len(meetings) - _MOST_MEETINGS
        rest = (f"{format_plural(more, 'more mismatched collective')}: see tables/calls.parquet.",) if more > 0 else ()
        yield Section("meetings", "Mismatched collectives", tuple(blocks), nav="Mismatches", intro=rest)
    yield Section("ranks", "Ranks", tuple(_build_ranks(analysis)), intro=_INTRO)
    yield Section("method", "Method", (_build_method(analysis), build_provenance(analysis.provenance)), folded=True)


def _build_meeting(meeting: MismatchedCollective, place: int) -> Iterator[Block]:
    rows = merge_equal_ranks(list_calls(meeting), lambda row: row.rank, lambda row: _identify_call(row.call))
    title = f"{meeting.name}: {meeting.mismatch}"
    yield from make_table(f"calls-{place}", title, _CALLS, rows, "rank", limit=MOST_RANKS)


def _build_ranks(analysis: FlightAnalysis) -> Iterator[Block]:
    rows = merge_equal_ranks(analysis.ranks, lambda rank: rank.rank, _identify_position)
    yield from make_table(
        "ranks-all", "Ranks", _RANKS, rows, "rank", limit=MOST_RANKS, show_title=False, details=_build_stack
    )


def _identify_call(call: RecordedCollective | None) -> tuple[object, ...]:
    """All that a row shows of a call: ranks with equal ones share a row."""
    if call is None:
        return ()
    return (call.op, call.sequence, _describe_state(call), call.inputs, call.outputs, call.frames)


def _identify_position(rank: DumpedRank) -> tuple[object, ...]:
    return rank.pending_collective is not None, rank.group, _identify_call(_get_call(rank))


def _build_stack(row: DumpedRanks) -> tuple[Block, ...]:
    call = _get_call(row.rows[0])
    if call is None or not call.frames:
        return ()
    stack = "\n".join(map(str, call.frames))
    return (Text(id=f"stack-{row.ranks[0]}", title="Call stack", lines=(stack,), style="code", weight=Weight.DETAIL),)


def _get_call(rank: DumpedRank) -> RecordedCollective | None:
    return rank.pending_collective or rank.last_collective


def _make_ranks_cell(ranks: Sequence[int]) -> Cell:
    if len(ranks) == 1:
        return make_integer_cell(ranks[0])
    return Cell(format_rank_ranges(ranks), detail=format_plural(len(ranks), "rank"))


def _format_files(ranks: Sequence[DumpedRank]) -> str:
    more = len(ranks) - 1
    return f"{ranks[0].file} and {more:,} more" if more else ranks[0].file


def _make_tensors_cell(call: RecordedCollective | None, side: str) -> Cell:
    return make_text_cell("" if call is None else str(getattr(call, side)))


def _make_state_cell(rank: DumpedRank) -> Cell:
    if rank.pending_collective is not None:
        return Cell("waits in", tone="bad")
    return Cell("entered last") if rank.last_collective is not None else Cell("entered none")


def _make_op_cell(call: RecordedCollective | None) -> Cell:
    return make_text_cell("" if call is None else call.op)


def _make_number_cell(call: RecordedCollective | None) -> Cell:
    return make_text_cell("") if call is None else make_integer_cell(call.sequence)


def _make_shapes_cell(call: RecordedCollective | None) -> Cell:
    return make_text_cell("" if call is None else str(call.tensors))


def _make_site_cell(call: RecordedCollective | None) -> Cell:
    return make_text_cell("" if call is None else call.call_site)


def _describe_state(call: RecordedCollective | None) -> str:
    if call is None:
        return "not entered"
    return "ended" if call.finished else call.state


def _make_size_cell(call: RecordedCollective | None) -> Cell:
    if call is None:
        return make_text_cell("")
    return make_optional_cell(call.tensors.bytes, units.format_bytes, "dtype size unknown")


def _build_method(analysis: FlightAnalysis) -> Facts:
    items = [("Files", Cell(format_plural(len(analysis.ranks), "dump"), detail=analysis.ranks[0].file))]
    items += [("Command", Cell(analysis.command))] if analysis.command else []
    return Facts(id="method-files", items=(*items, ("perfkit", Cell(analysis.perfkit))))


def _build_summary(analysis: FlightAnalysis) -> ReportSummary:
    return ReportSummary(
        kind="flight",
        name=analysis.title,
        created_at=analysis.created_at,
        sources=compute_digest(rank.file for rank in analysis.ranks),
        figures=make_unknown_figures("not recorded by a flight recorder"),
        reason=build_headline(analysis),
    )
