"""The memory section of every report: balance at the peak, and each holder in detail."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from perfkit.analysis.model.memory_model import MemoryAccount, MemoryRow
from perfkit.core import units
from perfkit_reports.charts import memory_flame, memory_peak, memory_steps, memory_timeline
from perfkit_reports.document.blocks import Block, Choice, Details, Facts, Group, Section, Table, Text
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.weight import Weight
from perfkit_reports.holders import Holder
from perfkit_reports.selection import make_memory_key
from perfkit_reports.subjects.memory import balance, memory_columns, memory_sentences
from perfkit_reports.subjects.memory.rows import ModuleRow, group_by_module, group_equal_blocks
from perfkit_reports.subjects.tables import make_table
from perfkit_reports.wording import format_plural

ROWS = 120  # maximum rows of a table with one holder
_ALL_ROWS, _LEAST_ROWS = 80, 12  # of the tables of one kind of several holders, and of each of them
_INTRO = "Live memory at the peak. Each byte counts in one category; the parts sum to the peak."


def build_section(
    holders: Sequence[Holder],
    what: str,
    *,
    weight: Weight = Weight.NORMAL,
    peak: Weight = Weight.NORMAL,
    words: bool = True,
    peaks: Sequence[Block] | None = None,
    timelines: bool = True,
) -> Section:
    """The memory section; `what` names a holder: `variant`, `device` or `trace`.

    `weight` is that of failures, `peak` that of the categories at the peak. With `words`, formats
    without charts have a table of these. `peaks`, if given, replace the chart of the categories. Without `timelines`
    the charts over time are elsewhere (`build_timelines`).
    """
    title = "Memory use"
    if not holders:
        nothing = Text(id="memory-none", lines=("No memory was recorded.",), style="empty")
        return Section("memory", title, (nothing,), nav="Memory")
    flame = memory_flame.build_flame(holders, what)
    blocks = (
        *_build_failures(holders, weight),
        *(_build_peak(holders, what, peak, words) if peaks is None else peaks),
        *_build_holders(holders, what, timelines=timelines),
        *([Details(id="memory-tree", title=flame.title, blocks=(replace(flame, title=""),))] if flame else []),
        Details(id="memory-sums", title="Balance", blocks=(_build_balance(holders, what),)),
    )
    return Section("memory", title, blocks, nav="Memory", intro=(_INTRO,))


def build_timelines(holders: Sequence[Holder], what: str) -> tuple[Block, ...]:
    """Memory over time of each holder, one at a time; `what` names a holder."""
    charts = [_build_timeline(holder, place) for place, holder in enumerate(holders)]
    if len(charts) <= 1:
        return tuple(charts)
    options: dict[tuple[str, ...], Block] = {
        (holder.name,): chart for holder, chart in zip(holders, charts, strict=True)
    }
    return (Choice(id="memory-timelines", keys=(what.capitalize(),), options=options),)


def _build_timeline(holder: Holder, place: int) -> Block:
    empty = Text(id=f"memory-timeline-{place}", lines=("No timeline was recorded.",), style="empty")
    return memory_timeline.build_chart(holder, place) or empty


def _build_failures(holders: Sequence[Holder], weight: Weight) -> list[Block]:
    """Failed requests of holders that ran out of memory."""
    return [
        Text(
            id=f"memory-failed-{place}",
            title="Out of memory" if len(holders) == 1 else f"{holder.name} ran out of memory",
            lines=tuple(lines),
            style="alarm",
            weight=weight,
        )
        for place, holder in enumerate(holders)
        if (lines := memory_sentences.describe_failure(holder.account))
    ]


def _build_peak(holders: Sequence[Holder], what: str, peak: Weight, words: bool) -> list[Block]:
    parts = [
        (holder, part) for holder in holders for part in sorted(holder.account.categories, key=lambda part: -part.bytes)
    ]
    table_columns = (
        memory_columns.CATEGORIES
        if len(holders) == 1
        else (memory_columns.build_owner_column(what), *memory_columns.CATEGORIES)
    )
    named = {"whats": "categories", "data": "memory", "limit": ROWS}
    same = make_table("memory-categories", "At the peak", table_columns, parts, "category", **named)
    chart = memory_peak.build_chart(holders, what, peak, same[0] if same and words and peak == Weight.BRIEF else None)
    return [chart] if chart else []


def _build_balance(holders: Sequence[Holder], what: str) -> Block:
    if len(holders) > 1:
        table_columns = memory_columns.build_balance_columns(what)
        return Table(
            id="memory-balance",
            title="Balance",
            columns=table_columns,
            rows=holders,
            what=what,
            data="memory",
        )
    account = holders[0].account
    titles = ("Balance", "Process memory", "Device memory")
    lines = (balance.format_balance(account), balance.format_beyond(account), balance.format_device(account))
    items = [(title, Cell(line)) for title, line in zip(titles, lines, strict=True) if line]
    return Facts(id="memory-balance", items=(*items, ("Source", Cell(account.source))))


def _build_holders(holders: Sequence[Holder], what: str, *, timelines: bool) -> list[Block]:
    if len(holders) == 1:
        return _build_holder(holders[0], 0, ROWS, timelines=timelines)
    return [
        Choice(
            id="memory-of",
            keys=(what.capitalize(),),
            options={
                (holder.name,): Group(
                    id=f"memory-of-{place}",
                    blocks=tuple(
                        _build_holder(holder, place, max(_LEAST_ROWS, _ALL_ROWS // len(holders)), timelines=timelines)
                    ),
                )
                for place, holder in enumerate(holders)
            },
        )
    ]


def _build_holder(holder: Holder, place: int, most: int, *, timelines: bool) -> list[Block]:
    """Memory over time, what grows and what is large, and folded what explains these."""
    account = holder.account
    blocks: list[Block] = [_build_timeline(holder, place)] if timelines else []
    title, caption = "Growth per step", memory_sentences.describe_growth(account.growth)
    ranked = {"data": "memory_growth", "limit": most, "sorted": "Growth"}
    blocks += make_table(
        f"memory-growth-{place}", title, memory_columns.GROWTH, account.growth, "origin", caption=caption, **ranked
    )
    blocks += [*_build_largest(account, place, most), *_build_bytes(holder, place, most)]
    if more := tuple(_build_more(account, place)):
        blocks.append(Details(id=f"memory-more-{place}", title="Reserved memory and step peaks", blocks=more))
    return blocks


def _build_largest(account: MemoryAccount, place: int, most: int) -> Iterator[Block]:
    """The largest allocations; equal ones share a row, whose sizes sum to that of the caption."""
    size = sum(block.bytes for block in account.largest_blocks)
    share = f", {units.format_percent(size / account.peak_bytes, 0)} of the peak" if account.peak_bytes else ""
    yield from make_table(
        f"memory-largest-{place}",
        "Largest allocations at peak",
        memory_columns.LARGEST,
        group_equal_blocks(account.largest_blocks),
        "row",
        data="memory_largest",
        limit=most,
        sorted="Size",
        about=lambda row: make_memory_key(row.block.category),
        caption=f"{format_plural(len(account.largest_blocks), 'block')} of {units.format_bytes(size)}{share}.",
    )


def _build_more(account: MemoryAccount, place: int) -> Iterator[Block]:
    if peaks := memory_sentences.describe_step_peaks(account):
        text = Text(id=f"memory-steps-{place}", lines=(peaks,), style="caption")
        yield memory_steps.build_chart(account, place, peaks) or text
    fragmentation = account.fragmentation
    if fragmentation is not None:
        yield from make_table(
            f"memory-reserved-{place}",
            "Reserved and free",
            memory_columns.build_reserved_columns(fragmentation.reserved_bytes),
            memory_sentences.list_free_parts(fragmentation),
            "part",
            data="",
            limit=None,
            caption=memory_sentences.describe_fragmentation(account),
        )


def _get_key(row: MemoryRow | ModuleRow) -> str:
    return make_memory_key(row.category)


def _build_bytes(holder: Holder, place: int, most: int) -> list[Block]:
    """Bytes by module, and by module and op, where known."""
    peak = holder.account.peak_bytes
    ops = sorted(holder.account.rows, key=lambda row: -row.bytes)
    with_modules = any(row.module for row in ops)
    options: dict[tuple[str, ...], Block] = {}
    for name, title, table_columns, rows, known in (
        ("modules", "Modules", memory_columns.build_module_columns(peak), group_by_module(ops), with_modules),
        (
            "ops",
            "Modules and ops" if with_modules else "Ops",
            memory_columns.build_op_columns(peak, with_modules=with_modules),
            ops,
            with_modules or any(row.op for row in ops),
        ),
    ):
        if known:
            table_title = f"Memory of {holder.name} by {title.lower()}"
            ranked = {"data": "memory_rows", "limit": most, "sorted": "Size", "about": _get_key}
            (options[title,],) = make_table(f"memory-{name}-{place}", table_title, table_columns, rows, "row", **ranked)
    if not options:
        return []
    filtered = "module, op, category" if with_modules else "op, category"
    choice = Choice(id=f"memory-bytes-{place}", keys=("Group by",), options=options, filter=filtered)
    intro = Text(
        id=f"memory-bytes-{place}-intro",
        lines=("All memory alive at the peak; repeated layers share a row: h.* stands for h.0, h.1 and so on.",)
        if with_modules
        else ("All memory alive at the peak.",),
    )
    title = "By module and op" if with_modules else "By op"
    return [Group(id=f"memory-made-{place}", title=title, blocks=(intro, choice))]
