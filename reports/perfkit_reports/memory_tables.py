"""Memory as Parquet tables, in bytes and seconds, one row for each category, moment, block; no row is left out."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from perfkit.analysis.memory.result import MemoryAnalysis
from perfkit.analysis.model.memory import Growth, LiveBlock, MemoryAccount, MemoryRow, TimelineBand
from perfkit.spec import Struct
from perfkit_reports import arrow
from perfkit_reports.arrow import FLAG, REAL, TEXT, WHOLE, Row, Schema, fields, schema_of
from perfkit_reports.holders import Holder, of_devices

_OF_ACCOUNTS: dict[str, tuple[type[Struct], Callable[[MemoryAccount], Iterable[object]]]] = {
    "memory_largest": (LiveBlock, lambda account: account.largest),
    "memory_rows": (MemoryRow, lambda account: account.rows),
    "memory_growth": (Growth, lambda account: account.growth),
    "memory_bands": (TimelineBand, lambda account: account.bands),
}


def schemas(owner: str) -> dict[str, Schema]:
    """Every table's columns; `owner` is what a holder is (`variant`, `device`), the name of their first column."""
    return {
        "memory": {owner: TEXT, "category": TEXT, "bytes": WHOLE, "in_peak": FLAG},
        "memory_timeline": {owner: TEXT, "time_s": REAL, "category": TEXT, "bytes": WHOLE},
        **{name: schema_of(struct, **{owner: TEXT}) for name, (struct, _) in _OF_ACCOUNTS.items()},
    }


def rows(holders: Sequence[Holder], owner: str) -> dict[str, list[Row]]:
    """The rows of each table of `schemas`."""
    columns = schemas(owner)
    return {
        "memory": [{owner: holder.name, **row} for holder in holders for row in _categories(holder.account)],
        "memory_timeline": [{owner: holder.name, **row} for holder in holders for row in _timeline(holder.account)],
        **{
            name: [
                fields(columns[name], item, **{owner: holder.name})
                for holder in holders
                for item in pick(holder.account)
            ]
            for name, (_, pick) in _OF_ACCOUNTS.items()
        },
    }


def tables(analysis: MemoryAnalysis) -> dict[str, pa.Table]:
    """The tables of a report on one file, with no rows where there is nothing."""
    return arrow.tables(schemas("device"), rows(of_devices(analysis.accounts), "device"))


def _categories(account: MemoryAccount) -> Iterator[Row]:
    """Categories of the peak (`in_peak`), which sum to it, and what lies beyond the allocator."""
    for in_peak, parts in ((True, account.categories), (False, account.beyond)):
        for part in parts:
            yield {"category": part.category, "bytes": part.bytes, "in_peak": in_peak}


def _timeline(account: MemoryAccount) -> Iterator[Row]:
    for category, amounts in account.timeline_categories.items():
        for time, amount in zip(account.timeline_s, amounts, strict=True):
            yield {"time_s": time, "category": category, "bytes": amount}
