"""The facts that a page shows of a category of memory that was selected in the chart or a table."""

from binascii import crc32
from collections import Counter
from collections.abc import Iterator, Sequence

from perfkit_reports.cells import make_bytes_cell, make_integer_cell, make_share_cell
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.selected_item import SelectedItem
from perfkit_reports.document.tables import NOTHING
from perfkit_reports.holders import Holder
from perfkit_reports.palette import assign_fills
from perfkit_reports.selection import make_key, make_memory_key


def list_memory_items(holders: Sequence[Holder]) -> Iterator[SelectedItem]:
    """Each category of each holder at the peak, and the ops that allocated its blocks, the largest first."""
    for holder in holders:
        account = holder.account
        for part in account.categories:
            rows = [row for row in account.rows if row.category == part.category]
            largest = max(account.timeline_categories.get(part.category, ()), default=None)
            sizes: Counter[str] = Counter()
            for row in rows:
                sizes[row.op] += row.bytes if row.op else 0
            yield SelectedItem(
                key=make_memory_key(part.category),
                part=f"{crc32(holder.name.encode()):08x}",
                kind="memory",
                name=part.category,
                owner=holder.name if len(holders) > 1 else "",
                work=("", assign_fills([part.category])[part.category].color),
                facts=(
                    ("Size", make_bytes_cell(part.bytes)),
                    (
                        "Share",
                        make_share_cell(part.bytes / account.peak_bytes) if account.peak_bytes else Cell(NOTHING),
                    ),
                    ("Most at once", Cell(NOTHING) if largest is None else make_bytes_cell(largest)),
                    ("Blocks", make_integer_cell(sum(row.blocks for row in rows)) if rows else Cell(NOTHING)),
                ),
                of=tuple((op, make_key("op", op)) for op, size in sizes.most_common() if size > 0),
            )
