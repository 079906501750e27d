"""Memory as Markdown: the section of every report, and the report on a file."""

from collections.abc import Sequence

from perfkit.analysis.model.memory import MemoryAccount
from perfkit_reports.holders import Holder
from perfkit_reports.marks import safe, table
from perfkit_reports.subjects.memory import balance
from perfkit_reports.subjects.memory import story as memory_story

_ROWS = 10


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
