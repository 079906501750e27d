"""Reports on mismatched collectives: the one that ranks wait in, the absent ranks, and differing shapes or order."""

from collections.abc import Iterator

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
from perfkit_reports.subjects.flight.flight_data import RankCall, build_data, list_calls
from perfkit_reports.subjects.method import build_provenance
from perfkit_reports.subjects.tables import make_table
from perfkit_reports.wording import format_plural, format_sentence

_MET = "All ranks joined every recorded collective."
_INTRO = ("The collective each rank waits in, else the last one it entered. Stacks start with the innermost frame.",)

_RANKS: tuple[Column[DumpedRank], ...] = (
    Column("Rank", lambda rank: make_integer_cell(rank.rank), weight=Weight.BRIEF),
    Column("State", lambda rank: _make_state_cell(rank), numeric=False, weight=Weight.BRIEF),
    Column("Collective", lambda rank: _make_op_cell(_get_call(rank)), numeric=False, code=True, weight=Weight.BRIEF),
    Column("Number", lambda rank: _make_number_cell(_get_call(rank)), help="in its process group", weight=Weight.BRIEF),
    Column("Group", lambda rank: make_text_cell(rank.group), numeric=False),
    Column("Shapes", lambda rank: _make_shapes_cell(_get_call(rank)), numeric=False, wrap=True),
    Column(
        "Called at",
        lambda rank: _make_site_cell(_get_call(rank)),
        numeric=False,
        code=True,
        wrap=True,
        weight=Weight.BRIEF,
    ),
    Column(
        "Unfinished",
        lambda rank: make_integer_cell(rank.unfinished),
        help="collectives entered and not finished",
    ),
    Column(
        "Recorded",
        lambda rank: make_integer_cell(rank.collectives),
        help="collectives in its dump",
        weight=Weight.DETAIL,
    ),
    Column("File", lambda rank: make_text_cell(rank.file), numeric=False, wrap=True, weight=Weight.DETAIL),
)
_CALLS: tuple[Column[RankCall], ...] = (
    Column("Rank", lambda row: make_integer_cell(row.rank), weight=Weight.BRIEF),
    Column("Collective", lambda row: _make_op_cell(row.call), numeric=False, code=True, weight=Weight.BRIEF),
    Column("State", lambda row: Cell(_describe_state(row.call)), numeric=False, weight=Weight.BRIEF),
    Column(
        "Inputs", lambda row: make_text_cell("" if row.call is None else str(row.call.inputs)), numeric=False, wrap=True
    ),
    Column(
        "Outputs",
        lambda row: make_text_cell("" if row.call is None else str(row.call.outputs)),
        numeric=False,
        wrap=True,
    ),
    Column("Size", lambda row: _make_size_cell(row.call)),
    Column("Called at", lambda row: _make_site_cell(row.call), numeric=False, code=True, wrap=True),
)


def build_document(analysis: FlightAnalysis) -> Document:
    """Findings first, then the calls of each mismatched collective, then every rank."""
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
        saves=FLIGHT_REPORT_FILE,
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
    if analysis.mismatched_collectives:
        blocks = [
            block
            for place, meeting in enumerate(analysis.mismatched_collectives, 1)
            for block in _build_meeting(meeting, place)
        ]
        yield Section("meetings", "Mismatched collectives", tuple(blocks), nav="Mismatches")
    yield Section("ranks", "Ranks", tuple(_build_ranks(analysis)), intro=_INTRO)
    yield Section("method", "Method", (_build_method(analysis), build_provenance(analysis.provenance)))


def _build_meeting(meeting: MismatchedCollective, place: int) -> Iterator[Block]:
    rows = list_calls(meeting)
    title = f"{meeting.name}: {meeting.mismatch}"
    yield from make_table(f"calls-{place}", title, _CALLS, rows, "rank", limit=None)


def _build_ranks(analysis: FlightAnalysis) -> Iterator[Block]:
    yield from make_table(
        "ranks-all", "Ranks", _RANKS, analysis.ranks, "rank", limit=None, show_title=False, details=_build_stack
    )


def _build_stack(rank: DumpedRank) -> tuple[Block, ...]:
    call = _get_call(rank)
    if call is None or not call.frames:
        return ()
    stack = "\n".join(map(str, call.frames))
    return (Text(id=f"stack-{rank.rank}", title="Call stack", lines=(stack,), style="code", weight=Weight.DETAIL),)


def _get_call(rank: DumpedRank) -> RecordedCollective | None:
    return rank.pending_collective or rank.last_collective


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
