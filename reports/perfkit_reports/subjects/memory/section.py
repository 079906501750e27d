"""The section on memory, the same in every report: the balance at the peak, and each holder in detail."""

from collections.abc import Sequence

from perfkit_reports.charts import memory_flame, memory_peak, memory_steps, memory_timeline
from perfkit_reports.document.blocks import Block, Choice, Facts, Group, Section, Table, Text
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.weight import Weight
from perfkit_reports.holders import Holder
from perfkit_reports.subjects.memory import balance, columns, story
from perfkit_reports.subjects.memory.rows import by_module
from perfkit_reports.subjects.tables import SHORT, table

ROWS = 120  # of a table of bytes where there is one holder
_INTRO = "Live memory at the moment of the peak, every byte in one category. The parts sum to the peak."


def section(
    holders: Sequence[Holder],
    what: str,
    *,
    told: Weight = Weight.NORMAL,
    peak: Weight = Weight.NORMAL,
    words: bool = True,
    peaks: Sequence[Block] = (),
) -> Section:
    """`what` is what a holder is: `variant`, `device`, `trace`. `told` is the weight of what ran out and of the
    balance, `peak` that of the categories at the peak; with `words` formats without charts have a table of these.
    `peaks` stand in for the chart of the categories.
    """
    title = "What fills the memory"
    if not holders:
        nothing = Text(id="memory-none", lines=("No memory was recorded.",), style="empty")
        return Section("memory", title, (nothing,), nav="Memory")
    drawn = memory_flame.chart(holders, what)
    blocks = (
        *_failures(holders, told),
        *(peaks or _peak(holders, what, peak, words)),
        _balance(holders, what, told),
        *([drawn] if drawn else []),
        *_details(holders, what),
    )
    return Section("memory", title, blocks, nav="Memory", intro=(_INTRO,))


def _failures(holders: Sequence[Holder], weight: Weight) -> list[Block]:
    """The requests for which there was no memory."""
    return [
        Text(
            id=f"memory-failed-{place}",
            title="Out of memory" if len(holders) == 1 else f"{holder.name} ran out of memory",
            lines=tuple(lines),
            style="alarm",
            weight=weight,
        )
        for place, holder in enumerate(holders)
        if (lines := story.failure(holder.account))
    ]


def _peak(holders: Sequence[Holder], what: str, peak: Weight, words: bool) -> list[Block]:
    parts = [
        (holder, part) for holder in holders for part in sorted(holder.account.categories, key=lambda part: -part.bytes)
    ]
    of = columns.CATEGORIES if len(holders) == 1 else (columns.owner(what), *columns.CATEGORIES)
    named = {"whats": "categories", "data": "memory", "limit": ROWS}
    same = table("memory-categories", "At the peak", of, parts, "category", **named)
    chart = memory_peak.chart(holders, what, peak, same[0] if same and words and peak == Weight.BRIEF else None)
    return [chart] if chart else []


def _balance(holders: Sequence[Holder], what: str, weight: Weight) -> Block:
    if len(holders) > 1:
        of = columns.balance(what)
        return Table(
            id="memory-balance", weight=weight, title="Balance", columns=of, rows=holders, what=what, data="memory"
        )
    account = holders[0].account
    titles = ("Balance", "The process", "The device")
    lines = (balance.balance_line(account), balance.beyond_line(account), balance.device_line(account))
    items = [(title, Cell(line)) for title, line in zip(titles, lines, strict=True) if line]
    return Facts(id="memory-balance", weight=weight, items=(*items, ("Source", Cell(account.source))))


def _details(holders: Sequence[Holder], what: str) -> list[Block]:
    if len(holders) == 1:
        return _holder(holders[0], 0, ROWS)
    return [
        Choice(
            id="memory-of",
            keys=(what.capitalize(),),
            options={
                (holder.name,): Group(id=f"memory-of-{place}", blocks=tuple(_holder(holder, place, SHORT)))
                for place, holder in enumerate(holders)
            },
        )
    ]


def _holder(holder: Holder, place: int, most: int) -> list[Block]:
    account = holder.account
    over_time = memory_timeline.chart(holder, place)
    empty = Text(id=f"memory-timeline-{place}", lines=("No course over time was recorded.",), style="empty")
    blocks: list[Block] = [over_time or empty]
    if told := story.step_peaks(account):
        alike = Text(id=f"memory-steps-{place}", lines=(told,), style="caption")
        blocks.append(memory_steps.chart(account, place, told) or alike)
    held = account.fragmentation
    if held is not None:
        title, of = "Reserved and free", columns.reserved(held.reserved_bytes)
        told = story.fragmentation(account)
        blocks += table(
            f"memory-reserved-{place}", title, of, story.free_parts(held), "part", data="", limit=None, caption=told
        )
    title, told = "What grows from step to step", story.growth(account.growth)
    ranked = {"data": "memory_growth", "limit": most, "sorted": "Grows by"}
    blocks += table(f"memory-growth-{place}", title, columns.GROWTH, account.growth, "origin", caption=told, **ranked)
    title, ranked = "Largest allocations at the peak", {"data": "memory_largest", "limit": ROWS, "sorted": "Size"}
    blocks += table(f"memory-largest-{place}", title, columns.LARGEST, account.largest, "allocation", **ranked)
    return [*blocks, *_bytes(holder, place, most)]


def _bytes(holder: Holder, place: int, most: int) -> list[Block]:
    """Bytes by module, and by module and op, where these are known."""
    peak = holder.account.peak_bytes
    ops = sorted(holder.account.rows, key=lambda row: -row.bytes)
    modules = by_module(ops)
    options: dict[tuple[str, ...], Block] = {}
    for name, title, of, rows, known in (
        ("modules", "Modules", columns.by_module(peak), modules, any(row.module for row in modules)),
        ("ops", "Modules and ops", columns.by_op(peak), ops, any(row.module or row.op for row in ops)),
    ):
        if known:
            whole = f"Memory of {holder.name} by {title.lower()}"
            ranked = {"data": "memory_rows", "limit": most, "sorted": "Size"}
            (options[title,],) = table(f"memory-{name}-{place}", whole, of, rows, "row", **ranked)
    if not options:
        return []
    choice = Choice(id=f"memory-bytes-{place}", keys=("Table of",), options=options, filter="module, op, category")
    intro = Text(
        id=f"memory-bytes-{place}-intro",
        lines=(
            "Everything alive at the peak by the module and the op that made it.",
            "Blocks of the same layers are one row: h.* stands for h.0, h.1 and so on.",
        ),
    )
    return [Group(id=f"memory-made-{place}", title="By module and op", blocks=(intro, choice))]
