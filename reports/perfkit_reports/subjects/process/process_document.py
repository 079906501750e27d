"""The document of a look at a running process."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from perfkit.analysis.model.stacks import HotLine, ProcessAnalysis, WatchedThread
from perfkit.analysis.stacks.hot_lines import LEAST_SAMPLES
from perfkit.core.note import Note, make_note
from perfkit.core.record.quantity import Quantity, Unknown
from perfkit.core.units import format_bytes, format_percent, format_seconds
from perfkit.flight.mismatch_text import format_ranks
from perfkit.store.stacks import COLLAPSED_FILE, SPEEDSCOPE_FILE
from perfkit.store.summary import PROCESS_FILE, SUMMARY_FILE, ReportSummary, make_unknown_figures
from perfkit_reports.document.blocks import Block, Facts, Section, Text, Tile
from perfkit_reports.document.cells import NOT_KNOWN, Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.names import shorten_middle
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.subjects import findings
from perfkit_reports.subjects.loop.stacks import make_share_cell
from perfkit_reports.subjects.tables import make_table
from perfkit_reports.wording import format_plural

_INTRO = (
    "Python stacks of each thread, sampled by py-spy; waiting threads are sampled, too.",
    "Native code counts for the line that calls it. The GIL holder is unknown.",
)
_NOTHING = "No known pattern in the main thread; see its lines."
_COMMAND = 300  # characters, of which more would hide the rest
_OF_EACH = 6  # lines
_GROUPS = 2  # of ranks at one line that a headline has
_IMPORTED = "<module>"  # the code of a module, which runs once, as it is imported


class _ThreadLine(NamedTuple):
    thread: WatchedThread
    line: HotLine


_COLUMNS: tuple[Column[_ThreadLine], ...] = (
    Column(
        "Line",
        lambda row: Cell(row.line.place, detail=row.line.function),
        numeric=False,
        code=True,
        wrap=True,
        weight=Weight.BRIEF,
    ),
    Column("Thread", lambda row: Cell(_format_thread(row.thread)), numeric=False, wrap=True, weight=Weight.BRIEF),
    Column(
        "Share",
        lambda row: make_share_cell(row.line.share),
        meter=True,
        weight=Weight.BRIEF,
        help="of the thread's samples: this line and the library calls below it",
    ),
    Column(
        "Self",
        lambda row: make_share_cell(row.line.self_share),
        help="samples in this line itself",
    ),
    Column("Total", lambda row: make_share_cell(row.line.total_share), help="samples in this line and all its callees"),
    Column("Mostly in", lambda row: Cell(row.line.library_function or "–"), numeric=False, code=True, wrap=True),
)


def build_document(analysis: ProcessAnalysis) -> Document:
    """The main thread comes first."""
    process = analysis.process
    name = f"process {process.pid}"
    return Document(
        kind="process",
        title=name,
        eyebrow=("perfkit attach", name, analysis.created_at[:10]),
        headline=build_headline(analysis),
        perfkit=analysis.perfkit,
        created_at=analysis.created_at,
        lead=(_format_program(analysis), *_describe_launcher(analysis)),
        tiles=tuple(_build_tiles(analysis)),
        warnings=tuple(_list_warnings(analysis)),
        sections=(
            findings.build_section(analysis.findings, "", _NOTHING),
            Section("stacks", "Python stacks", tuple(_build_stacks(analysis)), intro=_INTRO),
            Section("method", "Method", (_build_method(analysis),), folded=True),
        ),
        raw={PROCESS_FILE: analysis, SUMMARY_FILE: _build_summary(analysis)},
        saves=PROCESS_FILE,
    )


def build_headline(analysis: ProcessAnalysis) -> str:
    """The line with most of the main thread's time; of ranks the line of each, those at one line together."""
    mains = [thread for thread in analysis.threads if thread.main]
    if not mains:
        return f"The main thread of process {analysis.process.pid} was not sampled"
    if not any(main.stacks.lines for main in mains):
        return f"The main thread of process {analysis.process.pid} ran no line of its program"
    if not analysis.process.rank_pids:
        top = mains[0].stacks.lines[0]
        return f"Main thread: {format_percent(top.share, 0)} of its time at {_describe_line(top)}"
    by_line: dict[tuple[str, str], list[WatchedThread]] = {}
    for main in mains:
        for line in main.stacks.lines[:1]:
            by_line.setdefault((line.function, line.place), []).append(main)
    groups = sorted(by_line.values(), key=len)[:_GROUPS]  # the odd rank out first
    headline = "; ".join(map(_describe_group, groups))
    return headline[0].upper() + headline[1:]


def _describe_group(mains: list[WatchedThread]) -> str:
    """`rank 1: 98 % of its time at train.py:12 in loss, mostly in all_reduce`; of several ranks the mean."""
    ranks = _format_workers([main.rank for main in mains])
    share = fmean(main.stacks.lines[0].share for main in mains)
    whose = "its" if len(mains) == 1 else "their"
    where = _describe_line(mains[0].stacks.lines[0])
    return f"{ranks}: {format_percent(share, 0)} of {whose} time at {where}"


def _describe_line(line: HotLine) -> str:
    where = f"{flatten_text(line.place)} in {flatten_text(line.function)}"
    if line.library_function == _IMPORTED:
        return f"{where}, mostly importing"
    return where + (f", mostly in {flatten_text(line.library_function)}" if line.library_function else "")


def _build_tiles(analysis: ProcessAnalysis) -> Iterator[Tile]:
    process = analysis.process
    yield Tile("CPU", _make_known_cell(process.cpu, lambda value: format_percent(value, 0)))
    yield Tile("Resident memory", _make_known_cell(process.resident, format_bytes))
    yield Tile("GPU memory", _make_known_cell(process.device_memory, format_bytes))
    yield Tile("Uptime", Cell(format_seconds(process.age_s)))
    yield Tile(
        "Threads",
        Cell(f"{process.threads}", detail=format_plural(process.children, "child process", "child processes")),
    )


def _make_known_cell(quantity: Quantity, show: Callable[[float], str]) -> Cell:
    if isinstance(quantity, Unknown):
        return Cell(NOT_KNOWN, reason=quantity.reason)
    return Cell(show(quantity.value), value=quantity.value)


def _list_warnings(analysis: ProcessAnalysis) -> Iterator[Note]:
    process = analysis.process
    if process.has_ended:
        text = f"The process ended while it was sampled: samples cover {format_seconds(process.seconds)}."
        yield make_note("process.ended", text, seconds=process.seconds)
    if process.interrupted:
        text = f"Stopped by Ctrl-C: samples cover {format_seconds(process.seconds)}."
        yield make_note("process.interrupted", text, seconds=process.seconds)
    if process.failed_samples:
        text = f"{format_plural(process.failed_samples, 'sample')} failed."
        yield make_note("process.failed_samples", text, samples=process.failed_samples)
    main = next((thread for thread in analysis.threads if thread.main), None)
    if main is not None and main.stacks.samples < LEAST_SAMPLES:
        text = (
            f"Only {format_plural(main.stacks.samples, 'sample')} of the main thread: shares are inaccurate. Use a "
            "longer --duration."
        )
        yield make_note("process.few_samples", text, samples=main.stacks.samples)


def _build_stacks(analysis: ProcessAnalysis) -> Iterator[Block]:
    rows = [_ThreadLine(thread, line) for thread in analysis.threads for line in thread.stacks.lines[:_OF_EACH]]
    yield from make_table("stacks-lines", "Program lines", _COLUMNS, rows, "line", data="")
    libraries = [
        _ThreadLine(thread, line)
        for thread in analysis.threads
        for line in thread.stacks.libraries[: _OF_EACH if thread.main or not thread.stacks.lines else 2]
    ]
    columns = tuple(column for column in _COLUMNS if column.title not in ("Share", "Mostly in"))
    yield from make_table(
        "stacks-libraries", "Innermost library lines", columns, libraries, "line", data="", weight=Weight.DETAIL
    )
    files = f"Flame graphs: {SPEEDSCOPE_FILE} (speedscope.app) and {COLLAPSED_FILE} in the report's folder."
    yield Text(id="stacks-files", lines=(files,), style="caption")


def _format_program(analysis: ProcessAnalysis) -> str:
    return shorten_middle(flatten_text(shlex.join(analysis.process.command)), _COMMAND)


def _describe_launcher(analysis: ProcessAnalysis) -> Iterator[str]:
    process = analysis.process
    if process.rank_pids:
        ranks = [process.ranks[pid] for pid in process.rank_pids]
        yield f"Process {process.pid} is a launcher and is left out: it started {_format_workers(ranks)}."
        if process.spawned and any(rank is not None for rank in ranks):
            yield "A rank is the index that torch.multiprocessing gave its process."


def _format_workers(ranks: Sequence[int | None]) -> str:
    """`ranks 0 and 1`, `rank 0 and 1 process of unknown rank`."""
    known = [rank for rank in ranks if rank is not None]
    unknown = len(ranks) - len(known)
    parts = [format_ranks(known)] if known else []
    parts += [f"{format_plural(unknown, 'process', 'processes')} of unknown rank"] if unknown else []
    return " and ".join(parts)


def _format_thread(thread: WatchedThread) -> str:
    rank = "" if thread.rank is None else f"rank {thread.rank} "
    return f"{rank}{flatten_text(thread.name)} {thread.pid}"


def _build_method(analysis: ProcessAnalysis) -> Facts:
    process = analysis.process
    sampled = f"{process.hz:g} per second for {format_seconds(process.seconds)}"
    items = [
        ("Program", Cell(_format_program(analysis))),
        ("Process", Cell(f"{process.pid}", detail=f"in {flatten_text(process.directory)}")),
        ("Samples", Cell(sampled, detail="the process is paused for each sample")),
    ]
    items += [("Command", Cell(flatten_text(analysis.command)))] if analysis.command else []
    return Facts(id="method-process", items=(*items, ("perfkit", Cell(analysis.perfkit))))


def _build_summary(analysis: ProcessAnalysis) -> ReportSummary:
    return ReportSummary(
        kind="process",
        name=f"process {analysis.process.pid}",
        created_at=analysis.created_at,
        figures=make_unknown_figures("not measured when sampling a process"),
        reason=build_headline(analysis),
    )
