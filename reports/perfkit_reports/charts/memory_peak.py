"""A stacked bar for each holder of the memory at the peak."""

from collections.abc import Sequence

from perfkit_reports.charts.memory_bars import MemoryStack, build_memory_figure
from perfkit_reports.document.blocks import Block, Chart
from perfkit_reports.document.weight import Weight
from perfkit_reports.holders import Holder, list_peak_categories


def build_chart(holders: Sequence[Holder], what: str, weight: Weight, words: Block | None) -> Chart | None:
    """Build the chart; None without recorded memory; `what` names the holders."""
    if not any(holder.account.peak_bytes for holder in holders):
        return None
    return Chart(
        id="memory-peak",
        weight=weight,
        figure=build_memory_figure(
            [_build_stack(holder) for holder in holders], "allocated at the peak", "of the peak"
        ),
        label=f"Memory at the peak by category and {what}; the balance below has the same figures",
        title="At the peak",
        legend=[(name, fill.color, fill.pattern) for name, fill in list_peak_categories(holders)],
        words=words,
    )


def _build_stack(holder: Holder) -> MemoryStack:
    parts = tuple((part.category, float(part.bytes)) for part in holder.account.categories)
    note = "out of memory" if holder.account.failed_request else ""
    return MemoryStack(holder.name, holder.account.peak_bytes, parts, note=note)
