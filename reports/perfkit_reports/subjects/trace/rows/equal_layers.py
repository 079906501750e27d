"""Ops of equal layers as one row."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.work.layers import merge_layers
from perfkit_reports.selection import make_name_key, make_row_key
from perfkit_reports.subjects.trace.rows.costs import compute_gain_s, is_ranked_by_savings


def merge_equal_layers(rows: Sequence[OpRow]) -> list[OpRow]:
    """Rows that differ only in the numbers of their module's layers as one, with their sums.

    By savings, where those of most time are known, else by time. A sum is unknown where one of its parts is.
    """
    labels, places = merge_layers([row.module for row in rows])
    groups: dict[tuple[str, ...], list[OpRow]] = defaultdict(list)
    for row, place in zip(rows, places.tolist(), strict=True):
        groups[row.name, row.phase, labels[place], row.shapes, row.device].append(row)
    merged = [some[0] if len(some) == 1 else _sum_rows(some, key[2]) for key, some in groups.items()]
    by_savings = is_ranked_by_savings(rows)
    return sorted(merged, key=lambda row: (-(compute_gain_s(row) or 0.0) if by_savings else 0.0, -row.seconds))


def _sum_rows(rows: list[OpRow], module: str) -> OpRow:
    longest = max(rows, key=lambda row: row.seconds)
    seconds = sum(row.seconds for row in rows)
    attainable_s = _add(rows, lambda row: row.attainable_s)
    known = attainable_s is not None and seconds > 0 and all(row.efficiency is not None for row in rows)
    return replace(
        longest,
        module=module,
        calls=sum(row.calls for row in rows),
        seconds=seconds,
        share=min(1.0, sum(row.share for row in rows)),
        flops=_add(rows, lambda row: row.flops),
        bytes=_add(rows, lambda row: row.bytes),
        attainable_s=attainable_s,
        efficiency=attainable_s / seconds if known and attainable_s is not None else None,
        above_roof=any(row.above_roof for row in rows),
        efficiency_reason=next((row.efficiency_reason for row in rows if row.efficiency_reason), ""),
        critical_s=_add(rows, lambda row: row.critical_s),
    )


def _add(rows: Sequence[OpRow], pick: Callable[[OpRow], float | None]) -> float | None:
    values = [value for row in rows if (value := pick(row)) is not None]
    return sum(values) if len(values) == len(rows) else None


def make_merged_key(rows: Sequence[OpRow]) -> Callable[[OpRow], str]:
    """The key of a merged row: its own where it is one of `rows`, else that of all rows of its name."""
    single = {make_row_key(row) for row in rows}
    return lambda row: key if (key := make_row_key(row)) in single else make_name_key(row)
