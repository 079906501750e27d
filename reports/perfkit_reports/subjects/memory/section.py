"""The section on memory, the same in every report: the balance at the peak, and each holder in detail."""

from collections.abc import Sequence

from perfkit_reports.charts import memory_peak, memory_steps, memory_timeline
from perfkit_reports.document.blocks import Block, Choice, Facts, Group, Section, Table, Text
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.weight import Weight
from perfkit_reports.holders import Holder
from perfkit_reports.subjects.memory import balance, columns, story
from perfkit_reports.subjects.memory.rows import by_module

ROWS = 120  # of a table of bytes where there is one holder
SHORT = 40  # where there are several
_INTRO = "Live memory at the moment of the peak, every byte in one category. The parts sum to the peak."


def section(
    holders: Sequence[Holder],
    what: str,
    *,
    told: Weight = Weight.NORMAL,
    peak: Weight = Weight.NORMAL,
    words: bool = True,
) -> Section:
    """`what` is what a holder is: `variant`, `device`, `trace`. `told` is the weight of what ran out, what grows and
    the balance, `peak` that of the categories at the peak; with `words` formats without charts have a table of these.
    """
    nothing = Text(id="memory-none", lines=("No memory was recorded.",), style="empty")
    return Section(
        "memory",
        "What fills the memory",
        (*alarms(holders, told), *_peak(holders, what, told, peak, words), *_details(holders, what))
        if holders
        else (nothing,),
        nav="Memory",
        intro=(_INTRO,) if holders else (),
    )


def alarms(holders: Sequence[Holder], weight: Weight = Weight.NORMAL) -> list[Block]:
    """What ran out of memory, and where memory grows."""
    several = len(holders) > 1
    blocks: list[Block] = []
    for place, holder in enumerate(holders):
        if holder.account.failed:
            title = f"{holder.name} ran out of memory" if several else "Out of memory"
            lines = tuple(story.failure(holder.account))
            blocks.append(Text(id=f"memory-failed-{place}", weight=weight, lines=lines, style="alarm", title=title))
    for place, holder in enumerate(holders):
        if holder.account.growth:
            title = f"Memory grows in {holder.name}" if several else "Memory grows"
            lines = (story.growth(holder.account.growth),)
            blocks.append(Text(id=f"memory-grows-{place}", weight=weight, lines=lines, style="alarm", title=title))
    return blocks


def _peak(holders: Sequence[Holder], what: str, told: Weight, peak: Weight, words: bool) -> list[Block]:
    parts = [
        (holder, part) for holder in holders for part in sorted(holder.account.categories, key=lambda part: -part.bytes)
    ]
    table = Table(
        id="memory-categories",
        title="At the peak",
        columns=columns.CATEGORIES if len(holders) == 1 else (columns.owner(what), *columns.CATEGORIES),
        rows=parts,
        limit=ROWS,
        what="category",
        whats="categories",
        data="memory",
    )
    chart = memory_peak.chart(holders, what, peak, table if words and peak == Weight.BRIEF else None)
    return [*([chart] if chart else []), _balance(holders, what, told)]


def _balance(holders: Sequence[Holder], what: str, weight: Weight) -> Block:
    if len(holders) > 1:
        return Table(
            id="memory-balance",
            weight=weight,
            title="Balance",
            columns=columns.balance(what),
            rows=holders,
            what=what,
            data="memory",
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
    if account.fragmentation is not None:
        blocks.append(
            Table(
                id=f"memory-reserved-{place}",
                title="Reserved and free",
                columns=columns.reserved(account.fragmentation.reserved_bytes),
                rows=story.free_parts(account.fragmentation),
                what="part",
                caption=story.fragmentation(account),
            )
        )
    tables = (
        ("growth", "What grows from step to step", columns.GROWTH, account.growth, "origin", most, "Grows by"),
        ("largest", "Largest allocations at the peak", columns.LARGEST, account.largest, "allocation", ROWS, "Size"),
    )
    for name, title, of, rows, what, limit, by in tables:
        if rows:
            data, block = f"memory_{name}", f"memory-{name}-{place}"
            blocks.append(
                Table(id=block, title=title, columns=of, rows=rows, what=what, data=data, limit=limit, sorted=by)
            )
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
            options[(title,)] = Table(
                id=f"memory-{name}-{place}",
                title=f"Memory of {holder.name} by {title.lower()}",
                columns=of,
                rows=rows,
                what="row",
                data="memory_rows",
                limit=most,
                sorted="Size",
            )
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
