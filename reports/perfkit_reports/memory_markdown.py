"""Memory as Markdown: the section of every report, and the report on a file."""

from collections.abc import Sequence

from perfkit.analysis.memory.result import MemoryAnalysis
from perfkit.analysis.model.memory import MemoryAccount
from perfkit_reports import balance, memory_columns, memory_story
from perfkit_reports.columns import Column, Row, telling
from perfkit_reports.holders import Holder, of_devices
from perfkit_reports.marks import columns, found, method, safe, table
from perfkit_reports.memory_rows import by_module

_ROWS = 10


def render(analysis: MemoryAnalysis) -> str:
    """The whole document. Text from the analysis is escaped, so that it can form no markup."""
    holders = of_devices(analysis.accounts)
    parts = [f"# {safe(analysis.title)}: perfkit memory report", f"**{safe(memory_story.headline(holders))}**"]
    parts += found(analysis.findings, "Device" if len(holders) > 1 else "")
    parts += section(holders, "Device")
    for holder in holders:
        parts += _details(holder, named=len(holders) > 1)
    parts += ["## How it was read", "\n".join(f"- {safe(line)}" for line in (analysis.kind, *analysis.notes))]
    parts += method((), analysis.provenance, ())
    if analysis.command:
        parts.append(f"Command: {safe(analysis.command)}")
    return "\n\n".join(parts) + "\n"


def section(holders: Sequence[Holder], title: str) -> list[str]:
    """The balance of each holder, what it ran out of and what grows; nothing where no memory was recorded."""
    if not holders:
        return []
    rows = [
        [safe(holder.name), *(safe(line or "n/a") for line in (balance.balance_line(holder.account), _beyond(holder)))]
        for holder in holders
    ]
    warned = [
        f"- **{safe(holder.name)}**: {safe(' '.join(lines))}"
        for holder in holders
        if (lines := warnings(holder.account))
    ]
    parts = ["## What fills the memory", table([title, "Balance at the peak", "Beyond the allocator"], rows)]
    return [*parts, *(["\n".join(warned)] if warned else [])]


def warnings(account: MemoryAccount) -> list[str]:
    """The request that failed, and growth."""
    return [line for line in (*memory_story.failure(account), memory_story.growth(account.growth)) if line]


def _beyond(holder: Holder) -> str:
    lines = balance.beyond_line(holder.account), balance.device_line(holder.account)
    return "; ".join(line for line in lines if line)


def _details(holder: Holder, *, named: bool) -> list[str]:
    account = holder.account
    of = f" of {safe(holder.name)}" if named else ""
    told = [line for line in (memory_story.step_peaks(account), memory_story.fragmentation(account)) if line]
    parts = [f"## Steps and the allocator{of}", "\n".join(f"- {safe(line)}" for line in told)] if told else []
    modules = by_module(account.rows)
    for title, drawn in (
        ("What grows from step to step", _cut(memory_columns.GROWTH, account.growth)),
        ("Largest allocations at the peak", _cut(memory_columns.LARGEST, account.largest)),
        ("By module at the peak", _cut(memory_columns.by_module(account.peak_bytes), modules)),
    ):
        parts += [f"## {title}{of}", drawn] if drawn else []
    return parts


def _cut(of: Sequence[Column[Row]], rows: Sequence[Row]) -> str:
    """A table of the first rows, with how many it leaves out; empty where there are none."""
    shown = rows[:_ROWS]
    rest = f"\n\n{len(rows) - len(shown):,} more in tables/" if len(rows) > len(shown) else ""
    return columns(telling(of, shown), shown) + rest if rows else ""
