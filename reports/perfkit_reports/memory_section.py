"""What the section on memory shows, the same in every report: `templates/memory/section.html.j2` draws it."""

from collections.abc import Sequence
from dataclasses import dataclass

from perfkit.analysis.model.memory import MemoryRow
from perfkit_reports.charts.frame import Figure
from perfkit_reports.charts.memory_peak import memory_peak
from perfkit_reports.charts.memory_timeline import memory_timeline
from perfkit_reports.columns import Column, telling
from perfkit_reports.holders import Holder, categories_at_peak, categories_over_time
from perfkit_reports.subjects.memory import balance
from perfkit_reports.subjects.memory import columns as memory_columns
from perfkit_reports.subjects.memory import story as memory_story
from perfkit_reports.subjects.memory.rows import ModuleRow, by_module

ROWS = 120  # of a table of bytes where there is one holder
SHORT = 40  # where there are several


@dataclass(frozen=True)
class Panel:
    """A table of bytes at the peak of the holder at `place`: `total` rows are cut to `rows`."""

    place: int
    view: str
    holder: Holder
    columns: Sequence[Column[MemoryRow] | Column[ModuleRow]]
    rows: Sequence[MemoryRow | ModuleRow]
    total: int

    @property
    def id(self) -> str:
        return f"{self.place}-{self.view}"


VIEWS = {"modules": "Modules", "ops": "Modules and ops"}


def context(holders: Sequence[Holder], what: str) -> dict[str, object]:
    """The names that the template reads. `what` is what a holder is: `variant`, `device`, `trace`."""
    return {
        "holders": holders,
        "holder_kind": what,
        "memory_legend": categories_at_peak(holders),
        "memory_panels": panels(holders),
        "memory_views": VIEWS,
        "memory_columns": memory_columns,
        "memory_story": memory_story,
        "categories_over_time": categories_over_time,
        "balance": balance,
    }


def panels(holders: Sequence[Holder]) -> list[Panel]:
    """Of each holder whose bytes are known by module and op: one table by module, one by module and op."""
    found = []
    most = ROWS if len(holders) == 1 else SHORT
    for place, holder in enumerate(holders):
        peak = holder.account.peak_bytes
        ops = sorted(holder.account.rows, key=lambda row: -row.bytes)
        modules = by_module(ops)
        if any(row.module for row in modules):
            shown = modules[:most]
            columns = telling(memory_columns.by_module(peak), shown)
            found.append(Panel(place, "modules", holder, columns, shown, len(modules)))
        if any(row.module or row.op for row in ops):
            found.append(
                Panel(place, "ops", holder, telling(memory_columns.by_op(peak), ops[:most]), ops[:most], len(ops))
            )
    return found


def memory_figures(holders: Sequence[Holder]) -> dict[str, Figure]:
    """`memory-peak`, and `memory-timeline-<place>` of each holder that has one."""
    timelines = {f"memory-timeline-{place}": memory_timeline(holder.account) for place, holder in enumerate(holders)}
    drawn = {"memory-peak": memory_peak(holders), **timelines}
    return {name: figure for name, figure in drawn.items() if figure is not None}
