"""Python stacks sampled in a loop and its DataLoader workers."""

from collections.abc import Iterable, Iterator

from perfkit.analysis.model.stacks import HotLine, LoopStacks, ThreadStacks
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.stacks.hot_lines import LEAST_SAMPLES
from perfkit.core.units import format_percent, format_seconds
from perfkit.store.stacks import COLLAPSED_FILE, SPEEDSCOPE_FILE
from perfkit_reports.document.blocks import Block, Details, Facts, Group, Section, Table, Text
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.subjects.loop import loop_facts
from perfkit_reports.wording import format_plural

_INTRO = (
    (
        "Python stacks of the loop and its DataLoader workers, sampled by py-spy for some seconds after all other "
        "recording. Sampling does not affect other figures."
    ),
    "Lines that run Python and lines that call native code differ only in their GIL state.",
)
_HELD = "Python, or native code that holds the GIL; the rest is torch ops, or waiting for data, a device or a lock"


def make_share_cell(value: float) -> Cell:
    return Cell(format_percent(value), value=value)


def _make_lock_cell(line: HotLine) -> Cell:
    return Cell(NOTHING) if line.lock_share is None else make_share_cell(line.lock_share)


_NAMES: tuple[Column[HotLine], ...] = (
    Column("Function", lambda line: Cell(line.function), numeric=False, code=True, wrap=True, weight=Weight.BRIEF),
    Column("Line", lambda line: Cell(line.place), numeric=False, code=True, wrap=True, weight=Weight.BRIEF),
)
LINES: tuple[Column[HotLine], ...] = (
    *_NAMES,
    Column(
        "Share",
        lambda line: make_share_cell(line.share),
        meter=True,
        weight=Weight.BRIEF,
        help="samples on this line or in library code it calls",
    ),
    Column(
        "Self",
        lambda line: make_share_cell(line.self_share),
        help="samples on this line, not in Python functions it calls",
    ),
    Column(
        "Total", lambda line: make_share_cell(line.total_share), help="samples on this line or in anything it calls"
    ),
    Column(
        "GIL held",
        _make_lock_cell,
        help="approximate share with the GIL held: " + _HELD,
    ),
    Column("Main phase", lambda line: Cell(line.library_function or NOTHING), numeric=False, code=True, wrap=True),
)
_LIBRARIES: tuple[Column[HotLine], ...] = (
    *_NAMES,
    Column("Self", lambda line: make_share_cell(line.self_share), meter=True, weight=Weight.BRIEF),
    Column("Total", lambda line: make_share_cell(line.total_share)),
)


def build_sections(analysis: Analysis) -> Iterator[Section]:
    """Hot lines of every sampled recording; nothing without any."""
    groups = []
    sampled = [
        (variant.name, loop.stacks) for variant, loop in loop_facts.list_loops(analysis) if loop.stacks is not None
    ]
    for place, (name, stacks) in enumerate(sampled):
        title = name if len(analysis.variants) > 1 else ""
        groups.append(Group(id=f"stacks-{place}", title=title, blocks=tuple(_build_threads(stacks, place))))
    files = ""
    if any(stacks.loop is not None for _, stacks in sampled):
        files = (
            f"Flame graphs: rank0/{SPEEDSCOPE_FILE} (speedscope.app) and rank0/{COLLAPSED_FILE} in the run's folder."
        )
    where = [Text(id="stacks-files", lines=(files,), style="caption")] if files else []
    if groups:
        yield Section("stacks", "Python stacks", (*groups, *where), intro=_INTRO if files else ())


def _build_threads(stacks: LoopStacks, place: int) -> Iterator[Block]:
    if stacks.reason:
        why = f"Stacks were not sampled{'' if stacks.loop is None else ' on all ranks'}: {flatten_text(stacks.reason)}"
        yield Text(id=f"stacks-{place}-none", lines=(why,), style="callout")
    if stacks.loop is not None:
        cost = (
            "Sampling cost",
            Cell(f"{format_percent(stacks.sampling_cost)} of a core", detail="in addition to the program"),
        )
        failed = [("Failed samples", Cell(format_percent(stacks.failed_share)))] if stacks.failed_share else []
        others = (
            [("In atypical steps", Cell(format_percent(stacks.other_steps_share, 0)))]
            if stacks.other_steps_share
            else []
        )
        yield from _build_thread(stacks.loop, f"stacks-{place}-loop", "Loop", (*others, cost, *failed))
    if stacks.workers is not None:
        count = format_plural(stacks.workers.processes, "worker process", "worker processes")
        yield from _build_thread(stacks.workers, f"stacks-{place}-workers", f"{count} of DataLoaders")


def _build_thread(
    thread: ThreadStacks, name: str, title: str, beside: Iterable[tuple[str, Cell]] = ()
) -> Iterator[Block]:
    yield Facts(id=f"{name}-facts", title=title, items=(*_list_facts(thread), *beside))
    if thread.samples < LEAST_SAMPLES:
        few = f"Only {format_plural(thread.samples, 'sample')}: shares are imprecise. The loop ended during sampling."
        yield Text(id=f"{name}-few", lines=(few,), style="callout")
    if thread.lines:
        yield _build_table(f"{name}-lines", f"{title}: program lines", LINES, thread.lines)
    if thread.libraries:
        table = _build_table(f"{name}-libraries", f"{title}: library lines", _LIBRARIES, thread.libraries)
        yield Details(id=f"{name}-more", title=f"{title}: library lines", blocks=(table,), weight=Weight.DETAIL)


def _build_table(name: str, title: str, columns: tuple[Column[HotLine], ...], rows: tuple[HotLine, ...]) -> Table:
    return Table(id=name, title=title, columns=columns, rows=rows, what="line", limit=10)


def _list_facts(thread: ThreadStacks) -> Iterator[tuple[str, Cell]]:
    yield (
        "Samples",
        Cell(f"{thread.samples:,}, {thread.hz:g} per second", detail=f"in {format_seconds(thread.seconds)}"),
    )
    if thread.idle_samples:
        share = thread.idle_samples / (thread.idle_samples + thread.samples)
        yield "Waiting for requests", Cell(format_percent(share, 0), detail="excluded from the shares")
    if thread.lock_share is not None:
        yield "GIL held", Cell(format_percent(thread.lock_share, 0), detail=_HELD)
    phases = sorted(thread.phases.items(), key=lambda phase: -phase[1])
    if any(phase for phase, _ in phases):
        yield (
            "Phases",
            Cell(", ".join(f"{phase or 'between phases'} {format_percent(share, 0)}" for phase, share in phases)),
        )
    if thread.perfkit_share:
        yield "In perfkit's hooks", Cell(format_percent(thread.perfkit_share))
    if thread.unnamed_share:
        yield "Outside program lines", Cell(format_percent(thread.unnamed_share))
