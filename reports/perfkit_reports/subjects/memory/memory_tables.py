"""Complete raw rows of memory, in bytes and seconds: by category, over time, and by block."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from perfkit.analysis.model.memory_model import LiveBlock, MemoryAccount, MemoryGrowth, MemoryRow, TimelineBand
from perfkit.core.spec import Struct
from perfkit_reports.document.tables import RawTable, build_owned_data
from perfkit_reports.holders import Holder

_OF_ACCOUNTS: dict[str, tuple[type[Struct], Callable[[MemoryAccount], Iterable[object]]]] = {
    "memory_largest": (LiveBlock, lambda account: account.largest_blocks),
    "memory_rows": (MemoryRow, lambda account: account.rows),
    "memory_growth": (MemoryGrowth, lambda account: account.growth),
    "memory_bands": (TimelineBand, lambda account: account.bands),
}


def build_data(holders: Sequence[Holder], owner: str) -> tuple[RawTable, ...]:
    """All tables; `owner` (`variant`, `device`) names their first column."""
    accounts = [([holder.name], holder.account) for holder in holders]

    def rows(of: Callable[[MemoryAccount], Iterable[dict[str, Any]]]) -> list[dict[str, Any]]:
        return [{owner: holder.name, **row} for holder in holders for row in of(holder.account)]

    categories = {owner: str, "category": str, "bytes": int, "in_peak": bool}
    timeline = {owner: str, "time_s": float, "category": str, "bytes": int}
    return (
        RawTable("memory", categories, lambda: rows(_list_categories)),
        RawTable("memory_timeline", timeline, lambda: rows(_list_timeline)),
        *(
            build_owned_data(name, struct, {owner: str}, accounts, pick)
            for name, (struct, pick) in _OF_ACCOUNTS.items()
        ),
    )


def _list_categories(account: MemoryAccount) -> Iterator[dict[str, Any]]:
    """Categories that sum to the peak (`in_peak`), and memory outside the allocator."""
    for in_peak, parts in ((True, account.categories), (False, account.outside_allocator)):
        for part in parts:
            yield {"category": part.category, "bytes": part.bytes, "in_peak": in_peak}


def _list_timeline(account: MemoryAccount) -> Iterator[dict[str, Any]]:
    for category, amounts in account.timeline_categories.items():
        for time, amount in zip(account.timeline_s, amounts, strict=True):
            yield {"time_s": time, "category": category, "bytes": amount}
